"""Runs the product on a recorded run: requests go in at the instants at which a sidecar sees them, samples come out.

The product's own modules do the work: `Settlement` closes ledgers and waits for late reports, `Slo` judges and blames;
the recorder, the estimator and the engine's state write their metrics. Samples are taken every 15 s; no number that a
rule reads is computed here. It knows requests as the wire shows them, and reports if there are any; it refuses to know
the true phases, the fault and the truth.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

from bench.incidents.engines import BUCKETS, MODEL, EngineConfig
from bench.incidents.request import Request, Run, State
from bench.incidents.samples import Samples
from sidecar.config.schema import Config
from sidecar.engines.dynamo import Dynamo
from sidecar.engines.engine import Engine
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
from sidecar.slo.prefill_cost import length_of
from sidecar.timeline.events import Usage
from sidecar.timeline.marks import Marks
from sidecar.timeline.outcome import Outcome
from sidecar.wiring import observers_of


SCRAPE_SECONDS = 15.0
LATE_REPORT_SECONDS = Dynamo.late_report_seconds
"""Wait for late reports: that of Dynamo, the engine with the latest reports."""
SLICE_SECONDS = 600.0
LATEST_WORD_SECONDS = 60.0
TICK, RECEIVED, READ, PAUSED, RESUMED, ENDED, WORD, STATE, SCRAPE = range(9)
"""Kinds of events; at the same instant the lower number comes first."""


class _Speaks(EngineKind):
    """An engine kind that reports as this run's engine does."""

    def __init__(self, words: int) -> None:
        self._words = words
        self.late_report_seconds = LATE_REPORT_SECONDS if words else 0.0

    def reports_on(self, choices: int) -> int:  # noqa: ARG002  the interface
        return self._words


class Product:
    """The product's modules of one sidecar, and a run that passes through them."""

    def __init__(self, engine: EngineConfig, run: Run, *, reports: bool) -> None:
        """`reports`: False for an engine without reports, so that the estimator has to split the TTFT."""
        self._run = run
        self._reports = reports
        self._now = 0.0
        lanes = [load.lane for load in engine.lanes]
        self.metrics = Metrics(lanes=[*lanes, "other"], prompt_buckets=BUCKETS.labels, models=[MODEL])
        instruments = Instruments.on(self.metrics, engine.objectives(), estimate=True)
        self._recorder = instruments.recorder
        self._in_flight = instruments.in_flight
        self._slo = instruments.slo
        self._estimates = cast("Estimates", instruments.estimates)
        self._state = EngineStateRecorder(self.metrics)
        self._state.on_restart = self._restarted
        self._up = self.metrics.gauge(c.ENGINE_UP).child()
        late = reports and any(request.report_late_seconds > 0 for request in run.requests)
        self._settlement = observers_of(
            Config.model_validate({"engine": {"url": "http://engine:8000"}, "spans": {"receive": False}}),
            instruments,
            cast("Engine", SimpleNamespace(speaks=_Speaks(int(late)), kind=None)),
            clock=lambda: self._now,
            log=lambda _account: None,
            unix=lambda: 0.0,
        ).settlement
        self._settlement.listens = late
        self._gaps = {lane: self._recorder.gap_observer(RequestLabels(MODEL, lane, "unknown")) for lane in lanes}
        self._per_read = {lane: self._recorder.read_observer(RequestLabels(MODEL, lane, "unknown")) for lane in lanes}
        self._last_state: State | None = None

    def play(self, names: frozenset[str], every_seconds: float = SCRAPE_SECONDS) -> Samples:
        """Play all events in order; returns the samples of all series with these names, as scrapes would read them."""
        run, samples = self._run, Samples(self.metrics, names, every_seconds)
        for events in _slices(run, every_seconds, reports=self._reports):
            for at, what, number, which in events:
                self._now = at
                if what == SCRAPE:
                    self.metrics.refresh(at)
                    samples.take()
                elif what == READ:
                    self._read(run.requests[number], which, at)
                else:
                    self._other(what, number, at)
        return samples

    def _other(self, what: int, number: int, at: float) -> None:
        if what == TICK:
            self._settlement.expire(at)
        elif what == RECEIVED:
            self._received(self._run.requests[number], at)
        elif what == ENDED:
            self._ended(self._run.requests[number], at)
        elif what == WORD:
            self._settlement.reported(
                KeyedReport(keys=(RequestKey("response", str(number)),), report=_report(self._run.requests[number]))
            )
        elif what == STATE:
            self._engine_said(self._run.states[number])
        elif what == PAUSED:
            self._slo.paused(number, at)
        else:
            self._slo.resumed(number, at)

    # --- one event ----------------------------------------------------------------------------------------------------

    def _received(self, request: Request, at: float) -> None:
        number = request.number
        self._in_flight.enter(number, _labels(request), at)
        self._estimates.arrived(number, at)
        self._slo.received(
            number,
            at,
            _labels(request),
            streaming=request.streaming,
            prompt_tokens=float(request.prompt_tokens),
        )

    def _read(self, request: Request, which: int, at: float) -> None:
        number, count = request.number, request.events[which]
        gap = self._gaps[request.lane]
        if which:
            gap(at - request.reads[which - 1])
        else:
            self._in_flight.streaming(number)
        for _ in range(count - 1):
            gap(0.0)
        self._per_read[request.lane](count)
        self._estimates.spoke(number, at)
        self._slo.output(number, count, at)

    def _ended(self, request: Request, at: float) -> None:
        number = request.number
        ok = request.outcome is Outcome.OK
        self._in_flight.leave(number)
        if request.outcome is Outcome.ENGINE_UNREACHABLE:
            self._estimates.forget()
        length = length_of(request.prompt_tokens, request.cached_tokens if ok else None, None)
        estimated = self._estimates.ended(number, MODEL, length, ok=ok and request.streaming)
        account = Account(
            labels=_labels(request),
            streaming=request.streaming,
            outcome=request.outcome,
            marks=_marks(request, ok=ok),
            ledger=None,
            cancelled_in=request.cancelled_in,
            estimated_prefill_seconds=estimated,
            key=number,
        )
        in_band = self._reports and request.report is not None and request.report_late_seconds == 0
        keys = (RequestKey("response", str(number)),)
        self._settlement.ended(account, _report(request) if in_band else None, keys, None, at=at)

    def _engine_said(self, state: State) -> None:
        """Take in the engine's health check and its metrics page."""
        self._up.set(int(state.up))
        last = self._last_state
        if not state.up:
            self._state.scraped("unreachable")
            self._state.unknown()
            return
        fresh = last is None or last.process != state.process
        counts: Iterable[tuple[Count, str]] = (
            (Count.PREEMPTIONS, "preemptions"),
            (Count.PREFIX_CACHE_QUERIES, "prefix_queries"),
            (Count.PREFIX_CACHE_HITS, "prefix_hits"),
        )
        grown = {
            name: float(getattr(state, field) - (0 if fresh or last is None else getattr(last, field)))
            for name, field in counts
        }
        self._state.scraped("ok")
        self._state.read(
            EngineState(
                requests_waiting=float(state.waiting),
                requests_running=float(state.running),
                kv_cache_usage_ratio=state.kv_usage,
                counters={},
                started_at_unix=None,
            ),
            Growth(cast("Any", grown), restarted=fresh and last is not None),
        )
        self._last_state = state

    def _restarted(self) -> None:
        self._estimates.forget()
        self._slo.engine_restarted()


Event = tuple[float, int, int, int]
"""Instant, kind of event, number of the request or state, number of the read."""


def _slices(run: Run, every_seconds: float, *, reports: bool) -> Iterator[list[Event]]:
    """All events in order, some minutes at a time: the events of a day do not fit into memory."""
    requests, states = iter(run.requests), iter(enumerate(run.states))
    request, state = next(requests, None), next(states, None)
    inside: list[Request] = []
    began = 0.0
    while began <= run.ends_at:
        ends = began + SLICE_SECONDS
        while request is not None and request.received_at < ends:
            inside.append(request)
            request = next(requests, None)
        events = [event for each in inside for event in _events_of(each, began, ends, reports=reports)]
        while state is not None and state[1].at < ends:
            events.append((state[1].at, STATE, state[0], 0))
            state = next(states, None)
        first, last = int(began), int(min(ends, run.ends_at + 1.0))
        events += [(float(second), TICK, 0, 0) for second in range(first, last)]
        events += [(float(second), SCRAPE, 0, 0) for second in range(first, last) if second % every_seconds == 0]
        events.sort()
        yield [event for event in events if event[0] <= run.ends_at]
        inside = [each for each in inside if each.flushed_at is None or each.flushed_at + LATEST_WORD_SECONDS >= ends]
        began = ends


def _events_of(request: Request, began: float, ends: float, *, reports: bool) -> Iterator[Event]:
    """Events of one request, from `began` on and before `ends`."""
    number = request.number
    if request.received_at >= began:
        yield request.received_at, RECEIVED, number, 0
    for which in range(bisect_left(request.reads, began), bisect_left(request.reads, ends)):
        yield request.reads[which], READ, number, which
    for pause in request.pauses:
        for what, at in zip((PAUSED, RESUMED), pause, strict=True):
            if began <= at < ends:
                yield at, what, number, 0
    if request.flushed_at is None:
        return
    if began <= request.flushed_at < ends:
        yield request.flushed_at, ENDED, number, 0
    told_at = request.flushed_at + request.report_late_seconds
    if reports and request.report is not None and request.report_late_seconds > 0 and began <= told_at < ends:
        yield told_at, WORD, number, 0


def _labels(request: Request) -> RequestLabels:
    return RequestLabels(MODEL, request.lane, BUCKETS.bucket_of(request.prompt_tokens))


def _report(request: Request) -> EngineReport:
    assert request.report is not None
    queue, prefill, decode = request.report
    return EngineReport(queue_seconds=queue, prefill_seconds=prefill, decode_seconds=decode)


def _marks(request: Request, *, ok: bool) -> Marks:
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
        usage=Usage(request.prompt_tokens, request.cached_tokens, request.output_tokens) if ok else None,
    )
