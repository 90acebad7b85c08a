"""Snapshots of the registry: the table's series at one instant, and their growth between two snapshots. Pure.

What has not changed is shared with the snapshot before, and counters are summed to the labels that are read, so a ring of
snapshots costs memory for what happened and not for what exists. It refuses to say what growth means.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from sidecar.history.growth import Growth, Labels, Total
from sidecar.history.series import GAUGE_SERIES, GROWTH_SERIES, GaugeSeries
from sidecar.history.slices import Sliced
from sidecar.metrics.catalogue import SIDECAR_TIME_SECONDS
from sidecar.metrics.children import GaugeChild, HistogramChild
from sidecar.metrics.declaration import Counter, Histogram, Metric
from sidecar.metrics.registry import Family, Metrics


CHILDREN_PER_SLICE = 150
"""Some hundred microseconds."""
REDUCE: Mapping[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}
_COUNTER_LABELS = {series.metric.name: series.labels for series in GROWTH_SERIES}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Totals at one instant, by the metric's name and labels."""

    at: float
    counters: Mapping[str, Mapping[Labels, float]]
    """Summed to the labels of the table."""
    histograms: Mapping[str, Mapping[Labels, Total]]
    """By child, without children that have no observations."""
    gauges: Mapping[str, Mapping[Labels, float]]
    """Reduced to the labels of the table."""


def take(metrics: Metrics, at: float, before: Snapshot | None = None) -> Sliced[Snapshot]:
    """The registry as of the first slice, so that a request is in all families or in none; sums follow.

    `before`: what has not changed is shared with it.
    """
    known = Snapshot(at, {}, {}, {}) if before is None else before
    metrics.set_gauges(at)
    children: dict[str, list[tuple[Labels, float]]] = {}
    histograms = {}
    for series in GROWTH_SERIES:
        name = series.metric.name
        if isinstance(series.metric, Histogram):
            histograms[name] = _totals(metrics.histogram(series.metric), known.histograms.get(name, {}))
        else:
            family = metrics.counter(series.metric)
            children[name] = [(labels, child.value) for labels, child in family.children.items()]
    gauges: dict[str, Mapping[Labels, float]] = {}
    unix = metrics.gauge(SIDECAR_TIME_SECONDS).child().value
    for gauge in GAUGE_SERIES:
        values = _reduced(metrics.gauge(gauge.metric), gauge, unix)
        gauges[gauge.metric.name] = shared(values, known.gauges.get(gauge.metric.name, {}))
    counters: dict[str, Mapping[Labels, float]] = {}
    for series in GROWTH_SERIES:
        if (name := series.metric.name) in children:
            yield
            sums = yield from _summed(children[name], _names(series.metric), series.labels)
            counters[name] = shared(sums, known.counters.get(name, {}))
    return Snapshot(at, counters, histograms, gauges)


def counted(then: Snapshot | None, now: Snapshot, metric: Counter, *by: str) -> Sliced[dict[Labels, float]]:
    """Growth of each counter, summed over all labels but these; since the process began if `then` is None."""
    old: Mapping[Labels, float] = {} if then is None else then.counters[metric.name]
    grown = [(key, value - old.get(key, 0.0)) for key, value in now.counters[metric.name].items()]
    labels = _COUNTER_LABELS[metric.name]
    return dict(grown) if by == labels else (yield from _summed(grown, labels, by))


def observed(
    then: Snapshot, now: Snapshot, metric: Histogram, *by: str, only: Mapping[str, str] | None = None
) -> Sliced[dict[Labels, Total]]:
    """Growth of each histogram that grew, summed over all labels but these. `only`: only children with these labels."""
    old, names = then.histograms[metric.name], _names(metric)
    wanted = [(names.index(name), value) for name, value in (only or {}).items()]
    key_of, grown = _key_of(names, by), dict[Labels, Total]()
    for number, (labels, total) in enumerate(now.histograms[metric.name].items(), 1):
        if number % CHILDREN_PER_SLICE == 0:
            yield
        before = old.get(labels)
        if before is total or any(labels[place] != value for place, value in wanted):
            continue
        growth = total if before is None else total - before
        key = key_of(labels)
        grown[key] = grown[key] + growth if key in grown else growth
    return grown


def grown(then: Snapshot, now: Snapshot, window_seconds: float) -> Sliced[Growth]:
    counters, histograms = {}, {}
    for series in GROWTH_SERIES:
        if window_seconds not in series.windows:
            continue
        yield
        if isinstance(series.metric, Histogram):
            histograms[series.metric.name] = yield from observed(
                then, now, series.metric, *series.labels, only=series.only
            )
        else:
            counters[series.metric.name] = yield from counted(then, now, series.metric, *series.labels)
    return Growth(max(0.0, now.at - then.at), counters, histograms)


def shared(now: dict[Labels, float], before: Mapping[Labels, float]) -> Mapping[Labels, float]:
    """`now`, with the keys and the unchanged values of `before`, or `before` itself: 60 copies of each would lie spread over the heap."""
    if now == before:
        return before
    shared = dict(before)
    for key, value in now.items():
        if shared.get(key) != value:
            shared[key] = value
    return shared if len(shared) == len(now) else now


def _totals(family: Family[HistogramChild], known: Mapping[Labels, Total]) -> dict[Labels, Total]:
    found = {}
    for labels, child in family.children.items():
        count, before = child.count, known.get(labels)
        if count:
            same = before is not None and before.count == count
            found[labels] = before if same and before else Total(count, child.sum, tuple(child.counts))
    return found


def _reduced(family: Family[GaugeChild], series: GaugeSeries, unix: float | None) -> dict[Labels, float]:
    key_of, found = _key_of(_names(series.metric), series.labels), dict[Labels, list[float]]()
    for labels, child in family.children.items():
        value = child.value
        if series.age and value is not None:
            value = None if unix is None else unix - value
        if value is not None:
            found.setdefault(key_of(labels), []).append(value)
    return {key: REDUCE[series.reduce](values) for key, values in found.items()}


def _summed(
    values: Iterable[tuple[Labels, float]], names: tuple[str, ...], by: tuple[str, ...]
) -> Sliced[dict[Labels, float]]:
    key_of, totals = _key_of(names, by), dict[Labels, float]()
    for number, (labels, value) in enumerate(values, 1):
        if number % CHILDREN_PER_SLICE == 0:
            yield
        key = key_of(labels)
        totals[key] = totals.get(key, 0.0) + value
    return totals


def _names(metric: Metric) -> tuple[str, ...]:
    return tuple(label.name for label in metric.labels)


def _key_of(names: tuple[str, ...], by: tuple[str, ...]) -> Callable[[Labels], Labels]:
    # Labels are found by name in the declaration, so an order changed there cannot mislabel a number here. A label that the
    # config adds to a family (`prompt_bucket` of inter-token times) stands behind the declared ones.
    places = [names.index(name) for name in by]
    return itemgetter(*places) if len(places) > 1 else lambda labels: tuple(labels[place] for place in places)
