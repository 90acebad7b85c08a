"""Work beside the loop: it goes on while the work lasts, and a failure is no result."""

from collections.abc import Callable
from threading import Event

import pytest

from sidecar.observe.beside import in_a_thread


def test_steps_come_while_the_work_lasts() -> None:
    go_on = Event()
    steps = in_a_thread(lambda: go_on.wait(10.0))
    assert [next(steps) for _ in range(3)] == [None] * 3

    go_on.set()

    assert [step for step in steps if step is not None] == [True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("work", [lambda: False, lambda: 1 / 0])
def test_a_failure_is_no_result(work: Callable[[], bool]) -> None:
    assert [step for step in in_a_thread(work) if step is not None] == [False]
