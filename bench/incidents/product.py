"""Plays a recorded run through the product, as the sidecar of one pod sees it: requests go in, samples come out.

It knows the order of events, the scrapes every 15 s, and the restarts of a sidecar. No number that a rule reads is
computed here (`process.py` has the product's modules). It refuses to know the true phases, the fault and the truth.
"""

from bisect import bisect_left
from collections.abc import Iterator

from bench.incidents.engines import EngineConfig
from bench.incidents.loop_lag import LoopLag
from bench.incidents.process import Process
from bench.incidents.request import Request, Run
from bench.incidents.samples import Samples
from bench.incidents.world import Mode
from sidecar.health.health import lags_of
from sidecar.metrics.declaration import Profile
from sidecar.metrics.registry import Metrics


SCRAPE_SECONDS = 15.0
SLICE_SECONDS = 600.0
LATEST_WORD_SECONDS = 60.0
RESTART, TICK, RECEIVED, READ, PAUSED, RESUMED, ENDED, WORD, STATE, SCRAPE = range(10)
"""Kinds of events; at the same instant the lower number comes first."""


class Product:
    """The sidecar of one pod, and a run that passes through it."""

    def __init__(
        self, engine: EngineConfig, run: Run, *, mode: Mode, pod: int = 0, estimated_lengths: bool = False
    ) -> None:
        """`pod`: number of the pod, from 0; the sidecar sees the requests and states of this one only.
        `estimated_lengths`: it estimates the prompt's tokens from the body's bytes until usage states them.
        """
        self._engine = engine
        self._mode = mode
        self._pod = pod
        self._estimated_lengths = estimated_lengths
        self._run = run.of_pod(pod)
        self._requests = {request.number: request for request in self._run.requests}
        self._late = mode is Mode.REPORTS and any(each.report_late_seconds > 0 for each in self._run.requests)
        self._process = self._begun(0.0)
        self._lag = self._lag_of(self._process)

    @property
    def metrics(self) -> Metrics:
        """The registry of the process that runs now."""
        return self._process.metrics

    def play(
        self, names: frozenset[str], every_seconds: float = SCRAPE_SECONDS, *, profile: Profile = "full"
    ) -> Samples:
        """Play all events in order; returns the samples of all series with these names, as scrapes would read them.

        The first scrape after a restart fails: the process has only begun.
        """
        samples = Samples(self.metrics, names, every_seconds, pod=self._pod, profile=profile)
        begins = False
        for events in _slices(self._run, every_seconds, self._mode, self._run.sidecar_restarts_at.get(self._pod)):
            for at, what, number, which in events:
                if what == READ:
                    self._read(self._requests[number], which, at)
                elif what == SCRAPE and begins:
                    samples.miss()
                    begins = False
                elif what == SCRAPE:
                    self._process.now = at
                    self.metrics.refresh(at)
                    samples.take()
                elif what == RESTART:
                    self._process = self._begun(at)
                    self._lag = self._lag_of(self._process)
                    samples.go_on(self.metrics, at)
                    begins = True
                else:
                    self._other(what, number, at)
        return samples

    def _read(self, request: Request, which: int, at: float) -> None:
        if request.received_at >= self._process.born_at:
            self._process.read(request, which, at)

    def _other(self, what: int, number: int, at: float) -> None:
        process = self._process
        if what == TICK:
            process.tick(at)
            if self._lag is not None:
                self._lag.advance(at)
        elif what == STATE:
            process.engine_said(self._run.states[number], at)
        else:
            self._about(what, self._requests[number], at)

    def _about(self, what: int, request: Request, at: float) -> None:
        """One event of a request. A process knows nothing of requests that were in flight when it began."""
        process, number = self._process, request.number
        flushed_at = request.flushed_at
        if what == WORD:
            # The engine reports to whichever process runs, also on requests that had ended before that began.
            if request.received_at >= process.born_at or (flushed_at is not None and flushed_at < process.born_at):
                process.reported(request, at)
        elif request.received_at < process.born_at:
            return
        elif what == RECEIVED:
            process.received(request, at)
        elif what == ENDED:
            process.ended(request, at)
        elif what == PAUSED:
            process.paused(number, at)
        else:
            process.resumed(number, at)

    def _begun(self, at: float) -> Process:
        return Process(self._engine, self._mode, late=self._late, estimated_lengths=self._estimated_lengths, born_at=at)

    def _lag_of(self, process: Process) -> LoopLag | None:
        """The lag of the event loop; None without a quota, because no rule depends on a lag of next to nothing."""
        throttle = self._run.throttled.get(self._pod)
        if throttle is None:
            return None
        return LoopLag(lags_of(process.metrics), throttle, (self._run.fault_at, self._run.recovers_at), process.born_at)


Event = tuple[float, int, int, int]
"""Instant, kind of event, number of the request or state, number of the read."""


def _slices(run: Run, every_seconds: float, mode: Mode, restarts_at: float | None) -> Iterator[list[Event]]:
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
        reports = mode is Mode.REPORTS
        events = [event for each in inside for event in _events_of(each, began, ends, reports=reports)]
        while state is not None and state[1].at < ends:
            events.append((state[1].at, STATE, state[0], 0))
            state = next(states, None)
        first, last = int(began), int(min(ends, run.ends_at + 1.0))
        events += [(float(second), TICK, 0, 0) for second in range(first, last)]
        events += [(float(second), SCRAPE, 0, 0) for second in range(first, last) if second % every_seconds == 0]
        if restarts_at is not None and began <= restarts_at < ends:
            events.append((restarts_at, RESTART, 0, 0))
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


def sampled(
    engine: EngineConfig,
    run: Run,
    mode: Mode,
    names: frozenset[str],
    *,
    every_seconds: float = SCRAPE_SECONDS,
    estimated_lengths: bool = False,
    profile: Profile = "full",
) -> list[Samples]:
    """The samples of the series with these names that Prometheus would have scraped in a run, pod by pod. `profile`: the pods'."""
    found = []
    for pod in range(run.pods):
        product = Product(engine, run, mode=mode, pod=pod, estimated_lengths=estimated_lengths)
        samples = product.play(names, every_seconds, profile=profile)
        samples.without_idle()
        samples.add_target()
        found.append(samples)
    return found
