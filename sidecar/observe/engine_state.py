"""The engine's own state on our page: gauges while it is known, growth of its counters, restarts, and how its readings ended.

Knows which number goes where. Refuses to keep a gauge that nobody stands behind: what a reading does not state, or what
nobody could read, is taken off the page. A counter appears with the first reading that states it, at 0, so that `rate()`
sees the first growth; before that it is unknown, and no 0.
"""

from collections.abc import Callable

from sidecar.engines.probe.agreement import PHASES, Agreement
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


_COUNTERS = {
    Count.PREFIX_CACHE_QUERIES: c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL,
    Count.PREFIX_CACHE_HITS: c.ENGINE_PREFIX_CACHE_HITS_TOTAL,
    Count.PREEMPTIONS: c.ENGINE_PREEMPTIONS_TOTAL,
}


class EngineStateRecorder:
    """Writes what a `StateProber` reads. Make one per registry."""

    def __init__(
        self,
        metrics: Metrics,
        agreement: Agreement | None = None,
        now: Callable[[], tuple[float, int]] = lambda: (0.0, 0),
    ) -> None:
        """`agreement`: compares readings with our own sums. `now`: the monotonic instant, and how many requests are inside."""
        self._agreement = agreement
        self._now = now
        self._waiting = metrics.gauge(c.ENGINE_REQUESTS_WAITING).child()
        self._running = metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child()
        self._kv_cache_usage = metrics.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO).child()
        self._traffic_seen = metrics.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO).child()
        self._agreed = {phase: metrics.gauge(c.ENGINE_REPORT_AGREEMENT_RATIO).child(phase) for phase in PHASES}
        self._counters = {name: metrics.counter(metric) for name, metric in _COUNTERS.items()}
        self._restarts = metrics.counter(c.ENGINE_RESTARTS_TOTAL)
        self.on_restart: Callable[[], None] = lambda: None
        """Whoever has learned something about the engine's process forgets it."""
        self._scrapes = metrics.counter(c.ENGINE_SCRAPES_TOTAL)
        self._scrapes.begin()

    def scraped(self, result: str) -> None:
        """A reading ended with this result of the catalogue's."""
        self._scrapes.child(result).inc()

    def read(self, state: EngineState, growth: Growth) -> None:
        """A good reading: its gauges, and what its counters grew by."""
        self._waiting.set(state.requests_waiting)
        self._running.set(state.requests_running)
        self._kv_cache_usage.set(state.kv_cache_usage_ratio)
        for name, grown in growth.counters.items():
            if name in self._counters:
                self._counters[name].child().inc(grown)
        self._restarts.child().inc(int(growth.restarted))
        if growth.restarted:
            self.on_restart()
        if self._agreement is not None:
            ratios = self._agreement.read(growth, *self._now())
            self._traffic_seen.set(ratios.traffic_seen)
            for phase, gauge in self._agreed.items():
                gauge.set(ratios.agreement.get(phase))

    def unknown(self) -> None:
        """Nobody knows the state now. What has been counted stays counted."""
        for gauge in (self._waiting, self._running, self._kv_cache_usage, self._traffic_seen, *self._agreed.values()):
            gauge.set(None)
