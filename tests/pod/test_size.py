"""The size of a root is what its cause was while misses showed it, and not what it is now."""

import pytest

from sidecar.pod.causes import WORTH_NAMING, Cause, Per, root_of
from sidecar.pod.factor import Factor
from sidecar.pod.signs import Signs
from sidecar.pod.size import SIZE_SECONDS, RootSize, Sizes, sizes_of
from tests.pod.weighing import sharp


def size(ratio: float) -> RootSize:
    return RootSize(sharp(ratio), Per.TOKEN)


def told(*ratios: float) -> float:
    """The size after looks of one second each."""
    sizes = Sizes()
    for second, ratio in enumerate(ratios):
        sizes.add(float(second), size(ratio))
    return sizes.told.ratio.value


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ([3.0], 3.0),
        ([1.3, 1.8, 2.4, *[3.0] * 60], 3.0),
        ([*[3.0] * 60, *(3.0 - 0.03 * second for second in range(60))], 3.0),
        ([*[3.0] * 60, 9.0], 3.0),
        ([*[3.0] * 100, *[6.0] * 100], 6.0),
    ],
    ids=["one look", "it began", "its window empties", "one outlier", "it grew"],
)
def test_the_ends_of_a_fault_and_one_look_of_many_are_not_its_size(ratios: list[float], found: float) -> None:
    assert told(*ratios) == found


def test_a_fault_that_shrank_is_told_smaller_after_some_minutes() -> None:
    sizes = Sizes()
    for second in range(600):
        sizes.add(float(second), size(7.0 if second < 60 else 2.0))
    soon, after = told(*[7.0] * 60, *[2.0] * 60), sizes.told.ratio.value

    assert (soon, after) == (7.0, 2.0)
    sizes.add(600.0 + 10 * SIZE_SECONDS, size(1.5))
    assert sizes.told == size(1.5), "all other looks are too old"


def test_a_look_by_which_several_misses_were_decided_counts_once() -> None:
    sizes, of_one_look = Sizes(), size(5.0)
    for _ in range(100):
        sizes.add(0.0, of_one_look)
    for second in range(1, 9):
        sizes.add(float(second), size(3.0))

    assert sizes.told == size(3.0)


def test_only_what_has_grown_enough_to_be_named_has_a_size() -> None:
    grown = {cause: Factor(worth, 0.9 * worth, 1.1 * worth) for cause, worth in WORTH_NAMING.items()}
    more = {cause: Factor(worth + 0.01, worth, 1.1 * worth) for cause, worth in WORTH_NAMING.items()}

    assert sizes_of(Signs(grown=grown)) == {}
    assert {root.cause for root in sizes_of(Signs(grown=more))} == {*WORTH_NAMING}


@pytest.mark.parametrize(("per_step", "per"), [(False, Per.TOKEN), (True, Per.STEP)])
def test_the_cost_of_decode_says_if_it_is_of_a_token_or_of_a_step(per_step: bool, per: Per) -> None:
    signs = Signs(grown={Cause.DECODE_COST: sharp(2.0)}, per_step=per_step)

    assert sizes_of(signs) == {root_of(Cause.DECODE_COST): RootSize(sharp(2.0), per)}
