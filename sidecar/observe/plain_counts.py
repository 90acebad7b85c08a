"""Counters that say what some histograms say, for rules: the numbers of observations, and their sum.

A histogram may reach Prometheus as a native one, where `_bucket`, `_sum` and `_count` do not exist; a counter is the same in
every format of the page. The values are taken at a scrape, so that an observation costs what it cost. Knows which histogram
has which counters; refuses to know the rules.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.metrics import catalogue as c
from sidecar.metrics.children import CounterChild, HistogramChild
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.registry import Family, Metrics
from sidecar.metrics.vocabulary import FEW_EVENTS, LATE_READ_SECONDS


Numbers = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Plain:
    source: Family[HistogramChild]
    counters: tuple[tuple[Family[CounterChild], tuple[str, ...]], ...]
    """Each with the values of its labels behind those of the histogram."""
    numbers: Callable[[HistogramChild], Numbers]
    """The values of the counters, in their order."""


class PlainCounts:
    """The counters of one process; `families` are theirs."""

    def __init__(self, metrics: Metrics) -> None:
        prompts, tokens = metrics.counter(c.STATED_PROMPTS_TOTAL), metrics.counter(c.STATED_PROMPT_TOKENS_TOTAL)
        reads, timed = metrics.counter(c.STREAM_READS_TOTAL), metrics.counter(c.TIMED_READS_TOTAL)
        self.families = (prompts, tokens, reads, timed)
        self._plain = (
            _Plain(metrics.histogram(c.PROMPT_TOKENS), ((prompts, ()), (tokens, ())), lambda one: (one.count, one.sum)),
            _Plain(
                metrics.histogram(c.STREAM_EVENTS_PER_READ),
                ((reads, ("few",)), (reads, ("many",))),
                _divided(c.STREAM_EVENTS_PER_READ, FEW_EVENTS),
            ),
            _Plain(
                metrics.histogram(c.OVERHEAD_SECONDS),
                ((timed, ("in_time",)), (timed, ("late",))),
                _divided(c.OVERHEAD_SECONDS, LATE_READ_SECONDS),
            ),
        )
        self._told: dict[HistogramChild, Numbers] = {}
        metrics.before_scrape(self._write)

    def _write(self, _at: float) -> None:
        for plain in self._plain:
            for labels, child in plain.source.children.items():
                numbers, told = plain.numbers(child), self._told.get(child, (0.0, 0.0))
                if numbers == told:
                    continue
                self._told[child] = numbers
                # Growth, and not the value: where series have no room, several histograms count in one counter.
                for (family, more), now, before in zip(plain.counters, numbers, told, strict=True):
                    family.child(*labels, *more).inc(now - before)


def _divided(metric: Histogram, edge: float) -> Callable[[HistogramChild], Numbers]:
    """The observations up to an edge, and those above it. Raises ValueError if it is no edge of the histogram."""
    place = metric.buckets.index(edge) + 1
    return lambda child: (sum(child.counts[:place]), sum(child.counts[place:]))
