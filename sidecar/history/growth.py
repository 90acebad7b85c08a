"""Growth of the series within each window, and the gauges' values: one form for every source. Pure.

A running sidecar makes it from two snapshots, `sidecar diagnose` from a Prometheus' answers; readers cannot tell them apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, sub

from sidecar.metrics.declaration import Counter, Gauge, Histogram


Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """Count, sum and bucket counts of one histogram child, absolute or as a difference."""

    count: float
    sum: float
    counts: tuple[float, ...] = ()
    """Counts between the edges, not cumulative, one more than edges; empty if the source has no buckets."""

    def __add__(self, other: "Total") -> "Total":
        """The sum of two children with the same edges."""
        return Total(self.count + other.count, self.sum + other.sum, tuple(map(add, self.counts, other.counts)))

    def __sub__(self, before: "Total") -> "Total":
        """The growth since an earlier total of the same child."""
        return Total(self.count - before.count, self.sum - before.sum, tuple(map(sub, self.counts, before.counts)))


@dataclass(frozen=True, slots=True)
class Growth:
    seconds: float
    """Seconds of the window that lie between two snapshots."""
    counters: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    histograms: Mapping[str, Mapping[Labels, Total]] = field(default_factory=dict)

    def counted(self, metric: Counter, *labels: str) -> float | None:
        """One counter's growth; None if there is no such series."""
        return self.counters.get(metric.name, {}).get(labels)

    def observed(self, metric: Histogram, *labels: str) -> Total | None:
        """One histogram's growth; None if it has no observations."""
        grown = self.histograms.get(metric.name, {}).get(labels)
        return grown if grown is not None and grown.count > 0 else None


@dataclass(frozen=True, slots=True)
class Windows:
    growth: Mapping[float, Growth]
    """By one of `series.WINDOWS`."""
    gauges: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    """Gauge to its highest value within the long window, for those of `series.PEAK_GAUGES` that are known."""

    def gauge(self, metric: Gauge, *labels: str) -> float | None:
        """One gauge's value; None if it is unknown."""
        return self.gauges.get(metric.name, {}).get(labels)

    def all_of(self, metric: Gauge) -> Mapping[Labels, float]:
        return self.gauges.get(metric.name, {})


def quantile(q: float, counts: Sequence[float], bounds: Sequence[float]) -> float | None:
    """The q-quantile as Prometheus' histogram_quantile computes it: linear within the bucket. None without samples.

    `counts` are not cumulative, one more than `bounds`. Infinite above the last edge, where the value is unknown.
    """
    rank = q * sum(counts)
    if not rank:
        return None
    seen = 0.0
    for index, count in enumerate(counts[:-1]):
        if count and seen + count >= rank:
            low = bounds[index - 1] if index else 0.0
            return low + (bounds[index] - low) * (rank - seen) / count
        seen += count
    return float("inf")
