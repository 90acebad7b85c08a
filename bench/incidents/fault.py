"""Faults as data: all that an incident may change about the engine, its traffic and the network between.

It knows the properties that can change, and when each change begins and ends. It refuses to know why (`kinds.py`) and
how (`play.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.incidents.world import Throttle


@dataclass(frozen=True, slots=True)
class Hop:
    """A hop between engine and sidecar that buffers tokens before it passes them on."""

    events: int
    """Number of tokens at which it passes them on."""
    seconds: float
    """Longest time for which it holds a token; the end of the answer flushes it too."""


@dataclass(frozen=True, slots=True)
class SlowClients:
    """Clients that read slower than the engine writes."""

    share: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Stranger:
    """Requests of other lengths that arrive besides the usual ones."""

    lane: str
    per_second: float
    prompt_tokens: tuple[int, int]
    """Lowest and highest length, drawn uniformly; so is the output."""
    output_tokens: tuple[int, int]
    streaming: bool = True
    first_at_once: bool = False
    """Whether the first one arrives when the episode begins, instead of some time later."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Everything that differs from a usual run while it lasts. The default changes nothing; a set-up has the same fields."""

    load: Mapping[str, float] = field(default_factory=dict)
    """Lane to the factor of its arrivals, above 0. Below 1, each request's luck decides whether it is left out."""
    prompts: Mapping[str, float] = field(default_factory=dict)
    """Lane to the factor of its prompts' length beyond the shared prefix."""
    outputs: Mapping[str, float] = field(default_factory=dict)
    strangers: tuple[Stranger, ...] = ()
    uncached: Mapping[str, float] = field(default_factory=dict)
    """Lane to the share of its prompts, 0 to 1, without the shared prefix."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the simulation's `Knobs`."""
    hop: Hop | None = None
    merged: float = 0.0
    """Share of events, 0 to 1, that are read together with the next one, if it is more than the world's. No token is held
    back for long: a busy engine or machine writes them together."""
    slow_clients: Mapping[str, SlowClients] = field(default_factory=dict)
    errors: float = 0.0
    """Share of requests, 0 to 1, that the engine answers with status 500."""
    rejected: float = 0.0
    """Share of requests, 0 to 1, that the engine turns away with status 429, if they are not answered with 500."""
    tokens_a_step: float | None = None
    """Mean tokens of a decode step, if the world's engine speculates; None: the world's."""
    transfer_seconds: float = 0.0
    """Seconds added to the transfer of each KV cache between the schedulers of a disaggregated engine."""
    throttle: Throttle | None = None
    """CPU quota of the sidecar: the engine is well, and the sidecar reads late."""
    down: bool = False
    """The process is gone: its requests are cut off and new ones refused. When it is back, its cache is empty."""
    fresh: bool = False
    """A new process replaces the old one without a gap; its cache is empty."""


NOTHING = Fault()


@dataclass(frozen=True, slots=True)
class Episode:
    """A fault and its begin and end, in seconds after `Run.fault_at`. `ends` None: until the incident is over.

    Both are negative for something that happens before the fault and has nothing to do with it.
    """

    fault: Fault
    begins: float = 0.0
    ends: float | None = None
