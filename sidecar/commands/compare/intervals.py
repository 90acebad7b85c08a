"""How far a share or a mean moved between two sides, with an interval: from sums per block, and nothing else.

A number is a sum over another, such as seconds over requests. Its error comes from the spread of the blocks around it,
not from a law of single requests, because requests of one minute share one queue. Blocks are taken as independent: what
lasts longer than a block makes the interval too narrow.

Pure: sums in, numbers out.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple


CONFIDENCE = 0.95
LEAST_BLOCKS = 5
"""Fewer blocks of a side with requests give no interval."""


class Sums(NamedTuple):
    """One block of one side: a sum, and what it is divided by."""

    counted: float
    of: float


class Estimate(NamedTuple):
    value: float
    error: float | None
    """Standard error; None with fewer than `LEAST_BLOCKS` blocks."""
    blocks: int
    of: float
    """The whole denominator, such as requests."""


class Change(NamedTuple):
    """New less old, with the ends of its interval; None where a side has too few blocks."""

    value: float
    low: float | None
    high: float | None

    @property
    def sure(self) -> bool:
        """True if the interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def estimate(blocks: Sequence[Sums], *, share: bool = False) -> Estimate | None:
    """The number over all blocks; None if nothing was divided by anything.

    `share`: it counts some of the requests of the denominator. Its error is then at least that of independent requests
    with one more among them, because none of a hundred is not surely none.
    """
    told = [block for block in blocks if block.of > 0]
    of = sum(block.of for block in told)
    if of <= 0:
        return None
    value = sum(block.counted for block in told) / of
    if len(told) < LEAST_BLOCKS:
        return Estimate(value, None, len(told), of)
    squares = sum((block.counted - value * block.of) ** 2 for block in told)
    error = sqrt(squares * len(told) / (len(told) - 1)) / of
    if share:
        one_more = (value * of + 1) / (of + 2)
        error = max(error, sqrt(one_more * (1 - one_more) / of))
    return Estimate(value, error, len(told), of)


def change(old: Estimate, new: Estimate) -> Change:
    """The difference of two independent estimates."""
    value = new.value - old.value
    if old.error is None or new.error is None:
        return Change(value, None, None)
    margin = quantile(min(old.blocks, new.blocks) - 1) * sqrt(old.error**2 + new.error**2)
    return Change(value, value - margin, value + margin)


def quantile(degrees: int) -> float:
    """Two-sided quantile of Student's t for `CONFIDENCE`, within 0.02 of it from 4 degrees of freedom on.

    By the first terms of its expansion around the normal quantile (Abramowitz and Stegun 26.7.5).
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )
