"""The confidence in a verdict, with its reasons: each doubt lowers it, and is named.

High needs ten votes within the window, a clear lead, a baseline, and sources that agree. Numbers given by a person are
fair at best, because quantiles do not add up. If no source split the time, the confidence is low.
"""

from math import inf

from sidecar.diagnosis.findings import Confidence
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import FAULTS, Verdict
from sidecar.diagnosis.why import counted_votes, of_window
from sidecar.diagnosis.wording import digits, percent
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause
from sidecar.slo.objective import Objective


MANY_VOTES = 10
"""Votes that a high confidence needs."""
CLEAR_LEAD = 0.2
"""Share of the votes by which the first phase must lead the second."""
COUNTS_AGREE = (0.9, 1.1)
"""Range of reported over counted seconds in which both sources agree."""
MOST_OF_IT = 0.5
"""Share of the requests from which estimates, or requests without a split, make a doubt."""


def confidence(
    m: Measured, first: Objective, phase: Blame, verdict: Verdict | None
) -> tuple[Confidence, tuple[str, ...]]:
    """The level, and at least one reason for it."""
    if verdict is not None and verdict.phase is Blame.ENGINE and verdict.cause in (*FAULTS, Cause.KV):
        return Confidence.HIGH, ("The engine's own state says so, and no vote is needed.",)
    if phase is Blame.UNATTRIBUTED:
        return Confidence.LOW, ("No source split the time that is lost.", *_doubts(m, verdict, first))
    doubts = _doubts(m, verdict, first)
    if verdict is None:
        where = (
            "The numbers were given by hand, as quantiles, and quantiles do not add up."
            if m.source == "hand"
            else "The lane has no verdict, so no request voted: means decided."
        )
        assumed = m.ttft if first is Objective.TTFT else m.inter_token
        doubts = [where, *(["The threshold is an assumption."] if assumed.threshold_assumed else []), *doubts]
    if doubts:
        return Confidence.FAIR, tuple(doubts)
    assert verdict is not None
    return Confidence.HIGH, (f"{_votes(m, verdict, first)}, a clear lead, and sources that agree.",)


def _votes(m: Measured, verdict: Verdict, first: Objective) -> str:
    return f"{digits(counted_votes(m, first, verdict))} votes{of_window(m, first)}"


def _doubts(m: Measured, verdict: Verdict | None, first: Objective) -> list[str]:
    return [*([] if verdict is None else _about_verdict(m, verdict, first)), *_about_splits(m), *_about_sources(m)]


def _about_verdict(m: Measured, verdict: Verdict, first: Objective) -> list[str]:
    found = []
    if verdict.provisional:
        found.append("The verdict is provisional: the engine's state decided, not votes.")
    elif verdict.phase is not Blame.UNATTRIBUTED:
        found += _about_votes(m, verdict, first)
    if not m.baseline and verdict.phase is Blame.QUEUE:
        found.append("There is no baseline yet: dearer prefill may have made the queue.")
    if m.baseline_is_young:
        found.append("The baseline is made of less than three minutes of calm.")
    return found


def _about_splits(m: Measured) -> list[str]:
    found = []
    estimated = m.phases[Blame.QUEUE].sources.get("estimated", 0.0) if Blame.QUEUE in m.phases else 0.0
    if estimated >= MOST_OF_IT:
        found.append(f"{percent(estimated)} of the splits are estimates.")
    unsplit = sum(m.unsplit.values())
    if unsplit >= MOST_OF_IT:
        found.append(f"{percent(unsplit)} of the requests have no split.")
    return found


def _about_sources(m: Measured) -> list[str]:
    low, high = COUNTS_AGREE
    found = [
        f"Requests report {percent(ratio)} of the {phase} that the engine counts."
        for phase, ratio in m.agreement.items()
        if not low <= ratio <= high
    ]
    if m.traffic_seen is not None and m.traffic_seen < low:
        found.append(f"Only {percent(m.traffic_seen)} of the engine's requests came through the sidecar.")
    return found


def _about_votes(m: Measured, verdict: Verdict, first: Objective) -> list[str]:
    found = []
    if (m.votes_seconds.get(first) or 0.0) > (m.window_seconds or inf):
        found.append(f"Too few requests missed in the window itself: the votes are those{of_window(m, first)}.")
    if verdict.votes < MANY_VOTES:
        found.append(f"Only {_votes(m, verdict, first)}.")
    shares = dict(verdict.waited_in)
    if verdict.moved:
        shares[Blame.PREFILL] = shares.get(Blame.PREFILL, 0.0) + shares.pop(Blame.QUEUE, 0.0)
    best, next_best = [*sorted(shares.values(), reverse=True), 0.0, 0.0][:2]
    if best - next_best < CLEAR_LEAD:
        found.append("Two phases are close to each other in the votes.")
    return found
