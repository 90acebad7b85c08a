"""Long work in slices gives the same result as run at once."""

import pytest

from sidecar.history.slices import Sliced, run_now


def counting(to: int) -> Sliced[int]:
    for number in range(to):
        yield
        if number == 7:
            raise ValueError(number)
    return to


def test_the_result_is_what_the_work_returns() -> None:
    assert (run_now(counting(0)), run_now(counting(3))) == (0, 3)


def test_a_mistake_is_no_result() -> None:
    with pytest.raises(ValueError, match="7"):
        run_now(counting(9))
