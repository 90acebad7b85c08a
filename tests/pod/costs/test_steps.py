"""From the instants at which streams speak, the steps of the engine come out: their length, their batch, their prompts."""

from itertools import pairwise

import pytest

from sidecar.pod.costs.steps import (
    KEPT_ENDED_STEPS,
    LONGEST_WAITING,
    MOST_PROMPTS,
    UNCOUNTED_REQUESTS,
    UNSPLIT_TOKENS,
    Prompt,
    Step,
    Steps,
    Stream,
)
from tests.pod.costs.stepping import COSTS, Arrival, SteppedEngine, traffic


def begun(steps: Steps, key: str, at: float, tokens: int = 100) -> Stream:
    steps.arrived(key, Prompt(tokens, tokens), seen=True)
    stream = steps.began(key, at, 1)
    assert stream is not None
    return stream


def test_two_streams_that_speak_together_are_one_step() -> None:
    steps = Steps()
    first, second = begun(steps, "a", 0.0), begun(steps, "b", 0.0001)
    for number in (1, 2, 3):
        first.spoke(number * 0.01, 1)
        second.spoke(number * 0.01 + 0.0005, 1)

    _, one = steps.take(KEPT_ENDED_STEPS)

    assert one.ended_at == 0.01 + 0.01
    assert one.seconds == pytest.approx(0.01)
    assert (one.sequences, one.coverage, one.pure) == (2, 1.0, True)
    assert one.context_tokens == 2 * (100 + 1 + 1)


def test_output_that_was_read_together_counts_as_several_steps() -> None:
    """A sidecar that stood still for 40 ms reads four tokens of each stream at once: four steps of 10 ms."""
    steps = Steps()
    streams = [begun(steps, key, 0.0) for key in "ab"]
    for at, events in ((0.01, 1), (0.05, 4), (0.06, 1)):
        for stream in streams:
            stream.spoke(at, events)

    late = steps.take(KEPT_ENDED_STEPS)[-1]

    assert late.seconds == pytest.approx(0.01)
    assert (late.steps, late.coverage) == (4, 1.0)


def test_steps_that_pass_by_a_stream_are_counted_until_it_speaks() -> None:
    """Its KV cache is on the way to another worker, while the others go on."""
    steps = Steps()
    first, second = begun(steps, "a", 0.0), begun(steps, "b", 0.0)
    assert steps.passed_by("a") == 0
    for number in range(1, 6):
        first.spoke(number * 0.01, 1)

    assert steps.passed_by("b") == pytest.approx(5, rel=0.1)
    second.spoke(0.055, 1)
    assert steps.passed_by("b") == 0


def test_where_streams_speak_at_every_fourth_step_four_steps_are_one_event() -> None:
    """One of four streams speaks in each step; the fifth has waited for forty steps."""
    steps = Steps()
    streams = [begun(steps, key, 0.0) for key in "abcd"]
    for number in range(1, 401):
        streams[number % 4].spoke(number * 0.01, 1)
    begun(steps, "waits", 4.005)
    for number in range(401, 441):
        streams[number % 4].spoke(number * 0.01, 1)

    assert steps.passed_by("waits") == pytest.approx(10, rel=0.25)


def test_a_stream_that_is_alone_is_passed_by_no_other() -> None:
    steps = Steps()
    begun(steps, "a", 0.0)

    assert steps.passed_by("a") is None
    assert steps.passed_by("never heard of") is None


def test_one_late_token_of_one_stream_is_no_long_step() -> None:
    """Two events of one stream in one read: the others spoke in both steps."""
    steps = Steps()
    first, second = begun(steps, "a", 0.0), begun(steps, "b", 0.0)
    first.spoke(0.01, 1)
    for stream, events in ((first, 1), (second, 2)):
        stream.spoke(0.02, events)
    first.spoke(0.03, 1)

    assert [each.seconds for each in steps.take(KEPT_ENDED_STEPS)] == [pytest.approx(0.01), pytest.approx(0.01)]


def test_a_step_during_which_a_request_waits_is_not_pure_and_the_prompt_belongs_to_the_step_of_its_first_token() -> (
    None
):
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    stream.spoke(0.01, 1)
    steps.arrived("b", Prompt(500, 300), seen=True)
    stream.spoke(0.03, 1)
    stream.spoke(0.05, 1)
    steps.began("b", 0.05, 1)
    stream.spoke(0.06, 1)
    stream.spoke(0.07, 1)

    found = steps.take(KEPT_ENDED_STEPS)

    assert [each.pure for each in found] == [True, False, False, True]
    assert [each.prompts for each in found] == [(), (), (Prompt(500, 300),), ()]


@pytest.mark.parametrize(
    ("prompt", "seen", "length_known", "pure"),
    [
        pytest.param(Prompt(UNSPLIT_TOKENS, 1), True, True, True, id="short"),
        pytest.param(Prompt(UNSPLIT_TOKENS + 1, 1), True, True, False, id="long"),
        pytest.param(Prompt(1, 1), True, False, False, id="of unknown length"),
        pytest.param(Prompt(1, 1), False, True, False, id="whose first token is not seen"),
    ],
)
def test_while_a_prompt_waits_a_step_holds_none_only_if_the_prompt_would_end_the_step(
    prompt: Prompt, seen: bool, length_known: bool, pure: bool
) -> None:
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    stream.spoke(0.01, 1)
    steps.arrived("b", prompt, seen=seen, length_known=length_known)
    for number in range(2, 5):
        stream.spoke(0.01 * number, 1)
    steps.left("b", answered=False)
    for number in range(5, 8):
        stream.spoke(0.01 * number, 1)

    found = steps.take(KEPT_ENDED_STEPS)

    assert [each.waiting for each in found] == [0, 1, 1, 1, 0, 0]
    assert [each.pure for each in found] == [True, pure, pure, pure, False, True]


def test_the_step_before_a_first_token_that_is_read_late_may_have_held_its_prompt() -> None:
    """A first token pays for the answer's head too, and may be read some milliseconds behind the other output of its step."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    stream.spoke(0.010, 1)
    stream.spoke(0.020, 1)
    steps.arrived("b", Prompt(20, 20), seen=True)
    stream.spoke(0.045, 1)
    steps.began("b", 0.048, 1)
    for at in (0.055, 0.065, 0.075):
        stream.spoke(at, 1)

    found = steps.take(KEPT_ENDED_STEPS)

    assert [round(each.ended_at, 3) for each in found if each.pure and each.seconds] == [0.01, 0.02, 0.065]


def test_a_short_prompt_whose_answer_turns_out_not_to_be_streamed_may_be_in_any_step() -> None:
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    steps.arrived("b", Prompt(20, 20), seen=True)
    for number in range(1, 4):
        stream.spoke(0.01 * number, 1)
    steps.answering("b", seen=False)
    for number in range(4, 7):
        stream.spoke(0.01 * number, 1)

    assert [each.pure for each in steps.take(KEPT_ENDED_STEPS)] == [True, True, False, False, False]


def test_silence_between_two_answers_is_no_step() -> None:
    steps = Steps()
    begun(steps, "a", 0.0).spoke(0.01, 1)
    steps.left("a")
    later = begun(steps, "b", 60.0)
    later.spoke(60.01, 1)
    later.spoke(60.02, 1)

    assert [each.seconds for each in steps.take(KEPT_ENDED_STEPS)] == [pytest.approx(0.01), None, pytest.approx(0.01)]


def test_an_unseen_request_is_prefilled_before_one_that_came_later_and_decodes_until_it_leaves() -> None:
    """An answer that is not streamed has a prompt and holds a place in each step, although its tokens are not seen."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    steps.arrived("unseen", Prompt(800, 800), seen=False)
    steps.arrived("b", Prompt(200, 200), seen=True)
    stream.spoke(0.01, 1)
    steps.began("b", 0.01, 1)
    for at in (0.02, 0.03):
        stream.spoke(at, 1)
    steps.left("unseen")
    for at in (0.04, 0.05, 0.06):
        stream.spoke(at, 1)

    first, *later = steps.take(KEPT_ENDED_STEPS)

    assert first.prompts == (Prompt(800, 800), Prompt(200, 200))
    assert [each.sequences for each in later] == [3, 3, 2, 2]


def test_a_stream_that_is_not_read_now_is_not_missed() -> None:
    """A slow client: its stream says nothing for a while, and the others cover the steps all the same."""
    steps = Steps()
    first, second = begun(steps, "a", 0.0), begun(steps, "b", 0.0)
    for stream in (first, second):
        stream.spoke(0.01, 1)
    steps.paused("b", paused=True)
    for at in (0.02, 0.03, 0.04):
        first.spoke(at, 1)
    steps.paused("b", paused=False)
    second.spoke(0.0405, 20)
    first.spoke(0.05, 1)
    second.spoke(0.05, 1)
    first.spoke(0.06, 1)
    second.spoke(0.06, 1)
    first.spoke(0.07, 1)

    found = steps.take(KEPT_ENDED_STEPS)
    assert {each.coverage for each in found} == {1.0}
    assert [each.seconds for each in found[:5]] == [pytest.approx(0.01)] * 5


def test_one_read_in_two_pieces_does_not_end_the_rebuilding() -> None:
    """A backlog is read in pieces 0.1 ms apart: no step is that short, and the steps after it are found as before."""
    steps = Steps()
    first, second = begun(steps, "a", 0.0), begun(steps, "b", 0.0)
    for number in range(1, 20):
        first.spoke(number * 0.01, 1)
        second.spoke(number * 0.01 + 0.0004, 1)
        if number == 5:
            second.spoke(0.0505, 30)

    found = steps.take(KEPT_ENDED_STEPS)
    assert [each.seconds for each in found if each.seconds is not None and each.seconds < 0.005] == []
    assert [each.seconds for each in found[-8:]] == [pytest.approx(0.01)] * 8
    assert {each.coverage for each in found[-8:]} == {1.0}


def test_a_request_that_was_refused_or_given_up_was_not_computed() -> None:
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    steps.arrived("refused", Prompt(800, 800), seen=False)
    steps.arrived("answered", Prompt(300, 300), seen=False)
    stream.spoke(0.01, 1)
    steps.left("refused", answered=False)
    steps.left("answered", answered=True)
    stream.spoke(0.02, 1)

    assert [each.prompts for each in steps.take(KEPT_ENDED_STEPS)] == [(Prompt(300, 300),)]


def test_a_stream_that_ends_without_output_had_its_prompt_computed() -> None:
    """Its first token was the end of its answer: the step that has just ended made it."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    steps.arrived("empty", Prompt(100, 100), seen=True)
    stream.spoke(0.01, 1)
    stream.spoke(0.02, 1)
    steps.left("empty")
    stream.spoke(0.03, 1)
    stream.spoke(0.04, 1)

    found = steps.take(KEPT_ENDED_STEPS)

    assert [each.prompts for each in found] == [(), (Prompt(100, 100),), ()]
    assert [each.pure for each in found] == [True, False, False]


def test_the_prompt_that_is_computed_in_parts_is_the_longest_of_the_few_that_waited_longest() -> None:
    """The first of them may decode for long without an output that is seen."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    steps.arrived("silent", Prompt(20, 20), seen=True)
    for number in range(LONGEST_WAITING + 1):
        steps.arrived(number, Prompt(9_000, 1_000 * (number + 1)), seen=number > 0)
    for number in range(1, 4):
        stream.spoke(0.01 * number, 1)

    assert [each.begun for each in steps.take(KEPT_ENDED_STEPS)] == [Prompt(9_000, 4_000)] * 2


def test_the_head_of_an_answer_may_say_otherwise_than_the_request() -> None:
    """One asked for a stream and gets JSON, one was taken as unseen and streams after all, one is blinded later."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    steps.arrived("json", Prompt(100, 100), seen=True)
    steps.arrived("streams", Prompt(200, 200), seen=False)
    steps.answering("json", seen=False)
    steps.arrived("later", Prompt(50, 50), seen=True)
    assert steps.began("later", 0.01, 1) is not None
    assert steps.began("streams", 0.01, 1) is not None
    steps.answering("later", seen=False)
    for at in (0.02, 0.03, 0.04):
        stream.spoke(at, 1)

    prompts, *_ = (each.prompts for each in steps.take(KEPT_ENDED_STEPS) if each.prompts)
    assert prompts == (Prompt(100, 100), Prompt(200, 200), Prompt(50, 50))
    assert steps.stream("streams") is not None
    assert steps.stream("later") is None
    for key in ("a", "json", "streams", "later"):
        steps.left(key)
    assert steps.context_tokens == 0.0


def test_the_step_in_which_a_held_answer_ends_has_no_length_and_its_tokens_are_not_covered() -> None:
    """It decoded unseen among the steps before: what they add up to ends there, and the next ones know of its tokens."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    stream.spoke(0.01, 1)
    steps.arrived("held", Prompt(500, 500), seen=True)
    for number in range(2, 100):
        stream.spoke(number * 0.01, 1)
    steps.began("held", 0.99, 1)
    steps.left("held")
    steps.held_back(60)
    for number in range(100, 1200):
        stream.spoke(number * 0.01, 1)

    found = steps.take(KEPT_ENDED_STEPS)
    before, ended, after = found[:98], found[98], found[99:]

    assert [round(each.ended_at, 2) for each in (before[-1], ended, after[0])] == [0.98, 0.99, 1.0]
    assert ended.seconds is None
    assert {each.coverage for each in before} == {1.0}
    assert all(each.seconds == pytest.approx(0.01) for each in (*before, *after))
    assert sum(1 / each.coverage - 1 for each in found) == pytest.approx(60, rel=0.01)
    assert after[-1].coverage == pytest.approx(1.0, abs=0.01)


def test_a_held_answer_among_no_streams_leaves_the_coverage_to_the_next_ones() -> None:
    steps = Steps()
    begun(steps, "held", 1.0)
    steps.left("held")
    steps.held_back(60)
    begun(steps, "held too", 2.0)
    steps.left("held too")
    steps.held_back(60)
    begun(steps, "later", 3.0)

    assert [(each.seconds, each.coverage) for each in steps.take(KEPT_ENDED_STEPS)] == [(None, 1.0)]


def test_two_schedulers_behind_one_port_show_in_the_coverage() -> None:
    steps = Steps()
    ours, theirs = begun(steps, "a", 0.0), begun(steps, "b", 0.005)
    for number in range(1, 20):
        ours.spoke(number * 0.01, 1)
        theirs.spoke(number * 0.01 + 0.005, 1)

    assert {each.coverage for each in steps.take(KEPT_ENDED_STEPS)[3:]} == {0.5}


def test_what_is_not_known_is_left_alone() -> None:
    steps = Steps()
    steps.left("never came")
    steps.paused("never came", paused=True)

    assert steps.began("never came", 1.0, 1) is None
    assert steps.take(KEPT_ENDED_STEPS) == []


def test_steps_that_are_not_taken_do_not_pile_up() -> None:
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    for number in range(KEPT_ENDED_STEPS + 100):
        stream.spoke(0.01 * (number + 1), 1)

    assert len(steps.take(KEPT_ENDED_STEPS)) == KEPT_ENDED_STEPS
    assert steps.take(KEPT_ENDED_STEPS) == []


def test_prompts_do_not_pile_up_where_no_answer_is_streamed() -> None:
    """A pod whose clients never stream keeps a bounded number of prompts, and its first streams have steps all the same."""
    steps = Steps()
    stream = begun(steps, "a", 0.0)
    for at in (0.01, 0.02):
        stream.spoke(at, 1)
    steps.left("a")
    for number in range(MOST_PROMPTS + 100):
        steps.arrived(number, Prompt(100, 100), seen=False)
        steps.left(number)
    stream = begun(steps, "b", 5.0)
    for at in (5.01, 5.02):
        stream.spoke(at, 1)

    ended = steps.take(KEPT_ENDED_STEPS)
    assert max(len(step.prompts) for step in ended) == MOST_PROMPTS
    assert ended[-1].seconds == pytest.approx(0.01)
    assert ended[-1].prompts == ()


def test_the_steps_of_a_busy_engine_are_those_that_it_made() -> None:
    """Against the simulator: every pure step is as long as a step of its batch, and instants never go back."""
    engine = SteppedEngine(traffic(60.0, 2.0))
    engine.until(100.0)

    pure = [step for step in engine.seen if step.pure and step.seconds is not None]
    assert len(pure) > 500
    assert all(one.ended_at < two.ended_at for one, two in pairwise(engine.seen))
    for step in pure:
        assert step.seconds == pytest.approx(_cost(step), rel=0.02)


def _cost(step: Step) -> float:
    return COSTS.decode(step.sequences, round(step.context_tokens))


def test_an_engine_with_one_request_at_a_time_has_steps_too() -> None:
    engine = SteppedEngine([Arrival(at * 10.0, 500, 50) for at in range(5)])
    engine.until(100.0)

    assert sum(step.seconds is not None for step in engine.seen) >= 5 * 47


# --- lengths of prompts that are not known yet ------------------------------------------------------------------------------


def with_unknown_length(steps: Steps) -> list[tuple[int, bool]]:
    """A request of unknown length answers beside one of 100 tokens, leaves after its last token, and the other one goes on.

    Returns of each step the sequences, and whether it is known how much they had to do.
    """
    known = begun(steps, "known", 0.0)
    steps.arrived("unknown", Prompt(1.0, 1.0), seen=True, length_known=False)
    unknown = steps.began("unknown", 0.1, 1)
    assert unknown is not None
    for at in (0.1, 0.2, 0.3):
        known.spoke(at, 1)
        unknown.spoke(at + 0.0001, 1)
    steps.left("unknown")
    for at in (0.4, 0.5, 0.6):
        known.spoke(at, 1)
    steps.left("known")
    return [(step.sequences, step.counted) for step in steps.take(100)]


def test_a_step_of_a_prompt_whose_length_is_not_known_yet_says_so_to_its_last_token() -> None:
    """A sidecar with restored costs took its first contexts as empty, and the engine as one that had become dearer."""
    told = with_unknown_length(Steps())

    assert {counted for sequences, counted in told if sequences == 2} == {False}
    assert {counted for sequences, counted in told[-2:]} == {True}


def test_where_no_usage_ever_tells_lengths_steps_are_taken_as_they_are_after_a_while() -> None:
    """Lengths that no answer of many has told will not be told; costs without them are better than none."""
    steps = Steps()
    for number in range(UNCOUNTED_REQUESTS):
        steps.arrived(number, Prompt(1.0, 1.0), seen=True, length_known=False)
        steps.left(number)
    steps.take(UNCOUNTED_REQUESTS)

    assert all(counted for _, counted in with_unknown_length(steps))


def test_refused_requests_do_not_shorten_the_wait_for_lengths() -> None:
    """An engine that still loads refuses forty, and has told no length by that."""
    steps = Steps()
    for number in range(UNCOUNTED_REQUESTS):
        steps.left(f"never arrived {number}")
        steps.arrived(number, Prompt(1.0, 1.0), seen=True, length_known=False)
        steps.left(number, answered=False)

    assert not all(counted for _, counted in with_unknown_length(steps))


def test_of_many_requests_at_once_the_last_ones_still_have_no_known_length() -> None:
    """A busy engine ends forty of them while others go on that came when no length was known yet."""
    steps = Steps()
    for number in range(UNCOUNTED_REQUESTS + 2):
        steps.arrived(number, Prompt(1.0, 1.0), seen=True, length_known=False)
    slow = steps.began(UNCOUNTED_REQUESTS, 0.0, 1)
    assert slow is not None
    for number in range(UNCOUNTED_REQUESTS):
        steps.left(number)
    for at in (0.1, 0.2, 0.3):
        slow.spoke(at, 1)

    assert {step.counted for step in steps.take(100)} == {False}
