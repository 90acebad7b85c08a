"""The page of `metrics.profile: lean`: the families that rules, autoscaling and a rollout's gate read, summed over prompt lengths.

All is counted as in the full profile, because the status page, the diagnosis and the runbooks of this pod read it here; only
less of it is shown. So a request costs the same, and a scrape costs less. The catalogue says what is shown; this file knows how
counters become one. A sum takes its parts in the order in which they were made, so it never falls.

One request with a misspelt model, or an undeclared lane, begins all series of `other` at 0, so that `rate()` sees the next event. Here
those that stand at 0 are left out, as long as there is a lane or model with a name: else one wrong request would double the page.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from sidecar.metrics.catalogue import LANE, MODEL, catalogue
from sidecar.metrics.children import Child, CounterChild, GaugeChild
from sidecar.metrics.declaration import Metric
from sidecar.metrics.registry import Family, Metrics


class LeanFamily:
    """A view of one family: counters that differ only in labels which `metric` does not have are one."""

    def __init__(self, metrics: Metrics, metric: Metric) -> None:
        names = [label.name for label in metric.labels]
        sets = {LANE.name: metrics.lanes, MODEL.name: metrics.models}
        self.metric = metric
        self._family: Family[Any] = next(one for one in metrics.families if one.metric.name == metric.name)
        self._places = [place for place, label in enumerate(self._family.metric.labels) if label.name in names]
        self._named = [(place, sets[name]) for place, name in enumerate(names) if name in sets]
        self._sums: dict[tuple[str, ...], tuple[GaugeChild, list[CounterChild]]] = {}
        self._taken = 0

    @property
    def children(self) -> Mapping[tuple[str, ...], Child]:
        """Those that stand on the page now. A sum is as of now, and stays as it is."""
        whole = len(self._places) == len(self._family.metric.labels)
        children: Mapping[tuple[str, ...], Any] = self._family.children if whole else self._summed()
        fallbacks = [(place, closed.fallback) for place, closed in self._named if closed.has_names]
        if not fallbacks:
            return children
        return {
            labels: child
            for labels, child in children.items()
            if child.value or not any(labels[place] == fallback for place, fallback in fallbacks)
        }

    def _summed(self) -> dict[tuple[str, ...], GaugeChild]:
        # A family never loses a child: those that are new are its last ones.
        for values, child in islice(self._family.children.items(), self._taken, None):
            labels = tuple(values[place] for place in self._places)
            self._sums.setdefault(labels, (GaugeChild(labels), []))[1].append(child)
            self._taken += 1
        for shown, parts in self._sums.values():
            shown.set(sum(part.value for part in parts))
        return {labels: shown for labels, (shown, _) in self._sums.items()}


def lean_families(metrics: Metrics) -> tuple[LeanFamily, ...]:
    """The families of the lean page, in the order of the catalogue. No histogram is among them."""
    return tuple(LeanFamily(metrics, metric) for metric in catalogue(profile="lean"))
