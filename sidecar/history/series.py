"""Which metrics a diagnosis is made of, by which labels, and over which windows: one table for every source.

The ring in a running sidecar sums children by these labels, and the questions to Prometheus are written from the same
lines. Knows declarations. Holds growth as it was told, and refuses to know who told it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.metrics import catalogue as c
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.declaration import Counter, Gauge, Histogram


NOW_SECONDS = 120.0
"""Evidence is read over this window."""
WINDOW_SECONDS = 300.0
"""What is shown, and the votes."""
LONG_SECONDS = 1800.0
"""Votes of lanes that miss seldom; and whether it is a spike."""
WINDOWS = (NOW_SECONDS, WINDOW_SECONDS, LONG_SECONDS)

_NOW, _SHOWN, _VOTED = (NOW_SECONDS,), (WINDOW_SECONDS,), (WINDOW_SECONDS, LONG_SECONDS)


@dataclass(frozen=True, slots=True)
class Kept:
    """One counter or histogram."""

    metric: Counter | Histogram
    labels: tuple[str, ...]
    """Summed over all others."""
    windows: tuple[float, ...]
    only: Mapping[str, str] = field(default_factory=dict)
    """Children with these values alone."""
    buckets: bool = True
    """Of a histogram: the buckets as well as sum and count."""


_LANE = ("model", "lane")
_WHO = (*_LANE, "objective")

KEPT = (
    Kept(p.SLO_REQUESTS_TOTAL, (*_LANE, "prompt_bucket", "objective"), (LONG_SECONDS,)),
    Kept(p.SLO_MISSES_TOTAL, _WHO, WINDOWS),
    Kept(p.SLO_ALLOWED_MISSES_TOTAL, _WHO, WINDOWS),
    Kept(p.SLO_BLAMED_MISSES_TOTAL, (*_WHO, "phase"), _VOTED),
    Kept(p.REQUESTS_RECEIVED_TOTAL, _LANE, (NOW_SECONDS, WINDOW_SECONDS)),
    Kept(p.RECEIVED_MEASURED_REQUESTS_TOTAL, _LANE, _NOW),
    Kept(p.RECEIVED_PROMPT_TOKENS_TOTAL, _LANE, _NOW),
    Kept(p.UNCACHED_PROMPT_TOKENS_TOTAL, _LANE, (NOW_SECONDS, WINDOW_SECONDS)),
    Kept(c.CACHED_PROMPT_TOKENS_TOTAL, _LANE, WINDOWS),
    Kept(p.PREFILL_OWN_SECONDS_TOTAL, ("model",), _NOW),
    Kept(p.PREFILL_EXPECTED_SECONDS_TOTAL, ("model",), _NOW),
    Kept(c.ENGINE_PREFIX_CACHE_HITS_TOTAL, (), _NOW),
    Kept(c.ENGINE_PREFIX_CACHE_QUERIES_TOTAL, (), _NOW),
    Kept(p.ENGINE_STALLED_SECONDS_TOTAL, (), _SHOWN),
    Kept(c.ENGINE_PREEMPTIONS_TOTAL, (), _SHOWN),
    Kept(c.ENGINE_RESTARTS_TOTAL, (), _SHOWN),
    Kept(c.PHASE_ATTRIBUTION_TOTAL, ("lane", "source", "reason"), _SHOWN),
    Kept(c.TIME_TO_FIRST_TOKEN_SECONDS, _LANE, _SHOWN),
    Kept(c.INTER_TOKEN_SECONDS, _LANE, (NOW_SECONDS, WINDOW_SECONDS)),
    Kept(c.REQUEST_SECONDS, _LANE, _SHOWN, {"streaming": "true"}),
    Kept(c.REQUEST_PHASE_SECONDS, (*_LANE, "phase", "source"), _SHOWN, {"streaming": "true"}),
    Kept(c.PROMPT_TOKENS, _LANE, (NOW_SECONDS, WINDOW_SECONDS), buckets=False),
    Kept(c.OUTPUT_TOKENS, _LANE, _SHOWN, buckets=False),
)


@dataclass(frozen=True, slots=True)
class KeptGauge:
    """One gauge."""

    metric: Gauge
    labels: tuple[str, ...] = ()
    reduce: str = "max"
    """How children, and pods, are put together: `sum`, `max`, `min`."""
    minute: bool = False
    """The mean of the last minute, and not as it stands."""


GAUGES = (
    KeptGauge(c.ENGINE_UP, reduce="min"),
    KeptGauge(c.ENGINE_REQUESTS_WAITING, reduce="sum", minute=True),
    KeptGauge(c.ENGINE_REQUESTS_RUNNING, reduce="sum", minute=True),
    KeptGauge(c.ENGINE_KV_CACHE_USAGE_RATIO, minute=True),
    KeptGauge(c.REQUESTS_IN_FLIGHT, ("model", "state"), "sum", minute=True),
    KeptGauge(p.SLO_THRESHOLD_SECONDS, ("lane", "prompt_bucket", "objective"), "min"),
    KeptGauge(c.ENGINE_REPORT_AGREEMENT_RATIO, ("phase",), "min"),
    KeptGauge(c.ENGINE_TRAFFIC_SEEN_RATIO, reduce="min"),
)


@dataclass(frozen=True, slots=True)
class Grown:
    """How much a histogram grew."""

    count: float
    sum: float
    counts: tuple[float, ...] = ()
    """Between the edges, not cumulative, one more than edges; empty where nobody kept them."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How much everything grew within one window."""

    seconds: float
    """How much of the window was really seen."""
    counters: Mapping[str, Mapping[tuple[str, ...], float]] = field(default_factory=dict)
    histograms: Mapping[str, Mapping[tuple[str, ...], Grown]] = field(default_factory=dict)

    def counted(self, metric: Counter, *labels: str) -> float | None:
        """One counter's growth; None where there is no such series."""
        return self.counters.get(metric.name, {}).get(labels)

    def observed(self, metric: Histogram, *labels: str) -> Grown | None:
        """One histogram's growth; None where nothing was observed."""
        grown = self.histograms.get(metric.name, {}).get(labels)
        return grown if grown is not None and grown.count > 0 else None


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that a source saw."""

    windows: Mapping[float, Growth]
    """By one of `WINDOWS`."""
    gauges: Mapping[str, Mapping[tuple[str, ...], float]] = field(default_factory=dict)

    def gauge(self, metric: Gauge, *labels: str) -> float | None:
        """One gauge; None: nobody knows."""
        return self.gauges.get(metric.name, {}).get(labels)

    def all_of(self, metric: Gauge) -> Mapping[tuple[str, ...], float]:
        """All children of one gauge."""
        return self.gauges.get(metric.name, {})
