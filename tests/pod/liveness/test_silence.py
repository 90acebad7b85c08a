"""A silence is not a hang: which pending work explains one, on both sides of every edge, with a fake clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.pod.liveness.silence import BATCH_SECONDS, EXCUSE, STALL_SECONDS, UNKNOWN_SECONDS
from tests.pod.liveness.silent_engine import Engine


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


def test_prompts_of_unknown_cost_are_one_long_one_together() -> None:
    """Each for itself, ten waiting prompts would excuse a hang of ten minutes."""
    engine = Engine()
    for key in "abcdefghij":
        engine.asked(100.0, key, cost=None)
    assert engine.checked(101.0) == (1.0, UNKNOWN_SECONDS)


def test_where_some_cost_is_known_one_that_is_not_is_taken_as_a_batch() -> None:
    engine = Engine()
    engine.asked(100.0, "known", cost=2.0)
    for key in "abcdefghij":
        engine.asked(100.0, key, cost=None)
    engine.silence.began("a", 101.0)
    assert engine.checked(102.0) == (1.0, BATCH_SECONDS)

    for key in "bcdefghij":
        engine.silence.began(key, 103.0)
    assert engine.checked(104.0) == (1.0, 2.0)


def test_many_prompts_that_wait_count_as_one_batch() -> None:
    """They come out one after the other: a hundred of a second each explain no silence of a hundred seconds."""
    engine = Engine()
    for key in range(100):
        engine.asked(100.0, f"{key}", cost=1.0)
    assert engine.checked(101.0)[1] == 1.0, "one was pending when the silence began"

    engine.silence.spoke(102.0)
    assert engine.checked(103.0) == (1.0, BATCH_SECONDS)
    for key in range(95):
        engine.silence.began(f"{key}", 104.0)
    assert engine.checked(105.0) == (1.0, 5.0)


def test_one_very_long_prompt_counts_in_full() -> None:
    """A prompt that may take three minutes explains three minutes, and the next ones nothing more. So does one whose output
    will not be seen."""
    engine = Engine()
    for key, most in (("long", 173.0), ("a", 5.0), ("b", 5.0)):
        engine.asked(100.0, key, cost=most)
    engine.silence.spoke(101.0)
    assert engine.checked(102.0) == (1.0, 173.0)

    for key in ("long", "a", "b"):
        engine.silence.began(key, 103.0)
    for key in "cdefgh":
        engine.asked(104.0, key, cost=5.0)
    engine.silence.spoke(105.0)
    assert engine.checked(106.0) == (1.0, BATCH_SECONDS)

    engine.asked(106.5, "very long", cost=90.0)
    engine.silence.began("very long", 106.6)
    engine.silence.spoke(106.7)
    assert engine.checked(106.8)[1] == BATCH_SECONDS, "others still wait, and none of them is so long"

    engine.asked(107.0, "unseen", cost=90.0, streaming=False)
    engine.silence.spoke(108.0)
    assert engine.checked(109.0)[1] == 90.0


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


_VERBS = (
    *("asked", "unseen", "whole", "began", "spoke", "paused", "resumed", "answering", "opaque", "left", "given_up"),
    "check",
)


@given(st.lists(st.tuples(st.sampled_from(_VERBS), st.integers(0, 3), st.floats(0, 20)), max_size=60))
def test_no_order_of_calls_leaves_a_request_behind(told: list[tuple[str, int, float]]) -> None:
    """The total never falls, only a stream that is read can be silent, and all tables are empty at the end."""
    engine, now, total = Engine(), 100.0, 0.0
    silence = engine.silence
    inside: set[str] = set()

    for verb, number, later in told:
        now, key = now + later, f"{number}"
        if verb in ("asked", "unseen", "whole") and key not in inside:
            inside.add(key)
            engine.asked(now, key, cost=later, streaming=verb != "unseen", whole=verb == "whole")
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
        assert silence._heard & silence._paused == set()
        assert silence._opaque.keys() & (silence._heard | silence._paused) <= silence._pending.keys()
        assert silent == 0 or inside
    for key in inside:
        silence.left(key, now)

    tables = (silence._pending, silence._heard, silence._paused, silence._opaque)
    assert [len(table) for table in tables] == [0, 0, 0, 0]
    assert silence._pending_seconds == silence._longest == 0.0
    assert engine.checked(now + 1e6) == (0.0, 0.0)


def looked_at(engine: Engine, began_at: float, ended_at: float) -> None:
    """The sidecar looks once a second from one instant to the other."""
    for second in range(round(ended_at - began_at) + 1):
        engine.silence.flow(began_at + second)


def test_the_time_in_which_the_sidecar_stood_still_is_no_silence_and_no_stall() -> None:
    """Stopped for a minute, three seconds after the last output; its own standstill is not the engine's."""
    engine = Engine()
    engine.streams(100.0, "a")
    looked_at(engine, 100.0, 103.0)

    assert engine.checked(163.0) == (3.0, 0.0)
    looked_at(engine, 163.0, 168.0)
    assert engine.stalled(168.0) == 0.0
    assert engine.stalled(169.0) == 1.0


def test_output_that_is_read_first_after_a_standstill_ends_no_stall() -> None:
    """The loop reads what has come before it looks."""
    engine = Engine()
    engine.streams(100.0, "a")
    looked_at(engine, 100.0, 103.0)
    engine.silence.spoke(163.0)

    assert engine.stalled(164.0) == 0.0
    assert engine.checked(164.0) == (1.0, 0.0)


def test_a_silence_that_began_after_the_last_look_began_at_the_latest_when_the_sidecar_woke() -> None:
    engine = Engine()
    looked_at(engine, 90.0, 100.0)
    engine.streams(100.5, "a")

    assert engine.checked(160.0) == (0.0, 0.0)


def test_an_engine_without_a_silence_keeps_none_when_the_sidecar_stood_still() -> None:
    engine = Engine()
    looked_at(engine, 100.0, 103.0)

    assert engine.checked(200.0) == (0.0, 0.0)
