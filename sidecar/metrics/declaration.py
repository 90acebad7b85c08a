"""What it takes to declare a metric: its kind, its labels with the sets they are closed over, its buckets.

Knows how many children and series a declaration can reach, because that follows from its sets alone. Refuses to hold
a value: numbers live in `registry.py`, and the declarations themselves in `catalogue.py`.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import ClassVar


class Kind(StrEnum):
    """The Prometheus type. An info is a gauge that is always 1 and whose labels are the message."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Label:
    """One label and the set that its values are closed over."""

    name: str
    values: tuple[str, ...] = ()
    """The set, where the code knows it. Empty: it is told at run time, by the config or the engine."""
    told_by: str = ""
    """Who tells the set, in words, where the code does not know it."""
    fallback: str = "other"
    """What a value outside the set becomes."""
    most: int = 0
    """How many values may be told in one process's life, the fallback not counted."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many values the told labels have, their fallbacks (`other`, `unknown`) included. All at least 1."""

    lanes: int
    prompt_buckets: int
    models: int

    def of(self, label: Label) -> int:
        """The number of values of one label. Sets that the engine tells and that are no model count as told in full."""
        told = {"lane": self.lanes, "prompt_bucket": self.prompt_buckets, "model": self.models}
        return len(label.values) or told.get(label.name, label.most + 1)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, declared once. Use the kinds below, which say what can be done with it."""

    kind: ClassVar[Kind]
    """The Prometheus type."""
    name: str
    help: str
    """Population, unit and source: what an SRE must know to not misread it."""
    labels: tuple[Label, ...] = ()
    constant: bool = True
    """Carries the process's constant labels (quantization, gpu_type)."""
    together: tuple[tuple[str, ...], ...] = ()
    """The combinations that can exist of the last labels, where the plain product of their sets cannot."""
    buckets: tuple[float, ...] = ()
    typical: float = 1.0
    """The share of the reachable children that a usual pod has, once lanes nobody uses are left out."""

    @property
    def series_per_child(self) -> int:
        """A histogram has its finite buckets, +Inf, sum and count; everything else is one line."""
        return len(self.buckets) + 3 if self.buckets else 1

    def children(self, sizes: Sizes) -> int:
        """How many children can exist at most."""
        joined = len(self.together[0]) if self.together else 0
        free = self.labels[: len(self.labels) - joined]
        return prod(sizes.of(label) for label in free) * (len(self.together) or 1)

    def series(self, sizes: Sizes) -> int:
        """How many series can exist at most."""
        return self.children(sizes) * self.series_per_child


class Counter(Metric):
    """Only rises; its name ends in `_total`."""

    __slots__ = ()
    kind = Kind.COUNTER


class Gauge(Metric):
    """A value now. Not exported until somebody sets it: an unknown is no zero."""

    __slots__ = ()
    kind = Kind.GAUGE


class Info(Metric):
    """Always 1."""

    __slots__ = ()
    kind = Kind.INFO


class Histogram(Metric):
    """Observations in fixed buckets, the same in every pod and version."""

    __slots__ = ()
    kind = Kind.HISTOGRAM
