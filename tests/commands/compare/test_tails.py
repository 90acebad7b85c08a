"""A p99 that moved is told from one that did not: from native histograms, with an interval that clumps of slow requests widen."""

from collections.abc import Sequence
from math import ceil, inf, log2
from random import Random
from statistics import median

import pytest

from sidecar.commands.compare.intervals import Change, Estimate
from sidecar.commands.compare.tails import (
    LEAST_SAMPLES,
    TOLD,
    Cells,
    Ends,
    cells,
    needed,
    tail,
    tail_change,
    tail_ratio,
)


SCHEMA = 5
"""Buckets are 2 ** (1 / 32) apart."""


def block(values: Sequence[float]) -> Cells:
    """A native histogram of these values."""
    found: dict[tuple[float, float], float] = {}
    for value in values:
        index = ceil(log2(value) * 2**SCHEMA)
        edges = (2 ** ((index - 1) / 2**SCHEMA), 2 ** (index / 2**SCHEMA))
        found[edges] = found.get(edges, 0.0) + 1
    return found


def side(rng: Random, *, blocks: int = 30, a_block: int = 100, times: float = 1.0, clumps: bool = False) -> list[Cells]:
    """Half an hour of requests, some of a usual length and some long; `clumps`: a minute in ten is three times as slow."""
    return [
        block([
            rng.lognormvariate(-1, 0.6) * times * (3.0 if clumps and slow else 1.0) for _ in range(a_block)
        ])
        for slow in (rng.random() < 0.1 for _ in range(blocks))
    ]  # fmt: skip


def ends(blocks: Sequence[Cells]) -> Ends:
    found = tail(blocks)
    assert found is not None
    return found


def test_the_p99_is_that_of_the_samples_within_a_bucket() -> None:
    values = [number / 1000 for number in range(1, 1001)]

    found = ends([block(values[start::10]) for start in range(10)])

    assert found.estimate.value == pytest.approx(0.99, rel=0.022)
    assert found.estimate.of == 1000
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.99 < found.high


@pytest.mark.long
@pytest.mark.parametrize("clumps", [False, True], ids=["even", "in clumps"])
def test_two_equal_sides_differ_seldom(clumps: bool) -> None:
    """About one pair in twenty, of 150, by the meaning of the interval; also where slow requests come in clumps."""
    rng = Random(14)
    wrong = sum(tail_change(ends(side(rng, clumps=clumps)), ends(side(rng, clumps=clumps))).sure for _ in range(150))

    assert wrong <= 0.08 * 150


@pytest.mark.long
def test_a_p99_that_is_thirty_percent_longer_is_found() -> None:
    """Within 6,000 requests of a side, in nine of ten pairs, with ten percent for chance."""
    rng = Random(41)
    found = [tail_ratio(ends(side(rng, blocks=60)), ends(side(rng, blocks=60, times=1.3))) for _ in range(50)]

    assert sum(one.sure for one in found) >= 45
    assert sum(one.low is not None and one.high is not None and one.low <= 0.3 <= one.high for one in found) >= 44


def test_a_change_in_seconds_counts_the_chance_of_both_sides() -> None:
    """2 s of 1.6 to 2.5 against 1 s of 0.8 to 1.25: by the square root of the sum of squares."""
    old, new = (
        Ends(Estimate(value, 0.001, 15, 9000.0), low, high) for value, low, high in ((2, 1.6, 2.5), (1, 0.8, 1.25))
    )
    change, ratio = tail_change(old, new), tail_ratio(old, new)

    assert change == pytest.approx((-1.0, -1.0 - 0.5385, -1.0 + 0.4717), abs=1e-3)
    assert ratio == pytest.approx((-0.5, -0.635, -0.315), abs=2e-3)


@pytest.mark.long
def test_with_as_many_requests_as_are_needed_a_tenth_is_told_in_four_of_five() -> None:
    """The number comes from two alike sides of 3,000 requests, which tell it seldom. 70 to 95 % of 60 allow for chance."""
    rng = Random(10)
    many = [needed(tail_ratio(ends(side(rng)), ends(side(rng))), 3000) for _ in range(20)]
    enough = median(one for one in many if one is not None)

    def told(a_block: int) -> int:
        pairs = ((side(rng, a_block=a_block), side(rng, a_block=a_block, times=1 + TOLD)) for _ in range(60))
        return sum(tail_ratio(ends(old), ends(new)).sure for old, new in pairs)

    assert enough > 6000
    assert 0.7 * 60 <= told(round(enough / 30)) <= 0.95 * 60
    assert told(100) < 0.5 * 60


def test_without_an_interval_the_needed_number_is_unknown() -> None:
    assert needed(Change(0.2, None, None), 600) is None


def test_few_samples_have_no_p99_and_few_blocks_no_interval() -> None:
    few = [block([0.1] * (LEAST_SAMPLES - 1))]
    assert tail(few) is None
    assert tail([]) is None

    short = ends(side(Random(3), blocks=2, a_block=1000))
    assert (short.low, short.high) == (None, None)
    assert not tail_change(short, ends(side(Random(4)))).sure


@pytest.mark.parametrize("edges", [(-1e-38, 1e-38), (5.0, inf)], ids=["around 0", "without an upper edge"])
def test_a_p99_in_a_bucket_that_lacks_an_edge_is_none(edges: tuple[float, float]) -> None:
    """Prometheus 3 can keep classic buckets as native ones: then the last one has no upper edge."""
    assert tail([{edges: 1000.0}] * 10) is None


def test_an_interval_that_ends_beyond_all_edges_is_none() -> None:
    """And one of too few requests, which chance alone may move beyond the highest."""
    beyond = ends([{(0.5, 0.51): 985.0, (0.6, 0.61): 6.0, (5.0, inf): 9.0}] * 10)
    few = ends(side(Random(5), blocks=15, a_block=LEAST_SAMPLES // 15 + 1))

    assert [(one.estimate.value > 0, one.low, one.high) for one in (beyond, few)] == [(True, None, None)] * 2


def test_buckets_are_read_as_the_api_writes_them() -> None:
    assert cells([[0, "0.5", "0.51", "3"], [3, "-0.001", "0.001", "1"]]) == {(0.5, 0.51): 3.0, (-0.001, 0.001): 1.0}


@pytest.mark.parametrize("wrong", [[[0, "0.5", "0.51"]], [[0, "a", "0.51", "3"]]])
def test_another_form_is_refused(wrong: list[list[object]]) -> None:
    with pytest.raises((ValueError, IndexError)):
        cells(wrong)
