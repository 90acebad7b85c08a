"""Finds of a random run are printed as lines that can be pasted above a test."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.support.finds import FINDS_ALONE, lines_of


CHECKOUT = Path(__file__).parents[2]
NOTES = """\
Failing test case: test_many(
    # The test always failed when commented parts were varied together.
    self=<test_toy.TestMany object at 0x7f10d66ae250>,
    folder=Folder(1,
     2),
    lane='batch',  # or any other generated value
    load=Load(
        arrivals=1.0,
    ),
)

You can reproduce this test case by temporarily adding @reproduce_failure('6.170.15', b'AEEA') as a decorator on your test"""
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


def test_the_example_holds_what_given_draws_and_no_fixture() -> None:
    assert lines_of(NOTES, {"self", "folder"}) == (
        "@example(\n    lane='batch',  # or any other generated value\n    load=Load(\n        arrivals=1.0,\n    ),\n)"
    )


@pytest.mark.parametrize(
    ("drawn", "lines"),
    [
        ("data=data(...)", "@reproduce_failure('6.170.15', b'AEEA')"),
        ("lane=<object at 0x7f>", "@reproduce_failure('6.170.15', b'AEEA')"),
    ],
)
def test_what_cannot_be_written_down_is_reproduced_by_hypothesis_own_word(drawn: str, lines: str) -> None:
    notes = f"Failing test case: test_one(\n    {drawn},\n)\nDraw 1: 7\n\n{NOTES.splitlines()[-1]}"

    assert lines_of(notes, set()) == lines


def test_without_a_note_there_is_nothing_to_paste() -> None:
    assert lines_of("", set()) is None


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


@pytest.mark.skipif(settings.get_current_profile_name() == "random", reason="drawn there, they find more")
def test_no_constant_of_the_code_is_drawn() -> None:
    """Otherwise a change in one module would change the examples of every property."""
    assert len(providers._get_local_constants()) == 0


@given(drawn=st.booleans())
def test_no_time_limit_cuts_hypothesis_while_it_makes_a_find_smaller(
    request: pytest.FixtureRequest, *, drawn: bool
) -> None:
    """Hypothesis itself stops shrinking after five minutes."""
    del drawn
    properties = [item for item in request.session.items if item.get_closest_marker("hypothesis")]
    limits = {marker.args[0] for item in properties if (marker := item.get_closest_marker("timeout"))}

    assert request.node in properties
    assert min(limits) > 300


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
