"""A timed test that fails beside a late control was not measured; beside a good one, or without the mark, it is broken."""

import subprocess
import sys
from pathlib import Path

import pytest


CHECKOUT = Path(__file__).parents[2]
STORIES = """\
import time
import pytest
from tests.support import timed
from tests.support.timed import not_measured

timed.why_late = lambda beats, began_at, ended_at: WHY if beats else "there was no control"

@pytest.fixture(scope="module")
def slow():
    raise TimeoutError("the engine did not answer")

@pytest.mark.timed
def test_two(slow):
    pass

@pytest.mark.timed
def test_three(slow):
    pass

@pytest.mark.timed
def test_a_bound():
    assert 31 < 30

@pytest.mark.timed
def test_well():
    pass

@pytest.fixture
def left_open():
    yield
    raise ResourceWarning("a socket")

@pytest.mark.timed
def test_what_is_left_open(left_open):
    pass

@pytest.mark.timed
def test_wrong_code():
    None.no_such_attribute

@pytest.mark.timed
def test_no_tool():
    pytest.fail("promtool is missing", pytrace=False)

TRIES = []

@pytest.mark.timed
def test_only_the_first_time():
    TRIES.append(1)
    assert len(TRIES) == 2

@pytest.mark.timed
@pytest.mark.timeout(0.3)
def test_hangs():
    TRIES.append(1)
    assert len(TRIES) < 4, "it was played again"
    time.sleep(60)

def test_starved():
    not_measured("its server says that it was starved")

def test_bytes():
    assert b"a" == b"b"
"""


def ended(why: str, tmp_path: Path, *more: str) -> tuple[int, str]:
    (tmp_path / "test_toy.py").write_text(STORIES.replace("WHY", repr(why)))
    command = [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", str(tmp_path), "-o", "markers=timed"]
    run = subprocess.run(
        [*command, "-p", "tests.conftest", "--tb=no", *more],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return run.returncode, run.stdout


@pytest.mark.long
def test_beside_a_late_control_what_is_timed_was_not_measured(tmp_path: Path) -> None:
    """Its own failure and that of its fixture; they are counted, and each is told with what it failed by. What passes
    the second time has passed. A worker of xdist plays them."""
    code, told = ended("the control was late", tmp_path, "-n1")

    assert code == 1  # what is left open, what is not timed, and what no late process can cause
    assert "3 failed, 3 passed, 1 error, 5 not measured in" in told
    assert "5 not measured: this machine was busy" in told
    listed = told.partition("5 not measured: this machine was busy")[2]
    assert listed.count("the control was late") == 4
    assert "assert 31 < 30" in listed
    assert "its server says that it was starved" in listed
    assert listed.count("TimeoutError: the engine did not answer") == 2


@pytest.mark.long
def test_where_nothing_else_fails_the_run_is_no_failure(tmp_path: Path) -> None:
    code, told = ended("the control was late", tmp_path, "-k", "two or bound")

    assert (code, "2 not measured in" in told) == (0, True)


@pytest.mark.long
def test_beside_a_good_control_it_is_broken(tmp_path: Path) -> None:
    code, told = ended("", tmp_path)

    assert code == 1
    assert "6 failed, 2 passed, 3 errors, 1 not measured in" in told


@pytest.mark.long
def test_a_module_that_cannot_be_collected_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    code, told = ended("", tmp_path)

    assert (code, "ERROR" in told, "1 error in" in told) == (2, True, True)
