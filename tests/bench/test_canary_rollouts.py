"""The bench of the canary's gate plays the rollouts that it says it plays."""

from random import Random

import pytest

from bench.canary import DAYS, LENGTHS, Day, Draws, Hour, counted, drawn, looks, rate, rollouts_of
from sidecar.compare.sequential import LOOKS, Block, Side, always_valid_p, blocks


def test_draws_have_the_requests_and_the_misses_that_they_state() -> None:
    """Over a hundred rollouts the share of misses is within a twentieth of the chance, and requests are exact."""
    draws, rng = Draws(2000, 6000, 0.05, 2), Random(1)
    made = [drawn(draws, rng) for _ in range(100)]
    requests = {(sum(one.canary.requests for one in each), sum(one.baseline.requests for one in each)) for each in made}
    bad = [sum(side.bad for side in sides) for sides in _sides(made)]

    assert requests == {(2000, 6000)}
    assert bad == [pytest.approx(0.1 * 2000 * 100, rel=0.05), pytest.approx(0.05 * 6000 * 100, rel=0.05)]


def _sides(made: list[list[Block]]) -> list[list[Side]]:
    return [[one[number] for each in made for one in each] for number in (0, 1)]


def test_the_last_look_is_the_p_value_of_the_whole_rollout() -> None:
    minutes = drawn(Draws(2000, 2000, 0.05, 1.5), Random(2))

    assert list(looks(minutes))[-1] == always_valid_p(blocks(minutes))


def test_a_doubled_rate_is_counted_and_an_equal_one_is_not() -> None:
    assert counted(Draws(6000, 6000, 0.05, 2), 10) == [10] * len(LENGTHS)
    assert counted(Draws(600, 600, 0.05), 10) == [0] * len(LENGTHS)


def test_no_pod_is_its_own_baseline() -> None:
    """Each pod is the canary once; the others' requests are those of pods that are not the canary."""
    hours = [[Side(0, 10**number)] * LOOKS for number in range(4)]
    made = rollouts_of(hours, hours, 3, seed=1)

    assert [each[0] for each in made] == [Block(Side(0, 10**number), Side(0, 1111 - 10**number)) for number in range(4)]


def test_noon_has_the_highest_rate() -> None:
    day = Day(1.0, 1.0)

    assert (day.share(-600.0), day.share(1800.0)) == (0.5, 1.0)
    assert all(0 < each.share(0.0) <= 1 for each in DAYS.values())


def test_an_hour_counts_what_is_above_the_threshold() -> None:
    sides = Hour([(0, 0.1), (0, 2.0), (59, 1.0)]).minutes(1.0)

    assert (sides[0], sides[59], sides[1]) == (Side(1, 2), Side(0, 1), Side(0, 0))


def test_no_alarm_has_an_upper_bound() -> None:
    assert (rate(0, 300), rate(3, 300)) == ("0 (< 1.00)", "1.00")
