"""Ratios of a cost now to its usual cost, with intervals: by the median, the densest part, or two sums; how likely one is above
a threshold. Pure.

The intervals are estimates of 95 % ones: they take steps as independent. It knows numbers. It refuses to know where
they come from (`step_model.py`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import erf, exp, hypot, log, sqrt
from typing import NamedTuple


Z = 1.96
LEAST_MARGIN = 0.03
"""Steps of one minute are not independent: no interval is narrower than this share to each side."""
LEAST_RATIO = 1e-6
GROWS, GROWN_BY = 0.1, 0.7
"""The chance that a ratio has grown, before it is looked at, and the width of the logarithm of those that have: two of three by less than 2.
"""


class Factor(NamedTuple):
    """A cost now over the cost while all was well, with the ends of its interval, an estimate of 95 %."""

    value: float
    low: float
    high: float


class Excess(NamedTuple):
    """A stretch that is over, in seconds."""

    ended_at: float
    excess: float
    """Beyond its decodes at the cost that they had then."""
    work: float
    """Expected of its prompts."""


def chance(factor: Factor, threshold: float) -> float:
    """The chance that the true ratio is above this threshold, 0 to 1: an estimate, as the interval is one."""
    # A difference of costs may be below 0 by noise; a ratio is not.
    low, value, high = (max(each, LEAST_RATIO) for each in (factor.low, factor.value, factor.high))
    spread = max(log(high / low) / (2 * Z), 1e-3)
    return 0.5 * (1.0 + erf(log(value / threshold) / spread / sqrt(2)))


def chance_grown(factor: Factor, worth: float) -> float:
    """The chance, 0 to 1, that a ratio has grown, and to this value or more: at most times it has not.

    Before it was looked at, a ratio is 1 with the chance 1 - `GROWS`; else its logarithm is normal about 0, as wide as `GROWN_BY`, and above
    0. What is measured is the true logarithm and a normal error, as wide as the interval says. So a ratio of 1.3 in an interval from 0.9 to
    1.9 is chance, while the same ratio between 1.2 and 1.4 has grown.
    """
    low, value, high = (max(each, LEAST_RATIO) for each in (factor.low, factor.value, factor.high))
    error, found = max(log(high / low) / (2 * Z), 1e-3), log(value)
    both = sqrt(error * error + GROWN_BY * GROWN_BY)
    # Density of what was found if it has grown, over that if it has not; the first one is normal times the chance that the true one is above 0.
    shrunk, left = found * (GROWN_BY / both) ** 2, error * GROWN_BY / both
    above = 2.0 * _normal(shrunk / left)
    ratio = error / both * exp(min(700.0, 0.5 * found * found * (1.0 / error**2 - 1.0 / both**2))) * above
    grown = GROWS * ratio / (GROWS * ratio + 1.0 - GROWS)
    return grown * min(1.0, _normal((shrunk - log(worth)) / left) / max(_normal(shrunk / left), 1e-12))


def _normal(z: float) -> float:
    """The share of a normal distribution below z."""
    return 0.5 * (1.0 + erf(z / sqrt(2)))


def between(value: float, low: float, high: float) -> float:
    """How far a value is from `low` (0) to `high` (1), with a weight of 0 below and of 1 above."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def wider(factor: Factor, share: float) -> Factor:
    """The interval with a further error that is independent of its own. `share`: half of that error's interval, over the value."""
    if factor.value <= 0.0:
        return factor  # a difference of costs, below 0 by noise
    low, further = max(factor.low, LEAST_RATIO), log(1.0 + share)
    return Factor(
        factor.value,
        min(factor.low, factor.value * exp(-hypot(log(factor.value / low), further))),
        factor.value * exp(hypot(log(factor.high / factor.value), further)),
    )


def clearest(factors: Sequence[Factor | None], threshold: float) -> Factor | None:
    """The one that is most likely above this threshold; None if none is known."""
    known = [factor for factor in factors if factor is not None]
    return max(known, key=lambda factor: chance(factor, threshold), default=None)


def median_of(ratios: Sequence[float], weights: Sequence[float] = ()) -> Factor:
    """The median of sorted ratios, with the interval of its rank. `weights`: of each ratio; all alike unless given."""
    if not weights:
        weights = [1.0] * len(ratios)
    sums = list(accumulate(weights))
    total = sums[-1]
    # So many ratios of equal weight would say as much.
    count = total * total / sum(each * each for each in weights)
    half = Z / 2 / sqrt(count)
    last = len(ratios) - 1
    low, value, high = (
        ratios[min(last, bisect_right(sums, total * max(0.0, share)))] for share in (0.5 - half, 0.5, 0.5 + half)
    )
    return Factor(value, min(low, value * (1 - LEAST_MARGIN)), max(high, value * (1 + LEAST_MARGIN)))


def densest_of(ratios: Sequence[float], fewest: int) -> Factor:
    """The densest quarter of the lower three quarters of sorted ratios: steps that held no prompt, if any did."""
    low = ratios[: max(fewest, len(ratios) * 3 // 4)]
    size = max(5, len(low) // 4)
    best = min(range(len(low) - size + 1), key=lambda at: low[at + size - 1] / low[at])
    return median_of(low[best : best + size])


def without_hiccups(found: Sequence[Excess], outlier: float) -> list[Excess]:
    """The stretches, each with at most so many times the excess that the middle of all work took: an engine that stood still
    in some of them makes no prompt dearer, and one on which prompts are dear spends most of its work so. Those without work stay as they are.
    """
    ratios = sorted((each.excess / each.work, each.work) for each in found if each.work > 0.0)
    sums = list(accumulate(work for _, work in ratios))
    most = outlier * max(0.0, ratios[bisect_right(sums, sums[-1] / 2)][0]) if ratios else 0.0
    return [
        each._replace(excess=min(each.excess, most * each.work)) if each.work > 0.0 and most > 0.0 else each
        for each in found
    ]


def ratio_of(found: Sequence[Excess], usual: float) -> Factor:
    """Ratio of two sums over stretches to its usual value, with the interval of a ratio estimator."""
    work = usual * sum(each.work for each in found)
    value = sum(each.excess for each in found) / work
    count = len(found)
    spread = sqrt(sum((each.excess - value * usual * each.work) ** 2 for each in found) * count / (count - 1)) / work
    margin = max(Z * spread, LEAST_MARGIN * value)
    return Factor(value, value - margin, value + margin)
