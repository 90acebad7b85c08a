"""Fits the weights of reasons (`WEIGHTS` of `sidecar/pod/weigh.py`) to runs of drawn shapes that no score plays.

Each decided miss of a pod at fault is a row: its reasons, and the causes that were injected. The fit makes the chances of these as large as it
can, in the mean over runs and not over misses, so that a storm counts once. A miss without a fault (before it, or on a pod that has none)
is a row for which no cause is right. What is left to *not known* counts a little: "I do not know" is better than a wrong team.

Each reason has one weight, whatever it speaks for: a trial with weights of one cause each fitted shapes that were left out of it no better.
Reasons of the incident are left out: they say what misses before this one showed. It
refuses to know how a reason is found.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, log, prod

from bench.incidents.job import Played
from bench.incidents.kinds import BY_NAME
from bench.roots.record import Began, Recorded, decided
from sidecar.pod.causes import PHASE_OF, Cause
from sidecar.pod.decision import Decision
from sidecar.pod.reasons import OF_INCIDENT, Reason, Reasons, reasons, stated
from sidecar.pod.weigh import SURE, Weights


UNKNOWN_IS_RIGHT = 0.03
SAME_PHASE = 0.6
"""A cause of the right phase that is not the injected one: the right team, with another story."""
FLOOR = 0.05
"""No row costs more than one whose right causes have this chance: some misses of a fault have another reason."""
QUIET_WEIGHT = 0.3
"""Weight of a run's rows without a fault, over that of its rows with one."""
ROUND = 20
"""Reasons are rounded to so many steps: rows that are alike become one."""
FIRST, PULL = 2.0, 2e-5
"""A weight before the fit, and how strongly it is drawn back there: one that these runs do not tell stays, instead of becoming 0. Ten shapes tell
little, because few of their reasons meet each other.
"""
STEPS = 300


@dataclass(frozen=True, slots=True)
class Row:
    """Misses that are alike: reasons by cause, and what each cause is worth."""

    reasons: tuple[tuple[Cause, tuple[tuple[Reason, float], ...]], ...]
    right: tuple[tuple[Cause, float], ...]

    @property
    def left(self) -> float:
        """The chance of none."""
        return prod(1.0 - min(SURE, max(value for _, value in of)) for _, of in self.reasons)


def rows_of(play: Played, kept: Recorded) -> dict[Row, float]:
    """The rows of one run, with their weights: in sum 1, and `QUIET_WEIGHT`."""
    injected = {cause for name in play.incident.made_of or () for cause in BY_NAME[name].causes}
    found: tuple[dict[Row, float], dict[Row, float]] = defaultdict(float), defaultdict(float)
    for pod, events in enumerate(kept.pods):
        for each in decided(events, Decision):
            event = each.event
            if isinstance(event, Began) or stated(each.facts) is not None:
                continue
            faulty = pod in play.truth.at_fault and play.run.fault_at <= event.at <= play.truth.quiet_at
            row = _row(reasons(each.facts, each.decision.signs), injected if faulty else set())
            if row.reasons:
                found[faulty][row] += event.times
    given: dict[Row, float] = defaultdict(float)
    for rows, weight in zip(found, (QUIET_WEIGHT, 1.0), strict=True):
        for row, times in rows.items():
            given[row] += weight * times / sum(rows.values())
    return given


def _row(found: Reasons, injected: set[Cause]) -> Row:
    phases = {PHASE_OF[cause] for cause in injected}
    worth = {cause: 1.0 if cause in injected else SAME_PHASE if PHASE_OF[cause] in phases else 0.0 for cause in found}
    rounded = {
        cause: tuple(
            (reason, steps / ROUND)
            for reason, value in sorted(of.items())
            if reason not in OF_INCIDENT and (steps := round(value * ROUND))
        )
        for cause, of in sorted(found.items())
    }
    return Row(
        tuple((cause, of) for cause, of in rounded.items() if of),
        tuple(sorted((cause, each) for cause, each in worth.items() if each)),
    )


def together(parts: Iterable[Mapping[Row, float]]) -> dict[Row, float]:
    """The rows of all runs."""
    found: dict[Row, float] = defaultdict(float)
    for part in parts:
        for row, times in part.items():
            found[row] += times
    return found


def fitted(rows: Mapping[Row, float], *, steps: int = STEPS) -> dict[Reason, float]:
    """The weights with the least cost, by gradient steps of their own size each (Adam). Reasons that no row has are left out."""
    weights = dict.fromkeys(sorted({reason for row in rows for _, of in row.reasons for reason, _ in of}), FIRST)
    mean, square = dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
    for step in range(1, steps + 1):
        _, slope = cost(rows, weights)
        rate = 0.1 * (1.0 - 0.9 * step / steps)
        for reason, each in slope.items():
            mean[reason] += 0.1 * (each - mean[reason])
            square[reason] += 0.01 * (each * each - square[reason])
            size = (square[reason] / (1.0 - 0.99**step)) ** 0.5 + 1e-9
            weights[reason] = max(0.0, weights[reason] - rate * mean[reason] / (1.0 - 0.9**step) / size)
    return weights


def cost(rows: Mapping[Row, float], weights: Weights) -> tuple[float, dict[Reason, float]]:
    """The mean cost of the rows, and its slope in each weight."""
    slope, total, every = dict.fromkeys(weights, 0.0), 0.0, sum(rows.values())
    for row, times in rows.items():
        right, left = dict(row.right), row.left
        powers = [(cause, of, exp(sum(weights[reason] * value for reason, value in of))) for cause, of in row.reasons]
        whole = sum(power - 1.0 for _, _, power in powers) + 1e-9
        worth = sum(right.get(cause, 0.0) * (power - 1.0) for cause, _, power in powers) / whole
        share = UNKNOWN_IS_RIGHT * left + (1.0 - left) * worth + FLOOR
        total -= times * log(share)
        for cause, of, power in powers:
            by = times * (1.0 - left) * (right.get(cause, 0.0) - worth) * power / whole / share
            for reason, value in of:
                slope[reason] -= by * value
    total = total / every + PULL * sum((weight - FIRST) ** 2 for weight in weights.values())
    return total, {reason: each / every + 2.0 * PULL * (weights[reason] - FIRST) for reason, each in slope.items()}
