"""The engine's own state on the metrics page: gauges while it is known, growth of counters, restarts, scrape results.

Knows which value belongs to which metric. Refuses to keep a stale gauge: a value that a scrape does not state, or that
could not be read, is taken off the page. A counter appears with the first scrape that states it, at 0, so that `rate()`
sees the first growth; before that it is unknown, and unknown is not 0.
"""

from collections.abc import Callable
from math import inf

from sidecar.engines.probe.agreement import COUNTED_PHASES, Agreement
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


_COUNTERS = {
    Count.PREFIX_CACHE_QUERIES: c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL,
    Count.PREFIX_CACHE_HITS: c.ENGINE_PREFIX_CACHE_HITS_TOTAL,
    Count.PREEMPTIONS: c.ENGINE_PREEMPTIONS_TOTAL,
    Count.DRAFT_TOKENS: c.ENGINE_DRAFT_TOKENS_TOTAL,
    Count.ACCEPTED_DRAFT_TOKENS: c.ENGINE_ACCEPTED_DRAFT_TOKENS_TOTAL,
}


class EngineStateRecorder:
    """Writes what a `StateProber` reads. Make one per registry."""

    def __init__(
        self,
        metrics: Metrics,
        agreement: Agreement | None = None,
        now: Callable[[], tuple[float, int]] = lambda: (0.0, 0),
    ) -> None:
        """`agreement`: compares scrapes with the sidecar's own sums. `now`: monotonic instant, requests in flight."""
        self._agreement = agreement
        self._now = now
        self._waiting = metrics.gauge(c.ENGINE_REQUESTS_WAITING).child()
        self._running = metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child()
        self._kv_cache_usage = metrics.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO).child()
        self._traffic_seen = metrics.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO).child()
        self._agreed = {phase: metrics.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).child(phase) for phase in COUNTED_PHASES}
        self._counters = {name: metrics.counter(metric) for name, metric in _COUNTERS.items()}
        self._restarts = metrics.counter(c.ENGINE_RESTARTS_TOTAL)
        self.grew_at = -inf
        """When a scrape last showed that the engine's counts of its work had grown: it works, whatever the wire shows."""
        self.counts_output = False
        """Whether the last successful scrape stated the engine's count of its output, made token by token."""
        self.running: float | None = None
        """Requests that the engine said it runs, at the last scrape; None if that is unknown."""
        self.asleep = False
        """Whether it said at the last scrape that it sleeps."""
        self.seen_ratio: float | None = None
        """Share of the engine's ended requests that were counted here too, of the last ten minutes; None if that is unknown."""
        self.on_restart: Callable[[], None] = lambda: None
        """Called after an engine restart: what was learned about the old engine process must be forgotten."""
        self._scrapes = metrics.counter(c.ENGINE_SCRAPES_TOTAL)
        self._scrapes.begin()

    def scraped(self, result: str) -> None:
        """A scrape ended with this result, a label value of llm_engine_scrapes_total."""
        self._scrapes.child(result).inc()

    def read(self, state: EngineState, growth: Growth) -> None:
        """Write one successful scrape: its gauges, and the growth of its counters."""
        self._waiting.set(state.requests_waiting)
        self._running.set(state.requests_running)
        self._kv_cache_usage.set(state.kv_cache_usage_ratio)
        self.running, self.asleep = state.requests_running, state.asleep
        for name, grown in growth.counters.items():
            if name in self._counters:
                self._counters[name].child().inc(grown)
        self.counts_output = Count.OUTPUT_TOKENS in growth.counters
        if any(growth.counters.values()):
            self.grew_at, _ = self._now()
        self._restarts.child().inc(int(growth.restarted))
        if growth.restarted:
            self.on_restart()
        if self._agreement is not None:
            ratios = self._agreement.read(growth, *self._now())
            self.seen_ratio = ratios.traffic_seen
            self._traffic_seen.set(ratios.traffic_seen)
            for phase, gauge in self._agreed.items():
                gauge.set(ratios.agreement.get(phase))

    def unknown(self) -> None:
        """The engine's state is unknown now: its gauges leave the page, its counters stay."""
        self.running, self.seen_ratio, self.asleep = None, None, False
        for gauge in (self._waiting, self._running, self._kv_cache_usage, self._traffic_seen, *self._agreed.values()):
            gauge.set(None)
