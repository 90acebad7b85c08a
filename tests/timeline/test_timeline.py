"""The timeline turns events and their instants into marks."""

from sidecar.timeline.events import NOTHING, StreamEvent, Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Stage
from sidecar.timeline.timeline import MAX_CHOICES
from tests.support.scenario import START, Scenario


def test_a_streamed_request_yields_every_mark() -> None:
    """Each mark is the instant that was passed with its event."""
    scenario = (
        Scenario()
        .received(0.1)
        .sent(0.2)
        .headers(0.3)
        .token(0.9)
        .token(1.0)
        .usage(1.1, prompt_tokens=7)
        .end(1.2, flushed=1.5)
    )

    assert (
        Marks(
            accepted_at=START,
            received_at=START + 0.1,
            sent_at=START + 0.2,
            headers_at=START + 0.3,
            first_token_at=START + 0.9,
            first_answer_at=START + 0.9,
            last_token_at=START + 1.0,
            ended_at=START + 1.2,
            flushed_at=START + 1.5,
            output_events=2,
            choices=1,
            usage=Usage(prompt_tokens=7),
        )
        == scenario.timeline.marks()
    )


def test_what_carries_no_output_is_no_first_token() -> None:
    """Role frames, pings and usage do not set the first-token mark, however early they come."""
    scenario = (
        Scenario().received(0).events(0.01, NOTHING, StreamEvent(usage=Usage(prompt_tokens=3)), StreamEvent(done=True))
    )

    assert scenario.timeline.marks().first_token_at is None
    assert Stage.WAITING is scenario.timeline.stage()


def test_a_mark_told_twice_stays_where_it_was() -> None:
    """A second end does not move the first one."""
    marks = Scenario().sent(0.1).sent(0.5).end(1.0).end(2.0).timeline.marks()

    assert (marks.sent_at, marks.ended_at) == (START + 0.1, START + 1.0)


def test_gaps_are_per_choice() -> None:
    """Two interleaved choices are two streams: the gap of one is not shortened by the other."""
    scenario = Scenario().token(1.0, 0).token(1.5, 1).token(2.0, 0).token(2.5, 1)

    assert scenario.gaps == [1.0, 1.0]
    assert scenario.timeline.marks().choices == 2


def test_events_of_one_read_have_one_instant() -> None:
    """Tokens of one read have no time between them, and the events per read are counted: so a buffering hop is seen."""
    scenario = Scenario().events(1.0, StreamEvent(output=(0,)), StreamEvent(output=(0,)), StreamEvent(output=(0,)))

    assert scenario.gaps == [0.0, 0.0]
    assert scenario.timeline.marks().output_events == 3


def test_an_engine_cannot_make_the_timeline_grow() -> None:
    """Choice indexes and finishes beyond the bound still count as output, but are not remembered."""
    scenario = Scenario()
    for choice in range(10_000):
        scenario.events(1.0, StreamEvent(output=(choice,), finished=(choice,)))

    assert scenario.timeline.marks().choices == MAX_CHOICES
    assert len(scenario.timeline.finished) == MAX_CHOICES
    assert scenario.timeline.marks().output_events == 10_000


def test_usage_told_in_parts_adds_up() -> None:
    """Anthropic states the prompt at the start and the output at the end; of two values the later counts."""
    scenario = Scenario().usage(1, prompt_tokens=9, completion_tokens=1).usage(2, completion_tokens=40)

    assert Usage(prompt_tokens=9, completion_tokens=40) == scenario.timeline.marks().usage


def test_a_pause_counts_only_between_first_and_last_token() -> None:
    """Before the first token there is nothing to pause; after the last one the engine does not decode any more."""
    scenario = Scenario().received(0).paused(0.1).token(1.0).resumed(1.4).token(2.0).paused(2.1).resumed(2.3).token(3.0)
    assert round(scenario.timeline.marks().paused_seconds, 9) == 0.6

    scenario.paused(4.0).resumed(9.0).end(9.5)
    assert round(scenario.timeline.marks().paused_seconds, 9) == 0.6


def test_a_pause_counts_up_to_a_token_that_came_during_it() -> None:
    """Bytes that were read before the pause took effect may still be parsed during it."""
    scenario = Scenario().received(0).token(1.0).paused(2.0).token(2.5).resumed(4.0).token(4.5)

    assert round(scenario.timeline.marks().paused_seconds, 9) == 2.0


def test_a_token_read_just_before_the_pause_and_told_within_it_takes_nothing_off() -> None:
    """The two instants differ by microseconds; a negative total is no duration, and the counter would drop it."""
    scenario = Scenario().received(0).token(1.0).paused(2.0).token(1.9)
    assert scenario.timeline.marks().paused_seconds == 0.0

    scenario.resumed(4.0).token(4.5)
    assert round(scenario.timeline.marks().paused_seconds, 9) == 2.0


def test_the_stage_is_how_far_the_request_had_come() -> None:
    """The stage of a client that leaves: upload, waiting or streaming."""
    scenario = Scenario()
    stages = [scenario.timeline.stage()]
    stages.append(scenario.received(0.1).headers(0.2).timeline.stage())
    stages.append(scenario.token(0.3).timeline.stage())

    assert stages == [Stage.UPLOAD, Stage.WAITING, Stage.STREAMING]
