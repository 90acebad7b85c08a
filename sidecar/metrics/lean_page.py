"""The page of `metrics.profile: lean`: the families that rules, autoscaling and a rollout's gate read, summed over prompt lengths.

All is counted as in the full profile, because the status page, the diagnosis and the runbooks of this pod read it here; only
less of it is shown. So a request costs the same, and a scrape costs less. The catalogue says what is shown; this file knows how
counters become one. A sum takes its parts in the order in which they were made, so it never falls.

One request with a misspelt model, or an undeclared lane, begins all series of `other` at 0, so that `rate()` sees the next event. Here
those that stand at 0 are left out, as long as there is a lane or model with a name: else one wrong request would double the page.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Protocol

from sidecar.metrics.catalogue import LANE, MODEL, catalogue
from sidecar.metrics.children import Child, CounterChild, GaugeChild, HistogramChild
from sidecar.metrics.declaration import Metric
from sidecar.metrics.labels import ClosedSet
from sidecar.metrics.registry import Family, Metrics


class Shown(Protocol):
    """A family on a page."""

    @property
    def metric(self) -> Metric: ...

    @property
    def children(self) -> Mapping[tuple[str, ...], Child]: ...


class SummedFamily:
    """Counters of one family that differ only in labels which `metric` does not have, as one.

    `children` is as of now: it takes in what has been made since, and adds up.
    """

    def __init__(self, family: Family[CounterChild], metric: Metric) -> None:
        kept = {label.name for label in metric.labels}
        self.metric = metric
        self._family = family
        self._places = [place for place, label in enumerate(family.metric.labels) if label.name in kept]
        self._sums: dict[tuple[str, ...], tuple[GaugeChild, list[CounterChild]]] = {}
        self._taken = 0

    @property
    def children(self) -> dict[tuple[str, ...], GaugeChild]:
        self._take_in()
        for shown, parts in self._sums.values():
            shown.set(sum(part.value for part in parts))
        return {labels: shown for labels, (shown, _) in self._sums.items()}

    def _take_in(self) -> None:
        """Find the sum of each counter that is new: a family never loses one."""
        for values, child in islice(self._family.children.items(), self._taken, None):
            labels = tuple(values[place] for place in self._places)
            _, parts = self._sums.setdefault(labels, (GaugeChild(labels), []))
            parts.append(child)
            self._taken += 1


class NamedFamily:
    """A family without those children of the lane or the model `other` that stand at 0."""

    def __init__(self, family: Shown, closed_sets: Mapping[str, ClosedSet]) -> None:
        self.metric = family.metric
        self._family = family
        self._places = [
            (place, closed_sets[label.name])
            for place, label in enumerate(family.metric.labels)
            if label.name in closed_sets
        ]

    @property
    def children(self) -> Mapping[tuple[str, ...], Child]:
        fallbacks = [(place, closed.fallback) for place, closed in self._places if closed.has_names]
        return {
            labels: child
            for labels, child in self._family.children.items()
            if isinstance(child, HistogramChild)
            or child.value
            or not any(labels[place] == fallback for place, fallback in fallbacks)
        }


def lean_families(metrics: Metrics) -> tuple[Shown, ...]:
    """The families of the lean page, in the order of the catalogue."""
    whole = {family.metric.name: family for family in metrics.families}
    return tuple(_shown(metrics, whole[metric.name], metric) for metric in catalogue(profile="lean"))


def _shown(metrics: Metrics, family: Family[Any], metric: Metric) -> Shown:
    shown: Shown = family if family.metric == metric else SummedFamily(family, metric)
    closed_sets = {LANE.name: metrics.lanes, MODEL.name: metrics.models}
    return NamedFamily(shown, closed_sets) if any(label.name in closed_sets for label in metric.labels) else shown
