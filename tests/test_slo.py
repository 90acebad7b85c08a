"""Objectives from the wire to the metrics page, in memory: whole requests, and the counters that alerts read."""

import json
from dataclasses import replace

import pytest

from sidecar.ledger.account import Reason
from sidecar.ledger.report import EngineReport, KeyedReport, span_key
from sidecar.metrics.slo_metrics import SLO_BLAMED_MISSES_TOTAL
from sidecar.observe.slo_counters import Slo
from sidecar.slo.objective import Aim, Aims, Objectives
from sidecar.timeline.outcome import Outcome
from tests.support.memory import LIMITS, Socket
from tests.support.walk import Walk


AIMS = Aims(ttft=Aim(0.25, 0.9), tpot=Aim(0.1, 0.9), e2e=Aim(2.0, 0.9))
"""For a stream with its first token after 0.45 s and its second and last 0.2 s later, these give two misses."""
GENEROUS = Aims(ttft=Aim(5.0, 0.9), tpot=Aim(1.0, 0.9), e2e=Aim(60.0, 0.9))
BUCKETS = ("0-512", "512-4k", "4k+", "unknown")
EVENT_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n%stransfer-encoding: chunked\r\n\r\n"
ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
TOKEN = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
LAST = b'{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":2}}'
REPORT = USAGE[:-1] + b',"metrics":{"queue_time_ms":350,"time_to_first_token_ms":50,"generation_time_ms":200}}'
"""A report with most of the wait in the queue."""
WHOLE = b'{"choices":[{"index":0,"message":{"content":"ab"}}],"usage":{"prompt_tokens":600,"completion_tokens":2}}'


def promising(aims: Aims = AIMS, *, mints: bool = False) -> Walk:
    """A walk on which interactive has these objectives for every bucket, and batch none."""
    return Walk(objectives=Objectives({"interactive": dict.fromkeys(BUCKETS, aims)}), mints=mints)


def ask(walk: Walk, *fields: str, **body: object) -> Socket:
    """Send a request from a new client, in pieces if it is longer than the look-in bound, and return the client."""
    client = walk.client()
    data = json.dumps({"model": "tiny", "messages": [], **body}).encode()
    head = "".join(f"{line}\r\n" for line in ("POST /v1/chat/completions HTTP/1.1", "Host: pod", *fields))
    client.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(data) + data, LIMITS.look_in_bytes)
    return client


def event(data: bytes) -> bytes:
    """One chunk with one event."""
    framed = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(framed), framed)


def stream(walk: Walk, *fields: bytes) -> None:
    """Send the engine's response head of a stream."""
    walk.engine.send(EVENT_STREAM % b"".join(field + b"\r\n" for field in fields))


def play(walk: Walk, last: bytes = REPORT) -> None:
    """Send a whole stream: the head at once, the first token after 0.45 s, the second 0.2 s later."""
    stream(walk)
    walk.clock.later(0.45)
    walk.engine.send(event(ROLE) + event(TOKEN))
    walk.clock.later(0.2)
    walk.engine.send(event(LAST) + event(last) + event(b"[DONE]") + b"0\r\n\r\n")


def answer(walk: Walk, body: bytes = WHOLE, status: bytes = b"200 OK") -> None:
    """Send the engine's whole answer."""
    walk.engine.send(
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body
    )


def tick(walk: Walk, seconds: float) -> None:
    """Let time pass, and run the sidecar's periodic tick."""
    walk.settlement.expire(walk.clock.later(seconds))


def verdicts(walk: Walk, objective: str) -> tuple[float, float]:
    """(requests, misses), summed over all buckets."""
    requests = walk.value("llm_slo_requests_total", objective=objective)
    return requests, walk.value("llm_slo_misses_total", objective=objective)


def votes(walk: Walk) -> dict[str, str]:
    """Objective to the phase that has the votes."""
    children = walk.metrics.counter(SLO_BLAMED_MISSES_TOTAL).children
    return {key[2]: key[3] for key, child in children.items() if child.value}


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


def test_a_body_beyond_the_look_in_bound_is_judged_by_what_comes() -> None:
    """Before the response head it is not known whether a stream comes; then its first token is overdue already."""
    walk = promising()
    ask(walk, messages="x" * 2 * LIMITS.look_in_bytes, stream=True)
    tick(walk, 3.0)
    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((0, 0), (0, 0))

    stream(walk)
    tick(walk, 0.1)

    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((1, 1), (0, 0))


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
    """The sidecar's own limit refuses the request; its body was never read."""
    walk = promising()
    walk.shared.limits = LIMITS.model_copy(update={"max_in_flight": 0})
    ask(walk, stream=True)

    assert [account.outcome for account in walk.accounts] == [Outcome.REJECTED]
    assert (verdicts(walk, "ttft"), votes(walk)) == ((1, 1), {"ttft": "queue"})
    assert walk.value("llm_requests_received_total") == 0


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
    assert walk.slo._closing == {}


# --- a reload ------------------------------------------------------------------------------------------------------------


def test_a_reload_does_not_change_what_a_request_in_flight_was_promised() -> None:
    walk = promising()
    ask(walk, stream=True)

    walk.slo.replace(Objectives({"batch": dict.fromkeys(BUCKETS, GENEROUS)}))
    play(walk)

    assert (verdicts(walk, "ttft"), votes(walk)["ttft"]) == ((1, 1), "queue")
    assert walk.value("llm_slo_threshold_seconds", lane="batch", prompt_bucket="0-512", objective="ttft") == 5
    assert 'llm_slo_threshold_seconds{lane="interactive"' not in walk.page()


# --- silences ------------------------------------------------------------------------------------------------------------


def test_an_engine_that_hangs_falls_silent_on_the_page() -> None:
    walk = promising()
    ask(walk, stream=True)
    stream(walk)
    walk.engine.send(event(TOKEN))
    tick(walk, 20.0)

    assert walk.value("llm_engine_silence_seconds") == 20
    assert walk.value("llm_engine_stalled_seconds_total") == 12


def test_an_answer_in_flight_that_is_not_streamed_is_no_silence() -> None:
    """A request without `stream` is non-streamed by the APIs' default, so its wait is no silence."""
    walk = promising()
    ask(walk)
    tick(walk, 200.0)

    assert walk.value("llm_engine_silence_seconds") == 0
    assert walk.value("llm_engine_stalled_seconds_total") == 0


def test_an_answer_that_is_not_streamed_explains_the_silence_for_as_long_as_it_is_promised_to_take() -> None:
    """Whole answers may take 20 s here: until then a stream's wait beside one is no silence; later it is, and may
    become a stall."""
    walk = promising(replace(AIMS, e2e=Aim(20.0, 0.9)))
    ask(walk)
    ask(walk, stream=True)
    tick(walk, 20.0)
    assert walk.value("llm_engine_silence_seconds") == 0
    tick(walk, 40.0)

    assert walk.value("llm_engine_silence_seconds") == 60
    assert walk.value("llm_engine_stalled_seconds_total") == 0
    tick(walk, 120.0)
    assert walk.value("llm_engine_stalled_seconds_total") == 60


@pytest.mark.parametrize("status", [b"429 Too Many Requests", b"400 Bad Request"])
def test_a_refusal_at_the_door_is_no_sign_that_the_engine_works(status: bytes) -> None:
    """A stream waits. The engine's server refuses the next, non-streamed request, and the silence goes on."""
    walk = promising(replace(AIMS, e2e=Aim(2.0, 0.9)))
    ask(walk, stream=True)
    ask(walk)
    tick(walk, 130.0)
    answer(walk, b"{}", status)
    tick(walk, 1.0)

    assert walk.value("llm_engine_silence_seconds") == 131


@pytest.mark.parametrize("complete", [False, True])
def test_a_client_that_reads_slowly_is_no_silence(complete: bool) -> None:
    """The client's socket is full: reading has stopped, or the engine is done and the last bytes wait in the
    sidecar."""
    walk = promising()
    client = ask(walk, stream=True)
    client.room = 0
    stream(walk)
    walk.engine.send(b"".join([event(TOKEN)] * 40) + (event(b"[DONE]") + b"0\r\n\r\n" if complete else b""))
    tick(walk, 40.0)

    assert walk.accounts == []
    assert walk.value("llm_engine_silence_seconds") == 0
    assert walk.value("llm_engine_stalled_seconds_total") == 0


def test_a_client_that_has_caught_up_is_spoken_to_again() -> None:
    """Once the client has caught up, the time without output counts as silence."""
    walk = promising()
    client = ask(walk, stream=True)
    client.room = 0
    stream(walk)
    walk.engine.send(b"".join([event(TOKEN)] * 40))
    tick(walk, 40.0)
    client.take(None)
    tick(walk, 2.0)

    assert walk.value("llm_engine_silence_seconds") == 2


# --- exceptions in the objectives' code ----------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["received", "answering", "output", "finished", "ended", "settled", "tick"])
def test_a_mistake_in_the_objectives_is_counted_and_reaches_no_client(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets every token (also the usage chunk, if the cut stopped with the rest). The tokens are not seen,
    and no miss is counted."""

    def broken(*_told: object, **_named: object) -> None:
        raise RuntimeError("the mistake under test")

    walk = promising(GENEROUS)
    inner = {"ended": "_ended", "settled": "_settled", "tick": "_judge"}.get(hook)
    if inner == "_judge":
        monkeypatch.setattr(walk.slo._judge, "tick", broken)
    else:
        monkeypatch.setattr(Slo, inner or hook, broken)
    client = ask(walk, stream=True)
    play(walk)
    tick(walk, 60.0)

    tokens = event(ROLE) + event(TOKEN) + event(LAST)
    assert (
        client.taken.partition(b"\r\n\r\n")[2].replace(event(REPORT), b"") == tokens + event(b"[DONE]") + b"0\r\n\r\n"
    )
    assert walk.value("llm_sidecar_dropped_total", reason="observer_error") + len(walk.dropped) >= 1
    assert walk.value("llm_slo_misses_total") == 0
    assert walk.value("llm_requests_total", outcome="ok") == 1
    assert walk.value("llm_engine_silence_seconds") == 0


def test_who_is_not_observed_any_more_is_not_held_to_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The observer fails at the head, so the tokens pass unseen: no miss, no overdue request, no engine silence."""
    walk = promising()

    def broken(*_told: object) -> None:
        raise RuntimeError("the mistake under test")

    monkeypatch.setattr("sidecar.observe.request.EventReader", broken)
    client = ask(walk, stream=True)
    stream(walk)
    tick(walk, 0.1)
    walk.engine.send(event(TOKEN))
    tick(walk, 60.0)

    assert client.taken.endswith(event(TOKEN))
    assert walk.dropped == ["observer_error"]
    assert (verdicts(walk, "ttft"), walk.value("llm_requests_overdue")) == ((0, 0), 0)
    assert walk.value("llm_engine_silence_seconds") == 0
