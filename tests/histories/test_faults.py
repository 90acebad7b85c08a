"""A function that raises is contained by the compiled build as by its sources: the same bytes, numbers and log lines follow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.histories.tripped import build, with_trips


CHECKOUT = Path(__file__).parents[2]
SEED, REQUESTS = "3", "25"
MODULE = '''"""A module."""

import os


class Shape(Protocol):
    def area(self) -> int: ...


class Square:
    @property
    def area(self) -> int:
        """In square metres."""
        return 4

    def twice(self) -> None:
        @once
        def inner() -> None:
            pass

    def short(self) -> int: return 1
'''


def test_each_function_that_has_lines_of_its_own_gets_one_more() -> None:
    added = [line.strip() for line in with_trips(MODULE, "a.py").splitlines() if line not in MODULE.splitlines()]

    assert added == [
        "from sidecar.trips import trip as _trip",
        *(f'_trip("a.py: Square.{name}")' for name in ("area", "twice", "twice.inner")),
    ]
    compile(with_trips(MODULE, "a.py"), "a.py", "exec")


FEWEST_FUNCTIONS = 300
"""Functions of the compiled files that a history calls: 348 of 36 files. Far fewer mean that the trips are not reached."""


@pytest.mark.compiled
@pytest.mark.timeout(900)
def test_an_error_in_any_function_has_the_same_consequences_in_both_builds(tmp_path: Path) -> None:
    """One call of each function raises in turn: what clients get, what is counted, what is logged, what leaves the relay."""
    build(tmp_path)
    (tmp_path / "tests").symlink_to(CHECKOUT / "tests")
    command = [sys.executable, "-m", "tests.histories.faults", SEED, REQUESTS]
    compiled, pure = (
        subprocess.Popen(command, cwd=tmp_path, env=os.environ | told, stdout=subprocess.PIPE, text=True)
        for told in ({}, {"SIDECAR_PURE": "1"})
    )
    lines, expected = (process.communicate()[0].splitlines() for process in (compiled, pure))

    assert (compiled.returncode, pure.returncode) == (0, 0)
    assert len(expected) > FEWEST_FUNCTIONS
    assert [line for line in lines if line not in expected] == []
    assert len(lines) == len(expected)
