"""Looks at the registry: what the status page needs of it at one instant, and how much of that has grown since another.

Knows which families are kept and how their children add up over models. A child that has not changed is not copied again,
so that a ring of looks costs what happened, and not what there is. Refuses to say what growth means (`anatomy.py`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import add, sub

from sidecar.history.slices import Sliced
from sidecar.metrics import catalogue as c
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.children import HistogramChild
from sidecar.metrics.declaration import Counter, Histogram
from sidecar.metrics.registry import Metrics


Labels = tuple[str, ...]
HISTOGRAMS = (
    c.REQUEST_PHASE_SECONDS,
    c.REQUEST_SECONDS,
    c.TIME_TO_FIRST_TOKEN_SECONDS,
    c.INTER_TOKEN_SECONDS,
)
COUNTERS = (
    c.REQUESTS_TOTAL,
    c.PHASE_ATTRIBUTION_TOTAL,
    p.SLO_REQUESTS_TOTAL,
    p.SLO_MISSES_TOTAL,
    p.SLO_ALLOWED_MISSES_TOTAL,
    p.GOOD_REQUESTS_TOTAL,
)
A_TURN = 150
"""Children that are looked at before others have the loop: some hundred microseconds."""


@dataclass(frozen=True, slots=True)
class Total:
    """One histogram child, or what it grew by."""

    count: int
    sum: float
    counts: tuple[int, ...]
    """Between the edges, not cumulative: one more than edges."""

    def __add__(self, other: "Total") -> "Total":
        """Of two children with the same edges."""
        counts = tuple(map(add, self.counts, other.counts))
        return Total(self.count + other.count, self.sum + other.sum, counts)


@dataclass(slots=True)
class Look:
    """Totals at one instant, by the metric's name and the child's labels."""

    at: float
    histograms: dict[str, dict[Labels, Total]] = field(default_factory=dict)
    counters: dict[str, dict[Labels, float]] = field(default_factory=dict)


def look(metrics: Metrics, at: float, before: Look | None = None) -> Look:
    """How things stand. `before`: what has not changed since is shared with it."""
    found = Look(at)
    for histogram in HISTOGRAMS:
        known = {} if before is None else before.histograms[histogram.name]
        found.histograms[histogram.name] = {
            labels: _total(child, known.get(labels))
            for labels, child in metrics.histogram(histogram).children.items()
            if child.count
        }
    for counter in COUNTERS:
        children = metrics.counter(counter).children
        found.counters[counter.name] = {labels: child.value for labels, child in children.items() if child.value}
    return found


def _total(child: HistogramChild, known: Total | None) -> Total:
    if known is not None and known.count == child.count:
        return known
    return Total(child.count, child.sum, tuple(child.counts))


def observed(then: Look, now: Look, metric: Histogram, *by: str) -> Sliced[dict[Labels, Total]]:
    """What each histogram grew by, summed over all labels but these."""
    old, grown = then.histograms[metric.name], dict[Labels, Total]()
    key_of = _key_of(metric, by)
    for number, (labels, total) in enumerate(now.histograms[metric.name].items(), 1):
        if number % A_TURN == 0:
            yield
        before = old.get(labels)
        if before is total:
            continue
        if before is not None:
            counts = tuple(map(sub, total.counts, before.counts))
            total = Total(total.count - before.count, total.sum - before.sum, counts)  # noqa: PLW2901  what it grew by
        key = key_of(labels)
        grown[key] = grown[key] + total if key in grown else total
    return grown


def counted(then: Look | None, now: Look, metric: Counter, *by: str) -> dict[Labels, float]:
    """What each counter grew by, summed over all labels but these; since the process began, where `then` is None."""
    old: Mapping[Labels, float] = {} if then is None else then.counters[metric.name]
    grown: dict[Labels, float] = {}
    key_of = _key_of(metric, by)
    for labels, value in now.counters[metric.name].items():
        more = value - old.get(labels, 0.0)
        if more > 0:
            key = key_of(labels)
            grown[key] = grown.get(key, 0.0) + more
    return grown


def _key_of(metric: Histogram | Counter, by: Iterable[str]) -> Callable[[Labels], Labels]:
    # Labels are told by name from the declaration, so that an order changed there cannot mislabel a bar here.
    names = [label.name for label in metric.labels]
    places = [names.index(name) for name in by]
    return lambda labels: tuple([labels[place] for place in places])
