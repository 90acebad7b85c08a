"""All fits that explain about as well what was learned, and so how much is known of the usual cost of the recent work. Pure.

A batch and the tokens in its contexts grow together, and so do the tokens of a prompt and their square, so calm times often
do not tell which of the two takes time. For work of the same shape that does not matter. For work of another one, long
answers after short ones for example, the fits differ, and each of them may be true: then so much of a change is unknown. It
knows fits and the terms of work. It refuses to know what these terms are, and what the work took (`step_model.py`).
"""

from collections import deque
from collections.abc import Sequence
from math import pi
from typing import NamedTuple

from sidecar.slo.factor import LEAST_MARGIN, Factor
from sidecar.slo.least_squares import LeastSquares
from sidecar.slo.linear_costs import seconds_of


AS_WELL = 0.1
"""A fit whose mean squared error is larger than the best one's by this share explains what was learned about as well: samples are
not independent, what costs is not quite linear, and of 40 independent ones such a difference is chance."""
SQUARED = pi / 2
"""The mean square of normal errors, over the square of their mean size."""
KEPT_WORK = 1024
LEAST_SECONDS = 1e-9
"""No work takes less, whatever a fit says."""


class _Done(NamedTuple):
    ended_at: float
    terms: Sequence[float]


class PossibleFits:
    """The fits of one cost of one engine, and the terms of its recent work."""

    def __init__(self) -> None:
        self._fits: list[tuple[float, ...]] = []
        self._done: deque[_Done] = deque(maxlen=KEPT_WORK)

    def fit_to(self, learned: LeastSquares, error: float) -> tuple[float, ...] | None:
        """Take all fits that explain about as well what was learned. Returns the best; None without any.

        `error`: mean relative error of one sample, by the best.
        """
        self._fits = learned.possible(LEAST_MARGIN**2 + AS_WELL * SQUARED * error**2)
        return next(iter(self._fits), None)

    def add(self, ended_at: float, terms: Sequence[float]) -> None:
        """Work with these terms has ended."""
        self._done.append(_Done(ended_at, terms))

    def forget(self) -> None:
        """The engine was replaced."""
        self._done.clear()

    def widened(self, factor: Factor, since: float) -> Factor:
        """A factor of the work since then over the best fit, as it is by all fits: its interval holds that of each, and its value
        is the one that is nearest to 1, as less has changed by that fit.
        """
        recent = [each.terms for each in self._done if each.ended_at >= since]
        if not recent:
            return factor
        # Fits are linear: what the sum of all terms costs is the sum of what each of them costs.
        least, most = self._over_best([sum(each) for each in zip(*recent, strict=True)])
        dearest, cheapest = factor.value / least, factor.value / most
        return Factor(min(max(1.0, cheapest), dearest), factor.low / most, factor.high / least)

    def nearest(self, seconds: float, expected: float, terms: Sequence[float]) -> float:
        """The usual seconds of work that took so many, by the fit that says most nearly that. `expected`: by the best one."""
        least, most = self._over_best(terms)
        return min(max(seconds, expected * least), expected * most)

    def agree(self, terms: Sequence[float], within: float) -> bool:
        """Whether no fit says more than so many times what another one says of this work."""
        least, most = self._over_best(terms)
        return most <= within * least

    def _over_best(self, terms: Sequence[float]) -> tuple[float, float]:
        """The least and the most that this work may usually cost, over what it does by the best fit."""
        seconds = [max(LEAST_SECONDS, seconds_of(each, terms)) for each in self._fits]
        return (min(seconds) / seconds[0], max(seconds) / seconds[0]) if seconds else (1.0, 1.0)
