"""Answers that come at once are told from answers whose events carry several tokens at an engine's pace."""

from collections.abc import Iterable

import pytest

from sidecar.timeline.events import Usage
from sidecar.timeline.held_back import first_token_seen, held_back
from sidecar.timeline.marks import Marks


def answer(instants: Iterable[float], tokens: int | None, *, choices: int = 1) -> Marks:
    """An answer whose output events came at these instants, in seconds after its request; `tokens`: by usage."""
    events = [10.0 + at for at in instants]
    return Marks(
        accepted_at=9.0,
        received_at=10.0,
        first_token_at=events[0] if events else None,
        last_token_at=events[-1] if events else None,
        output_events=len(events),
        choices=choices,
        usage=None if tokens is None else Usage(prompt_tokens=600, completion_tokens=tokens),
    )


def streamed(tokens: int, each: int, token_seconds: float, *, ttft: float = 0.1, first: int = 1) -> Marks:
    """An engine's own stream: an event with `first` tokens at `ttft`, then one for each `each` tokens and for the rest."""
    made = [first, *range(first + each, tokens, each), tokens]
    return answer((ttft + (count - first) * token_seconds for count in sorted({*made})), tokens)


@pytest.mark.parametrize("tokens", [9, 20, 60, 2000])
def test_an_answer_of_many_tokens_in_one_event_was_held_back(tokens: int) -> None:
    marks = answer([0.03 + tokens * 0.01], tokens)

    assert held_back(marks)
    assert held_back(marks) == tokens
    assert not first_token_seen(marks)


@pytest.mark.parametrize(
    "instants",
    [
        pytest.param([0.63, 0.63, 0.63], id="three tool calls in one read"),
        pytest.param([0.63, 0.634], id="two reads"),
        pytest.param([0.61, 0.63], id="a rest that comes two steps later"),
    ],
)
def test_a_held_answer_may_come_in_a_few_events(instants: list[float]) -> None:
    """Sixty tokens, 10 ms each."""
    assert held_back(answer(instants, 60))


def test_all_events_of_a_stream_in_a_few_reads_were_held_back_too() -> None:
    """A buffering hop passes each token on in an event of its own, all of them at the end: usage is not needed."""
    burst = [0.63 + 0.00001 * number for number in range(60)]

    assert held_back(answer(burst, 60))
    assert held_back(answer(burst, None)) == 60


@pytest.mark.parametrize("each", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("tokens", [2, 5, 9, 10, 17, 60, 2000])
@pytest.mark.parametrize("token_seconds", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("alone", [True, False])
def test_events_of_several_tokens_at_a_steady_pace_were_not(
    each: int, tokens: int, token_seconds: float, alone: bool
) -> None:
    """So stream speculative decoding and an engine with a stream interval. Its first token comes alone, or with those that
    fill the first event.
    """
    marks = streamed(tokens, each, token_seconds, first=1 if alone else min(each, tokens))

    assert not held_back(marks)
    assert first_token_seen(marks)


@pytest.mark.parametrize("each", [4, 16, 50])
def test_a_stream_interval_after_a_long_wait_was_not(each: int) -> None:
    """In an overload the answer takes a hundredth of the time, and is as fast as an engine."""
    assert not held_back(streamed(100, each, 0.01, ttft=100.0))


@pytest.mark.parametrize("tokens", [10, 60, 400])
def test_a_fast_engine_was_not(tokens: int) -> None:
    """Three thousand tokens a second, an event each, after a wait."""
    assert not held_back(streamed(tokens, 1, 1 / 3000, ttft=5.0))


def test_an_answer_that_is_made_in_no_time_was_not() -> None:
    """A replay of 60 tokens in a millisecond, right after its request: nothing held it back for long."""
    assert not held_back(answer([0.001 + 0.00001 * number for number in range(60)], 60))


@pytest.mark.parametrize("tokens", [1, 2, 8])
def test_a_short_answer_in_one_event_may_be_one_step(tokens: int) -> None:
    marks = answer([0.2], tokens)

    assert not held_back(marks)
    assert first_token_seen(marks)


def test_text_before_a_tool_call_that_comes_whole_gives_the_stream_its_true_times() -> None:
    """Ten tokens one by one, then 200 in one event at the end: first and last token are where they were made."""
    assert not held_back(answer([*(0.1 + 0.01 * number for number in range(10)), 2.2], 210))


def test_choices_are_made_side_by_side() -> None:
    """Usage counts the tokens of all choices: eight of 20 tokens, 10 ms each, are 160 tokens in 0.2 s."""
    steps = sorted(0.1 + 0.01 * number for number in range(20) for _ in range(8))

    assert not held_back(answer(steps, 160, choices=8))
    assert held_back(answer([0.3] * 8, 160, choices=8))


def test_without_output_nothing_was_held_back_and_no_first_token_was_seen() -> None:
    assert not held_back(answer([], 60))
    assert not first_token_seen(answer([], 60))


@pytest.mark.parametrize(("instants", "seen"), [([0.5], False), ([0.5, 0.51], True)])
def test_without_usage_a_lone_event_may_hold_any_number_of_tokens(instants: list[float], seen: bool) -> None:
    """It is not called held back, but its instant is not taken as the first token's either."""
    assert not held_back(answer(instants, None))
    assert first_token_seen(answer(instants, None)) is seen
