"""The fields of a diagnosis, before it is written as JSON or as text.

A diagnosis always has two latencies, and no phase without evidence: other records raise ValueError.
"""

from dataclasses import dataclass
from enum import StrEnum

from sidecar.diagnosis.interventions import UNKNOWN_GAIN, Gain, Intervention, Unhelpful
from sidecar.diagnosis.measured import Latency, Measured, Regime
from sidecar.diagnosis.verdict import RootPhase
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import Cause, Unknown
from sidecar.pod.size import RootSize


class Outcome(StrEnum):
    VERDICT = "verdict"
    """An objective or expectation is broken."""
    WELL = "well"
    """No objective is broken."""
    REFUSED = "refused"
    """No answer is possible; `missing` names the missing numbers."""


class State(StrEnum):
    """One latency against its threshold."""

    MET = "met"
    NEAR = "near"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Number:
    latency: Latency
    state: State
    over: float | None
    """Misses over the allowed ones, if the lane has the objective; else the p99 over its threshold."""


@dataclass(frozen=True, slots=True)
class Second:
    """The other latency, if it is broken or near its threshold too."""

    objective: Objective
    phase: RootPhase
    state: State


@dataclass(frozen=True, slots=True)
class Step:
    what: Intervention
    phase: RootPhase
    """The phase that the step targets."""
    flag: str | None
    """The flag of this engine; None if the engine is unknown or has none."""
    after: tuple[str, ...]
    """Conditions that must hold before the step is worth doing."""
    told: str | None = None
    """The numbers of this case that make it a step."""
    not_with: tuple[str, ...] = ()
    """Titles of the fixes that it excludes, or that undo it."""
    gain: Gain = UNKNOWN_GAIN
    """The range of its expected effect on the causes of this case."""


@dataclass(frozen=True, slots=True)
class Question:
    """A missing number that would change the order of the steps."""

    ask: str
    changes: str
    how: str
    """The flag that gives the number, or the place to look."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A number that a verdict would need, and the way to get it."""

    what: str
    how: str
    few_samples: bool = False
    """Whether only more requests are missing: the numbers that are there show nothing wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    measured: Measured
    outcome: Outcome
    ttft: Number
    inter_token: Number
    first: Objective | None = None
    """The objective to be repaired first."""
    phase: RootPhase | None = None
    """The phase of the root, set if the outcome is a verdict. `unattributed`: the objective is broken, and no root is known."""
    candidates: tuple[RootPhase, ...] = ()
    """Phases that an unattributed one can be."""
    cause: Cause | None = None
    reason: Unknown | None = None
    """The reason for which an unattributed one has no root, if the sidecar states one."""
    size: RootSize | None = None
    """The size of the cause, as its incident tells it; None for a cause without one, or if none of it is open."""
    since_at: float | None = None
    """Unix time since which the incident is open; None if unknown."""
    shown_at: float | None = None
    """Unix time at which a miss last showed its root by evidence of its own; None if unknown."""
    evidence: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Numbers of now beside the usual ones, in sentences."""
    second: Second | None = None
    regime: Regime | None = None
    steps: tuple[Step, ...] = ()
    not_to_do: tuple[Unhelpful, ...] = ()
    questions: tuple[Question, ...] = ()
    missing: tuple[Missing, ...] = ()
    confidence: float | None = None
    """The confidence in the phase, 0 to 1, as its incident tells it, else the leading root's share of the decided misses of the window; None
    if no miss is decided."""
    because: tuple[str, ...] = ()
    """The number behind the confidence, what lowers it, and what would tell more."""

    @property
    def has_few_samples(self) -> bool:
        """Whether it is refused for too few samples alone."""
        return self.outcome is Outcome.REFUSED and all(missing.few_samples for missing in self.missing)

    def __post_init__(self) -> None:
        """Raises ValueError for a phase without evidence, a verdict without a phase, or a refusal that names nothing."""
        if (self.phase is None) != (self.outcome is not Outcome.VERDICT):
            raise ValueError("a verdict has a phase, and nothing else has")
        if self.phase is not None and not self.evidence:
            raise ValueError("a phase needs evidence")
        if self.outcome is Outcome.REFUSED and not self.missing:
            raise ValueError("a refusal says what is missing")
