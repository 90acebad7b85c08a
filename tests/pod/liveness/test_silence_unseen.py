"""Answers whose output cannot be seen as it comes: for how long they explain a silence, and when they stop."""

import pytest

from sidecar.pod.liveness.silence import UNKNOWN_ANSWER_SECONDS
from tests.pod.liveness.silent_engine import Engine


@pytest.mark.parametrize(("answer", "excused"), [(40.0, 40.0), (300.0, 300.0), (None, UNKNOWN_ANSWER_SECONDS)])
def test_a_whole_answer_explains_for_as_long_as_it_may_take_why_those_who_wait_get_nothing(
    answer: float | None, excused: float
) -> None:
    """The engine may be busy with the whole answer: for its E2E threshold, else a minute. Any silence beyond is a
    stall.
    """
    engine = Engine()
    engine.asked(90.0, "whole", streaming=False, answer=answer)
    engine.asked(100.0, "waits")

    assert engine.checked(100.0 + excused) == (0.0, 0.0)
    assert UNKNOWN_ANSWER_SECONDS == 60
    assert engine.checked(101.0 + excused) == (1.0 + excused, 0.2)
    assert engine.stalled(107.0 + excused) == 7.0


def test_a_silence_that_only_an_unseen_answer_may_explain_is_told_apart() -> None:
    """The prompt of the stream explains 6 s of it."""
    engine = Engine()
    engine.asked(90.0, "whole", streaming=False, cost=0.0)
    engine.asked(100.0, "waits", cost=2.0)

    assert engine.unseen(106.0) == 0.0
    assert engine.unseen(116.0) == 10.0
    assert engine.checked(116.0) == (0.0, 0.0)
    assert engine.unseen(161.0) == 0.0
    assert engine.checked(161.0) == (61.0, 2.0)


def test_an_answer_that_comes_whole_waits_for_itself_alone() -> None:
    engine = Engine()
    engine.asked(100.0, "whole", cost=0.0, whole=True)
    assert engine.unseen(120.0) == 0.0

    engine.asked(120.0, "waits")
    assert engine.unseen(130.0) == 30.0


def test_its_own_prefill_may_be_longer_than_its_promise() -> None:
    engine = Engine()
    engine.asked(100.0, "whole", streaming=False, cost=30.0, answer=40.0)
    engine.asked(100.0, "waits", cost=0.0)

    assert engine.stalled(190.0) == 0.0
    assert engine.stalled(191.0) == 1.0


def test_a_hang_shows_although_an_unstreamed_request_is_in_flight() -> None:
    """For an hour a hundred streams wait beside an unstreamed request: all but the minute of its answer is a stall."""
    engine = Engine()
    engine.asked(0.0, "whole", streaming=False)
    for number in range(100):
        engine.asked(number * 0.01, f"{number}")
    for second in range(2, 3600):
        engine.silence.check(float(second))

    assert engine.stalled(3600.0) == 3540.0


def test_whole_answers_that_are_asked_for_in_a_hang_and_given_up_do_not_hide_it() -> None:
    """One comes each second and its client waits for ten: neither its arrival nor its end is a sign of life."""
    engine = Engine()
    engine.asked(100.0, "waits")
    for second in range(300):
        engine.asked(100.5 + second, f"{second}", streaming=False, answer=30.0)
        engine.silence.given_up(f"{second - 10}", 100.5 + second)

    assert engine.stalled(400.0) == 292.0


def test_one_that_was_given_up_excuses_nothing_from_then_on() -> None:
    engine = Engine()
    engine.asked(100.0, "whole", streaming=False, answer=300.0)
    engine.asked(100.0, "waits")
    engine.silence.given_up("whole", 150.0)

    assert engine.checked(160.0) == (60.0, 0.2)
    assert engine.stalled(160.0) == 10.0


def test_it_does_not_explain_why_a_stream_that_has_begun_gets_nothing() -> None:
    """A begun stream has a token at every step; only prompts in prefill delay it, the whole answer's included."""
    engine = Engine()
    engine.streams(100.0, "stream")
    engine.asked(100.0, "whole", streaming=False, cost=4.0)
    engine.silence.spoke(100.5)

    assert engine.checked(110.5) == (10.0, 4.0)
    assert engine.stalled(112.5) == 0.0
    assert engine.stalled(120.5) == 8.0


def test_a_begun_stream_whose_client_is_slow_is_owed_nothing() -> None:
    engine = Engine()
    engine.streams(100.0, "stream")
    engine.asked(100.0, "waits")
    engine.asked(100.0, "whole", streaming=False, answer=300.0)
    engine.silence.paused("stream", 101.0)

    assert engine.checked(200.0) == (0.0, 0.0)
    engine.silence.resumed("stream", 200.0)
    assert engine.stalled(203.0) == 3.0


def test_when_the_whole_answer_has_come_the_silence_begins_anew() -> None:
    """A stream that waited behind it for a slot is no evidence of a hang; without output 3 x its cost later, it is."""
    engine = Engine()
    engine.asked(100.0, "whole", streaming=False)
    engine.asked(101.0, "stream", cost=4.0)
    engine.silence.left("whole", 160.0)

    assert engine.checked(170.0) == (10.0, 4.0)
    assert engine.stalled(172.0) == 0.0
    assert engine.stalled(173.0) == 1.0


def test_one_of_two_whole_answers_is_not_both() -> None:
    engine = Engine()
    engine.asked(100.0, "waits")
    engine.asked(100.0, "first", streaming=False)
    engine.asked(100.0, "second", streaming=False, answer=300.0)
    engine.silence.left("first", 101.0)

    assert engine.checked(200.0) == (0.0, 0.0)


@pytest.mark.parametrize("by_its_head", [True, False])
def test_who_streams_after_all_is_heard_from_then_on(by_its_head: bool) -> None:
    """This is shown by the answer's head, while its prompt is still pending, or by its first output, when it is not."""
    engine = Engine()
    engine.asked(100.0, "a", streaming=False, cost=1.0)
    if by_its_head:
        engine.silence.answering("a", 130.0, streaming=True)
    else:
        engine.silence.began("a", 130.0)

    assert engine.checked(140.0) == (10.0, 1.0 if by_its_head else 0.0)
    assert engine.stalled(140.0) == 2.0


def test_who_cannot_be_read_after_all_explains_a_minute() -> None:
    """Such are a compressed answer, and a request with an observer that failed."""
    engine = Engine()
    engine.asked(100.0, "a")
    engine.asked(100.0, "b")
    engine.silence.answering("a", 101.0, streaming=False)

    assert engine.checked(161.0) == (0.0, 0.0)
    assert engine.stalled(163.0) == 2.0
    engine.silence.left("a", 200.0)
    assert engine.checked(203.0) == (3.0, 0.1)


def test_a_stall_that_such_a_head_ends_has_been_one() -> None:
    engine = Engine()
    engine.asked(100.0, "a")
    engine.silence.answering("a", 110.0, streaming=False)

    assert engine.stalled(200.0) == 2.0


def test_an_expected_head_changes_nothing() -> None:
    engine = Engine()
    engine.asked(100.0, "stream")
    engine.asked(100.0, "whole", streaming=False)
    engine.silence.answering("stream", 105.0, streaming=True)
    engine.silence.answering("whole", 105.0, streaming=False)
    engine.silence.answering("unknown", 105.0, streaming=False)
    engine.silence.left("whole", 106.0)

    assert engine.checked(110.0) == (4.0, 0.1)


# --- streams that come whole ---------------------------------------------------------------------------------------------


def test_a_stream_that_probably_comes_whole_explains_its_own_silence() -> None:
    """Answers with tools are held back until they are complete: 40 s after each other, one at a time or two."""
    engine = Engine()
    for number in range(20):
        engine.asked(40.0 * number, f"{number}", whole=True)
        engine.silence.answering(f"{number}", 40.0 * number + 0.1, streaming=True)
        if number:
            engine.silence.began(f"{number - 1}", 40.0 * number + 20.0)
            engine.silence.left(f"{number - 1}", 40.0 * number + 20.0)

    assert engine.checked(790.0) == (0.0, 0.0)
    assert engine.stalled(790.0) == 0.0


@pytest.mark.parametrize(("answer", "excused"), [(300.0, 300.0), (None, UNKNOWN_ANSWER_SECONDS)])
def test_a_hang_shows_although_all_answers_come_whole(answer: float | None, excused: float) -> None:
    """Nothing else is in flight: whatever is beyond the time that the answer may take is a stall."""
    engine = Engine()
    for number in range(10):
        engine.asked(100.0 + number, f"{number}", whole=True, answer=answer)

    assert engine.stalled(100.0 + excused) == 0.0
    assert engine.checked(107.0 + excused) == (7.0 + excused, 0.1)
    assert engine.stalled(107.0 + excused) == 7.0


def test_it_does_not_explain_the_silence_of_a_stream_that_has_begun() -> None:
    engine = Engine()
    engine.streams(100.0, "stream")
    engine.asked(100.0, "whole", whole=True)
    engine.silence.spoke(100.5)

    assert engine.stalled(112.5) == 4.0


def test_it_may_be_no_stream_at_all_or_be_given_up() -> None:
    """Then it is unseen, or nothing; no prefill is counted twice, and nothing is left of either."""
    engine = Engine()
    engine.asked(100.0, "json", cost=0.5, whole=True)
    engine.asked(100.0, "given up", cost=3.0, whole=True)
    engine.asked(100.0, "waits", cost=4.0)
    engine.silence.answering("json", 101.0, streaming=False)

    assert engine.checked(162.0) == (61.0, 7.5)
    engine.silence.left("json", 170.0)
    engine.silence.given_up("given up", 170.0)
    assert engine.checked(171.0) == (1.0, 7.0)
    engine.silence.left("waits", 172.0)
    assert engine.checked(1000.0) == (0.0, 0.0)
    assert not engine.silence._opaque
