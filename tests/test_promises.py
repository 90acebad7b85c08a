"""Promises from the wire to the page, in memory: a whole request's walk, and what alerts read of it."""

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
"""Of a stream that has its first token after 0.45 s and its second and last 0.2 s later: two misses."""
GENEROUS = Aims(ttft=Aim(5.0, 0.9), tpot=Aim(1.0, 0.9), e2e=Aim(60.0, 0.9))
BUCKETS = ("0-512", "512-4k", "4k+", "unknown")
EVENT_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n%stransfer-encoding: chunked\r\n\r\n"
ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
TOKEN = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
LAST = b'{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":600,"completion_tokens":2}}'
REPORT = USAGE[:-1] + b',"metrics":{"queue_time_ms":350,"time_to_first_token_ms":50,"generation_time_ms":200}}'
"""Most of the wait was in the queue."""
WHOLE = b'{"choices":[{"index":0,"message":{"content":"ab"}}],"usage":{"prompt_tokens":600,"completion_tokens":2}}'


def promising(aims: Aims = AIMS, *, mints: bool = False) -> Walk:
    """A walk on which interactive has these promises for every length, and batch none."""
    return Walk(objectives=Objectives({"interactive": dict.fromkeys(BUCKETS, aims)}), mints=mints)


def ask(walk: Walk, *fields: str, **body: object) -> Socket:
    """A client, and its request on its way, in pieces where it is longer than the look-in bound."""
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
    """The engine's head of a stream."""
    walk.engine.send(EVENT_STREAM % b"".join(field + b"\r\n" for field in fields))


def play(walk: Walk, last: bytes = REPORT) -> None:
    """A whole stream: the head at once, the first token after 0.45 s, the second 0.2 s later."""
    stream(walk)
    walk.clock.later(0.45)
    walk.engine.send(event(ROLE) + event(TOKEN))
    walk.clock.later(0.2)
    walk.engine.send(event(LAST) + event(last) + event(b"[DONE]") + b"0\r\n\r\n")


def answer(walk: Walk, body: bytes = WHOLE, status: bytes = b"200 OK") -> None:
    """The engine's whole answer."""
    walk.engine.send(
        b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body
    )


def tick(walk: Walk, seconds: float) -> None:
    """Time passes, as the sidecar's own second hand sees it."""
    walk.settlement.expire(walk.clock.later(seconds))


def verdicts(walk: Walk, objective: str) -> tuple[float, float]:
    """(requests, misses), of all lengths."""
    requests = walk.value("llm_slo_requests_total", objective=objective)
    return requests, walk.value("llm_slo_misses_total", objective=objective)


def votes(walk: Walk) -> dict[str, str]:
    """Objective to the phase that has the votes."""
    children = walk.metrics.counter(SLO_BLAMED_MISSES_TOTAL).children
    return {key[2]: key[3] for key, child in children.items() if child.value}


# --- whole walks ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_keeps_its_promises_is_good() -> None:
    """By lane and by the bucket that was known when it came: nobody had counted a prompt before."""
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
    """The engine said in the same answer that it had waited in the queue; its second token came at twice the promised pace."""
    walk = promising()
    ask(walk, stream=True)
    play(walk)

    assert (verdicts(walk, "ttft"), verdicts(walk, "tpot")) == ((1, 1), (1, 1))
    assert votes(walk) == {"ttft": "queue", "tpot": "decode"}
    assert walk.value("llm_slo_allowed_misses_total", objective="ttft") == pytest.approx(0.1)
    assert walk.value("llm_good_requests_total") == 0
    assert walk.value("llm_token_deadline_misses_total") == 2


def test_a_miss_is_seen_while_the_request_still_waits() -> None:
    """A second after its deadline at the latest: counted, overdue, and nobody blamed before anybody can know."""
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
    """Who does not say `stream` wants none: it is due at its deadline, and not when it comes."""
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
    """Nobody knows whether a stream was asked for until its head comes: then its first token is overdue already."""
    walk = promising()
    ask(walk, messages="x" * 2 * LIMITS.look_in_bytes, stream=True)
    tick(walk, 3.0)
    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((0, 0), (0, 0))

    stream(walk)
    tick(walk, 0.1)

    assert (verdicts(walk, "ttft"), verdicts(walk, "e2e")) == ((1, 1), (0, 0))


def test_a_compressed_stream_misses_nothing() -> None:
    """Its tokens pass, and nobody sees when: no verdict, no silence, and not overdue for ever."""
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


# --- what the engine spoils ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "phase"), [(b"503 Busy", "queue"), (b"429 Too Many", "queue"), (b"500 Oops", "engine")]
)
def test_an_error_in_place_of_a_stream_is_a_miss_of_its_first_token(status: bytes, phase: str) -> None:
    """It comes as JSON and at once, but a stream was asked for."""
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
    """By our own limit: its body was never looked at."""
    walk = promising()
    walk.shared.limits = LIMITS.model_copy(update={"max_in_flight": 0})
    ask(walk, stream=True)

    assert [account.outcome for account in walk.accounts] == [Outcome.REJECTED]
    assert (verdicts(walk, "ttft"), votes(walk)) == ((1, 1), {"ttft": "queue"})
    assert walk.value("llm_requests_received_total") == 0


def test_an_engine_that_breaks_off_has_missed_the_pace() -> None:
    """The first token had come in time."""
    walk = promising(GENEROUS)
    ask(walk, stream=True)
    stream(walk)
    walk.engine.send(event(TOKEN))
    walk.engine.end()

    assert (verdicts(walk, "ttft"), verdicts(walk, "tpot"), votes(walk)) == ((1, 0), (1, 1), {"tpot": "engine"})


# --- late words ----------------------------------------------------------------------------------------------------------


def test_a_late_report_settles_the_vote_later() -> None:
    """The span comes three seconds after the stream: until then the miss stands without a phase."""
    walk = promising(mints=True)
    ask(walk, stream=True)
    play(walk, USAGE)
    tick(walk, 3.0)
    assert (verdicts(walk, "ttft"), votes(walk)) == ((1, 1), {})

    span_id = next(iter(walk.settlement.minted))
    walk.settlement.word(KeyedReport((span_key(span_id),), EngineReport(0.02, 0.4, 0.2)))

    assert votes(walk) == {"ttft": "prefill", "tpot": "decode"}


@pytest.mark.parametrize("how", ["in vain", "shutdown"])
def test_who_waits_in_vain_votes_all_the_same(how: str) -> None:
    """Of the first token nobody can say where it waited; the pace is known from the wire."""
    walk = promising(mints=True)
    ask(walk, stream=True)
    play(walk, USAGE)
    if how == "shutdown":
        walk.settlement.joins.close_all(Reason.SHUTDOWN)
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
    """It did not say that it wants no stream, and it does not have to."""
    walk = promising()
    ask(walk)
    tick(walk, 200.0)

    assert walk.value("llm_engine_silence_seconds") == 0
    assert walk.value("llm_engine_stalled_seconds_total") == 0


def test_an_answer_that_is_not_streamed_explains_the_silence_for_as_long_as_it_is_promised_to_take() -> None:
    """A lane that promises whole answers within 20 s: what the stream beside it waits longer is a stall."""
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
    """A stream waits; the next request, which is not streamed, is turned away by the engine's server."""
    walk = promising(replace(AIMS, e2e=Aim(2.0, 0.9)))
    ask(walk, stream=True)
    ask(walk)
    tick(walk, 130.0)
    answer(walk, b"{}", status)
    tick(walk, 1.0)

    assert walk.value("llm_engine_silence_seconds") == 131


@pytest.mark.parametrize("complete", [False, True])
def test_a_client_that_reads_slowly_is_no_silence(complete: bool) -> None:
    """Its socket is full: reading has stopped, or the engine has said all and the last bytes wait here."""
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
    """From then on a silence is one."""
    walk = promising()
    client = ask(walk, stream=True)
    client.room = 0
    stream(walk)
    walk.engine.send(b"".join([event(TOKEN)] * 40))
    tick(walk, 40.0)
    client.take(None)
    tick(walk, 2.0)

    assert walk.value("llm_engine_silence_seconds") == 2


# --- mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["received", "answering", "output", "finished", "ended", "settled", "tick"])
def test_a_mistake_in_the_promises_is_counted_and_reaches_nobody(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets every token (and the usage chunk too, if the cut stopped with the rest); nobody sees them, and none is missed."""

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
    """The observer fails at the head: the tokens come in time, unseen. No miss, nobody overdue, and no silence of the engine's."""
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
