"""What is known of one lane when it is diagnosed: the record that every source fills in, a running sidecar as well as a person.

Knows names, units and what may be unknown: None, or absent from a mapping, and never 0. Durations are seconds, ratios
0 to 1. Refuses to judge: that is the tree's (`tree.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.diagnosis.verdict import Verdict
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


class Regime(StrEnum):
    """For how long it has been so."""

    SPIKE = "spike"
    STEADY = "steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    p99_seconds: float | None = None
    """Infinite where it lies above the last edge of the histogram."""
    p50_seconds: float | None = None
    mean_seconds: float | None = None
    samples: int | None = None
    """None: told by a person, who did not count."""
    threshold_seconds: float | None = None
    """The strictest of the lane's prompt buckets that had traffic, or an assumption."""
    threshold_assumed: bool = False
    misses: float | None = None
    """Requests of the window that missed the objective. None: there is no objective."""
    burn: float | None = None
    """Misses over what the target allows, within the window."""
    misses_long: float | None = None
    burn_long: float | None = None
    """The same of the last half hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTime:
    """One phase of the lane's requests that ended well."""

    mean_seconds: float | None = None
    """Additive: the means of all phases add up to that of whole requests."""
    p99_seconds: float | None = None
    """Does not add up to anything."""
    sources: Mapping[str, float] = field(default_factory=dict)
    """`engine`, `wire`, `derived`, `estimated`: share of the samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    arrivals_per_second: float | None = None
    prompt_mean_tokens: float | None = None
    output_mean_tokens: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    preempted: float | None = None
    """Preemptions over arrivals."""
    cached: float | None = None
    """Share of the prompt tokens that came from the prefix cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The model and its GPUs, where a person told them."""

    parameters: float | None = None
    gpus: int | None = None
    gpu: str | None = None
    """A name of `bound.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One lane, one model, one window."""

    source: str
    """`sidecar`, `prometheus` or `hand`."""
    lane: str | None = None
    model: str | None = None
    namespace: str | None = None
    window_seconds: float | None = None
    ttft: Latency = field(default_factory=Latency)
    inter_token: Latency = field(default_factory=Latency)
    """Gaps between events. A person may tell seconds per output token instead."""
    e2e: Latency = field(default_factory=Latency)
    """Whole requests: streamed ones where a person tells it, those that are not streamed where they have an objective."""
    phases: Mapping[Blame, PhaseTime] = field(default_factory=dict)
    verdicts: Mapping[Objective, Verdict] = field(default_factory=dict)
    """As the page would have it."""
    ratios: Mapping[Cause, float] = field(default_factory=dict)
    baseline: bool = False
    """The ratios have something to be over."""
    baseline_is_young: bool = False
    """It is made of less than three minutes of calm."""
    load: Load = field(default_factory=Load)
    machine: Machine = field(default_factory=Machine)
    engine: str | None = None
    """A kind of `sidecar.engines`."""
    regime: Regime | None = None
    agreement: Mapping[str, float] = field(default_factory=dict)
    """Phase to what requests reported over what the engine counted itself: 1 is agreement."""
    traffic_seen: float | None = None
    """Share of the engine's requests that came through the sidecar."""
    unsplit: Mapping[str, float] = field(default_factory=dict)
    """Reason to the share of requests whose time to first token has no split."""
    hints: tuple[str, ...] = ()
    """Flags that would make the engine tell more, as the sidecar words them."""
