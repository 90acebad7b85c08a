"""What an answer is made of: numbers that say where they come from, what was assumed, what would change it, or why there is none.

Plain values, known to every file of this room. It refuses to compute, and to print (`text.py`).
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Origin(StrEnum):
    """Where a number comes from; an answer is no better than the weakest of those that it stands on."""

    MEASURED = "measured"
    """Read from a running sidecar or engine."""
    GIVEN = "given"
    """By a flag or a file of the caller's."""
    LOOKED_UP = "looked up"
    """In this program's tables of models and GPUs, whose sources stand beside them."""
    DERIVED = "derived"
    """Computed from the others."""
    ASSUMED = "assumed"
    """A default of ours that nobody confirmed."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number that an answer stands on."""

    name: str
    value: float
    """In the unit that `name` ends in, if it has one: `_bytes`, `_seconds`, ..."""
    said: str
    """For a person: `140 GB`."""
    origin: Origin
    source: str = ""
    """Which flag, file, page or table."""


@dataclass(frozen=True, slots=True)
class Answer:
    """To one question. `refusal` is set where the data do not carry one; `numbers` and `lines` are then empty."""

    topic: str
    """kv, memory, decode or replicas."""
    question: str
    lines: tuple[str, ...] = ()
    """For a person; the first is the answer."""
    numbers: dict[str, object] = field(default_factory=dict)
    """For a program. Lists of rows are tables."""
    facts: tuple[Fact, ...] = ()
    assumptions: tuple[str, ...] = ()
    would_change: tuple[str, ...] = ()
    refusal: str = ""


class RefusedError(Exception):
    """The data do not carry an answer. The message says why and what would help."""
