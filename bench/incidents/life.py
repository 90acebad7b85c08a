"""What is written down of a run: each request's life and the engine's state over time, as plain records.

They know what happened, the true phases included, and nothing of who reads them: the truth (`truth.py`) reads the true phases, the
product (`product.py`) only what a sidecar would have seen. All instants in seconds of virtual time.
"""

from dataclasses import dataclass, field

from sidecar.timeline.outcome import Outcome, Stage


@dataclass(slots=True)
class TruePhases:
    """Where the time went, by the simulator. Seconds."""

    front_end: float
    queue: float
    prefill: float
    decode: float
    stream: float
    """Held by a hop, or by a client that reads slowly, beyond the engine's own delivery."""
    delivery: float


@dataclass(slots=True)
class Life:
    """One request."""

    number: int
    lane: str
    prompt_tokens: int
    output_tokens: int
    streaming: bool
    received_at: float
    cached_tokens: int = 0
    reads: list[float] = field(default_factory=list)
    """When the sidecar read output, each instant once; a request that is not streamed has none."""
    events: list[int] = field(default_factory=list)
    """How many tokens came with each of these reads."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    """When the sidecar did not read because of the client."""
    ended_at: float | None = None
    """None: still in flight when the run was over."""
    flushed_at: float | None = None
    outcome: Outcome = Outcome.OK
    cancelled_in: Stage | None = None
    report: tuple[float, float, float] | None = None
    """Queue, prefill and decode, as the engine knows them; None where it failed, or its report is lost."""
    report_late_seconds: float = 0.0
    """0: in the answer itself."""
    phases: TruePhases | None = None
    """None where it never got a token."""
    preemptions: int = 0

    @property
    def first_token_at(self) -> float | None:
        """As the sidecar sees it."""
        return self.reads[0] if self.reads else None


@dataclass(frozen=True, slots=True)
class State:
    """The engine's own word on itself, at one instant."""

    at: float
    up: bool
    waiting: int
    running: int
    kv_usage: float
    preemptions: int
    """These three since its process began."""
    prefix_queries: int
    prefix_hits: int
    process: int
    """How many processes there were before this one."""


@dataclass(slots=True)
class Run:
    """One run: an incident, or the same seed without it."""

    lives: list[Life]
    states: list[State]
    fault_at: float
    recovers_at: float
    """When the fault is over; what it left behind may still have to drain."""
    ends_at: float
