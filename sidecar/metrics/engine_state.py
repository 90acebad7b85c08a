"""The engine's own state on our page: gauges while it is known, growth of its counters, restarts, and how its readings ended.

Knows which number goes where. Refuses to keep a gauge that nobody stands behind: what a reading does not state, or what
nobody could read, is taken off the page. A counter appears with the first reading that states it, at 0, so that `rate()`
sees the first growth; before that it is unknown, and no 0.
"""

from sidecar.engines.state import PREEMPTIONS, PREFIX_CACHE_HITS, PREFIX_CACHE_QUERIES, EngineState, Growth
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics


_COUNTERS = (
    (PREFIX_CACHE_QUERIES, c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL),
    (PREFIX_CACHE_HITS, c.ENGINE_PREFIX_CACHE_HITS_TOTAL),
    (PREEMPTIONS, c.ENGINE_PREEMPTIONS_TOTAL),
)


class EngineStateRecorder:
    """Writes what a `StateProber` reads. Make one per registry."""

    def __init__(self, metrics: Metrics) -> None:
        self._waiting = metrics.gauge(c.ENGINE_REQUESTS_WAITING).child()
        self._running = metrics.gauge(c.ENGINE_REQUESTS_RUNNING).child()
        self._kv_cache_usage = metrics.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO).child()
        self._counters = {name: metrics.counter(metric) for name, metric in _COUNTERS}
        self._restarts = metrics.counter(c.ENGINE_RESTARTS_TOTAL)
        self._scrapes = metrics.counter(c.ENGINE_SCRAPES_TOTAL)
        for result in c.ENGINE_SCRAPES_TOTAL.labels[0].values:
            self._scrapes.child(result)

    def scraped(self, result: str) -> None:
        """A reading ended with this result of the catalogue's."""
        self._scrapes.child(result).inc()

    def read(self, state: EngineState, growth: Growth) -> None:
        """A good reading: its gauges, and what its counters grew by."""
        self._waiting.set(state.requests_waiting)
        self._running.set(state.requests_running)
        self._kv_cache_usage.set(state.kv_cache_usage_ratio)
        for name, grown in growth.counters.items():
            self._counters[name].child().inc(grown)
        self._restarts.child().inc(int(growth.restarted))

    def unknown(self) -> None:
        """Nobody knows the state now. What has been counted stays counted."""
        for gauge in (self._waiting, self._running, self._kv_cache_usage):
            gauge.set(None)
