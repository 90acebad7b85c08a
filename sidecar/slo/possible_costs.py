"""What steps like the recent ones may usually cost: by each fit that explains what was learned about as well. Pure.

A batch and the tokens in its contexts grow together, so calm times often do not tell which of the two costs time. For steps
of the same shape that does not matter. For steps of another one, long answers after short ones for example, the fits
differ, and each of them may be true: then so much of a rise is unknown. It knows fits and the shapes of steps. It refuses
to know what the steps took (`step_model.py`).
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from sidecar.slo.factor import LEAST_MARGIN, Factor
from sidecar.slo.least_squares import LeastSquares


AS_WELL = LEAST_MARGIN**2
"""A fit explains what was learned as well as the best one if its mean squared relative error is larger by at most this."""
KEPT_SHAPES = 1024


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of each part of a step."""

    step: float
    per_sequence: float
    per_context_token: float

    def decode_seconds(self, sequences: float, context_tokens: float) -> float:
        return self.step + self.per_sequence * sequences + self.per_context_token * context_tokens


class _Shape(NamedTuple):
    ended_at: float
    steps: int
    sequences: int
    context_tokens: float


class PossibleCosts:
    """The fits of one engine, and the shapes of its recent steps."""

    def __init__(self) -> None:
        self._fits: list[Costs] = []
        self._shapes: deque[_Shape] = deque(maxlen=KEPT_SHAPES)

    def fit_to(self, learned: LeastSquares) -> Costs | None:
        """Take all fits that explain about as well what was learned. Returns the best; None without any."""
        self._fits = [Costs(*each) for each in learned.possible(AS_WELL)]
        return next(iter(self._fits), None)

    def add(self, ended_at: float, steps: int, sequences: int, context_tokens: float) -> None:
        """So many steps of this shape have ended."""
        self._shapes.append(_Shape(ended_at, steps, sequences, context_tokens))

    def forget(self) -> None:
        """The engine was replaced."""
        self._shapes.clear()

    def widened(self, factor: Factor, since: float) -> Factor:
        """A factor of the steps since then over the best fit, as it is by all fits: its interval holds that of each, and its value
        is the one that is nearest to 1, as less has changed by that fit.
        """
        recent = [each for each in self._shapes if each.ended_at >= since]
        steps = sum(each.steps for each in recent)
        if not steps:
            return factor
        # Fits are linear: what the mean shape costs is the mean of what all of them cost.
        sequences = sum(each.steps * each.sequences for each in recent) / steps
        context_tokens = sum(each.steps * each.context_tokens for each in recent) / steps
        least, most = self.over_best(sequences, context_tokens)
        dearest, cheapest = factor.value / least, factor.value / most
        return Factor(min(max(1.0, cheapest), dearest), factor.low / most, factor.high / least)

    def over_best(self, sequences: float, context_tokens: float) -> tuple[float, float]:
        """The least and the most that a step of this shape may usually cost, over what it does by the best fit."""
        seconds = [each.decode_seconds(sequences, context_tokens) for each in self._fits]
        return (min(seconds) / seconds[0], max(seconds) / seconds[0]) if seconds else (1.0, 1.0)
