"""Objectives from the wire to the metrics page, in memory: whole requests, and the counters that alerts read."""

import pytest

from sidecar.ledger.account import Reason
from sidecar.ledger.report import EngineReport, KeyedReport, span_key
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.timeline.outcome import Outcome
from tests.support.memory import LIMITS
from tests.support.slo_walk import (
    BUCKETS,
    GENEROUS,
    LAST,
    TOKEN,
    USAGE,
    answer,
    ask,
    event,
    play,
    promising,
    stream,
    tick,
    verdicts,
    votes,
)


# --- whole requests ------------------------------------------------------------------------------------------------------


def test_a_stream_that_keeps_its_promises_is_good() -> None:
    """Counted by lane, and by the bucket known at arrival: `unknown`, because no prompt was counted before."""
    walk = promising(GENEROUS)
    ask(walk, stream=True)
    play(walk)

    assert (verdicts(walk, "ttft"), verdicts(walk, "tpot"), verdicts(walk, "e2e")) == ((1, 0), (1, 0), (0, 0))
    assert walk.value("llm_good_requests_total", lane="interactive", prompt_bucket="unknown") == 1
    assert walk.value("llm_good_output_tokens_total", lane="interactive") == 2
    assert walk.value("llm_token_deadlines_total", lane="interactive") == 2
    assert walk.value("llm_token_deadline_misses_total", lane="interactive") == 0
    assert walk.value("llm_requests_received_total", lane="interactive") == 1
    assert votes(walk) == {}


def test_a_stream_that_misses_both_votes_by_its_own_ledger() -> None:
    """The report in the same answer has the wait in the queue; the second token took twice the objective's time."""
    walk = promising()
    ask(walk, stream=True)
    play(walk)

    assert (verdicts(walk, "ttft"), verdicts(walk, "tpot")) == ((1, 1), (1, 1))
    assert votes(walk) == {"ttft": "queue", "tpot": "decode"}
    assert walk.value("llm_slo_allowed_misses_total", objective="ttft") == pytest.approx(0.1)
    assert walk.value("llm_good_requests_total") == 0
    assert walk.value("llm_token_deadline_misses_total") == 2


def test_a_miss_is_seen_while_the_request_still_waits() -> None:
    """Within a second after its deadline the miss is counted and the request overdue; its vote waits for the phase."""
    walk = promising()
    client = ask(walk, stream=True)
    tick(walk, 0.2)
    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue")) == ((0, 0), 0)
    tick(walk, 1.0)
    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue"), votes(walk)) == ((1, 1), 1, {})

    client.end()

    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue")) == ((1, 1), 0)
    assert votes(walk) == {"ttft": "unattributed"}


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_stream_that_stands_still_is_a_miss_while_it_does(tokens: int) -> None:
    """Its next output, its end and a client that leaves come later. Before its first output, it stands still for no one."""
    walk = promising(Aims(stall=Aim(2.0, 0.99)))
    client = ask(walk, stream=True)
    stream(walk)
    tick(walk, 10.0)
    for _ in range(tokens):
        walk.engine.send(event(TOKEN))
        tick(walk, 0.1)
    tick(walk, 1.8)
    assert verdicts(walk, "stall") == (0, 0)
    tick(walk, 0.2)
    assert verdicts(walk, "stall") == (1, 1)

    client.end()

    assert (verdicts(walk, "stall"), votes(walk)) == ((1, 1), {"stall": "unattributed"})


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("marked", [True, False])
def test_behind_its_end_mark_a_stream_stands_still_for_no_one(*, tokens: int, marked: bool) -> None:
    """The engine holds the message open for ten seconds. Without an end mark, the client waits for it."""
    walk = promising(Aims(stall=Aim(2.0, 0.99)))
    ask(walk, stream=True)
    stream(walk)
    for _ in range(tokens):
        walk.clock.later(0.1)
        walk.engine.send(event(TOKEN))
    walk.engine.send(event(LAST) + event(USAGE) + (event(b"[DONE]") if marked else b""))
    tick(walk, 10.0)
    walk.engine.send(b"0\r\n\r\n")

    assert verdicts(walk, "stall") == (1, 0 if marked else 1)


def test_a_client_that_leaves_in_time_is_in_neither_counter() -> None:
    walk = promising()
    client = ask(walk, stream=True)
    tick(walk, 0.2)
    client.end()
    tick(walk, 60.0)

    assert (verdicts(walk, "ttft"), votes(walk)) == ((0, 0), {})


def test_an_answer_that_is_not_streamed_is_promised_as_a_whole() -> None:
    """A request without `stream` gets a whole answer: its miss is counted at the deadline, before the answer."""
    walk = promising()
    ask(walk)
    tick(walk, 2.5)
    assert verdicts(walk, "e2e") == (1, 1)
    answer(walk)
    ask(walk, stream=False)
    tick(walk, 1.5)
    answer(walk)

    assert (verdicts(walk, "e2e"), verdicts(walk, "ttft"), verdicts(walk, "tpot")) == ((2, 1), (0, 0), (0, 0))
    assert (walk.value("llm_good_requests_total"), votes(walk)) == (1, {"e2e": "unattributed"})


def test_a_body_beyond_the_look_in_bound_is_judged_like_any_other() -> None:
    walk = promising()
    ask(walk, messages="x" * 2 * LIMITS.look_in_bytes, stream=True)
    tick(walk, 3.0)

    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((1, 1), (0, 0))


def test_a_body_that_cannot_be_read_is_judged_by_what_comes() -> None:
    """Before the response head it is not known whether a stream comes; then its first token is overdue already."""
    walk = promising()
    ask(walk, **{f"m{number}": number for number in range(300)}, messages="x" * 2 * LIMITS.look_in_bytes, stream=True)
    tick(walk, 3.0)
    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((0, 0), (0, 0))

    stream(walk)
    tick(walk, 0.1)

    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((1, 1), (0, 0))


@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"503 Service Unavailable", b"529 Overloaded"])
def test_what_the_engine_rejects_has_that_as_its_cause(status: bytes) -> None:
    walk = promising()
    ask(walk, stream=True)
    walk.engine.send(b"HTTP/1.1 %b\r\ncontent-length: 0\r\n\r\n" % status)
    tick(walk, 20.0)

    assert walk.value("llm_slo_root_cause_misses_total", phase="queue", cause="rejected") > 0.9


def test_a_compressed_stream_misses_nothing() -> None:
    """The instants of its tokens cannot be seen: no verdict, no silence, and the request is not overdue for ever."""
    walk = promising()
    ask(walk, stream=True)
    stream(walk, b"content-encoding: gzip")
    for _ in range(30):
        tick(walk, 1.0)
        walk.engine.send(event(b"\x1f\x8b"))

    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue")) == ((0, 0), 0)
    assert (walk.value("llm_engine_silence_seconds"), walk.value("llm_engine_stalled_seconds_total")) == (0, 0)


def test_a_lane_without_promises_has_none() -> None:
    walk = promising()
    ask(walk, "X-Lane: batch", stream=True)
    tick(walk, 30.0)
    play(walk)

    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue")) == ((0, 0), 0)
    assert 'llm_slo_misses_total{lane="batch"' not in walk.page()
    assert walk.value("llm_requests_received_total", lane="batch") == 1


# --- errors of the engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "phase"), [(b"503 Busy", "queue"), (b"429 Too Many", "queue"), (b"500 Oops", "engine")]
)
def test_an_error_in_place_of_a_stream_is_a_miss_of_its_first_token(status: bytes, phase: str) -> None:
    """The error comes as JSON and at once, but a stream was asked for."""
    walk = promising()
    ask(walk, stream=True)
    answer(walk, b'{"error":"no"}', status)

    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((1, 1), (0, 0))
    assert votes(walk) == {"ttft": phase}


def test_a_clients_error_is_in_neither_counter() -> None:
    walk = promising()
    ask(walk, stream=True)
    answer(walk, b'{"error":"no"}', b"400 Bad Request")
    tick(walk, 60.0)

    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e"), votes(walk)) == ((0, 0), (0, 0), {})


def test_who_is_turned_away_at_the_door_has_missed_too() -> None:
    """The sidecar's own limit refuses the request."""
    walk = promising()
    walk.budgets.requests.limit = 0
    ask(walk, stream=True)

    assert [account.outcome for account in walk.accounts] == [Outcome.REJECTED]
    assert (verdicts(walk, "ttft"), votes(walk)) == ((1, 1), {"ttft": "queue"})
    assert walk.value("llm_requests_received_total") == 1


def test_an_engine_that_breaks_off_has_missed_the_pace() -> None:
    """The first token came in time, so only TPOT is missed."""
    walk = promising(GENEROUS)
    ask(walk, stream=True)
    stream(walk)
    walk.engine.send(event(TOKEN))
    walk.engine.end()

    assert (verdicts(walk, "ttft"), verdicts(walk, "tpot"), votes(walk)) == ((1, 0), (1, 1), {"tpot": "engine"})


# --- late reports --------------------------------------------------------------------------------------------------------


def test_a_late_report_settles_the_vote_later() -> None:
    """The span comes three seconds after the stream: until then the miss has no phase."""
    walk = promising(mints=True)
    ask(walk, stream=True)
    play(walk, USAGE)
    tick(walk, 3.0)
    assert (verdicts(walk, "ttft"), votes(walk)) == ((1, 1), {})

    span_id = next(iter(walk.settlement.minted))
    walk.settlement.reported(KeyedReport((span_key(span_id),), EngineReport(0.02, 0.4, 0.2)))

    assert votes(walk) == {"ttft": "prefill", "tpot": "decode"}


@pytest.mark.parametrize("how", ["in vain", "shutdown"])
def test_who_waits_in_vain_votes_all_the_same(how: str) -> None:
    """Without a report the TTFT vote is unattributed; the TPOT vote comes from the wire."""
    walk = promising(mints=True)
    ask(walk, stream=True)
    play(walk, USAGE)
    if how == "shutdown":
        walk.settlement.pending.close_all(Reason.SHUTDOWN)
    else:
        tick(walk, 120.0)

    assert votes(walk) == {"ttft": "unattributed", "tpot": "decode"}


# --- a reload ------------------------------------------------------------------------------------------------------------


def test_a_reload_does_not_change_what_a_request_in_flight_was_promised() -> None:
    walk = promising()
    ask(walk, stream=True)

    walk.slo.replace(Objectives({"batch": dict.fromkeys(BUCKETS, GENEROUS)}))
    play(walk)

    assert (verdicts(walk, "ttft"), votes(walk)["ttft"]) == ((1, 1), "queue")
    assert walk.value("llm_slo_threshold_seconds", lane="batch", prompt_bucket="0-512", objective="ttft") == 5
    assert 'llm_slo_threshold_seconds{lane="interactive"' not in walk.page()
