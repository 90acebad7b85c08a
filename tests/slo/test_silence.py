"""A silence is not a hang: which pending work explains one, on both sides of every edge, with a fake clock."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.slo.silence import EXCUSE, STALL_SECONDS, UNKNOWN_ANSWER_SECONDS, UNKNOWN_SECONDS, Silence


class Engine:
    """A `Silence` with methods that take the instant first. Prefill costs are 0.1 s unless said otherwise."""

    def __init__(self) -> None:
        self.silence = Silence()

    def asked(
        self, at: float, key: str, *, cost: float | None = 0.1, streaming: bool = True, answer: float | None = None
    ) -> None:
        self.silence.received(key, at, streaming=streaming, cost_seconds=cost, answer_seconds=answer)

    def streams(self, at: float, key: str) -> None:
        """A request that has its first output at this instant."""
        self.asked(at, key)
        self.silence.began(key, at)

    def checked(self, at: float) -> tuple[float, float]:
        """(seconds silent, seconds of prefill work that were pending when the silence began)."""
        seconds, expected = astuple(self.silence.check(at))
        return round(seconds, 9), round(expected, 9)

    def stalled(self, at: float) -> float:
        self.silence.check(at)
        return round(self.silence.stalled_seconds, 9)


def test_an_idle_engine_is_not_silent() -> None:
    engine = Engine()
    assert engine.checked(1000.0) == (0.0, 0.0)

    engine.streams(1000.0, "a")
    engine.silence.left("a", 1001.0)

    assert engine.checked(2000.0) == (0.0, 0.0)
    assert engine.stalled(2000.0) == 0.0


@pytest.mark.parametrize(("at", "stalled"), [(108.0, 0.0), (108.5, 0.5), (130.0, 22.0)])
def test_eight_seconds_of_silence_are_no_stall_and_what_comes_after_is(at: float, stalled: float) -> None:
    engine = Engine()
    engine.streams(100.0, "a")

    assert engine.stalled(at) == stalled
    assert STALL_SECONDS == 8


@pytest.mark.parametrize(("at", "stalled"), [(130.0, 0.0), (131.0, 1.0)])
def test_three_times_the_work_that_was_pending_is_no_stall(at: float, stalled: float) -> None:
    """The only request is a prompt with ten seconds of prefill."""
    engine = Engine()
    engine.asked(100.0, "long", cost=10.0)

    assert engine.checked(at) == (at - 100.0, 10.0)
    assert engine.stalled(at) == stalled
    assert EXCUSE == 3


def test_a_long_prompt_in_prefill_excuses_the_streams_beside_it() -> None:
    """Without chunked prefill: the prompt came while another streamed, and the silence began at the last token."""
    engine = Engine()
    engine.streams(100.0, "stream")
    engine.asked(100.5, "long", cost=10.0)
    engine.silence.spoke(100.6)

    assert engine.checked(130.0) == (29.4, 10.0)
    assert engine.stalled(130.6) == 0.0
    assert engine.stalled(131.6) == 1.0


def test_work_that_came_later_does_not_excuse() -> None:
    """Work piles up while an engine hangs, so work that came after the silence began explains nothing."""
    engine = Engine()
    engine.streams(100.0, "stream")
    engine.silence.spoke(101.0)
    for second in range(20):
        engine.asked(102.0 + second, f"{second}", cost=10.0)

    assert engine.checked(131.0) == (30.0, 0.0)
    assert engine.stalled(131.0) == 22.0


def test_all_that_was_pending_excuses_together() -> None:
    """A request that has had its first output, or has left, is no longer pending."""
    engine = Engine()
    for key, cost in (("a", 2.0), ("b", 3.0), ("c", 4.0), ("gone", 50.0)):
        engine.asked(100.0, key, cost=cost)
    engine.silence.left("gone", 101.0)
    engine.silence.began("a", 102.0)

    assert engine.checked(110.0) == (8.0, 7.0)


def test_a_prompt_of_unknown_cost_is_taken_as_a_long_one() -> None:
    """An unknown cost is assumed to be 20 s, so that the engine is accused late: after a minute."""
    engine = Engine()
    engine.asked(100.0, "a", cost=None)

    assert engine.checked(101.0) == (1.0, UNKNOWN_SECONDS)
    assert engine.stalled(160.0) == 0.0
    assert engine.stalled(161.0) == 1.0


def test_output_of_any_request_ends_a_silence() -> None:
    engine = Engine()
    engine.streams(100.0, "a")
    engine.streams(105.0, "b")
    engine.silence.spoke(107.0)

    assert engine.checked(110.0) == (3.0, 0.0)


# --- slow clients --------------------------------------------------------------------------------------------------------


def test_a_client_that_does_not_read_is_not_spoken_to() -> None:
    """The only stream is paused for ten minutes; the silence begins when the sidecar reads again."""
    engine = Engine()
    engine.streams(100.0, "a")
    engine.silence.paused("a", 101.0)
    assert engine.checked(700.0) == (0.0, 0.0)

    engine.silence.resumed("a", 700.0)

    assert engine.checked(705.0) == (5.0, 0.0)
    assert engine.stalled(709.0) == 1.0


def test_what_was_read_before_the_pause_may_be_told_after_it() -> None:
    """The write of a read fills the client's socket: the pause is reported before the output. That starts no silence."""
    engine = Engine()
    engine.streams(100.0, "a")
    engine.silence.paused("a", 101.0)
    engine.silence.spoke(101.0)

    assert engine.checked(200.0) == (0.0, 0.0)


def test_a_first_token_that_fills_the_socket_starts_no_silence_either() -> None:
    engine = Engine()
    engine.asked(100.0, "a")
    engine.silence.paused("a", 101.0)
    engine.silence.began("a", 101.0)

    assert engine.checked(200.0) == (0.0, 0.0)


def test_one_slow_client_excuses_no_other_stream() -> None:
    engine = Engine()
    engine.streams(100.0, "slow")
    engine.streams(100.0, "quick")
    engine.silence.paused("slow", 101.0)

    assert engine.checked(120.0) == (20.0, 0.0)
    assert engine.stalled(120.0) == 12.0


def test_a_stall_that_a_pause_ends_has_been_one() -> None:
    engine = Engine()
    engine.streams(100.0, "a")
    engine.silence.paused("a", 110.0)

    assert engine.stalled(200.0) == 2.0


def test_who_left_while_paused_is_forgotten() -> None:
    """A late resume does not bring it back."""
    engine = Engine()
    engine.streams(100.0, "a")
    engine.silence.paused("a", 101.0)
    engine.silence.left("a", 102.0)
    engine.silence.resumed("a", 103.0)

    assert engine.checked(200.0) == (0.0, 0.0)


# # --- unseen requests
# ---------------------------------------------------------------------------------------------------


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


# --- the total -----------------------------------------------------------------------------------------------------------


def test_a_stall_is_counted_once_and_whole_however_often_it_is_read() -> None:
    """The total is read in the middle, and output ends the stall later: all twelve seconds beyond eight count once."""
    rarely, often = Engine(), Engine()
    for engine in (rarely, often):
        engine.streams(100.0, "a")
    for second in range(17):
        often.silence.check(101.0 + second)
    for engine in (rarely, often):
        engine.silence.spoke(120.0)

    assert (rarely.stalled(121.0), often.stalled(121.0)) == (12.0, 12.0)


def test_a_first_token_that_ends_a_stall_counts_it() -> None:
    """The token is that of a second request, which came while the engine hung."""
    engine = Engine()
    engine.streams(100.0, "a")
    engine.asked(101.0, "b")
    engine.silence.began("b", 120.0)

    assert engine.stalled(121.0) == 12.0


def test_an_end_ends_a_stall_too() -> None:
    """Its client gave up, and no other request is in flight."""
    engine = Engine()
    engine.streams(100.0, "a")
    engine.silence.left("a", 118.0)

    assert engine.stalled(500.0) == 10.0


_VERBS = ("asked", "whole", "began", "spoke", "paused", "resumed", "answering", "opaque", "left", "given_up", "check")


@given(st.lists(st.tuples(st.sampled_from(_VERBS), st.integers(0, 3), st.floats(0, 20)), max_size=60))
def test_no_order_of_calls_leaves_a_request_behind(told: list[tuple[str, int, float]]) -> None:
    """The total never falls, only a stream that is read can be silent, and all tables are empty at the end."""
    engine, now, total = Engine(), 100.0, 0.0
    silence = engine.silence
    inside: set[str] = set()

    for verb, number, later in told:
        now, key = now + later, f"{number}"
        if verb in ("asked", "whole") and key not in inside:
            inside.add(key)
            engine.asked(now, key, cost=later, streaming=verb == "asked")
        elif verb in ("answering", "opaque"):
            silence.answering(key, now, streaming=verb == "answering")
        elif verb == "spoke":
            silence.spoke(now)
        elif verb == "began" and key in inside:
            silence.began(key, now)
        elif verb in ("paused", "resumed", "left", "given_up"):
            getattr(silence, verb)(key, now)
            inside -= {key} if verb in ("left", "given_up") else set()
        silent, _ = engine.checked(now)
        assert silence.stalled_seconds >= total
        total = silence.stalled_seconds
        assert (silence._since is not None) == bool(silence._heard)
        assert (silence._heard | silence._opaque.keys()) & silence._paused == set()
        assert silent == 0 or inside
    for key in inside:
        silence.left(key, now)

    tables = (silence._pending, silence._heard, silence._paused, silence._opaque)
    assert [len(table) for table in tables] == [0, 0, 0, 0]
    assert (silence._pending_seconds, engine.checked(now + 1e6)) == (0.0, (0.0, 0.0))
