"""Long work in turns: played at once it gives the same."""

import pytest

from sidecar.history.slices import Turns, at_once


def counting(to: int) -> Turns[int]:
    for number in range(to):
        yield
        if number == 7:
            raise ValueError(number)
    return to


def test_the_result_is_what_the_work_returns() -> None:
    assert (at_once(counting(0)), at_once(counting(3))) == (0, 3)


def test_a_mistake_is_no_result() -> None:
    with pytest.raises(ValueError, match="7"):
        at_once(counting(9))
