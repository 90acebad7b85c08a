"""One simulated request: its lengths, the blocks that it holds, and the instants from which its phases are computed.

It contains its own state and the definitions of the phases. The scheduler that changes the state is `simulation.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phases:
    """The exact phases of a finished request in seconds; they add up to its whole time in the engine.

    Definitions as in vLLM: queue until first scheduled, prefill until the first token, decode until the last. The wait
    of a preempted request counts as prefill or decode, as in vLLM.
    """

    front_end_seconds: float
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float
    delivery_seconds: float


@dataclass(slots=True, eq=False)
class SimulatedRequest:
    """The state of one request. Instants are in seconds of virtual time; None: not reached yet."""

    prompt_tokens: int
    output_tokens: int
    hashes: Sequence[bytes]
    """Hashes of the prompt's full KV blocks, each chained to those before it."""
    arrived_at: float
    submitted_at: float
    """When the scheduler gets the request; known at arrival, because the front end is a queue of known work."""
    delivery_seconds: float
    scheduled_at: float | None = None
    token_instants: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    aborted_at: float | None = None
    computed: int = 0
    """Tokens with their KV in the pool."""
    shared: list[bytes] = field(default_factory=list)
    """Held blocks that other requests may find by their hash."""
    private: int = 0
    """Held blocks that only this request uses."""
    published: int = 0
    """Prompt blocks with their hash in the pool, published by this request or by another one."""

    @property
    def lacking(self) -> int:
        """Tokens to compute before the next token exists: 1 for a decode."""
        return self.prompt_tokens + len(self.token_instants) - self.computed

    @property
    def decoding(self) -> bool:
        """True between the first token and the last, while all KV is in place."""
        return bool(self.token_instants) and self.lacking == 1

    @property
    def admitted(self) -> bool:
        """True while it runs: every scheduled request holds blocks from its first step until its end or preemption."""
        return self.private > 0 or bool(self.shared)

    @property
    def finished(self) -> bool:
        return len(self.token_instants) == self.output_tokens

    @property
    def phases(self) -> Phases:
        """The phases; available only for a finished request."""
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
