"""Progress by a fake clock: a stall is claimed only when the silence exceeds its work, and every doubt speaks against one."""

import pytest

from sidecar.pod.liveness.progress import (
    KEPT_SECONDS,
    LATE_KEPT_SECONDS,
    PROVEN_SECONDS,
    YOUNG_SECONDS,
    ForwardProgress,
    Progress,
    State,
)
from sidecar.pod.liveness.silence import STALL_SECONDS, UNKNOWN_SECONDS
from tests.pod.liveness.silent_engine import Engine


AT = 1000.0
"""The process is old by then."""


class Watched(Engine):
    """An engine whose progress is looked at once a second, by a clock that begins at AT."""

    def __init__(self, *, counted: bool = True, loads: bool = False) -> None:
        super().__init__()
        self.counted, self.loads = counted, loads
        self.forward = ForwardProgress(AT - 2 * YOUNG_SECONDS)
        self.at = AT - YOUNG_SECONDS / 2
        self.grew_at = float("-inf")
        self.passes(YOUNG_SECONDS / 2)

    def look(self, doubt: str | None = None) -> Progress:
        flow = self.silence.flow(self.at)
        return self.forward.look(
            self.at, flow, counted=self.counted, grew_at=self.grew_at, loads=self.loads, doubt=doubt
        )

    def passes(self, seconds: float, doubt: str | None = None) -> Progress:
        """Time passes, with a look each second. Returns the last one."""
        until = self.at + seconds
        found = self.look(doubt)
        while self.at < until:
            self.at = min(until, self.at + 1.0)
            found = self.look(doubt)
        return found

    def stands_still(self, seconds: float) -> Progress:
        """The sidecar itself does not run for so long. Returns the first look after that."""
        self.at += seconds
        return self.look()


def hanging(*, counted: bool = True) -> Watched:
    """An engine that sends nothing to the only stream any more, since AT."""
    engine = Watched(counted=counted)
    engine.streams(AT, "a")
    return engine


# --- a stall -------------------------------------------------------------------------------------------------------------


def test_a_stream_that_gets_no_more_output_shows_a_stall_after_eight_seconds() -> None:
    engine = hanging()

    assert engine.passes(STALL_SECONDS).state is State.FINE
    found = engine.passes(1.0)
    assert found == Progress(
        State.STALLED,
        "the engine has stopped in the middle of its work: no output for 9 s, its pending work explains 8 s",
        silent_seconds=9.0,
        explained_seconds=8.0,
        beyond_seconds=1.0,
    )


def test_the_stall_is_proven_after_thirty_seconds_beyond_the_work() -> None:
    engine = hanging()

    assert not engine.passes(STALL_SECONDS + PROVEN_SECONDS - 1.0).proven
    assert engine.passes(1.0).proven


def test_a_prompt_of_known_cost_explains_three_times_its_prefill() -> None:
    engine = Watched()
    engine.asked(AT, "long", cost=20.0)

    assert engine.passes(60.0).state is State.FINE
    assert engine.look().reason == "silent for 60 s: its pending prompts explain 60 s"
    assert engine.passes(1.0).stalled


def test_prompts_of_unknown_cost_explain_a_minute() -> None:
    engine = Watched()
    engine.asked(AT, "first", cost=None)
    engine.asked(AT, "second", cost=None)

    assert not engine.passes(3 * UNKNOWN_SECONDS).stalled
    assert engine.passes(1.0).stalled


def test_output_ends_a_stall() -> None:
    engine = hanging()
    assert engine.passes(60.0).proven
    engine.silence.spoke(engine.at)

    assert engine.passes(1.0) == Progress(State.FINE, "no output is overdue", silent_seconds=1.0, explained_seconds=8.0)


def test_a_stall_stays_when_its_clients_give_up() -> None:
    """Nothing pends any more, and nothing has shown life: the pod must not get traffic again at once. After a while it may."""
    engine = hanging()
    engine.passes(20.0)
    engine.silence.given_up("a", engine.at)
    kept = engine.passes(KEPT_SECONDS)
    away = engine.forward.keeps_away(engine.at, 60.0)
    over = engine.passes(1.0)

    assert (kept.state, kept.silent_seconds, kept.beyond_seconds) == (State.STALLED, 0.0, 12.0)
    assert kept.reason == (
        "the engine has stopped in the middle of its work: no output for 20 s, it has shown no life since"
    )
    assert (away, over.stalled, engine.forward.keeps_away(engine.at, 60.0)) == (True, True, False)


def test_clients_who_give_up_one_after_the_other_prove_a_stall_together() -> None:
    """Each waits 20 s, and the silence of each beyond its work counts; the time between two visits proves nothing."""
    engine = Watched()
    found = []
    for visit in range(3):
        engine.asked(engine.at, f"{visit}")
        if visit == 0:
            engine.silence.began("0", engine.at)  # the others wait for their first output
        found.append(engine.passes(20.0).proven)
        engine.silence.given_up(f"{visit}", engine.at)
        engine.passes(10.0)

    assert found == [False, False, True]


def test_streams_without_a_first_output_prove_nothing_however_long() -> None:
    """The engine may prepare a request: compile its grammar, load its adapter. The stall is told, and restarts nothing."""
    engine = Watched()
    engine.asked(AT, "waits")
    found = engine.passes(600.0)

    assert (found.stalled, found.proven, found.beyond_seconds) == (True, False, 0.0)
    assert found.reason.endswith("(not proven: no stream had begun, and the engine may still prepare a first output)")


def test_a_stream_that_stops_beside_one_that_is_prepared_proves_the_stall() -> None:
    engine = hanging()
    engine.asked(AT, "prepared")

    assert engine.passes(60.0).proven


def test_a_stream_whose_server_runs_tools_may_stand_still() -> None:
    """Its output is a sign of life; its silence is the tool's."""
    engine = Watched()
    engine.silence.received("tools", AT, streaming=True, cost_seconds=0.1, pauses=True)
    engine.silence.answering("tools", AT, streaming=True)
    engine.silence.began("tools", AT)

    assert engine.passes(600.0).state is State.UNSURE
    engine.silence.spoke(engine.at)
    engine.silence.left("tools", engine.at)
    assert engine.passes(1.0).state is State.FINE


def test_an_answer_that_is_not_streamed_ends_a_stall() -> None:
    engine = hanging()
    engine.passes(20.0)
    engine.asked(engine.at, "whole", streaming=False)
    assert engine.passes(1.0).stalled
    engine.silence.left("whole", engine.at)

    assert engine.passes(1.0).state is State.FINE


def test_a_refusal_by_the_engines_front_end_does_not_end_a_stall() -> None:
    engine = hanging()
    engine.passes(20.0)
    engine.asked(engine.at, "refused", streaming=False)
    engine.silence.given_up("refused", engine.at)

    assert engine.passes(1.0).stalled


def test_an_engine_that_restarts_has_no_stall_and_time_for_its_first_requests() -> None:
    engine = hanging()
    engine.passes(60.0)
    engine.forward.began(engine.at)

    assert engine.passes(YOUNG_SECONDS - 1.0).state is State.UNSURE
    assert not engine.look().proven


# --- no claim ------------------------------------------------------------------------------------------------------------


def test_an_idle_engine_is_fine_for_hours() -> None:
    engine = Watched()
    engine.streams(AT, "a")
    engine.silence.left("a", AT + 1.0)

    assert engine.passes(3600.0) == Progress(
        State.FINE, "idle: it has no request that the sidecar knows of", explained_seconds=8.0
    )


def test_clients_that_do_not_read_show_nothing() -> None:
    engine = hanging()
    engine.silence.paused("a", AT)

    found = engine.passes(300.0)
    assert (found.state, found.reason) == (State.UNSURE, "the clients of all streams do not read")


def test_requests_whose_output_is_not_seen_show_nothing() -> None:
    engine = Watched()
    engine.asked(AT, "whole", streaming=False)

    found = engine.passes(300.0)
    assert (found.state, found.reason) == (
        State.UNSURE,
        "requests are in flight whose output is not seen before they end",
    )


def test_a_stream_that_waits_beside_an_unseen_request_is_unsure_until_that_may_be_over() -> None:
    """The engine's counts do not grow: it makes no answer at all."""
    engine = Watched()
    engine.asked(AT, "whole", streaming=False, answer=40.0)
    engine.asked(AT, "stream")

    assert engine.passes(40.0).state is State.UNSURE
    assert engine.passes(1.0).stalled


def test_a_stream_behind_a_long_whole_answer_shows_no_stall_while_the_counts_grow() -> None:
    """The whole answer misses its objective of 30 s by far: that is no stall."""
    engine = Watched()
    engine.asked(AT, "whole", streaming=False, answer=30.0)
    engine.asked(AT, "stream")
    states = set()
    for _ in range(60):
        engine.grew_at = engine.at
        states.add(engine.passes(5.0).state)

    assert State.STALLED not in states


def test_an_engine_whose_own_counts_grow_works_whatever_the_wire_shows() -> None:
    """A parser for reasoning or tools may hold back the output of a stream for minutes."""
    engine = hanging()
    states = set()
    for _ in range(40):
        engine.grew_at = engine.at
        states.add(engine.passes(5.0).state)
    grew_until = engine.at

    assert states == {State.FINE}
    assert engine.passes(STALL_SECONDS + 1.0).stalled
    assert engine.at - grew_until < 15.0


def test_a_young_process_makes_no_claim() -> None:
    engine = Engine()
    forward = ForwardProgress(AT)
    engine.streams(AT, "a")
    looks = [forward.look(at, engine.silence.flow(at), counted=True) for at in (AT + second for second in range(31))]

    assert {look.state for look in looks[:-1]} == {State.UNSURE}
    assert looks[0].reason == "the sidecar or the engine has just begun: its first requests may take longer"
    assert looks[-1].stalled


def test_what_the_caller_doubts_is_no_stall() -> None:
    engine = hanging()

    found = engine.passes(100.0, doubt="the sidecar is shutting down (draining)")
    assert (found.state, found.proven) == (State.UNSURE, False)
    assert found.reason == "the sidecar is shutting down (draining)"


def test_the_time_in_which_the_sidecar_itself_stood_still_is_no_silence() -> None:
    """It was stopped for a minute. The output that came meanwhile is read in the next turns of its loop."""
    engine = hanging()
    engine.passes(5.0)
    late = engine.stands_still(60.0)
    engine.silence.spoke(engine.at)

    assert (late.state, late.silent_seconds) == (State.UNSURE, 5.0)
    assert late.reason == "the sidecar's own event loop was late: output may wait to be read"
    assert engine.passes(LATE_KEPT_SECONDS).state is State.FINE


def test_a_stall_outlasts_a_late_loop_but_is_not_proven_by_it() -> None:
    """The claim stays, so that the page is not delayed. No container is restarted by a look that is late."""
    engine = hanging()
    proven = engine.passes(60.0)
    late = engine.stands_still(30.0)
    last = engine.passes(LATE_KEPT_SECONDS - 1.0)
    after = engine.passes(1.0)

    assert [(each.state, each.proven) for each in (proven, late, last, after)] == [
        (State.STALLED, True),
        (State.STALLED, False),
        (State.STALLED, False),
        (State.STALLED, True),
    ]
    assert late.reason.endswith("(not proven: the sidecar's own event loop was late: output may wait to be read)")
    assert (late.beyond_seconds, after.beyond_seconds - proven.beyond_seconds) == (0.0, 1.0)


def test_output_that_waited_in_a_late_loop_ends_a_stall_at_once() -> None:
    engine = hanging()
    engine.passes(60.0)
    engine.stands_still(30.0)
    engine.silence.spoke(engine.at)

    assert not engine.passes(1.0).stalled


# --- an engine whose own count of its output is not read --------------------------------------------------------------------


def test_the_stall_of_an_engine_without_counts_is_told_and_never_proven() -> None:
    engine = hanging(counted=False)
    assert engine.passes(STALL_SECONDS).state is State.FINE
    found = engine.passes(3600.0)

    assert (found.state, found.proven, found.beyond_seconds) == (State.STALLED, False, 0.0)
    assert found.reason.endswith("explains 8 s (not proven: the engine's own count of its output is not read)")


@pytest.mark.parametrize(("cost", "loads"), [(0.1, True), (None, False)])
def test_an_engine_without_counts_has_a_minute_for_a_first_output(cost: float | None, *, loads: bool) -> None:
    """If it may load its model first, although what a prompt costs is known, or if no cost is."""
    engine = Watched(counted=False, loads=loads)
    engine.asked(AT, "after hours", cost=cost)

    assert engine.passes(3 * UNKNOWN_SECONDS).state is State.FINE
    found = engine.passes(1.0)
    assert (found.state, found.explained_seconds, found.proven) == (State.STALLED, 60.0, False)


def test_a_prompt_that_costs_more_than_that_minute_explains_more() -> None:
    engine = Watched(counted=False)
    engine.asked(AT, "long", cost=30.0)

    assert engine.passes(90.0).state is State.FINE


def test_streams_behind_a_whole_answer_of_an_engine_without_counts_show_nothing_until_its_end() -> None:
    """It has one slot, and the whole answer takes ten minutes. Then the next stream has its own time."""
    engine = Watched(counted=False)
    engine.asked(AT, "whole", streaming=False, answer=30.0)
    engine.asked(AT, "stream")
    found = {engine.passes(1.0).state for _ in range(600)}
    unsure = engine.look()
    engine.silence.left("whole", engine.at)

    assert found == {State.FINE, State.UNSURE}
    assert (unsure.state, unsure.reason) == (
        State.UNSURE,
        "requests are in flight whose output is not seen before they end",
    )
    assert engine.passes(STALL_SECONDS).state is State.FINE
    assert engine.passes(1.0).stalled


def test_whole_answers_asked_for_in_a_hang_do_not_hide_it() -> None:
    """They came after the stream that waits, so the engine does not work on them."""
    engine = Watched(counted=False)
    engine.asked(AT, "stream")
    engine.passes(1.0)
    engine.asked(engine.at, "whole", streaming=False)

    assert engine.passes(60.0).stalled


def test_the_proof_begins_with_the_first_count_that_is_read() -> None:
    engine = hanging(counted=False)
    engine.passes(60.0)
    engine.counted = True

    assert engine.passes(PROVEN_SECONDS - 1.0).beyond_seconds == PROVEN_SECONDS - 1.0
    assert engine.passes(1.0).proven


def test_the_answer_of_the_probe_is_plain() -> None:
    engine = hanging()
    engine.passes(8.96)

    assert engine.look().as_json() == {
        "state": "stalled",
        "reason": "the engine has stopped in the middle of its work: no output for 9 s, its pending work explains 8 s",
        "silent_seconds": 9.0,
        "explained_seconds": 8.0,
        "beyond_seconds": 1.0,
    }
