"""The record of one lane that is diagnosed. Every source fills it in: a running sidecar, a Prometheus, or a person.

An unknown number is None, or absent from a mapping, and never 0. Durations are seconds, ratios 0 to 1. This module
refuses to judge: `tree.py` judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from sidecar.diagnosis.verdict import Verdict
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause


COMING_UP_SECONDS = 1800.0
"""Age of the sidecar up to which an engine that was never up may still load its model, as in the alert LLMEngineDown."""


class Regime(StrEnum):
    """Whether the fault is new (the half hour before the window was well) or has lasted."""

    SPIKE = "spike"
    STEADY = "steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    p99_seconds: float | None = None
    """Infinite if it lies above the last edge of the histogram."""
    p50_seconds: float | None = None
    mean_seconds: float | None = None
    samples: int | None = None
    """Number of samples in the window; None if a person gave the numbers by hand."""
    threshold_seconds: float | None = None
    """The strictest threshold of the prompt buckets that had traffic, or an assumed one."""
    threshold_assumed: bool = False
    misses: float | None = None
    """Requests of the window that missed the objective; None if the lane has no such objective."""
    judged: float | None = None
    """Requests of the window that were judged by the objective; None if the lane has no such objective."""
    burn: float | None = None
    """Misses of the window over those that the target allows."""
    misses_long: float | None = None
    """Requests of the long window (half an hour, or six times a longer window) that missed the objective."""
    burn_long: float | None = None
    """Misses of the long window over those that the target allows."""
    missed_until_seconds: float | None = None
    """Seconds since the end of the last minute whose misses exceeded the allowed ones; None if there is no such minute in
    the last half hour, or if the source cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTime:
    """The time that one phase took in the lane's requests that ended well."""

    mean_seconds: float | None = None
    """Mean over all requests: the means of all phases add up to the mean of whole requests."""
    p99_seconds: float | None = None
    """Quantiles of phases do not add up."""
    sources: Mapping[str, float] = field(default_factory=dict)
    """Source (`engine`, `wire`, `derived`, `estimated`) to its share of the samples, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseParts:
    """The parts of one phase, in those of the lane's requests that ended well whose engine states a part of it."""

    requests: float
    """Number of these requests within the window, above 0."""
    mean_seconds: Mapping[str, float]
    """Part to its mean over all of these requests, and `rest` to that of the time that no stated part covers: together the mean of the
    phase. A part that no request states is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    arrivals_per_second: float | None = None
    """Arrivals of this lane alone."""
    engine_arrivals_per_second: float | None = None
    """Arrivals of the whole engine: of all its lanes and models, and of requests that bypass the sidecar if their share is
    known. Only these may divide a queue of the engine."""
    prompt_mean_tokens: float | None = None
    output_mean_tokens: float | None = None
    waiting: float | None = None
    """Requests in the engine's queue, of all lanes and models, averaged over the last minute."""
    running: float | None = None
    """Requests that the engine works on, of all lanes and models, averaged over the last minute."""
    running_peak: float | None = None
    """The most requests that the engine worked on at once within the long window."""
    lane_waiting: float | None = None
    """Requests of this lane in the sidecar that have no output yet, or are not streamed, averaged over the last minute."""
    lane_streaming: float | None = None
    """Streamed answers of this lane that have begun and not ended, averaged over the last minute."""
    kv_usage: float | None = None
    preempted: float | None = None
    """Preemptions of the engine over the arrivals of all lanes."""
    cached: float | None = None
    """Share of the lane's prompt tokens that came from the prefix cache."""
    slots: float | None = None
    """The engine's batch limit, in requests, as a person gave it; no source states it."""
    preemptions_per_second: float | None = None
    """As a person gave it, of the whole engine."""


class DecodeFloor(NamedTuple):
    """The least time of a decode step, if nothing but reading memory took time: at the peak of the GPUs' data sheet, which no engine reaches."""

    gpus: str
    """Number and kind, as text."""
    weights_bytes: float
    """In 16 bits a parameter."""
    weights_seconds: float
    most_bytes: float | None
    """Weights and a KV cache as full as it is told to be, else full; None where the weights leave it no room."""
    most_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The model and its GPUs, as a person gave them by hand."""

    parameters: float | None = None
    gpus: int | None = None
    gpu: str | None = None
    """A key of `bound.PEAK_FLOPS`."""
    floor: DecodeFloor | None = None


class CostRatio(NamedTuple):
    """Cost of a part of the engine's work over its usual cost, with an interval of 95 %."""

    ratio: float
    low: float
    high: float


class PodShare(NamedTuple):
    """The misses of one objective on one pod of a fleet."""

    pod: str
    misses: float
    """Within the window."""
    share: float
    """Share of the lane's misses, 0 to 1."""
    of_requests: float
    """Share of the lane's judged requests, 0 to 1."""
    odd: bool
    """Whether it misses three times as much as the others together, so that it has a page of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Numbers of one lane and model over one window."""

    source: str
    """`sidecar`, `prometheus` or `hand`."""
    lane: str | None = None
    model: str | None = None
    namespace: str | None = None
    job: str | None = None
    """The engine's name within its namespace, as Prometheus has it."""
    window_seconds: float | None = None
    long_window_seconds: float | None = None
    """Length of the window of `misses_long` and `burn_long`; None for half an hour."""
    ttft: Latency = field(default_factory=Latency)
    inter_token: Latency = field(default_factory=Latency)
    """Single gaps between output events, taken when they are read from the engine, before delivery. Its misses are of
    whole answers. A person may give seconds per output token instead."""
    e2e: Latency = field(default_factory=Latency)
    """Whole requests: streamed ones if a person gave the number, else those that are not streamed and have an objective."""
    stall: Latency = field(default_factory=Latency)
    """The longest gap of each streamed answer: only its misses are known, and only where the lane has that objective."""
    phases: Mapping[Blame, PhaseTime] = field(default_factory=dict)
    phase_parts: Mapping[Blame, PhaseParts] = field(default_factory=dict)
    """Phase to its parts, of the phases that the engine states parts of."""
    verdicts: Mapping[Objective, Verdict] = field(default_factory=dict)
    """Objective to the roots of its misses, of the objectives that have any within the window."""
    rejected: float | None = None
    """Requests of the lane that were turned away within the window (outcome `rejected`)."""
    own_rejections: float | None = None
    """Requests of all lanes that `proxy.max_in_flight` turned away within the window."""
    ratios: Mapping[Cause, float] = field(default_factory=dict)
    """Cause to its number over the usual one, now; of a fleet, the highest of its pods. Empty while nothing usual is known."""
    costs: Mapping[str, CostRatio] = field(default_factory=dict)
    """Part of the engine's work (`decode`, `prefill`) to its cost over the usual one; of a fleet, the highest of its pods."""
    unknown_costs: Mapping[str, str] = field(default_factory=dict)
    """Part to the reason for which its cost is not known."""
    pods: Mapping[Objective, tuple[PodShare, ...]] = field(default_factory=dict)
    """Objective to the pods of a fleet that missed it, the worst first; empty if the source is one pod."""
    load: Load = field(default_factory=Load)
    machine: Machine = field(default_factory=Machine)
    engine: str | None = None
    """Kind of the engine, a key of `engines.kinds.KINDS`."""
    regime: Regime | None = None
    agreement: Mapping[str, float] = field(default_factory=dict)
    """Phase to the seconds that requests reported over those that the engine counted itself: 1 is agreement."""
    traffic_seen: float | None = None
    """Share of the engine's requests that came through the sidecar."""
    unsplit: Mapping[str, float] = field(default_factory=dict)
    """Reason to the share of requests that have no split of their time to first token."""
    by_spans: bool = False
    """Requests are counted from the engine's spans (`--no-proxy`): no stream is seen, so no gap between tokens is counted."""
    hints: tuple[str, ...] = ()
    """Flags that would make the engine tell more, as the sidecar words them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDown:
    """An engine that fails its health checks (no answer, or 5xx) or is stalled, or several of one job."""

    namespace: str | None = None
    job: str | None = None
    pods: tuple[str, ...] = ()
    """Names of the pods that have such an engine; empty if the source is the sidecar of one pod."""
    of_pods: int | None = None
    """Number of all pods of the job; None if unknown."""
    seconds: float | None = None
    """Seconds for which it has been down, as far as the source saw it; None if unknown."""
    coming_up: bool = False
    """Whether it has not come up yet since the sidecar began, and still has time to (`COMING_UP_SECONDS`)."""
    stalled: bool = False
    """Whether it has stopped in the middle of its work: it may pass its health checks all the same."""
    never_up: bool | None = None
    """Whether no health check passed since the sidecar began, so that its address may be a wrong one; None where the source cannot tell."""
    why: str | None = None
    """The failure of its last health check in words, with its address; None where it is stalled, or where the source cannot tell."""
