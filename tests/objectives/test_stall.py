"""A stream's own outputs show whose its longest gap is: the client's, something's on the way, or the engine's."""

import pytest

from sidecar.objectives.attribution import Blame
from sidecar.objectives.judge import TokenDeadlines
from sidecar.objectives.stall import Stall, blame_of_stall, stall_of


PACE_SECONDS = 0.0625
"""Exact in binary, so that sums are."""


def streamed(outputs: int = 40, *, pace_seconds: float = PACE_SECONDS, events: int = 1) -> TokenDeadlines:
    """A stream that began at 0 and has had so many reads with output, the last one at `(outputs - 1) * pace_seconds`."""
    deadlines = TokenDeadlines()
    deadlines.began_at = 0.0
    for number in range(outputs):
        deadlines.output(number * pace_seconds, events)
    return deadlines


def goes_on(deadlines: TokenDeadlines, at: float, *, events: int = 1, outputs: int = 20) -> Stall:
    """The gap ends now with a read of so many events, and the stream speaks on. What it shows then."""
    deadlines.output(at, events)
    for number in range(1, outputs):
        deadlines.output(at + number * PACE_SECONDS, 1)
    return stall_of(deadlines, at + outputs * PACE_SECONDS)


def test_a_gap_that_lasts_shows_only_its_beginning() -> None:
    """Whether its output comes together is known when it ends."""
    assert stall_of(streamed(), 7.0) == Stall(2.4375, 7.0)


def test_one_token_behind_a_gap_was_made_then() -> None:
    stall = goes_on(streamed(), 7.4375)

    assert stall == Stall(2.4375, 7.4375)
    assert blame_of_stall(stall) is Blame.DECODE


@pytest.mark.parametrize(("events", "held"), [(1, False), (39, False), (41, True), (100, True)])
def test_output_that_comes_together_behind_a_gap_was_held_back(events: int, held: bool) -> None:
    """In five seconds, the stream usually has eighty tokens: half of them are enough."""
    stall = goes_on(streamed(), 7.4375, events=events)

    assert (stall.held, blame_of_stall(stall)) == (held, Blame.STREAM if held else Blame.DECODE)


def test_a_block_of_tokens_behind_a_gap_is_not_held_back() -> None:
    """An engine that sends 32 tokens every quarter of a second, and stands still for five seconds."""
    deadlines = streamed(20, pace_seconds=0.25, events=32)

    assert not goes_on(deadlines, 9.75, events=32).held


@pytest.mark.parametrize(("gap_seconds", "slow"), [(0.25, True), (0.3, True), (0.32, False), (5.0, False)])
def test_a_gap_like_the_others_is_a_slow_pace(gap_seconds: float, slow: bool) -> None:
    assert goes_on(streamed(), 2.4375 + gap_seconds).slow is slow


def test_a_stream_with_few_outputs_has_no_usual_gap() -> None:
    """It has had two: the next one of many events may have been held back, or not."""
    deadlines = streamed(2)
    deadlines.output(9.0, 50)

    assert stall_of(deadlines, 9.0) == Stall(0.0625, 9.0)


def test_the_gap_before_the_second_output_is_told_from_others() -> None:
    """While it lasts and when it is over."""
    lasts = stall_of(streamed(1), 3.0)
    over = goes_on(streamed(1), 3.0)
    later = goes_on(streamed(2), 3.0)

    assert [each.before_second for each in (lasts, over, later)] == [True, True, False]


@pytest.mark.parametrize(("until", "paused"), [(5.5, False), (5.6, True), (9.0, True)])
def test_a_gap_with_a_pause_as_long_beside_it_is_the_clients(until: float, paused: bool) -> None:
    """The client stops after 2.5 s and reads again; the next output comes 3 s later. The gap is 3.0625 s without the pause."""
    deadlines = streamed()
    deadlines.paused(2.5)
    deadlines.resumed(until)
    stall = goes_on(deadlines, until + 3.0)

    assert stall.ended_at - stall.began_at == pytest.approx(3.0625)
    assert (stall.paused, blame_of_stall(stall)) == (paused, Blame.STREAM if paused else Blame.DECODE)


def test_a_pause_in_another_gap_is_no_part_of_this_one() -> None:
    """Neither one before it nor one after it; and they change nothing of the stream's usual gap."""
    deadlines = streamed()
    deadlines.paused(2.5)
    deadlines.resumed(12.5)
    deadlines.output(12.5625, 1)
    deadlines.output(17.0, 1)
    deadlines.output(17.0625, 1)
    deadlines.paused(17.125)
    deadlines.resumed(30.125)
    deadlines.output(30.1875, 1)

    stall = stall_of(deadlines, 30.25)

    assert (stall.began_at, stall.ended_at, stall.paused, stall.slow) == (12.5625, 17.0, False, False)
    assert deadlines.other_gaps(30.25) == (44 * PACE_SECONDS, 42)


def test_after_the_end_the_gap_stays_as_it_was() -> None:
    """The last outputs of a stream, and the time behind its end, are no other gap than before."""
    deadlines = streamed()
    during = goes_on(deadlines, 7.4375)
    deadlines.finished(9.0)
    deadlines.finished(99.0)

    assert stall_of(deadlines, 500.0) == during
    assert deadlines.gap_seconds(500.0) == 0.0


def test_a_stream_of_one_output_has_no_gap() -> None:
    deadlines = streamed(1)
    deadlines.finished(0.0)

    assert stall_of(deadlines, 9.0) == Stall(0.0, 0.0, before_second=True)
