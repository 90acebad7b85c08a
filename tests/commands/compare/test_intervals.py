"""Intervals hold the truth as often as they say, and blocks, not requests, decide how wide they are."""

from random import Random

import pytest

from sidecar.commands.compare.intervals import LEAST_BLOCKS, Change, Estimate, Sums, change, estimate, quantile


def side(rng: Random, chance: float, blocks: int = 20, requests: int = 200) -> Estimate:
    """Independent draws of misses, block by block."""
    told = estimate([Sums(sum(rng.random() < chance for _ in range(requests)), requests) for _ in range(blocks)])
    assert told is not None
    return told


def test_the_interval_holds_the_truth_in_nineteen_of_twenty() -> None:
    changes = [change(side(Random(seed), 0.05), side(Random(-seed - 1), 0.08)) for seed in range(300)]
    held = sum(each.low is not None and each.high is not None and each.low <= 0.03 <= each.high for each in changes)

    assert 0.92 < held / len(changes) < 0.98


def test_clumps_make_it_wider() -> None:
    """As many misses, but in one block of four: the same share, and twice the error."""
    even = estimate([Sums(5, 100)] * 10 + [Sums(6, 100)] * 10)
    clumped = estimate([Sums(0, 100), Sums(0, 100), Sums(0, 100), Sums(22, 100)] * 5)

    assert even is not None
    assert clumped is not None
    assert [even.value, clumped.value] == pytest.approx([0.055, 0.055])
    assert even.error is not None
    assert clumped.error is not None
    assert clumped.error > 10 * even.error


def test_a_mean_is_weighted_by_its_requests() -> None:
    """A quiet block with slow requests does not weigh as much as a busy one."""
    told = estimate([Sums(10.0, 100), Sums(10.0, 1)])

    assert told is not None
    assert told.value == pytest.approx(20 / 101)
    assert told[1:] == (None, 2, 101)


def test_few_blocks_have_a_value_and_no_interval() -> None:
    few = estimate([Sums(1, 10)] * (LEAST_BLOCKS - 1) + [Sums(0, 0)] * 10)
    many = estimate([Sums(1, 10), Sums(2, 10)] * LEAST_BLOCKS)

    assert few is not None
    assert many is not None
    assert change(few, many).value == pytest.approx(0.05)
    assert change(few, many)[1:] == (None, None)
    assert not change(few, many).sure


def test_no_miss_among_a_thousand_is_not_surely_none() -> None:
    """The interval reaches about as far as the rule of three: 3 of 1,000."""
    none = estimate([Sums(0, 50)] * 20, share=True)
    assert none is not None
    found = change(Estimate(0.0, 0.0, 20, 1000), none)

    assert found.high is not None
    assert 0.0015 < found.high < 0.004


def test_without_requests_there_is_no_number() -> None:
    assert estimate([Sums(0, 0)] * 20) is None


@pytest.mark.parametrize(("low", "high", "sure"), [(0.1, 0.2, True), (-0.2, -0.1, True), (-0.1, 0.2, False)])
def test_it_is_sure_where_the_interval_excludes_no_change(low: float, high: float, *, sure: bool) -> None:
    assert Change((low + high) / 2, low, high).sure is sure


@pytest.mark.parametrize(("degrees", "tabled"), [(4, 2.776), (9, 2.262), (19, 2.093), (60, 2.000)])
def test_the_quantile_is_that_of_the_tables(degrees: int, tabled: float) -> None:
    assert quantile(degrees) == pytest.approx(tabled, abs=0.02)
