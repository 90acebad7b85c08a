"""The gate's arithmetic: innocent rollouts pass however often they are looked at, and a doubled miss rate is found."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from math import exp, inf, log, pi, sin, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafana.gate_arithmetic import (
    HALF_A_REQUEST,
    LOOKS,
    MOST_SHARE,
    NO_EVIDENCE,
    Block,
    Evidence,
    Side,
    always_valid_p,
    blocks,
    part_of,
)
from grafana.gate_query import FAILS_BELOW


ROLLOUTS = 200


def rollout(
    rng: Random, chances: Callable[[int], tuple[float, float]], requests: Callable[[int], tuple[int, int]]
) -> list[Block]:
    """Sixty minutes of independent draws: the canary's chance to miss and its requests, then the baseline's."""
    return [
        Block(
            *(
                Side(sum(rng.random() < chance for _ in range(count)), count)
                for chance, count in zip(chances(minute), requests(minute), strict=True)
            )
        )
        for minute in range(LOOKS)
    ]


def looked_at(minutes: list[Block]) -> Iterator[float]:
    """The p value at each of the looks, the last one over all minutes."""
    told = list(blocks(minutes))
    return (p for end in range(1, len(told) + 1) if (p := always_valid_p(told[:end])) is not None)


def failed_share(minutes: Callable[[Random], list[Block]]) -> float:
    """Share of rollouts that are failed at one of their looks."""
    return sum(min(looked_at(minutes(Random(seed))), default=1.0) < FAILS_BELOW for seed in range(ROLLOUTS)) / ROLLOUTS


@pytest.mark.long
@pytest.mark.parametrize(("canary", "baseline"), [(42, 42), (5, 95), (1, 99)])
def test_an_innocent_version_passes_all_looks(canary: int, baseline: int) -> None:
    alike = failed_share(lambda rng: rollout(rng, lambda _: (0.05, 0.05), lambda _: (canary, baseline)))

    assert alike < 0.01


def test_a_miss_rate_doubled_from_five_percent_is_found_within_2500_requests_a_side() -> None:
    worse = failed_share(lambda rng: rollout(rng, lambda _: (0.1, 0.05), lambda _: (2500 // LOOKS, 2500 // LOOKS)))

    assert worse > 0.9


def test_neither_noon_nor_a_growing_share_accuses_the_canary() -> None:
    """Misses rise tenfold while the share grows from 1 to 25 %: of all misses the canary has more than of all requests."""

    def ramp(rng: Random) -> list[Block]:
        noon = [0.01 + 0.1 * sin(pi * minute / (2 * LOOKS)) for minute in range(LOOKS)]
        return rollout(
            rng,
            lambda minute: (noon[minute], noon[minute]),
            lambda minute: (25, 75) if minute >= LOOKS / 2 else (1, 99),
        )

    (canary, baseline) = (Side(*map(sum, zip(*sides, strict=True))) for sides in zip(*ramp(Random(1)), strict=True))
    assert canary.bad / canary.requests > 1.3 * baseline.bad / baseline.requests
    assert failed_share(ramp) < 0.01


def test_one_clump_of_misses_fails_no_version() -> None:
    """A full queue makes forty misses in three minutes; a binomial test would give such a canary one chance in 10^9."""
    quiet = [Block(Side(1, 40), Side(1, 40))] * 40
    clump = [Block(Side(14, 40), Side(1, 40))] * 3

    assert min(looked_at([*quiet, *clump, *quiet])) > 2 * FAILS_BELOW


def test_a_better_version_has_no_evidence_against_it() -> None:
    assert min(looked_at(rollout(Random(1), lambda _: (0.01, 0.2), lambda _: (40, 40)))) > 0.5


def test_without_a_bad_request_the_versions_are_alike() -> None:
    assert always_valid_p([Block(Side(0, 50), Side(0, 50))] * 30) == 0.5


def test_what_only_one_version_served_is_not_compared() -> None:
    alone = [Block(Side(5, 10), Side(0, 0)), Block(Side(0, 0), Side(0, 10)), Block(Side(0, 0), Side(0, 0))]

    assert [part_of(block) for block in alone] == [None] * 3
    assert always_valid_p(alone) is None


def test_few_blocks_never_fail() -> None:
    """However bad the counts are: a spread needs more than a handful of blocks."""
    assert min(looked_at([Block(Side(100, 100), Side(0, 100))] * 10)) > FAILS_BELOW


COUNTS = st.lists(st.tuples(*[st.integers(0, 50)] * 4), min_size=1, max_size=40)


def both_ways(counts: list[tuple[int, int, int, int]]) -> tuple[list[Block], list[Block]]:
    """Blocks of these bad and good requests, and the same with the canary as the baseline."""
    told = [Block(Side(a, a + b), Side(c, c + d)) for a, b, c, d in counts]
    return told, [Block(block.baseline, block.canary) for block in told]


@given(COUNTS)
def test_it_is_a_probability(counts: list[tuple[int, int, int, int]]) -> None:
    """Never outside 0 to 1."""
    assert all(0 < p <= 1 for told in both_ways(counts) if (p := always_valid_p(told)) is not None)


@given(COUNTS)
def test_evidence_against_the_one_version_is_none_against_the_other(counts: list[tuple[int, int, int, int]]) -> None:
    """All blocks here are compared both ways: one with many requests of one version is compared in one way only."""
    shared = [pair for pair in zip(*both_ways(counts), strict=True) if None not in map(part_of, pair)]
    ps = [p for told in zip(*shared, strict=True) if (p := always_valid_p(told)) is not None]

    assert len(ps) in (0, 2)
    assert max(ps, default=NO_EVIDENCE) >= NO_EVIDENCE


def test_blocks_of_few_requests_of_the_one_version_and_of_few_of_the_other_may_speak_against_both() -> None:
    """They are other blocks for each: found by a random example of the test above, which took all of them."""
    told, turned = both_ways([(0, 2, 1, 0), (0, 5, 3, 0), (2, 0, 0, 4), (2, 0, 0, 4)])

    assert [part_of(block) is None for block in told] == [True, True, False, False]
    assert [p is not None and p < NO_EVIDENCE for p in map(always_valid_p, (told, turned))] == [True, True]


def test_blocks_follow_each_other() -> None:
    """The minute that is left over waits for the next one."""
    told = list(blocks([Block(Side(each, 10), Side(1, 100)) for each in (1, 2, 3, 4, 5)], 2))

    assert [(block.canary.bad, block.baseline.requests) for block in told] == [(3, 200), (7, 200)]


@pytest.mark.parametrize(("mean", "count"), [(0.2, 10), (0.7, 10), (1.5, 6)])
def test_it_is_the_likelihood_ratio_averaged_over_all_effects(mean: float, count: int) -> None:
    """The closed form against the integral that it stands for: effects are normal, the spread has the prior 1 / spread. The half request
    that is taken off the excess is put back."""
    total, squares = mean * count, count * (1 + mean * mean)
    steps = 300
    effects = [-6 + 12 * (step + 0.5) / steps for step in range(steps)]
    logs = [-4 + 8 * (step + 0.5) / steps for step in range(steps)]  # of the spread: the prior is flat in it

    def likelihood(effect: float, spread: float) -> float:
        return exp(-count * log(spread) - squares / (2 * spread**2) + effect * total / spread - count * effect**2 / 2)

    mixed = sum(
        likelihood(effect, exp(one)) * exp(-(effect**2) / 2) / sqrt(2 * pi) * 12 / steps
        for effect in effects
        for one in logs
    )
    alike = sum(likelihood(0.0, exp(one)) for one in logs)

    assert Evidence(count, total + HALF_A_REQUEST, squares, count).p == pytest.approx(
        min(1.0, 0.5 * alike / mixed), rel=1e-3
    )


def test_minutes_without_a_bad_request_are_no_evidence() -> None:
    """They may not count as blocks whose spread is known: three bad requests in an hour fail no version."""
    quiet = Block(Side(0, 5), Side(0, 5))
    rollout = [Block(Side(1, 5), Side(0, 5)) if minute % 20 == 10 else quiet for minute in range(LOOKS)]

    assert min(looked_at(rollout)) > 10 * FAILS_BELOW


@pytest.mark.parametrize("errors", range(1, 15))
def test_a_handful_of_errors_is_judged_no_harder_than_coins(errors: int) -> None:
    """All of them are the canary's, which has half of the traffic: as probable as so many coins that all fall alike. Eleven fail it."""
    quiet, failing = Block(Side(0, 40), Side(0, 40)), Block(Side(1, 40), Side(0, 40))
    minutes = [failing if minute < 2 * errors and minute % 2 else quiet for minute in range(LOOKS)]
    p = min(looked_at(minutes))

    assert max(p, FAILS_BELOW) > 0.5**errors
    assert (p < FAILS_BELOW) == (errors >= 11)


@pytest.mark.long
@pytest.mark.parametrize("share", [0.05, 0.5, 0.6, 0.75, 0.9, 0.95])
@pytest.mark.parametrize("chance", [0.002, 0.01])
def test_an_innocent_version_with_any_share_passes(share: float, chance: float) -> None:
    """With nine tenths of the traffic nearly all of a dozen errors are the canary's: that failed one in eight."""
    sides = round(83 * share), round(83 * (1 - share))
    failed = failed_share(lambda rng: rollout(rng, lambda _: (chance, chance), lambda _: sides))

    assert failed <= 0.005


def test_a_block_with_too_large_a_share_says_nothing() -> None:
    assert part_of(Block(Side(5, 60), Side(0, 40))) is not None
    assert part_of(Block(Side(5, 100 * MOST_SHARE + 1), Side(0, 100 - 100 * MOST_SHARE - 1))) is None


def test_a_block_with_fewer_than_no_bad_requests_does_not_silence_the_others() -> None:
    """A good request was read a moment before it was counted among all; the next block has one bad request more for it."""
    worse, early, late = (
        Block(Side(5, 40), Side(0, 40)),
        Block(Side(0, 40), Side(-1, 40)),
        Block(Side(0, 40), Side(1, 40)),
    )
    told = [worse] * 15

    assert always_valid_p([*told, early, late, *told]) == pytest.approx(always_valid_p([*told, late, *told]), rel=0.5)
    assert (always_valid_p([*told, early, late, *told]) or 1.0) < FAILS_BELOW


def test_misses_that_come_at_noon_alone_are_found() -> None:
    """Twice as many on the canary, nearly all of them within twenty minutes: a test that weighs all minutes alike misses it."""

    def noon(rng: Random) -> list[Block]:
        chances = [0.2 if 20 <= minute < 40 else 0.005 for minute in range(LOOKS)]
        return rollout(rng, lambda minute: (2 * chances[minute], chances[minute]), lambda _: (40, 120))

    assert failed_share(noon) > 0.9


def test_evidence_falls_and_rises_with_what_is_seen() -> None:
    """A version that grows worse gets smaller p values, look by look."""
    ps = list(looked_at([Block(Side(4 + minute % 3, 40), Side(1, 40)) for minute in range(LOOKS)]))

    assert list(accumulate(ps[5:], min, initial=inf))[1:] == ps[5:]
