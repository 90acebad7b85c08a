"""The parts of an answer: numbers with their origin, assumptions, what would change it, or the reason for a refusal.

Plain values, used by every file of this folder. Nothing is computed here, and nothing is printed (`text.py` prints).
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Origin(StrEnum):
    """The source of a number. An answer is no more reliable than the least reliable number that it uses."""

    MEASURED = "measured"
    """Read from a running engine."""
    GIVEN = "given"
    """Stated by the caller, in a flag or a file."""
    LOOKED_UP = "looked up"
    """Taken from this program's tables of models and GPUs; each table row names its source."""
    DERIVED = "derived"
    """Computed from other numbers."""
    ASSUMED = "assumed"
    """A default of this program that no input has confirmed."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number that an answer uses."""

    name: str
    value: float
    """In the unit that `name` ends in, if it has one: `_bytes`, `_seconds`, ..."""
    said: str
    """The value as text for a person: `140 GB`."""
    origin: Origin
    source: str = ""
    """The flag, file, page or table that the number was read from."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question. If the data allow none, `refusal` is set, and `numbers` and `lines` are empty."""

    topic: str
    """kv, memory, decode, replicas or engine."""
    question: str
    lines: tuple[str, ...] = ()
    """Sentences for a person; the first is the answer."""
    numbers: dict[str, object] = field(default_factory=dict)
    """The same numbers for a program. A table is a list of rows."""
    facts: tuple[Fact, ...] = ()
    assumptions: tuple[str, ...] = ()
    would_change: tuple[str, ...] = ()
    refusal: str = ""
    unanswered: bool = False
    """The refusal is that the running engine did not answer: no input is wrong."""


class RefusedError(Exception):
    """The data do not allow an answer. The message says why, and which input would help."""


class UnansweredError(RefusedError):
    """The running engine that was to be asked did not answer."""
