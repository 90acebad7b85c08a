"""The order of the lanes of one diagnosis, for everything that shows them: the one that a person should read about comes first. Pure.

Broken lanes first: those with an objective, then a failing engine, then a phase that is known from more than a few misses, then the highest
burn. Then lanes without an answer, then those that are well, and last those with too few samples.
"""

from collections.abc import Iterable

from sidecar.diagnosis.findings import Diagnosis, Outcome
from sidecar.diagnosis.verdict import MANY_MISSES
from sidecar.diagnosis.why import latency_of
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective


def worst_first(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Broken lanes by severity, then lanes without an answer, then good ones, then those with too few samples."""
    order = {Outcome.VERDICT: 0, Outcome.REFUSED: 1, Outcome.WELL: 2}
    return sorted(
        diagnoses,
        key=lambda one: (
            3 if one.has_few_samples else order[one.outcome],
            not has_objective(one),
            one.phase != Blame.ENGINE,
            *_doubt(one),
            -_over(one),
        ),
    )


def _doubt(d: Diagnosis) -> tuple[bool, bool]:
    """Sort key for weak evidence: an unattributed verdict, and fewer than MANY_MISSES misses.

    A lane with five requests may show the highest burn, but says least about the cause.
    """
    return d.phase == Blame.UNATTRIBUTED, (_missed(d) or 0.0) < MANY_MISSES


def has_objective(d: Diagnosis) -> bool:
    """Whether the lane has an objective: only such a lane can page."""
    m = d.measured
    return any(latency.misses is not None for latency in (m.ttft, m.inter_token, m.e2e, m.stall))


def _missed(d: Diagnosis) -> float | None:
    return latency_of(d.measured, d.first or Objective.E2E).misses


def _over(d: Diagnosis) -> float:
    first = d.first or Objective.E2E
    number = {Objective.TTFT: d.ttft, Objective.TPOT: d.inter_token}.get(first)
    over = latency_of(d.measured, first).burn if number is None else number.over
    return over or 0.0
