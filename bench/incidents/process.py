"""One process of a sidecar: the product's own modules, which are told of each event as it happens.

`Settlement` closes ledgers and waits for late reports, `Slo` judges and blames; the recorder, the estimator and the
engine's state write their metrics. A process that restarts is another `Process`: it knows nothing of the one before. It
knows requests as the wire shows them, and reports if there are any; it refuses to know the order of events
(`product.py`), the true phases, the fault and the truth.
"""

from collections import defaultdict
from collections.abc import Iterable
from math import exp
from random import Random
from typing import Any, cast

from bench.incidents.engines import BUCKETS, EngineConfig
from bench.incidents.request import Request, State
from bench.incidents.world import Mode
from sidecar.classify.length import PromptLengthEstimator
from sidecar.config.schema import Config, SpansConfig
from sidecar.config.schema import EngineConfig as EngineSection
from sidecar.engines.dynamo import Dynamo
from sidecar.engines.engine import NONE, Engine
from sidecar.engines.kind import EngineKind
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.account import Account
from sidecar.ledger.report import EngineReport, KeyedReport, RequestKey
from sidecar.ledger.request_labels import RequestLabels
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.observe.engine_state import EngineStateRecorder
from sidecar.observe.estimates import Estimates
from sidecar.observe.instruments import Instruments
from sidecar.observe.request_record import RequestRecord
from sidecar.observe.roots import Roots
from sidecar.pod.costs.prefill_cost import lengths_of
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from sidecar.wiring import observers_of


LATE_REPORT_SECONDS = Dynamo.late_report_seconds
"""Wait for late reports: that of Dynamo, the engine with the latest reports."""
BYTES_A_TOKEN, BYTES_SIGMA = 4.2, 0.25
"""Mean bytes of text in a prompt token, and the standard deviation of their logarithm: between prose and code."""
JSON_BYTES = 300
"""Bytes of a body that count as text and are none: roles, keys, quotes."""


class _Speaks(EngineKind):
    """An engine kind that reports as this run's engine does."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.late_report_seconds = LATE_REPORT_SECONDS if words else 0.0

    def reports_on(self, choices: int) -> int:  # noqa: ARG002  the interface
        return self._words


class Process:
    """The product's modules of one process."""

    def __init__(
        self, engine: EngineConfig, mode: Mode, *, late: bool, estimated_lengths: bool, born_at: float = 0.0
    ) -> None:
        """`late`: the engine's reports come after the answers. `estimated_lengths`: a body states text, so that its
        tokens are known from usage only; otherwise it states token ids. `born_at`: instant at which the process began.
        """
        self.born_at = born_at
        self.now = born_at
        self._mode = mode
        self._estimated_lengths = estimated_lengths
        lanes = [load.lane for load in engine.lanes]
        models = list(dict.fromkeys(load.model for load in engine.lanes))
        self.metrics = Metrics(lanes=[*lanes, "other"], prompt_buckets=BUCKETS.labels, models=models)
        instruments = Instruments.on(self.metrics, engine.objectives(), estimate=True)
        self._recorder = instruments.recorder
        self._in_flight = instruments.in_flight
        self._slo = instruments.slo
        self._records: dict[int, RequestRecord] = defaultdict(RequestRecord)
        self._estimates = cast("Estimates", instruments.estimates)
        self._lengths = PromptLengthEstimator(BUCKETS, instruments.slo.tokens_per_byte)
        self._state = EngineStateRecorder(self.metrics)
        self._state.on_restart = self._engine_restarted
        self._up = self.metrics.gauge(c.ENGINE_UP).child()
        speaking = Engine(NONE)
        speaking.speaks = _Speaks(int(late))
        self._settlement = observers_of(
            Config(engine=EngineSection(url="http://engine:8000"), spans=SpansConfig(receive=False)),
            instruments,
            speaking,
            clock=lambda: self.now,
            log=lambda _account: None,
            unix=lambda: self.now,
        ).settlement
        self._settlement.listens = late
        unknown = {load.lane: RequestLabels(load.model, load.lane, "unknown") for load in engine.lanes}
        self._gaps = {lane: self._recorder.gaps[labels].observe for lane, labels in unknown.items()}
        self._per_read = {lane: self._recorder.per_read[labels].observe for lane, labels in unknown.items()}
        self._last_state: State | None = None

    @property
    def roots(self) -> Roots:
        """The roots of this process's misses."""
        return self._slo.roots

    # --- one event ----------------------------------------------------------------------------------------------------

    def tick(self, at: float) -> None:
        """A second has passed."""
        self.now = at
        while self._settlement.expire(at):
            pass

    def received(self, request: Request, at: float) -> None:
        """The body of a request is complete."""
        self.now = at
        number = request.number
        stated, text = self._body(request)
        labels = self._labels(request, self._estimated_bucket(request))
        self._in_flight.enter(self._records[number], labels, at)
        self._estimates.arrived(number, at, streaming=request.streaming)
        tokens = self._lengths.tokens(request.model, text) if stated is None else float(stated)
        self._slo.received(self._records[number], at, labels, streaming=request.streaming, prompt_tokens=tokens)

    def read(self, request: Request, which: int, at: float) -> None:
        """Read number `which`, from 0, brought output."""
        self.now = at
        number, count = request.number, request.events[which]
        gap = self._gaps[request.lane]
        if which:
            gap(at - request.reads[which - 1])
        else:
            self._in_flight.streaming(self._records[number])
        for _ in range(count - 1):
            gap(0.0)
        self._per_read[request.lane](count)
        self._estimates.spoke(number, at)
        self._slo.output(self._records[number], count, at)

    def paused(self, number: int, at: float) -> None:
        """Reading stopped because of the client of this request."""
        self.now = at
        self._slo.paused(self._records[number], at)

    def resumed(self, number: int, at: float) -> None:
        """Reading goes on."""
        self.now = at
        self._slo.resumed(self._records[number], at)

    def ended(self, request: Request, at: float) -> None:
        """The request is over, in any way."""
        self.now = at
        number = request.number
        ok = request.outcome is Outcome.OK
        record = self._records.pop(number, None) or RequestRecord()
        self._in_flight.leave(record)
        if request.outcome is Outcome.ENGINE_UNREACHABLE:
            self._estimates.forget()
        usage = self._usage(request) if ok else None
        labels = self._labels(request, self._bucket(request, usage))
        stated, text = self._body(request)
        tokens = stated if usage is None else usage.prompt_tokens
        estimated = None if text is None else self._lengths.tokens(labels.model, text)
        lengths = lengths_of(tokens, None if usage is None else usage.cached_tokens, text, estimated)
        marks = _marks(request, usage)
        prefill = self._estimates.ended(number, labels, lengths, marks, ok=ok and request.streaming)
        account = Account(
            labels=labels,
            streaming=request.streaming,
            outcome=request.outcome,
            marks=marks,
            ledger=None,
            cancelled_in=request.cancelled_in,
            prompt_lengths=lengths,
            estimate=prefill,
            key=record,
        )
        in_band = self._mode is Mode.REPORTS and request.report is not None and request.report_late_seconds == 0
        self._settlement.ended(account, _report(request) if in_band else None, _keys(request), None, at=at)

    def reported(self, request: Request, at: float) -> None:
        """The engine's report on a request came after its answer."""
        self.now = at
        self._settlement.reported(KeyedReport(keys=_keys(request), report=_report(request)))

    def engine_said(self, state: State, at: float) -> None:
        """The engine's health check was answered or not, and its metrics page was read, if the mode has one."""
        self.now = at
        self._up.set(int(state.up))
        if self._mode is Mode.BLIND:
            return
        last = self._last_state
        if not state.up:
            self._state.scraped("unreachable")
            self._state.unknown()
            return
        self._state.scraped("ok")
        self._state.read(
            EngineState(
                requests_waiting=float(state.waiting),
                requests_running=float(state.running),
                kv_cache_usage_ratio=state.kv_usage,
                counters={},
                started_at_unix=None,
            ),
            Growth(cast("Any", _grown(state, last)), restarted=last is not None and last.process != state.process),
        )
        self._last_state = state

    def _engine_restarted(self) -> None:
        self._estimates.forget()
        self._slo.engine_restarted()

    # --- lengths, as `RequestObserver` of the product takes them ------------------------------------------------------

    def _body(self, request: Request) -> tuple[int | None, int | None]:
        """Prompt tokens that the body states, and its bytes of text; one of them is None."""
        return (None, text_bytes(request)) if self._estimated_lengths else (request.prompt_tokens, None)

    def _estimated_bucket(self, request: Request) -> str:
        stated, text = self._body(request)
        return self._lengths.bucket_of(request.model, text) if stated is None else BUCKETS.bucket_of(stated)

    def _bucket(self, request: Request, usage: Usage | None) -> str:
        if usage is None or usage.prompt_tokens is None:
            return self._estimated_bucket(request)
        self._lengths.learn(request.model, self._body(request)[1], usage.prompt_tokens)
        return BUCKETS.bucket_of(usage.prompt_tokens)

    def _labels(self, request: Request, bucket: str) -> RequestLabels:
        return RequestLabels(request.model, request.lane, bucket)

    def _usage(self, request: Request) -> Usage:
        cached = None if self._mode is Mode.BLIND else request.cached_tokens
        return Usage(request.prompt_tokens, cached, request.output_tokens)


def text_bytes(request: Request) -> int:
    """Bytes of text in the body of a request; the same each time."""
    luck = Random(f"{request.lane}/{request.received_at!r}/bytes")
    bytes_a_token = BYTES_A_TOKEN * exp(luck.gauss(0.0, BYTES_SIGMA) - BYTES_SIGMA**2 / 2)
    return round(request.prompt_tokens * bytes_a_token) + JSON_BYTES


def _grown(state: State, last: State | None) -> dict[Count, float]:
    """Growth of the engine's counters since the last reading; 0 at the first, as the product takes it."""
    counts: Iterable[tuple[Count, str]] = (
        (Count.PREEMPTIONS, "preemptions"),
        (Count.PREFIX_CACHE_QUERIES, "prefix_queries"),
        (Count.PREFIX_CACHE_HITS, "prefix_hits"),
    )
    if last is None:
        return {name: 0.0 for name, _ in counts}
    fresh = last.process != state.process
    return {name: float(getattr(state, field) - (0 if fresh else getattr(last, field))) for name, field in counts}


def _keys(request: Request) -> tuple[RequestKey, ...]:
    return (RequestKey("response", str(request.number)),)


def _report(request: Request) -> EngineReport:
    assert request.report is not None
    queue, prefill, decode = request.report
    return EngineReport(queue_seconds=queue, prefill_seconds=prefill, decode_seconds=decode)


def _marks(request: Request, usage: Usage | None) -> Marks:
    """The instants as the sidecar records them. Usage comes with the end of a complete answer."""
    first = request.reads[0] if request.reads else None
    last = request.reads[-1] if request.reads else None
    paused = sum(min(ended, last) - began for began, ended in request.pauses if last is not None and began < last)
    return Marks(
        accepted_at=request.received_at - 0.002,
        received_at=request.received_at,
        sent_at=request.received_at + 0.0003,
        headers_at=first or request.ended_at,
        first_token_at=first,
        last_token_at=last,
        ended_at=request.ended_at,
        flushed_at=request.flushed_at,
        paused_seconds=paused,
        output_events=sum(request.events),
        choices=1,
        usage=usage,
    )
