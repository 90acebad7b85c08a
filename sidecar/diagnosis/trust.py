"""The confidence in a phase, as a number, with what lowers it and what would tell more.

The number is what the open incident tells of its root, as on a page; without such an incident, the leading root's share of the decided
misses of the window. A diagnosis without decided misses has none: its numbers were given by hand, or its lane has no objective.
"""

from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import MANY_MISSES, Verdict
from sidecar.diagnosis.why import latency_of, of_window, shares
from sidecar.diagnosis.wording import digits, instant, percent
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.objectives.page_limits import LEAST_CONFIDENCE
from sidecar.pod.causes import Unknown
from sidecar.pod.costs.cost_names import Unpriced


COUNTS_AGREE = (0.9, 1.1)
"""Range of reported over counted seconds in which both sources agree."""
MOST_OF_IT = 0.5
"""Share of the requests from which estimates, or requests without a split, make a doubt."""
_YOUNG = (
    "The usual values are learned while no objective burns, in the first minutes with traffic: then roots can be told."
)
_OF_PAGE = "first tokens, and gaps between tokens, that are beyond the thresholds more than usually"
_COST_REASONS = {
    Unpriced.YOUNG: "too few steps or prompts to know the usual cost",
    Unpriced.RESIDUALS: "steps of the same shape take different times",
    Unpriced.COVERAGE: "the streams that are seen do not speak at each step",
    Unpriced.FEW: "too little traffic now",
}


def confidence(
    m: Measured, first: Objective, phase: str, verdict: Verdict | None
) -> tuple[float | None, tuple[str, ...]]:
    """The confidence in the leading root, 0 to 1, and at least one sentence on it."""
    if verdict is None or not verdict.roots:
        return None, (*_without_roots(m, first, verdict), *_about_splits(m), *_about_sources(m))
    share, count = verdict.confidence, verdict.counted
    of = f"{digits(count)} decided misses{of_window(verdict)}" if m.source != "hand" else _OF_PAGE
    if phase == Blame.UNATTRIBUTED:
        said = [
            f"No known root has {percent(LEAST_CONFIDENCE)} of the {of}: {shares(verdict)}.",
            *_would_tell(m, verdict),
        ]
    elif phase in verdict.confidences:
        when = "" if verdict.shown_at is None else f", at {instant(verdict.shown_at)}"
        said = [
            f"The open incident is as sure as that, by what its misses last showed{when}. Of {of}, {percent(share)} have this root."
        ]
    else:
        said = [f"This is the root's share of {of}."]
    if count < MANY_MISSES and m.source != "hand":
        said.append(f"Only {digits(count)} misses are decided: their shares may be chance.")
    return verdict.sure, (*said, *_about_sources(m))


def _would_tell(m: Measured, verdict: Verdict) -> list[str]:
    said = [_YOUNG] if verdict.reason is Unknown.YOUNG else []
    said += [
        f"The cost of {part} is not known: {_COST_REASONS[Unpriced(why)]}."
        for part, why in m.unknown_costs.items()
        if why in {*Unpriced}
    ]
    if m.source == "hand":
        # An engine's own page: its hints are sentences of what the page lacks.
        return [*said, *(f"{hint[:1].upper()}{hint[1:]}." for hint in m.hints)]
    said += [f"It would tell: {hint}." for hint in m.hints]
    return said or ["More traffic would tell: in few requests several causes look alike."]


def _without_roots(m: Measured, first: Objective, verdict: Verdict | None) -> list[str]:
    if m.source == "hand":
        where = "The numbers are quantiles, and quantiles do not add up."
    elif verdict is not None or m.verdicts:
        where = "No miss of the window is decided yet."
    else:
        where = "No miss is decided, so the means of the phases decided."
    return [where, *(["The threshold is an assumption."] if latency_of(m, first).threshold_assumed else [])]


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
