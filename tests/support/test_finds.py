"""Finds of a random run are printed as lines that can be pasted above a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.finds import FINDS_ALONE


CHECKOUT = Path(__file__).parents[2]
FAILING = """\
import pytest
from hypothesis import given, strategies as st

@pytest.mark.parametrize("least", [-50])
@given(n=st.integers())
def test_two(n, least):
    if n > 100:
        raise ValueError
    assert n > least

@given(st.data())
def test_interactive(data):
    assert data.draw(st.integers()) < 7
"""


@pytest.mark.long
def test_a_random_run_prints_every_find_and_its_seed(tmp_path: Path) -> None:
    """The run has pytest's own worker processes, as `.ci/random` has."""
    (tmp_path / "test_toy.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", str(tmp_path), "--tb=no", "-n1"]
    command += ["-p", "tests.conftest", "-p", "tests.support.finds", "--hypothesis-profile=random"]

    run = subprocess.run(
        [*command, "--hypothesis-seed=5"], cwd=CHECKOUT, capture_output=True, text=True, timeout=100, check=False
    )

    printed = run.stdout.partition("mend what they show")[2]
    assert run.returncode == FINDS_ALONE, run.stdout + run.stderr
    assert "# test_toy.py::test_two[-50]\n@example(\n    n=101,\n)\n" in printed
    assert "# test_toy.py::test_two[-50]\n@example(\n    n=-50,\n)\n" in printed
    assert "# test_toy.py::test_interactive\n@reproduce_failure(" in printed
    assert "The same examples again: .ci/random 5\n" in printed


@pytest.mark.long
def test_a_run_that_fails_otherwise_too_says_so_by_its_exit_status(tmp_path: Path) -> None:
    """Finds alone give 10, so that a broken test never counts as one."""
    (tmp_path / "test_toy.py").write_text(
        FAILING + "\n@given(st.integers())\ndef test_broken(no_such_fixture, n):\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", str(tmp_path), "--tb=no", "-n1"]
    command += [
        "-p",
        "tests.conftest",
        "-p",
        "tests.support.finds",
        "--hypothesis-profile=random",
        "--hypothesis-seed=5",
    ]

    codes = [
        subprocess.run([*command, *more], cwd=CHECKOUT, capture_output=True, timeout=100, check=False).returncode
        for more in ([], ["-k", "not broken"])
    ]

    assert codes == [1, FINDS_ALONE]
