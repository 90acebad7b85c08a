"""The verdict on one lane and objective: the roots of its misses within one window, added up. Pure.

The window is that of the alert rules: the shorter one (two minutes) while it burns, else the one of all numbers.

A sidecar decides for each miss what broke (`sidecar/pod/`). This module adds and divides what was decided, on a pod or over
a fleet, and decides nothing itself: below `LEAST_CONFIDENCE` the phase is `unattributed`, and `candidates` names the roots.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.objectives.attribution import SIDECAR, Blame
from sidecar.objectives.objective import Objective
from sidecar.objectives.page_limits import LEAST_CONFIDENCE
from sidecar.pod.causes import CAUSES_BY_PHASE, Cause, Unknown, is_worth_naming
from sidecar.pod.size import RootSize


WORTH_LISTING = 0.15
"""Share of the decided misses from which a root is a candidate, where none is named."""
MANY_MISSES = 10.0
"""Misses from which their shares are more than chance."""

BEFORE_THE_FIRST_TOKEN = (Blame.QUEUE, Blame.PREFILL, Blame.FIRST_TOKEN)

RootPhase = Blame | str
"""A phase of `causes.ROOT_PHASES`: a member of `Blame`, or the text `sidecar`."""


class ModelLane(NamedTuple):
    """Labels of one diagnosis, in the order of the table of series."""

    model: str
    lane: str


class LaneObjective(NamedTuple):
    """Labels of one verdict, in the same order."""

    model: str
    lane: str
    objective: Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    roots: Mapping[RootPhase, float]
    """Phase of the root to the misses decided for it within the window, each above 0: one miss may be divided."""
    seconds: float | None = None
    """Length of the window; None if unknown."""
    misses: float | None = None
    """Requests that missed within the window; None if unknown."""
    undecided: float = 0.0
    """Misses whose root is not decided yet, now."""
    causes: Mapping[RootPhase, Cause | Unknown] = field(default_factory=dict)
    """Phase to its leading cause, over all lanes of the model; to a reason for `unattributed`."""
    waited_in: Mapping[Blame, float] = field(default_factory=dict)
    """Shares of the ledgers of missed requests that closed within the window and split the time, 0 to 1."""
    began: Mapping[RootPhase, float] = field(default_factory=dict)
    """Phase to the Unix time since which an incident with this root is open."""
    shown: Mapping[RootPhase, float] = field(default_factory=dict)
    """Phase to the Unix time at which a miss last showed this root of an open incident by evidence of its own."""
    confidences: Mapping[RootPhase, float] = field(default_factory=dict)
    """Phase to the confidence, 0 to 1, in this root of an open incident; of a fleet, on the pod that is least sure of it."""
    sizes: Mapping[Cause, RootSize] = field(default_factory=dict)
    """Cause to its size, where it is the root of an open incident; of a fleet, on the pod that shows most."""

    def __post_init__(self) -> None:
        """Raises ValueError without a miss: an objective that nothing missed has no verdict."""
        if not self.roots and self.undecided <= 0:
            raise ValueError("a verdict has misses")

    @property
    def decided(self) -> float:
        """Misses that were decided within the window."""
        return sum(self.roots.values())

    @property
    def counted(self) -> float:
        """Decided misses, at most those of the window: a miss of the seconds before it may be decided within it."""
        return self.decided if self.misses is None else min(self.decided, self.misses)

    @property
    def leading(self) -> RootPhase | None:
        """The known root with the most misses; None if none is known."""
        known = {phase: count for phase, count in self.roots.items() if phase != Blame.UNATTRIBUTED}
        return max(known, key=known.__getitem__) if known else None

    @property
    def confidence(self) -> float:
        """Share of the decided misses that have the leading root, 0 to 1; 0 if none is known."""
        return 0.0 if self.leading is None else self.roots[self.leading] / self.decided

    @property
    def phase(self) -> RootPhase:
        """The leading root; `unattributed` below `LEAST_CONFIDENCE`."""
        leading = self.leading
        return Blame.UNATTRIBUTED if leading is None or self.confidence < LEAST_CONFIDENCE else leading

    @property
    def candidates(self) -> tuple[RootPhase, ...]:
        """The known roots that the misses are divided among, largest first, where none is named."""
        if self.phase != Blame.UNATTRIBUTED:
            return ()
        ordered = sorted(self.roots.items(), key=lambda item: -item[1])
        least = WORTH_LISTING * self.decided
        return tuple(phase for phase, count in ordered if count >= least and phase != Blame.UNATTRIBUTED)

    @property
    def cause(self) -> Cause | None:
        """The leading cause of the phase; None if the phase is unattributed, or its cause unknown."""
        cause = self.causes.get(self.phase)
        return cause if isinstance(cause, Cause) else None

    @property
    def size(self) -> RootSize | None:
        """The size of the cause, as its incident tells it; None without an incident of it, and for a cause without a size."""
        return None if self.cause is None else self.sizes.get(self.cause)

    @property
    def sure(self) -> float:
        """The confidence as the incident of this root tells it; without one, its share of the decided misses."""
        return (
            self.confidence if self.phase == Blame.UNATTRIBUTED else self.confidences.get(self.phase, self.confidence)
        )

    @property
    def shown_at(self) -> float | None:
        """Unix time at which a miss last showed this root of an open incident; None if no pod has one."""
        return self.shown.get(self.phase)

    @property
    def reason(self) -> Unknown | None:
        """The leading reason of an unattributed phase; None if each miss has a known root."""
        reason = self.causes.get(Blame.UNATTRIBUTED) if self.phase == Blame.UNATTRIBUTED else None
        return reason if isinstance(reason, Unknown) else None

    @property
    def since_at(self) -> float | None:
        """Unix time since which the incident is open: of this root, else of any; None if no pod has one."""
        return self.began.get(self.phase, min(self.began.values(), default=None))


def of_largest(sizes: Iterable[tuple[Cause, RootSize]]) -> dict[Cause, RootSize]:
    """Cause to its largest size: pods may have it in several units."""
    found: dict[Cause, RootSize] = {}
    for cause, size in sizes:
        if cause not in found or size.ratio.value > found[cause].ratio.value:
            found[cause] = size
    return found


def root_phase(name: str) -> RootPhase:
    """The phase of this name. Raises ValueError for one that no root has."""
    return SIDECAR if name == SIDECAR else Blame(name)


def root_cause(name: str) -> Cause | Unknown:
    """The cause, or reason, of this name. Raises ValueError for one that no root has."""
    return Unknown(name) if name in {*Unknown} else Cause(name)


def top(ratios: Mapping[Cause, float], phase: RootPhase) -> Cause | None:
    """The cause of this phase that has grown most; None if none has grown enough to be named."""
    causes = CAUSES_BY_PHASE.get(phase, ())
    worth = {cause: ratio for cause, ratio in ratios.items() if cause in causes and is_worth_naming(cause, ratio)}
    return max(worth, key=worth.__getitem__) if worth else None
