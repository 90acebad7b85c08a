"""Work at another cost teaches nothing, until that cost has lasted for a week without a burning objective."""

import pytest

from sidecar.pod.usual.cost_guard import LASTING_SECONDS, CostGuard


SIZE = 10
BLOCK = 60.0 * SIZE
"""Seconds of the pieces that are compared at once."""


class Work:
    """Pieces of work of an expected second, one a minute."""

    def __init__(self) -> None:
        self.guard = CostGuard(SIZE)
        self.at = 0.0

    def goes_on(self, seconds: float, cost: float = 1.0, *, learning: bool = True) -> bool:
        """Returns whether the guard learned another cost meanwhile."""
        relearned = False
        for _ in range(int(seconds / 60.0)):
            self.at += 60.0
            relearned = self.guard.relearns(self.at, cost, 1.0, learning=learning) or relearned
        return relearned


@pytest.mark.parametrize(("cost", "usual"), [(1.0, True), (1.2, True), (0.85, True), (1.4, False), (0.7, False)])
def test_work_is_usual_within_a_quarter_of_its_cost(cost: float, usual: bool) -> None:
    work = Work()
    work.goes_on(BLOCK, cost)

    assert work.guard.usual is usual


def test_one_piece_of_work_decides_nothing() -> None:
    work = Work()
    work.goes_on(BLOCK - 60.0, 5.0)
    assert work.guard.usual

    work.goes_on(60.0, 5.0)
    assert not work.guard.usual


def test_another_cost_is_usual_after_a_week_and_not_before() -> None:
    work = Work()
    early = work.goes_on(LASTING_SECONDS - BLOCK, 2.0)
    unusual = not work.guard.usual
    late = work.goes_on(3 * BLOCK, 2.0)

    assert (early, unusual, late) == (False, True, True)


@pytest.mark.parametrize("cost", [1.0, 2.0])
def test_the_week_begins_anew_after_usual_work_and_after_a_burning_objective(cost: float) -> None:
    work = Work()
    work.goes_on(LASTING_SECONDS - 10.0 * BLOCK, 2.0)
    work.goes_on(BLOCK, cost, learning=cost == 1.0)

    assert not work.goes_on(LASTING_SECONDS - 10.0 * BLOCK, 2.0)
