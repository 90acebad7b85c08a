"""The verdict on one lane and objective, from votes, the state of the whole engine, and the verdict of a moment ago. Pure.

The rule is that of the recording rules (`alert_rules/verdict.py`), so that a page and a diagnosis name the same phase: a
test compares the numbers, and promtool compares the answers. It takes counts and ratios from any source, and names no
phase if no request missed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


WORTH_NAMING = 1.25
"""Growth over the baseline from which a number is called a cause (reference: blame.md 4)."""
FEWEST_MISSES = 10.0
"""Misses that a page needs: with fewer in five minutes, the votes of the last thirty minutes count."""
FEWEST_VOTES = 5.0
"""Split votes that a verdict by votes needs."""
SPLIT_ENOUGH = 0.2
"""Share of split votes below which the phase of the misses is unknown."""
LEAD = 0.1
"""Share of the votes by which a new phase must lead before it replaces the old one."""
COLLAPSED = 0.25
"""Ratio to the baseline below which the quiet gap has collapsed: no engine decodes four times faster within a minute."""
FAULTY_SHARE = 0.5
"""Share of a lane's misses on faulty pods from which the verdict is `engine`."""
WAITING_THERE = 0.5
"""Share of the waiting requests in one stage from which that stage decides, while too few ledgers have closed."""


GROWN_CAUSES = (Cause.PREFILL_COST, Cause.UNCACHED, Cause.LOAD, Cause.PROMPT_MIX, Cause.DECODE_COST)
"""Causes that have a number of the whole engine, which can grow: the closed set of the label `evidence`."""
FAULTS = (Cause.DOWN, Cause.SILENCE, Cause.PREEMPTION)
"""Faults of an engine; each may explain those behind it."""


BEFORE_THE_FIRST_TOKEN = (Blame.QUEUE, Blame.PREFILL, Blame.FIRST_TOKEN)


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
class Case:
    """The input of one verdict. An unknown number is absent, never 0."""

    objective: Objective
    misses_5m: float = 0.0
    misses_30m: float = 0.0
    votes_5m: Mapping[Blame, float] = field(default_factory=dict)
    votes_30m: Mapping[Blame, float] = field(default_factory=dict)
    ratios: Mapping[Cause, float] = field(default_factory=dict)
    """Evidence of the whole model over its baseline, which is frozen while objectives are missed."""
    faulty: Mapping[Cause, float] = field(default_factory=dict)
    """Fault to the share of the misses on pods that have it, 0 to 1."""
    kv_full: float = 0.0
    """Share of the misses on pods with a full KV cache and waiting requests over the last minute, 0 to 1; 0 for TPOT."""
    waiting: Mapping[Blame, float] = field(default_factory=dict)
    """Queue and prefill: requests there by the engine's own count, over the requests that wait in the sidecar."""
    longer: bool = False
    """Whether this lane's own prompts have grown by WORTH_NAMING or more."""
    kv_full_pods: float = 0.0
    """Share of the model's pods with a full KV cache and waiting requests over the last minute, 0 to 1."""

    @property
    def votes(self) -> Mapping[Blame, float]:
        """The votes of five minutes, or of thirty if fewer than FEWEST_MISSES requests missed in five."""
        return self.votes_5m if self.misses_5m >= FEWEST_MISSES else self.votes_30m

    @property
    def top(self) -> Cause | None:
        return top(self.ratios)

    @property
    def bursts(self) -> bool:
        """Whether the quiet gap collapsed: a hop collects tokens and passes them on together, so the first one comes late."""
        return self.objective is Objective.TTFT and self.ratios.get(Cause.DECODE_COST, 1.0) < COLLAPSED

    @property
    def dearer(self) -> bool:
        """Whether prefill made this lane's queue: prompts cost more, or this lane's are longer and the KV cache has room."""
        own = self.longer and self.top in (None, Cause.PROMPT_MIX) and self.kv_full_pods < FAULTY_SHARE
        return own or self.top in (Cause.PREFILL_COST, Cause.UNCACHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    phase: Blame
    cause: Cause | None
    """None if no cause stands out."""
    waited_in: Mapping[Blame, float]
    """Shares of the split votes, 0 to 1, before any correction."""
    votes: float
    """Number of split votes."""
    provisional: bool = False
    """Whether the engine's state decided, because too few ledgers have closed."""
    collected: bool = False
    """Whether time before the first token was given to stream, because tokens suddenly come together."""
    moved: bool = False
    """Whether the queue's share was given to prefill, because prefill made the queue."""


def top(ratios: Mapping[Cause, float]) -> Cause | None:
    """The evidence that has grown most; None if none has grown by WORTH_NAMING."""
    worth = {cause: ratio for cause, ratio in ratios.items() if ratio >= WORTH_NAMING}
    return max(worth, key=worth.__getitem__) if worth else None


def decide(case: Case, before: Blame | None = None) -> Verdict | None:
    """The verdict; None if no request missed in the last half hour. `before`: the phase of a moment ago, if there was one."""
    missing = case.misses_30m > 0 or case.misses_5m > 0
    split: dict[Blame, float] = {phase: n for phase, n in case.votes.items() if phase != Blame.UNATTRIBUTED and n > 0}
    votes = sum(split.values())
    waited_in: Mapping[Blame, float] = {phase: count / votes for phase, count in split.items()}
    decided = votes >= FEWEST_VOTES and votes >= SPLIT_ENOUGH * sum(case.votes.values())
    fault = _fault(case, waited_in)
    if not missing and fault is None and not decided:
        return None
    shares, provisional = _shares(case, waited_in, decided=decided)
    moved = case.dearer and Blame.QUEUE in shares
    if moved:
        queued = shares.pop(Blame.QUEUE)
        shares[Blame.PREFILL] = shares.get(Blame.PREFILL, 0.0) + queued
    scores = {phase: share + (LEAD if phase is before else 0.0) for phase, share in shares.items()}
    phase = Blame.ENGINE if fault is not None else max(scores, key=scores.__getitem__)
    return Verdict(
        phase=phase,
        cause=fault or _cause(case, phase),
        waited_in=waited_in,
        votes=votes,
        provisional=provisional,
        collected=case.bursts and phase is Blame.STREAM,
        moved=moved and phase is Blame.PREFILL,
    )


def _shares(case: Case, waited_in: Mapping[Blame, float], *, decided: bool) -> tuple[dict[Blame, float], bool]:
    if decided:
        shares: dict[Blame, float] = {}
        for of, share in waited_in.items():
            phase = Blame.STREAM if case.bursts and of in BEFORE_THE_FIRST_TOKEN else of
            shares[phase] = shares.get(phase, 0.0) + share
        return shares, False
    there = {
        phase: ratio
        for phase, ratio in case.waiting.items()
        if ratio > WAITING_THERE or (ratio == WAITING_THERE and phase is Blame.QUEUE)
    }
    if there and case.objective is not Objective.TPOT:
        return {max(there, key=there.__getitem__): 1.0}, True
    return {Blame.UNATTRIBUTED: 1.0}, False


def _fault(case: Case, waited_in: Mapping[Blame, float]) -> Cause | None:
    """The engine's fault that explains most misses, if any.

    Output that a hop held back is no silence of the engine. A full KV cache is the cause only if no evidence has grown.
    """
    if waited_in.get(Blame.STREAM, 0.0) < FAULTY_SHARE:
        worst = max((case.faulty.get(fault, 0.0) for fault in FAULTS), default=0.0)
        if worst >= FAULTY_SHARE:
            return next(fault for fault in FAULTS if case.faulty.get(fault, 0.0) == worst)
    return Cause.KV if case.kv_full >= FAULTY_SHARE and case.top is None else None


def _cause(case: Case, phase: Blame) -> Cause | None:
    if case.top is not None:
        return case.top
    return Cause.SLOTS if phase is Blame.QUEUE else None
