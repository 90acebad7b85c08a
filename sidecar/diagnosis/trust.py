"""How far to trust a verdict, and why: each doubt lowers the confidence, and is said.

Knows what a verdict rests on. High is what many votes, a clear lead, a baseline and agreeing sources give; numbers told by
a person are fair at best, because quantiles do not add up; where nobody split the time, it is low.
"""

from sidecar.diagnosis.findings import Confidence
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import Verdict
from sidecar.diagnosis.wording import digits, percent
from sidecar.slo.attribution import Blame
from sidecar.slo.objective import Objective


MANY_VOTES = 10
CLEAR_LEAD = 0.2
COUNTS_AGREE = (0.9, 1.1)
MOST_OF_IT = 0.5


def confidence(
    m: Measured, first: Objective, phase: Blame, verdict: Verdict | None
) -> tuple[Confidence, tuple[str, ...]]:
    """The level, and what it rests on or suffers from; never without a reason."""
    if verdict is not None and verdict.phase is Blame.ENGINE:
        return Confidence.HIGH, ("The engine's own state says so, and no vote is needed.",)
    if phase is Blame.UNATTRIBUTED:
        return Confidence.LOW, ("Nobody split the time that is lost.", *_doubts(m, verdict))
    doubts = _doubts(m, verdict)
    if verdict is None:
        where = (
            "Numbers were told by hand, as quantiles: those do not add up."
            if m.source == "hand"
            else "Nothing is promised here, so no request voted: means decided."
        )
        assumed = m.ttft if first is Objective.TTFT else m.inter_token
        doubts = [where, *(["The threshold is an assumption."] if assumed.threshold_assumed else []), *doubts]
    if doubts:
        return Confidence.FAIR, tuple(doubts)
    assert verdict is not None
    return Confidence.HIGH, (f"{digits(verdict.votes)} votes, a clear lead, and sources that agree.",)


def _doubts(m: Measured, verdict: Verdict | None) -> list[str]:
    return [*([] if verdict is None else _of_verdict(m, verdict)), *_of_splits(m), *_of_sources(m)]


def _of_verdict(m: Measured, verdict: Verdict) -> list[str]:
    found = []
    if verdict.provisional:
        found.append("It is provisional: the engine's state decided, and no votes.")
    elif verdict.phase is not Blame.UNATTRIBUTED:
        found += _of_votes(verdict)
    if not m.baseline and verdict.phase is Blame.QUEUE:
        found.append("There is no baseline yet, so nobody can say whether dearer prefill made the queue.")
    if m.baseline_is_young:
        found.append("The baseline is made of less than three minutes of calm.")
    return found


def _of_splits(m: Measured) -> list[str]:
    found = []
    estimated = m.phases[Blame.QUEUE].sources.get("estimated", 0.0) if Blame.QUEUE in m.phases else 0.0
    if estimated >= MOST_OF_IT:
        found.append(f"{percent(estimated)} of the splits are estimates.")
    unsplit = sum(m.unsplit.values())
    if unsplit >= MOST_OF_IT:
        found.append(f"{percent(unsplit)} of the requests have no split.")
    return found


def _of_sources(m: Measured) -> list[str]:
    low, high = COUNTS_AGREE
    found = [
        f"Requests report {percent(ratio)} of the {phase} that the engine counts."
        for phase, ratio in m.agreement.items()
        if not low <= ratio <= high
    ]
    if m.traffic_seen is not None and m.traffic_seen < low:
        found.append(f"Only {percent(m.traffic_seen)} of the engine's requests came through the sidecar.")
    return found


def _of_votes(verdict: Verdict) -> list[str]:
    found = []
    if verdict.votes < MANY_VOTES:
        found.append(f"Only {digits(verdict.votes)} votes.")
    shares = dict(verdict.waited_in)
    if verdict.moved:
        shares[Blame.PREFILL] = shares.get(Blame.PREFILL, 0.0) + shares.pop(Blame.QUEUE, 0.0)
    best, next_best = [*sorted(shares.values(), reverse=True), 0.0, 0.0][:2]
    if best - next_best < CLEAR_LEAD:
        found.append("Two phases are close to each other in the votes.")
    return found
