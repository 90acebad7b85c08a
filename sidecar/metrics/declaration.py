"""The types that declare a metric: its kind, its labels with their closed sets, its buckets.

Knows how many children and series a declaration can reach, because that follows from its sets alone. Refuses to hold
a value: numbers are in `registry.py`, and the declarations themselves in `catalogue.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Literal, Self

from sidecar.ledger.request_labels import OTHER


NativeForm = Literal["off", "beside", "only"]
"""The form of histograms in a protobuf page: classic, native beside classic, native alone. `off` has no protobuf page."""

Profile = Literal["full", "lean"]
"""The part of the catalogue that stands on the page of metrics: all of it, or what rules, autoscaling and a rollout's gate read."""

SERIES_LIMIT = 50_000
"""Most series of one process, unless the config says otherwise: ten lanes of three models in full use fit, a page of some 8 MB."""


@dataclass(frozen=True, slots=True)
class Label:
    """One label and the closed set of its values."""

    name: str
    values: tuple[str, ...] = ()
    """The set, if the code knows it. Empty: the config or the engine fills the set at run time."""
    told_by: str = ""
    """Source of a set that is filled at run time, in words."""
    fallback: str = OTHER
    """Value that replaces a value outside the set."""
    most: int = 0
    """Most values that a set may get at run time in one process's life, the fallback not counted."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Number of values of the labels filled at run time, fallbacks (`other`, `unknown`) included. All at least 1."""

    lanes: int
    prompt_buckets: int
    models: int

    def of(self, label: Label) -> int:
        """The number of values of one label. A set that the engine fills, other than the models, counts as full."""
        return len(label.values) or self.told.get(label.name, label.most + 1)

    @property
    def told(self) -> dict[str, int]:
        """The numbers by label."""
        return {"lane": self.lanes, "prompt_bucket": self.prompt_buckets, "model": self.models}


@dataclass(frozen=True)
class Metric:
    """One metric, declared once. Use its subclasses below: the kind decides which operations a metric has."""

    kind: ClassVar[str]
    """The type as OpenMetrics names it."""
    name: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    """The possible combinations of the last labels' values, if not every combination is possible."""
    used: int | None = None
    """How many combinations of the labels whose sets the code knows a pod in full use has (`in_use`). None: all. 0: few engines,
    models or configs bring any."""
    lean: bool = False
    """It stands on a page of `metrics.profile: lean` too: a rule, autoscaling, a rollout's gate or a person reads it there."""
    wire: bool = False
    """Only what passes tells it: it is absent where no traffic passes (`--no-proxy`)."""
    help: str = ""
    """Population, unit and source: what an SRE must know to not misread it."""

    def says(self, text: str) -> Self:
        """The same metric with this help, whatever its line breaks."""
        return replace(self, help=" ".join(text.split()))

    @property
    def constant(self) -> bool:
        """It carries the process's constant labels (quantization, gpu_type), as all do that are not about the sidecar."""
        return not self.name.startswith("llm_sidecar_")

    def pairs(self, constants: Mapping[str, str], values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """The labels on a series of the child with these values: constant ones first, if it carries them."""
        own = zip((label.name for label in self.labels), values, strict=True)
        return (*(constants.items() if self.constant else ()), *own)

    @property
    def series_per_child(self) -> int:
        """A histogram has its finite buckets, +Inf, sum and count; every other kind has one series."""
        return len(self.buckets) + 3 if self.buckets else 1

    def children(self, sizes: Sizes) -> int:
        """How many children can exist at most."""
        joined = len(self.together[0]) if self.together else 0
        free = self.labels[: len(self.labels) - joined]
        return prod(sizes.of(label) for label in free) * (len(self.together) or 1)

    def series(self, sizes: Sizes) -> int:
        """How many series can exist at most."""
        return self.children(sizes) * self.series_per_child

    def in_use(self, sizes: Sizes, aimed: float) -> float:
        """How many series a pod in full use has: each declared lane carries streams of each model and each known prompt length,
        the engine reports on each, and nothing lands in `other`.

        `aimed`: share of the lanes, prompt lengths and objectives for which there is an objective, 0 to 1. Counters of the prompt
        bucket `unknown` begin at 0; a histogram has nothing there.
        """
        sizes = Sizes(sizes.lanes - 1 or 1, sizes.prompt_buckets - bool(self.buckets), sizes.models - 1 or 1)
        children: float = self.children(sizes)
        if self.used is not None:
            children = prod(sizes.told[label.name] for label in self.labels if label.name in sizes.told) * self.used
        if any(label.name == "objective" for label in self.labels):
            children *= aimed
        return children * self.series_per_child


class Counter(Metric):
    """Only rises; its name ends in `_total`."""

    kind = "counter"


class Gauge(Metric):
    """A current value. Not exported until it is set: unknown is not zero."""

    kind = "gauge"


class Info(Metric):
    """A gauge that is always 1; its labels are the message."""

    kind = "info"


class Histogram(Metric):
    """Observations in fixed buckets, the same in every pod and version."""

    kind = "histogram"
