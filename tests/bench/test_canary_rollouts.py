"""The bench of the canary's gate plays the rollouts that it says it plays."""

from math import inf
from random import Random

import pytest

from bench.canary import (
    DAYS,
    INNOCENT,
    LENGTHS,
    WORSE,
    Day,
    Draws,
    Hour,
    Latencies,
    counted,
    drawn,
    failed_by_any,
    independent,
    latencies_of,
    limits_of,
    looks,
    questions,
    rate,
    rollouts_of,
)
from grafana.gate_arithmetic import LOOKS, Block, Side, always_valid_p, blocks


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
    requests = [(0, Latencies(0.1, 0.0, 9.0)), (0, Latencies(2.0, 0.0, 0.0)), (59, Latencies(1.0, 0.0, 0.0))]
    sides = Hour(requests).minutes(Latencies(1.0, inf, inf))

    assert (sides[0], sides[59], sides[1]) == (Side(1, 2), Side(0, 1), Side(0, 0))


def test_each_objective_is_a_question_and_all_of_them_another() -> None:
    """Goodput is lost by a request that misses one of them."""
    alone = questions(Latencies(1.0, 2.0, 3.0))
    slow = [(0, Latencies(2.0, 0.0, 0.0)), (0, Latencies(0.0, 0.0, 4.0)), (0, Latencies(0.0, 0.0, 0.0))]

    assert [Hour(slow).minutes(limits)[0].bad for limits in alone] == [1, 0, 1, 2]


def test_a_limit_is_missed_by_the_share_that_is_asked_for() -> None:
    hour = Hour([(0, Latencies(number, 2.0 * number, 3.0 * number)) for number in range(100)])
    limits = limits_of([hour], 0.05)

    assert [hour.minutes(one)[0].bad for one in questions(limits)] == [4, 4, 4, 4]


def test_latencies_are_of_the_first_and_the_last_token() -> None:
    assert latencies_of(1.0, [1.5, 2.0, 3.5]) == (0.5, 1.0, 2.5)
    assert latencies_of(1.0, [1.5]) == (0.5, 0.0, 0.5)


def test_a_rollout_is_failed_by_any_question() -> None:
    """The first question fails the first of two rollouts, the second question the second."""
    worse, alike = (drawn(Draws(6000, 6000, 0.05, times), Random(3)) for times in (2, 1))

    assert failed_by_any([[worse, alike], [worse, alike]]) == 1
    assert failed_by_any([[worse, alike], [alike, worse]]) == 2


def test_a_bound_that_is_missed_is_told() -> None:
    """A gate that fails a tenth of all rollouts: the innocent rows are too many, the worse ones too few."""
    missed: list[str] = []
    rows = list(independent(100, lambda rows, _: [[10] * len(LENGTHS) for _ in rows], missed))[2:]

    assert missed == [row for row, draws in zip(rows, (*INNOCENT, *WORSE), strict=True) if draws not in WORSE[2:]]


def test_no_alarm_has_an_upper_bound() -> None:
    assert (rate(0, 300), rate(3, 300)) == ("0 (< 1.00)", "1.00")
