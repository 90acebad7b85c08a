"""What a diagnosis is: the words that it is made of, before anybody writes them as JSON or as text.

Knows fields. There are always two numbers, and never a phase without evidence: a record that breaks this cannot be made.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.diagnosis.interventions import Intervention, Unhelpful
from sidecar.diagnosis.measured import Latency, Measured, Regime
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


class Outcome(StrEnum):
    VERDICT = "verdict"
    """Something is broken, and this is what is known of it."""
    WELL = "well"
    """Nothing that was promised is broken."""
    REFUSED = "refused"
    """It cannot be said; `missing` says what would make it possible."""


class Confidence(StrEnum):
    HIGH = "high"
    FAIR = "fair"
    LOW = "low"


class State(StrEnum):
    """One number against its threshold."""

    MET = "met"
    NEAR = "near"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Number:
    latency: Latency
    state: State
    over: float | None
    """Misses over what is allowed, where there is an objective; else the p99 over its threshold."""


@dataclass(frozen=True, slots=True)
class Second:
    """What is broken, or nearly, beside the first."""

    objective: Objective
    phase: Blame
    state: State


@dataclass(frozen=True, slots=True)
class Step:
    what: Intervention
    phase: Blame
    """That it targets."""
    flag: str | None
    """Of this engine, where it is known and has one."""
    after: tuple[str, ...]
    """What must be so before."""


@dataclass(frozen=True, slots=True)
class Question:
    """What nobody told, and would change the order."""

    ask: str
    changes: str
    how: str
    """The flag, or where to look."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What a verdict would need, and who gives it."""

    what: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    measured: Measured
    outcome: Outcome
    ttft: Number
    inter_token: Number
    first: Objective | None = None
    """What is to be repaired first."""
    phase: Blame | None = None
    """Set where the outcome is a verdict. `unattributed`: broken, and nobody can say where."""
    candidates: tuple[Blame, ...] = ()
    """Of an unattributed one: what it can be."""
    cause: Cause | None = None
    evidence: tuple[str, ...] = ()
    second: Second | None = None
    regime: Regime | None = None
    steps: tuple[Step, ...] = ()
    not_to_do: tuple[Unhelpful, ...] = ()
    questions: tuple[Question, ...] = ()
    missing: tuple[Missing, ...] = ()
    confidence: Confidence | None = None
    because: tuple[str, ...] = field(default_factory=tuple)
    """Why the confidence is what it is."""

    def __post_init__(self) -> None:
        """Raises ValueError for a phase that nothing speaks for, a verdict without one, or a refusal that asks for nothing."""
        if (self.phase is None) != (self.outcome is not Outcome.VERDICT):
            raise ValueError("a verdict has a phase, and nothing else has")
        if self.phase is not None and not self.evidence:
            raise ValueError("a phase needs evidence")
        if self.outcome is Outcome.REFUSED and not self.missing:
            raise ValueError("a refusal says what is missing")
