"""The estimator in the whole walk, in memory: an estimate fills the ledger, or is judged by the engine's report."""

import json
from typing import cast

import pytest

from sidecar.engines.engine import Engine
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.ledger.account import Phase, Reason, Source
from sidecar.ledger.ledger import close_ledger
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport
from sidecar.objectives.objective import Aim, Aims, Objectives
from sidecar.observe.admissions import FEWEST_USUAL
from sidecar.observe.engine_state import EngineStateRecorder
from sidecar.observe.estimates import Estimates
from sidecar.pod.costs.prefill_cost import RING
from sidecar.pod.costs.prompt_costs import FIRST_ANSWER_SAMPLES, Price
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import End
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Socket
from tests.support.walk import Walk


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TOKEN = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}
COST_SECONDS = 0.3
"""TTFT of a prompt of 600 tokens in these scenarios, in seconds, if it does not queue."""


def chunk(event: object) -> bytes:
    data = event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


class Scenario:
    """An engine of one kind, and clients that ask it for streams and for usage."""

    def __init__(self, kind: str) -> None:
        aims = {"interactive": dict.fromkeys(("0-512", "512-4k", "unknown"), Aims(Aim(2.0, 0.9), Aim(0.1, 0.9)))}
        self.walk = Walk(engine=Engine(kind, ["tiny"]), objectives=Objectives(aims), estimate=True)
        self.estimates = cast("Estimates", self.walk.instruments.estimates)

    def ask(self) -> Socket:
        """A new client's request; returns the engine's end of it."""
        body = {"model": "tiny", "messages": [], "stream": True, "stream_options": {"include_usage": True}}
        data = json.dumps(body).encode()
        self.walk.client().send(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n" % len(data) + data
        )
        return self.walk.engine

    def token(self, engine: Socket, *, first: bool = False) -> None:
        engine.send((HEAD if first else b"") + chunk(TOKEN))

    def end(self, engine: Socket, metrics: dict[str, float] | None = None, *, tokens: int = 2) -> None:
        usage = {"choices": [], "usage": {"prompt_tokens": 600, "completion_tokens": tokens}}
        engine.send(chunk(usage if metrics is None else {**usage, "metrics": metrics}))
        engine.send(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def alone(self, ttft: float = COST_SECONDS, metrics: dict[str, float] | None = None) -> None:
        """A request that runs alone: no other request is in flight."""
        self.walk.clock.later(5)
        engine = self.ask()
        self.walk.clock.later(ttft)
        self.token(engine, first=True)
        self.walk.clock.later(0.1)
        self.token(engine)
        self.end(engine, metrics)

    def whole(self, tokens: int = 60) -> None:
        """A request that runs alone and is answered in one event, when all its tokens are made."""
        self.walk.clock.later(5)
        engine = self.ask()
        self.walk.clock.later(COST_SECONDS + 0.01 * tokens)
        self.token(engine, first=True)
        self.end(engine, tokens=tokens)

    def taught(self) -> "Scenario":
        for _ in range(RING + 5):
            self.alone()
        return self

    def queued(self) -> None:
        """Two requests come at once: the second is served after the first."""
        first, second = self.ask(), self.ask()
        self.walk.clock.later(COST_SECONDS)
        self.token(first, first=True)
        self.walk.clock.later(COST_SECONDS)
        self.token(second, first=True)
        self.end(first)
        self.end(second)


def test_without_a_report_queue_and_prefill_are_estimated_and_say_so() -> None:
    """They add up to the TTFT; first_token is not claimed; decode and stream are measured on the wire."""
    scenario = Scenario("none").taught()
    scenario.queued()

    ledger = scenario.walk.accounts[-1].ledger
    assert ledger is not None
    assert ledger.reason is Reason.ESTIMATED
    assert [(share.phase, share.source) for share in ledger.shares] == [
        (Phase.QUEUE, Source.ESTIMATED),
        (Phase.PREFILL, Source.ESTIMATED),
        (Phase.DECODE, Source.WIRE),
        (Phase.STREAM, Source.WIRE),
    ]
    assert [round(share.seconds, 6) for share in ledger.shares[:2]] == [COST_SECONDS, COST_SECONDS]
    assert sum(share.seconds for share in ledger.shares) == pytest.approx(ledger.e2e_seconds)
    assert scenario.walk.value("llm_request_phase_seconds_sum", phase="queue", source="estimated") == pytest.approx(0.3)
    assert (
        scenario.walk.value("llm_phase_attribution_total", source="estimated", reason="estimated")
        == RING + 5 - FIRST_ANSWER_SAMPLES + 2
    )
    assert "llm_estimator_error_seconds_count" not in scenario.walk.page()  # # no report to compare with


def test_an_engine_that_may_hold_a_request_while_it_is_idle_is_not_estimated() -> None:
    """A batcher's delay would be taken for the prompt's cost. The requests are unsplit, and the estimator is not ready for ever."""
    scenario = Scenario("triton").taught()
    scenario.queued()

    walk = scenario.walk
    assert {account.ledger.reason for account in walk.accounts if account.ledger is not None} == {Reason.NO_REPORT}
    assert walk.value("llm_estimator_ready", model="tiny") == 0
    assert walk.value("llm_estimator_answers_total", model="tiny", result="answered") == 0


def test_answers_that_arrive_whole_teach_nothing_and_get_no_estimate() -> None:
    """Dynamo holds back each answer with tools until it is complete: 90 of 90 have no time per token, no decode on the
    wire and no sample, and the page counts them.
    """
    scenario = Scenario("dynamo")
    for number in range(90):
        scenario.whole(tokens=20 + number)

    walk = scenario.walk
    assert walk.value("llm_answers_held_back_total", model="tiny", lane="interactive") == 90
    assert (walk.value("llm_estimator_ready", model="tiny"), walk.value("llm_estimator_samples", model="tiny")) == (
        0,
        0,
    )
    assert walk.value("llm_estimator_answers_total", model="tiny", result="held_back") == 90
    assert walk.value("llm_time_to_first_token_seconds_count") == 90
    assert "llm_time_per_output_token_seconds_count" not in walk.page()
    assert walk.value("llm_slo_requests_total", objective="ttft") == 90
    assert walk.value("llm_slo_requests_total", objective="tpot") == 0
    assert {share.phase for account in walk.accounts for share in account.ledger.shares} == {  # type: ignore[union-attr]
        Phase.UNATTRIBUTED,
        Phase.STREAM,
    }

    scenario.taught()
    scenario.whole()
    assert walk.accounts[-1].estimate is None
    assert walk.accounts[-1].ledger.source == "none"  # type: ignore[union-attr]
    scenario.alone()
    assert walk.accounts[-1].estimate is not None
    assert walk.accounts[-1].estimate.prefill_seconds == pytest.approx(COST_SECONDS)


@pytest.mark.parametrize("each", [2, 4, 5])
def test_several_tokens_in_an_event_teach_as_one_does(each: int) -> None:
    """Speculative decoding or a stream interval of four: 61 tokens at 10 ms each."""
    scenario = Scenario("none")
    walk = scenario.walk
    for _ in range(RING + 5):
        walk.clock.later(5)
        engine = scenario.ask()
        walk.clock.later(COST_SECONDS)
        scenario.token(engine, first=True)
        for _ in range(60 // each):
            walk.clock.later(0.01 * each)
            scenario.token(engine)
        scenario.end(engine, tokens=61)

    assert walk.value("llm_answers_held_back_total") == 0
    assert walk.value("llm_estimator_ready", model="tiny") == 1
    assert walk.value("llm_slo_requests_total", objective="tpot") == RING + 5
    assert walk.value("llm_time_per_output_token_seconds_sum") == pytest.approx((RING + 5) * 0.01)


def test_until_it_is_ready_the_ttft_is_unattributed_and_the_page_says_why() -> None:
    scenario = Scenario("none")
    for _ in range(FIRST_ANSWER_SAMPLES):
        scenario.alone()

    walk = scenario.walk
    assert walk.value("llm_phase_attribution_total", source="none", reason="no_report") == FIRST_ANSWER_SAMPLES
    assert walk.value("llm_estimator_answers_total", model="tiny", result="few_samples") == FIRST_ANSWER_SAMPLES
    assert walk.value("llm_estimator_answers_total", model="tiny", result="answered") == 0
    assert walk.value("llm_estimator_ready", model="tiny") == 1  # from the next one on
    assert walk.value("llm_estimator_samples", model="tiny") == FIRST_ANSWER_SAMPLES


def test_where_the_engine_reports_its_word_stands_and_the_estimate_is_judged_by_it() -> None:
    """The first reports tell that 49 ms pass behind a prefill: estimates hold them no more. That no request queued is a right verdict."""
    scenario = Scenario("vllm")
    reported = {"queue_time_ms": 1.0, "time_to_first_token_ms": 250.0, "generation_time_ms": 100.0}
    for _ in range(FIRST_ANSWER_SAMPLES + 4):
        scenario.alone(metrics=reported)

    walk = scenario.walk
    assert walk.value("llm_phase_attribution_total", source="engine", reason="in_band") == FIRST_ANSWER_SAMPLES + 4
    assert walk.value("llm_phase_attribution_total", source="estimated") == 0
    assert walk.value("llm_estimator_error_seconds_count", side="over") == 4
    assert walk.value("llm_estimator_error_seconds_sum", side="over") == pytest.approx(4 * 0.001)
    assert walk.value("llm_estimator_verdicts_total", result="right") == 4
    assert walk.value("llm_estimator_verdicts_total", result="wrong") == 0
    assert walk.value("llm_estimator_intervals_total", result="inside") == 4
    assert walk.value("llm_estimator_intervals_total", result="below") == 0


@pytest.mark.parametrize(
    ("partial", "queue", "prefill", "first_token"),
    [
        (EngineReport(merged=True, merged_seconds=0.5), 0.2, 0.3, 0.1),
        (EngineReport(merged=True, merged_seconds=0.2), 0.0, 0.2, 0.4),
        (EngineReport(merged=True), 0.3, 0.3, None),
        (EngineReport(decode_seconds=0.0), 0.3, 0.3, None),
        (EngineReport(queue_seconds=0.25), 0.25, 0.3, 0.05),
        (EngineReport(queue_seconds=0.5), 0.5, 0.1, 0.0),
    ],
)
def test_a_report_that_does_not_split_bounds_the_estimate(
    partial: EngineReport, queue: float, prefill: float, first_token: float | None
) -> None:
    """The TTFT is 0.6 s and the estimated prefill 0.3 s: what the report states of both together, or of the queue alone, is kept to."""
    scenario = Scenario("none").taught()
    scenario.queued()
    account = scenario.walk.accounts[-1]

    report = scenario.estimates.stand_in(account, partial)
    ledger = close_ledger(account.marks, streaming=True, report=report, reason=Reason.ESTIMATED)

    assert partial.narrows
    assert ledger is not None
    shares = {share.phase: share for share in ledger.shares}
    assert shares[Phase.QUEUE].seconds == pytest.approx(queue)
    assert shares[Phase.PREFILL].seconds == pytest.approx(prefill)
    assert shares[Phase.PREFILL].source is Source.ESTIMATED
    assert (Phase.FIRST_TOKEN in shares) is (first_token is not None)
    assert first_token is None or shares[Phase.FIRST_TOKEN].seconds == pytest.approx(first_token, abs=1e-9)
    assert sum(share.seconds for share in ledger.shares) == pytest.approx(ledger.e2e_seconds)


def test_what_reports_tell_of_the_time_behind_a_prefill_is_no_queue_of_other_requests() -> None:
    """Behind Dynamo's workers the cache's move took ten times the prefill, and every fourth client asked for the timing that says so: of the
    others all that was taken for a queue, 48 of 148 were told wrong."""
    scenario = Scenario("none").taught()
    account, costs = scenario.walk.accounts[-1], scenario.estimates.estimator.costs
    for _ in range(FIRST_ANSWER_SAMPLES):
        assert scenario.estimates.stand_in(account, EngineReport(merged=True, merged_seconds=0.1)) is not None
    assert costs.price("tiny", account.prompt_lengths) == Price(
        pytest.approx(0.1),  # type: ignore[arg-type]
        FIRST_ANSWER_SAMPLES,
        pytest.approx(0.2),  # type: ignore[arg-type]
    )

    scenario.queued()

    first, second = (each.ledger for each in scenario.walk.accounts[-2:])
    assert first is not None
    assert second is not None
    told = [{share.phase: round(share.seconds, 6) for share in ledger.shares} for ledger in (first, second)]
    assert [(each[Phase.QUEUE], each[Phase.PREFILL], each[Phase.FIRST_TOKEN]) for each in told] == [
        (0.0, 0.1, 0.2),
        (0.3, 0.1, 0.2),
    ]


@pytest.mark.parametrize("full", [True, False])
def test_what_a_caches_move_takes_longer_is_a_queue_where_the_decode_worker_was_full(full: bool) -> None:
    """Dynamo states the wait for a place at the decode worker together with the cache's move. With the trace 11 of 148 such waits stood in
    first_token, and named the network; without the trace the same requests were told to queue. A wait teaches no usual move, a slow move does.
    """
    scenario = Scenario("none").taught()
    costs = scenario.estimates.estimator.costs
    usual, slow = (
        EngineReport(
            merged=True, merged_seconds=0.1, kv_transfer_seconds=move, parts=(StatedPart(Part.KV_TRANSFER, move),)
        )
        for move in (0.2, 0.45)
    )
    for _ in range(FIRST_ANSWER_SAMPLES + FEWEST_USUAL):
        scenario.alone()
        assert scenario.estimates.stand_in(scenario.walk.accounts[-1], usual) is not None
    streams = [scenario.ask() for _ in range(3)]
    for stream in streams:
        scenario.walk.clock.later(COST_SECONDS)
        scenario.token(stream, first=True)
    scenario.end(streams.pop())
    if full:
        ahead = scenario.ask()
        scenario.walk.clock.later(COST_SECONDS)
        scenario.token(ahead, first=True)
    _, last = scenario.ask(), scenario.ask()
    scenario.walk.clock.later(0.55)
    scenario.token(last, first=True)
    scenario.end(last)
    account = scenario.walk.accounts[-1]

    reports = [scenario.estimates.stand_in(account, slow) for _ in range(2 * FIRST_ANSWER_SAMPLES)]

    assert reports[0] is not None
    wait = 0.25 if full else 0.0
    stated = {part.part: part.seconds for part in reports[0].parts}
    assert (stated[Part.KV_TRANSFER], stated.get(Part.DECODE_ADMISSION, 0.0)) == pytest.approx((0.45 - wait, wait))
    assert (reports[0].queue_seconds, reports[0].prefill_seconds) == pytest.approx((wait, 0.1))
    price = costs.price("tiny", account.prompt_lengths)
    assert isinstance(price, Price)
    assert price.behind_seconds == pytest.approx(0.2 if full else 0.45)


@pytest.mark.parametrize(
    "partial",
    [
        EngineReport(merged=True, merged_seconds=9.0),
        EngineReport(merged=True, merged_seconds=0.5, parts=(StatedPart(Part.ROUTER, 8.0),)),
    ],
)
def test_a_report_that_does_not_fit_the_wire_bounds_no_estimate_and_is_refused(partial: EngineReport) -> None:
    """The TTFT is 0.6 s. What was cut to fit it would name a phase with confidence, and teach what prompts cost."""
    scenario = Scenario("none").taught()
    scenario.queued()
    account, samples = scenario.walk.accounts[-1], scenario.estimates.estimator.costs.samples("tiny")

    assert scenario.estimates.stand_in(account, partial) is None
    ledger = close_ledger(account.marks, streaming=True, report=partial, reason=Reason.IN_BAND)
    assert ledger is not None
    assert ledger.reason is Reason.REPORT_EXCEEDS_WIRE
    assert scenario.estimates.estimator.costs.samples("tiny") == samples


@pytest.mark.parametrize(("queued", "queue", "first_token"), [(False, 0.0, 0.05), (True, 0.35, 0.0)])
def test_a_prefill_without_a_queue_is_kept_and_teaches(queued: bool, queue: float, first_token: float) -> None:
    """TensorRT-LLM's spans of 2025 leave out a queue of zero: of two requests at once the second one waited, and one alone did not."""
    scenario = Scenario("none").taught()
    if queued:
        scenario.queued()
    account = scenario.walk.accounts[-1]
    partial = EngineReport(prefill_seconds=0.25, decode_seconds=0.0)

    report = scenario.estimates.stand_in(account, partial)
    ledger = close_ledger(account.marks, streaming=True, report=report, reason=Reason.ESTIMATED)

    assert partial.narrows
    assert ledger is not None
    found = {share.phase: (round(share.seconds, 9), share.source) for share in ledger.shares}
    assert found[Phase.QUEUE] == (queue, Source.ESTIMATED)
    assert found[Phase.PREFILL] == (0.25, Source.ENGINE)
    assert found.get(Phase.FIRST_TOKEN, (0.0, Source.DERIVED)) == (first_token, Source.DERIVED)


def test_an_estimate_leaves_room_for_the_decode_that_a_report_states() -> None:
    """The estimated prefill holds the front end's time: with the engine's decode both exceeded the whole, and the report was refused."""
    scenario = Scenario("none").taught()
    account = scenario.walk.accounts[-1]
    report = scenario.estimates.stand_in(account, EngineReport(decode_seconds=0.11))
    ledger = close_ledger(account.marks, streaming=True, report=report, reason=Reason.ESTIMATED)

    assert ledger is not None
    assert ledger.reason is Reason.ESTIMATED
    assert {share.phase: share.seconds for share in ledger.shares}[Phase.PREFILL] == pytest.approx(0.29)


@pytest.mark.parametrize(("behind", "kv_transfer"), [(True, None), (False, 0.02)])
def test_a_ttft_that_holds_what_no_estimate_knows_is_not_estimated(behind: bool, kv_transfer: float | None) -> None:
    """A queue of the server's own before the stated times, or a KV cache's move."""
    assert not EngineReport(None, None, 0.1, behind_queue=behind, kv_transfer_seconds=kv_transfer).narrows


def test_of_a_request_that_did_not_queue_the_merged_number_is_the_prefill_and_teaches_it() -> None:
    """The TTFT of 0.3 s holds 0.1 s of a cache's move: without the number that is prefill, with it the rest of first_token."""
    scenario = Scenario("none").taught()
    account = scenario.walk.accounts[-1]
    partial = EngineReport(merged=True, merged_seconds=0.2, parts=(StatedPart(Part.ROUTER, 0.01),))
    for _ in range(FIRST_ANSWER_SAMPLES):
        report = scenario.estimates.stand_in(account, partial)

    assert report is not None
    assert (report.queue_seconds, report.prefill_seconds) == pytest.approx((0.01, 0.19))
    price = scenario.estimates.estimator.costs.price("tiny", account.prompt_lengths)
    assert isinstance(price, Price)
    assert price.seconds == pytest.approx(0.19)


def test_dynamos_clients_that_ask_for_timing_keep_their_split() -> None:
    """Its timing states both phases as one number: the estimate was forbidden for 60 of 60, and splits them now."""
    scenario = Scenario("dynamo").taught()
    scenario.walk.clock.later(5)
    first, second = scenario.ask(), scenario.ask()
    timing = {"nvext": {"timing": {"prefill_wait_time_ms": 1.0, "prefill_time_ms": 580.0, "ttft_ms": 600.0}}}
    scenario.walk.clock.later(COST_SECONDS)
    scenario.token(first, first=True)
    scenario.walk.clock.later(COST_SECONDS)
    scenario.token(second, first=True)
    second.send(chunk(TOKEN | timing))
    scenario.end(first)
    scenario.end(second)
    scenario.walk.clock.later(30)
    scenario.walk.settlement.expire(scenario.walk.clock.now)

    ledger = scenario.walk.accounts[-1].ledger
    assert ledger is not None
    assert ledger.reason is Reason.ESTIMATED


def test_a_wrong_verdict_is_published_as_one() -> None:
    """The engine reports a queue time; the estimator saw no request waiting."""
    scenario = Scenario("vllm")
    reported = {"queue_time_ms": 200.0, "time_to_first_token_ms": 50.0, "generation_time_ms": 100.0}
    for _ in range(FIRST_ANSWER_SAMPLES + 1):
        scenario.alone(metrics=reported)

    assert scenario.walk.value("llm_estimator_verdicts_total", result="wrong") == 1
    assert scenario.walk.value("llm_estimator_intervals_total", result="below") == 1


def test_a_restart_that_the_engines_metrics_show_is_forgotten_with() -> None:
    scenario = Scenario("none").taught()
    recorder = EngineStateRecorder(scenario.walk.metrics)
    recorder.on_restart = scenario.estimates.forget

    recorder.read(EngineState(requests_running=0.0), Growth(restarted=False))
    before = scenario.walk.value("llm_estimator_ready", model="tiny")
    recorder.read(EngineState(requests_running=0.0), Growth(restarted=True))

    assert (before, scenario.walk.value("llm_estimator_ready", model="tiny")) == (1, 0)


def test_an_engine_that_refuses_connections_is_another_one_when_it_is_back() -> None:
    """A refused connection shows that no engine process is there; a slow engine has one, and is not forgotten."""
    scenario = Scenario("none").taught()
    ready = []
    for failure in (Failure.ENGINE_CONNECT_TIMEOUT, Failure.ENGINE_REFUSED):
        head = RequestHead(b"POST", b"/v1/completions", "1.1", [(b"Host", b"pod")], True, scenario.walk.clock.now)
        scenario.walk.observers(head).close(scenario.walk.clock.now, End(Outcome.ENGINE_UNREACHABLE, failure))
        ready.append(scenario.walk.value("llm_estimator_ready", model="tiny"))

    assert ready == [1, 0]


def test_who_fails_or_leaves_teaches_nothing_and_is_not_waited_for() -> None:
    """Every end takes a request off the waiting list; otherwise no later request would ever count as idle."""
    scenario = Scenario("none")
    for _ in range(3):
        client_gone = scenario.walk.client()
        client_gone.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 2\r\n\r\n{}")
        client_gone.lose()
        scenario.ask().lose()
    scenario.taught()

    assert scenario.walk.value("llm_estimator_ready", model="tiny") == 1
    assert scenario.walk.value("llm_estimator_samples", model="tiny") == RING


def test_a_model_that_is_no_longer_served_is_forgotten() -> None:
    scenario = Scenario("none").taught()
    scenario.estimates.serves(["another"])

    assert scenario.walk.value("llm_estimator_samples", model="tiny") == 0
