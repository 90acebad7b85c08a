"""The verdict on one lane and objective, made of votes, of what the whole engine shows, and of what stood a moment ago. Pure.

The same rule as the recording rules (`alert_rules/verdict.py`), so that a page and a diagnosis name the same phase: a test
compares the numbers, and promtool compares the answers. Knows counts and ratios. Refuses to know where they come from, and
to name a phase where nothing missed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


WORTH_NAMING = 1.25
"""By how much a number must have grown to be called a cause (reference: blame.md 4)."""
FEWEST_MISSES = 10.0
"""As many misses as a page needs: with fewer in five minutes the votes of the last thirty count."""
FEWEST_VOTES = 5.0
SPLIT_ENOUGH = 0.2
"""Below this share of split votes nobody knows where the misses waited."""
LEAD = 0.1
"""A new leader must be ahead by ten points."""
COLLAPSED = 0.25
"""Of its usual self: no engine decodes four times faster from one minute to the next."""
FAULTY_SHARE = 0.5
"""Of a lane's misses, on pods with a fault: from here on the verdict is the engine's."""
WAITING_THERE = 0.5
"""Of those who wait now, in one stage: from here on it decides, while too few ledgers have closed."""


GROWN_CAUSES = (Cause.PREFILL_COST, Cause.UNCACHED, Cause.LOAD, Cause.PROMPT_MIX, Cause.DECODE_COST)
"""Causes with a number of the whole engine that can have grown: the closed set of the label `evidence`."""
FAULTS = (Cause.DOWN, Cause.SILENCE, Cause.PREEMPTION)
"""Of an engine, in the order in which one explains the other."""


BEFORE_THE_FIRST_TOKEN = (Blame.QUEUE, Blame.PREFILL, Blame.FIRST_TOKEN)


class ModelLane(NamedTuple):
    """One diagnosis' labels, in the order in which the table of series reads them."""

    model: str
    lane: str


class LaneObjective(NamedTuple):
    """One verdict's labels, in the same order."""

    model: str
    lane: str
    objective: Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that the verdict on one lane and objective is made of. What nobody knows is absent, never 0."""

    objective: Objective
    misses_5m: float = 0.0
    misses_30m: float = 0.0
    votes_5m: Mapping[Blame, float] = field(default_factory=dict)
    votes_30m: Mapping[Blame, float] = field(default_factory=dict)
    ratios: Mapping[Cause, float] = field(default_factory=dict)
    """Of the whole model, over a baseline that is frozen while objectives are missed."""
    faulty: Mapping[Cause, float] = field(default_factory=dict)
    """Fault to the share of the misses that stand on pods which have it, 0 to 1."""
    kv_full: float = 0.0
    """The same for a KV cache that was as good as full over the last minute, while requests waited; of misses before the first token."""
    waiting: Mapping[Blame, float] = field(default_factory=dict)
    """Queue, prefill: the engine's own count over those who wait here."""
    longer: bool = False
    """This lane's own prompts have grown by as much as is worth naming."""
    kv_full_pods: float = 0.0
    """Share of the model's pods whose KV cache was as good as full over the last minute, while requests waited."""

    @property
    def votes(self) -> Mapping[Blame, float]:
        """Those of the window that the verdict is over."""
        return self.votes_5m if self.misses_5m >= FEWEST_MISSES else self.votes_30m

    @property
    def top(self) -> Cause | None:
        return top(self.ratios)

    @property
    def bursts(self) -> bool:
        """The quiet gap has all but vanished: tokens are collected somewhere and come together, so the first comes late."""
        return self.objective is Objective.TTFT and self.ratios.get(Cause.DECODE_COST, 1.0) < COLLAPSED

    @property
    def dearer(self) -> bool:
        """Whether this lane's queue is its prefill's: prompts cost more, or are its own and longer, with room for them."""
        own = self.longer and self.top in (None, Cause.PROMPT_MIX) and self.kv_full_pods < FAULTY_SHARE
        return own or self.top in (Cause.PREFILL_COST, Cause.UNCACHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    phase: Blame
    cause: Cause | None
    """None: nothing stands out."""
    waited_in: Mapping[Blame, float]
    """Shares of the split votes, 0 to 1, before any correction."""
    votes: float
    """How many votes were split."""
    provisional: bool = False
    """Too few ledgers have closed: the engine's state decided."""
    collected: bool = False
    """What came before the first token went to stream, because tokens suddenly come together."""
    moved: bool = False
    """The queue's share went to prefill, because prefill made the queue."""


def top(ratios: Mapping[Cause, float]) -> Cause | None:
    """The evidence that has grown most, if any is worth naming."""
    worth = {cause: ratio for cause, ratio in ratios.items() if ratio >= WORTH_NAMING}
    return max(worth, key=worth.__getitem__) if worth else None


def decide(case: Case, before: Blame | None = None) -> Verdict | None:
    """The verdict; None where nothing missed in the last half hour. `before`: what it was a moment ago, if anything."""
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
    """What was held back behind the engine is no silence of its own; a full cache is the cause only where nothing else grew."""
    if waited_in.get(Blame.STREAM, 0.0) < FAULTY_SHARE:
        worst = max((case.faulty.get(fault, 0.0) for fault in FAULTS), default=0.0)
        if worst >= FAULTY_SHARE:
            return next(fault for fault in FAULTS if case.faulty.get(fault, 0.0) == worst)
    return Cause.KV if case.kv_full >= FAULTY_SHARE and case.top is None else None


def _cause(case: Case, phase: Blame) -> Cause | None:
    if case.top is not None:
        return case.top
    return Cause.SLOTS if phase is Blame.QUEUE else None
