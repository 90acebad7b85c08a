"""Work at another cost teaches nothing, until that cost has lasted for an hour without a burning objective."""

import pytest

from sidecar.slo.cost_guard import INTERRUPTED_SECONDS, RELEARN_SECONDS, CostGuard


SIZE = 10


class Work:
    """Pieces of work of an expected second, one each second."""

    def __init__(self) -> None:
        self.guard = CostGuard(SIZE)
        self.at = 0.0

    def goes_on(self, seconds: float, cost: float = 1.0, *, learning: bool = True) -> bool:
        """Returns whether the guard learned another cost meanwhile."""
        relearned = False
        for _ in range(int(seconds)):
            self.at += 1.0
            relearned = self.guard.relearns(self.at, cost, 1.0, learning=learning) or relearned
        return relearned


@pytest.mark.parametrize(("cost", "usual"), [(1.0, True), (1.2, True), (0.85, True), (1.4, False), (0.7, False)])
def test_work_is_usual_within_a_quarter_of_its_cost(cost: float, usual: bool) -> None:
    work = Work()
    work.goes_on(SIZE, cost)

    assert work.guard.usual is usual


def test_one_piece_of_work_decides_nothing() -> None:
    work = Work()
    work.goes_on(SIZE - 1, 5.0)
    assert work.guard.usual

    work.goes_on(1, 5.0)
    assert not work.guard.usual


def test_another_cost_is_usual_after_an_hour_and_not_before() -> None:
    work = Work()
    early = work.goes_on(RELEARN_SECONDS - SIZE, 2.0)
    unusual = not work.guard.usual
    late = work.goes_on(3 * SIZE, 2.0)

    assert (early, unusual, late) == (False, True, True)


@pytest.mark.parametrize("cost", [1.0, 2.0])
def test_the_hour_begins_anew_after_usual_work_and_after_a_burning_objective(cost: float) -> None:
    work = Work()
    work.goes_on(RELEARN_SECONDS - 100.0, 2.0)
    work.goes_on(SIZE, cost, learning=cost == 1.0)

    assert not work.goes_on(RELEARN_SECONDS - 100.0, 2.0)


def test_a_time_without_work_is_no_time_at_another_cost() -> None:
    """Two minutes of dear work at nine and at ten o'clock are no hour of it."""
    work = Work()
    work.goes_on(120.0, 2.0)
    work.at += RELEARN_SECONDS

    assert work.at > INTERRUPTED_SECONDS
    assert not work.goes_on(120.0, 2.0)
    assert not work.guard.usual
