"""Columns of samples: for each series that a rule reads, its value at every scrape, or None if the page lacked it.

It knows how children become series (a histogram is its buckets, count and sum) and how to write such a column for
promtool. It refuses to know the meaning of any series.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from sidecar.engines.probe.state import STARTED
from sidecar.metrics.children import HistogramChild
from sidecar.metrics.declaration import Profile
from sidecar.metrics.lean_page import lean_families
from sidecar.metrics.registry import Metrics


Labels = tuple[tuple[str, str], ...]
Column = list[float | None]
WHO = ("model", "lane")
SUMMED = ("prompt_bucket", "outcome", "stage", "reason", "result", "source", "phase", "label")
"""Labels whose values a rule sums over or selects one of; a value that never occurs may be absent."""
Edges = Mapping[str, frozenset[str]]
"""Name of a `_bucket` series to the values of `le` that are read; all are read where the name is absent."""


def target(pod: int) -> dict[str, str]:
    """The labels that Prometheus adds to a scrape of this pod. `pod`: its number, from 0."""
    name = f"llm-{pod}"
    return {"namespace": "serving", "pod": name, "job": "llm-phase-sidecar", "instance": f"{name}:9901"}


class Samples:
    """All series of one pod, by name and labels."""

    def __init__(
        self,
        metrics: Metrics,
        names: frozenset[str],
        every_seconds: float,
        *,
        pod: int = 0,
        profile: Profile = "full",
    ) -> None:
        """`names`: as rules write them, with `_bucket`, `_count` and `_sum`. `pod`: number of the pod, from 0, whose
        process begins at 0. `profile`: that of its page.
        """
        self._profile = profile
        self.every_seconds = every_seconds
        self.columns: dict[tuple[str, Labels], Column] = {}
        self._target = target(pod)
        self._names = names
        self._taken = 0
        self._missed: set[int] = set()
        self.go_on(metrics, 0.0)

    def go_on(self, metrics: Metrics, began_at: float) -> None:
        """From now on the pod's page is that of another process, which began at this instant; its series continue those of
        the one before.
        """
        self._began_at = began_at
        shown = metrics.families if self._profile == "full" else lean_families(metrics)
        self._plain = [family for family in shown if family.metric.name in self._names]
        self._histograms = [
            (family, suffixes)
            for family in shown
            if (
                suffixes := [each for each in ("_bucket", "_count", "_sum") if family.metric.name + each in self._names]
            )
        ]

    def take(self) -> None:
        """Take one scrape; call it after `metrics.refresh`."""
        if STARTED in self._names:
            self._add(STARTED, (), self._began_at)
        for family in self._plain:
            names = tuple(label.name for label in family.metric.labels)
            for child in family.children.values():
                value = getattr(child, "value", None)
                if value is not None:
                    self._add(family.metric.name, _labels(names, child.labels), value)
        for family, suffixes in self._histograms:
            names = tuple(label.name for label in family.metric.labels)
            for child in family.children.values():
                assert isinstance(child, HistogramChild)
                self._add_histogram(family.metric.name, suffixes, _labels(names, child.labels), child)
        self._taken += 1

    def miss(self) -> None:
        """A scrape failed: all series of the pod are stale until the next one."""
        self._missed.add(self._taken)
        self._taken += 1

    def add_target(self) -> None:
        """Add `up`, which is 0 where a scrape failed, and the sidecar's build info; call it after the last scrape."""
        self.add_constant("up", {}, 1.0, missed=0.0)
        self.add_constant("llm_sidecar_build_info", {"version": "bench"}, 1.0)

    def add_constant(self, name: str, labels: Mapping[str, str], value: float, *, missed: float | None = None) -> None:
        """Add a series of one constant value; call it after the last scrape. `missed`: its value at failed scrapes."""
        column = [missed if scrape in self._missed else value for scrape in range(self._taken)]
        self.columns[name, tuple(labels.items())] = column

    def _add_histogram(self, name: str, suffixes: Sequence[str], labels: Labels, child: HistogramChild) -> None:
        if "_count" in suffixes:
            self._add(f"{name}_count", labels, child.count)
        if "_sum" in suffixes:
            self._add(f"{name}_sum", labels, child.sum)
        if "_bucket" in suffixes:
            total = 0
            for bound, count in zip((*child.bounds, float("inf")), child.counts, strict=True):
                total += count
                le = "+Inf" if bound == float("inf") else repr(float(bound))
                self._add(f"{name}_bucket", (*labels, ("le", le)), total)

    def _add(self, name: str, labels: Labels, value: float) -> None:
        column = self.columns.get((name, labels))
        if column is None:
            column = self.columns[name, labels] = []
        column.extend([None] * (self._taken - len(column)))
        column.append(value)

    def written(self, edges: Edges = MappingProxyType({})) -> Iterator[tuple[str, str]]:
        """Each series in promtool's notation: its selector, and its values. `edges`: other buckets are left out."""
        for (name, labels), column in self.columns.items():
            if name in edges and dict(labels).get("le") not in edges[name]:
                continue
            column.extend([None] * (self._taken - len(column)))
            inner = ",".join(f'{key}="{value}"' for key, value in (self._target | dict(labels)).items())
            yield f"{name}{{{inner}}}", _values(column)

    def without_idle(self) -> None:
        """Remove series that are always 0, as most of a pod's are, if another series has the same part in every sum.

        Rules sum over the labels in `SUMMED`, and keep models, lanes and objectives apart. The alerts do not change:
        they compare with thresholds above 0, and what divides is above 0 too.
        """
        self._drop_silent_lanes()
        busy = {(name, _but(labels, *SUMMED)) for (name, labels), column in self.columns.items() if _moves(column)}
        kept: set[tuple[str, Labels]] = set()
        for name, labels in list(self.columns):
            rest = (name, _but(labels, *SUMMED))
            if rest[1] == labels or _moves(self.columns[name, labels]):
                continue
            if rest in busy or rest in kept:
                del self.columns[name, labels]
            kept.add(rest)

    def _drop_silent_lanes(self) -> None:
        """Remove series of models and lanes without any traffic, such as `other`, if a lane with traffic has the same."""
        loud = {_who(labels) for (_, labels), column in self.columns.items() if _moves(column)}
        others = {(name, _but(labels, *WHO)) for name, labels in self.columns if _who(labels) in loud}
        for name, labels in list(self.columns):
            if _who(labels) not in loud and any(_who(labels)) and (name, _but(labels, *WHO)) in others:
                del self.columns[name, labels]


def edges_of(every: Sequence[Samples]) -> dict[str, frozenset[str]]:
    """Edges of each histogram on which a quantile may depend, for any sum over series of these pods.

    These are the edges from the last one below all observations to the first one above all of them, and `+Inf`.
    """
    below: dict[str, dict[str, bool]] = {}
    above: dict[str, dict[str, bool]] = {}
    for samples in every:
        for (name, labels), column in samples.columns.items():
            last, edge = labels[-1] if labels else ("", "")
            if last != "le":
                continue
            whole = samples.columns[name, (*labels[:-1], ("le", "+Inf"))]
            for table, holds in ((below, not _moves(column)), (above, column == whole)):
                table.setdefault(name, {})[edge] = holds and table.get(name, {}).get(edge, True)
    found = {}
    for name, empty in below.items():
        edges = sorted(empty.keys() - {"+Inf"}, key=float)
        first = max((at for at, edge in enumerate(edges) if empty[edge]), default=0)
        last_at = min((at for at, edge in enumerate(edges) if above[name][edge]), default=len(edges) - 1)
        found[name] = frozenset({*edges[first : last_at + 1], "+Inf"})
    return found


@cache
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> Labels:
    return tuple(zip(names, (str(value) for value in values), strict=True))


def _but(labels: Labels, *names: str) -> Labels:
    return tuple(label for label in labels if label[0] not in names)


def _who(labels: Labels) -> tuple[str | None, str | None]:
    """Model and lane of a series; None for one that it does not have."""
    named = dict(labels)
    return named.get("model"), named.get("lane")


def _moves(column: Column) -> bool:
    return any(value for value in column)


def _values(column: Column) -> str:
    """The column in promtool's notation: repeated values once; a series that leaves the page is marked stale."""
    words: list[str] = []
    at, before = 0, False
    while at < len(column):
        value, until = column[at], at
        while until < len(column) and column[until] == value:
            until += 1
        more = until - at - 1
        if value is None:
            words.append("stale" if before else "_")
            if more:
                words.append(f"_x{more}" if more > 1 else "_")
        else:
            text = f"{value:.9g}"
            words.append(text if not more else f"{text}+0x{more}")
        before = value is not None
        at = until
    return " ".join(words)
