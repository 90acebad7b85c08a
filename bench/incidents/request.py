"""Records of a run: each request from its arrival to its end, and the engine's state over time.

They know what happened, the true phases included, and refuse to know their readers: `truth.py` reads the true phases,
`product.py` only the facts that a sidecar would have seen. All instants are in seconds of virtual time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bench.incidents.engines import MODEL
from bench.incidents.world import Throttle
from sidecar.timeline.outcome import Outcome, Stage


@dataclass(slots=True)
class TruePhases:
    """Seconds of each phase, from the simulator."""

    front_end: float
    queue: float
    prefill: float
    decode: float
    stream: float
    """Time held by a hop or a slow client, beyond the engine's own delivery."""
    delivery: float


@dataclass(slots=True)
class Request:
    """One request as it happened."""

    number: int
    lane: str
    prompt_tokens: int
    output_tokens: int
    streaming: bool
    received_at: float
    pod: int = 0
    """Number of the pod that serves it, from 0."""
    model: str = MODEL
    cached_tokens: int = 0
    reads: list[float] = field(default_factory=list)
    """Instants at which the sidecar read output, each once; empty for a request that is not streamed."""
    events: list[int] = field(default_factory=list)
    """Number of tokens in each of these reads."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    """Intervals in which the sidecar did not read because of the client."""
    ended_at: float | None = None
    """None: still in flight at the end of the run."""
    flushed_at: float | None = None
    outcome: Outcome = Outcome.OK
    cancelled_in: Stage | None = None
    report: tuple[float, float, float] | None = None
    """Seconds of queue, prefill and decode in the engine's report; None if the request failed or its report is lost."""
    report_late_seconds: float = 0.0
    """Seconds from the answer's end to the report; 0: the report is in the answer itself."""
    phases: TruePhases | None = None
    """None if it never got a token."""
    preemptions: int = 0

    @property
    def first_token_at(self) -> float | None:
        """First token as the sidecar sees it; None if it is not streamed or has no output."""
        return self.reads[0] if self.reads else None


@dataclass(frozen=True, slots=True)
class State:
    """The engine's state as it reports it, at one instant."""

    at: float
    up: bool
    waiting: int
    running: int
    kv_usage: float
    preemptions: int
    """These three are counted since its process began."""
    prefix_queries: int
    prefix_hits: int
    process: int
    """Number of engine processes before this one."""
    pod: int = 0


@dataclass(slots=True)
class Run:
    """One run: an incident, or the same seed without it."""

    requests: list[Request]
    states: list[State]
    fault_at: float
    recovers_at: float
    """Instant at which the fault ends; the queue that it left behind may still have to drain."""
    ends_at: float
    pods: int = 1
    at_fault: tuple[int, ...] = (0,)
    """Numbers of the pods that the fault hits."""
    sidecar_restarts_at: Mapping[int, float] = field(default_factory=dict)
    """Pod to the instant at which its sidecar restarts."""
    throttled: Mapping[int, Throttle] = field(default_factory=dict)
    """Pod to the CPU quota that its sidecar has during the fault; its reads are already late by it."""

    def of_pod(self, pod: int) -> "Run":
        """The run as the sidecar of one pod sees it."""
        return replace(
            self,
            requests=[each for each in self.requests if each.pod == pod],
            states=[each for each in self.states if each.pod == pod],
        )
