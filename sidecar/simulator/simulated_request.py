"""One simulated request: what it asked for, what it holds, and the instants that its phases are read from.

It knows its own life and the definitions of the phases. It refuses to know the scheduler that moves it (`simulation.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phases:
    """Where a finished request's time truly went, in seconds; they add up to its whole time in the engine.

    Definitions as vLLM's: queue until first scheduled, prefill until the first token, decode until the last. The wait
    of a preempted request hides in prefill or decode, as it does there.
    """

    front_end_seconds: float
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float
    delivery_seconds: float


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """One request's life. Instants in seconds of virtual time, None while it has not come that far."""

    prompt_tokens: int
    output_tokens: int
    hashes: Sequence[bytes]
    """Of the prompt's full KV blocks, each chained to those before it."""
    arrived_at: float
    submitted_at: float
    """Handed to the scheduler: the front end is a queue of known work, so this is known at arrival."""
    delivery_seconds: float
    scheduled_at: float | None = None
    token_instants: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    aborted_at: float | None = None
    computed: int = 0
    """Tokens whose KV is in the pool."""
    shared: list[bytes] = field(default_factory=list)
    """Held blocks that others may find by their hash."""
    private: int = 0
    """Held blocks that are this request's alone."""
    published: int = 0
    """Prompt blocks whose hash the pool knows, or refused as a copy."""

    @property
    def lacking(self) -> int:
        """Tokens to compute before the next token exists: 1 for a decode."""
        return self.prompt_tokens + len(self.token_instants) - self.computed

    @property
    def decoding(self) -> bool:
        """Between its first token and its last, with all its KV in place."""
        return bool(self.token_instants) and self.lacking == 1

    @property
    def admitted(self) -> bool:
        """Running: it holds blocks, as every scheduled request does from its first step to its end or preemption."""
        return self.private > 0 or bool(self.shared)

    @property
    def finished(self) -> bool:
        return len(self.token_instants) == self.output_tokens

    @property
    def phases(self) -> Phases:
        """Only for a finished request."""
        assert self.finished
        assert self.scheduled_at is not None
        first, last = self.token_instants[0], self.token_instants[-1]
        return Phases(
            self.submitted_at - self.arrived_at,
            self.scheduled_at - self.submitted_at,
            first - self.scheduled_at,
            last - first,
            self.delivery_seconds,
        )
