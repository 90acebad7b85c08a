"""All fits that explain about as well what was learned, and so how much is known of the usual cost of the recent work. Pure.

A batch and the tokens in its contexts grow together, and so do the tokens of a prompt and their square, so calm times often
do not tell which of the two takes time. For work of the same shape that does not matter. For work of another one, long
answers after short ones for example, the fits differ, and each of them may be true: then so much of a change is unknown. It
knows fits and the terms of work. It refuses to know what these terms are, and to learn (`step_model.py`).

Only one fit of each set of terms is looked at: between a fit with a term and one without it there are others, which count, but one
that gives a term even more is none of them.
"""

from collections.abc import Sequence
from math import pi
from typing import NamedTuple

from sidecar.pod.costs.least_squares import LeastSquares
from sidecar.pod.costs.linear_costs import Compared, seconds_of
from sidecar.pod.factor import LEAST_MARGIN, Factor, wider


AS_WELL = 0.1
"""A fit whose mean squared error is larger than the best one's by this share explains what was learned about as well: samples are
not independent, what costs is not quite linear, and of 40 independent ones such a difference is chance."""
SQUARED = pi / 2
"""The mean square of normal errors, over the square of their mean size."""
LEAST_SECONDS = 1e-9
"""No work takes less, whatever a fit says."""


class Told(NamedTuple):
    """A factor of the recent work, as the fits tell it."""

    least_changed: Factor
    """By the fit by which least has changed, with the interval of that alone. It may be a fit between two of those that are looked at:
    it says 1 where one of them says more and another one less."""
    widest: Factor
    """The same value, in an interval that holds that of the factor by each fit."""
    dearest: float
    """The highest value by any fit."""


class PossibleFits:
    """The fits of one cost of one engine, the best first."""

    def __init__(self) -> None:
        self._fits: list[tuple[float, ...]] = []

    def fit_to(self, learned: LeastSquares, error: float) -> tuple[float, ...] | None:
        """Take all fits that explain about as well what was learned. Returns the best; None without any.

        `error`: mean relative error of one sample, by the best.
        """
        self._fits = learned.possible(LEAST_MARGIN**2 + AS_WELL * SQUARED * error**2)
        return next(iter(self._fits), None)

    def told(self, compared: Compared, wrong: float = 0.0) -> Told:
        """A factor over the best fit, as all fits tell it. `wrong`: the share by which a fit may be wrong of itself."""
        least, most = self._over_best(compared.terms)
        value, low, high = compared.factor
        values = sorted((value / least, value / most))  # negative ones, which noise makes, the other way round
        unchanged = min(max(1.0, values[0]), values[1])
        ends = [end / share for end in (low, high) for share in (least, most)]
        scale = unchanged / value if value else 1.0
        found, widest = Factor(unchanged, scale * low, scale * high), Factor(unchanged, min(ends), max(ends))
        return Told(wider(found, wrong), wider(widest, wrong), values[1])

    def nearest(self, seconds: float, expected: float, terms: Sequence[float]) -> float:
        """The usual seconds of this work by the fit that says most nearly `seconds`. `expected`: by the best one."""
        if len(self._fits) < 2:
            return expected
        least, most = self._over_best(terms)
        return min(max(seconds, expected * least), expected * most)

    def agree(self, terms: Sequence[float], within: float, beside: Sequence[float] | None = None) -> bool:
        """Whether no fit says more than so many times what another one says of this work. `beside`: of what it costs over that work."""
        said = self._seconds(terms)
        if beside is not None:
            said = [seconds / other for seconds, other in zip(said, self._seconds(beside), strict=True)]
        return not said or max(said) <= within * min(said)

    def _over_best(self, terms: Sequence[float]) -> tuple[float, float]:
        """The least and the most that this work may usually cost, over what it does by the best fit."""
        seconds = self._seconds(terms)
        return (min(seconds) / seconds[0], max(seconds) / seconds[0]) if seconds else (1.0, 1.0)

    def _seconds(self, terms: Sequence[float]) -> list[float]:
        """Seconds of work with these terms by each fit."""
        return [max(LEAST_SECONDS, seconds_of(each, terms)) for each in self._fits]
