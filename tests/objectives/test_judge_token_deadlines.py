"""Slack accumulates, a miss resets it, and tokens of one read are judged as if they had come one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.objectives.judge import TokenDeadlines


def told(*reads: tuple[float, int], first_due_at: float = 1.0, pace_seconds: float = 0.1) -> tuple[int, int]:
    """(deadlines, misses) of a stream with these reads: (instant, events)."""
    tokens = TokenDeadlines(first_due_at, pace_seconds)
    for at, events in reads:
        tokens.output(at, events)
    return tokens.deadlines, tokens.misses


@pytest.mark.parametrize(("at", "misses"), [(1.0, 0), (1.001, 1)])
def test_the_first_is_due_at_the_threshold(at: float, misses: int) -> None:
    assert told((at, 1)) == (1, misses)


@pytest.mark.parametrize(("at", "misses"), [(1.1, 0), (1.101, 1)])
def test_what_comes_early_banks_slack_for_those_behind(at: float, misses: int) -> None:
    """The first token came half a second early; the second may take until its own deadline, and no longer."""
    assert told((0.5, 1), (at, 1)) == (2, misses)


def test_one_long_stall_is_one_miss() -> None:
    """Ten tokens follow at the objective's pace: they are due from the late one on."""
    stalled = [(5.0 + 0.125 * number, 1) for number in range(10)]

    assert told((0.5, 1), *stalled, pace_seconds=0.125) == (11, 1)


def test_a_miss_spends_all_slack() -> None:
    """Slack from before a stall does not excuse a token after it."""
    assert told((0.0, 1), (1.5, 1), (1.65, 1)) == (3, 2)


def test_a_stream_that_is_always_slower_misses_every_time() -> None:
    slow = [(1.0 + 0.2 * number, 1) for number in range(5)]

    assert told(*slow) == (5, 4)


def test_of_a_late_burst_only_the_first_is_late() -> None:
    """The tokens behind the first are due after it."""
    assert told((9.0, 50)) == (50, 1)


@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 9)), max_size=20),
    st.integers(1, 4000),
    st.integers(1, 500),
)
def test_a_read_of_many_is_many_reads_of_one(reads: list[tuple[int, int]], due: int, pace: int) -> None:
    """Instants are whole numbers, so that rounding decides nothing."""
    at, together, alone = 0, TokenDeadlines(due, pace), TokenDeadlines(due, pace)
    for later, events in reads:
        at += later
        together.output(at, events)
        for _ in range(events):
            alone.output(at, 1)

    assert (together.deadlines, together.misses) == (alone.deadlines, alone.misses)
