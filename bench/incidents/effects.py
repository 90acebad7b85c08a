"""What can go wrong, as data: everything that an incident may change about the engine, its traffic and the ways between.

It knows the list of things that can be changed, and when each begins and ends. It refuses to know why (`kinds.py`) and how (`play.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Hop:
    """Something between engine and sidecar that collects before it passes on."""

    events: int
    """It passes on when it has so many tokens,"""
    seconds: float
    """or when the oldest has been held for so long, or the answer is complete."""


@dataclass(frozen=True, slots=True)
class SlowClients:
    """Clients that read slower than the engine writes."""

    share: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Stranger:
    """Requests of another shape that arrive besides the usual ones."""

    lane: str
    per_second: float
    prompt_tokens: tuple[int, int]
    """Drawn uniformly between these."""
    output_tokens: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Effect:
    """What is different while it lasts. The default is nothing."""

    load: Mapping[str, float] = field(default_factory=dict)
    """Lane to the factor, at least 1, of its arrivals."""
    prompts: Mapping[str, float] = field(default_factory=dict)
    """Lane to the factor of what its prompts have beyond the shared beginning."""
    outputs: Mapping[str, float] = field(default_factory=dict)
    strangers: tuple[Stranger, ...] = ()
    uncached: Mapping[str, float] = field(default_factory=dict)
    """Lane to the share of its prompts that begin differently each time."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the simulation's `Knobs`."""
    hop: Hop | None = None
    slow_clients: Mapping[str, SlowClients] = field(default_factory=dict)
    down: bool = False
    """The process is gone: who is inside is cut off, who comes is refused; when it is back its cache is empty."""
    fresh: bool = False
    """The process is replaced by a new one without a gap: an empty cache."""


NOTHING = Effect()


@dataclass(frozen=True, slots=True)
class Episode:
    """An effect and when it is there, in seconds after the fault began. `ends` None: until the incident is over."""

    effect: Effect
    begins: float = 0.0
    ends: float | None = None
