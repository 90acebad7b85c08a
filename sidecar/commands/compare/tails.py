"""How far a p99 moved between two sides, with an interval: from native histograms per block, and nothing else.

A p99 has an interval by its rank. The share of requests above it is 1 %, and the spread of that share over the blocks says how
far it may be from 1 % by chance; the values at both ends of that share are the ends of the p99. So a minute with a clump of slow
requests widens it, as it should. The ends are edges of buckets, so that no place within a bucket is assumed. Both sides' ends
are combined by the square root of the sum of squares, those of a ratio on a logarithmic scale (MOVER: Zou and Donner 2008).

Pure: counts in, numbers out.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, hypot, isinf, log, log1p
from statistics import NormalDist
from typing import NamedTuple

from sidecar.commands.compare.intervals import CONFIDENCE, Change, Estimate, Sums, estimate, quantile
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED


OF = 0.99
TOLD = 0.1
"""The change of a p99, as a share of old, for which the needed requests are stated."""
_TOLD_IN = 0.8
"""Share of comparisons that would tell it with so many requests."""
LEAST_SAMPLES = SAMPLES_NEEDED[OF]
"""Fewer on one side are no p99. Its interval needs more: in half an hour some 540, and more where slow requests come in clumps."""

Cells = Mapping[tuple[float, float], float]
"""Counts of one native histogram by the edges of their buckets."""


class Ends(NamedTuple):
    """A p99, and the ends of its interval; None where the samples are too few for one."""

    estimate: Estimate
    low: float | None = None
    high: float | None = None


def tail(blocks: Sequence[Cells]) -> Ends | None:
    """The p99 over all blocks; None of fewer than `LEAST_SAMPLES`, or in a bucket without a lower or an upper edge."""
    whole: dict[tuple[float, float], float] = {}
    for block in blocks:
        for edges, count in block.items():
            whole[edges] = whole.get(edges, 0.0) + count
    many = sum(whole.values())
    if many < LEAST_SAMPLES:
        return None
    (low, high), part = _at(whole, OF)
    if low <= 0 or isinf(high):
        return None
    value = low * (high / low) ** part
    share = estimate([Sums(_above(block, value), sum(block.values())) for block in blocks], share=True)
    if share is None:
        return None
    told = Estimate(value, share.error, share.blocks, many)
    if share.error is None:
        return Ends(told)
    margin = quantile(share.blocks - 1) * share.error
    if margin >= 1 - OF:
        return Ends(told)
    (lowest, _), (_, highest) = (_at(whole, OF + ends)[0] for ends in (-margin, margin))
    return Ends(told) if lowest <= 0 or isinf(highest) else Ends(told, lowest, highest)


def tail_change(old: Ends, new: Ends) -> Change:
    """New less old, in the unit of both."""
    before, after = old.estimate.value, new.estimate.value
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return Change(after - before, None, None)
    below, above = hypot(after - new.low, old.high - before), hypot(new.high - after, before - old.low)
    return Change(after - before, after - before - below, after - before + above)


def tail_ratio(old: Ends, new: Ends) -> Change:
    """The same as a share of old: 0.1 is ten percent longer."""
    before, after = old.estimate.value, new.estimate.value
    value = after / before - 1
    if old.low is None or old.high is None or new.low is None or new.high is None:
        return Change(value, None, None)
    below = hypot(log(after / new.low), log(old.high / before))
    above = hypot(log(new.high / after), log(before / old.low))
    return Change(value, after / before * exp(-below) - 1, after / before * exp(above) - 1)


def needed(ratio: Change, of: float) -> float | None:
    """About how many requests each side needs for a change of `TOLD` to be told in four of five comparisons.

    An estimate: the interval that `of` requests of a side gave is taken to shrink with the square root of their number, and
    the traffic to stay as it is. None without an interval.
    """
    if ratio.low is None or ratio.high is None:
        return None
    half = (log1p(ratio.high) - log1p(ratio.low)) / 2
    at_ends, at_power = NormalDist().inv_cdf((1 + CONFIDENCE) / 2), NormalDist().inv_cdf(_TOLD_IN)
    return of * (half / log1p(TOLD) * (1 + at_power / at_ends)) ** 2


Place = tuple[tuple[float, float], float]
"""The edges of a bucket, and how far within it, from 0 to 1."""


def _at(cells: Cells, q: float) -> Place:
    rank, seen = q * sum(cells.values()), 0.0
    ordered = _ordered(cells)
    for edges, count in ordered:
        if seen + count >= rank:
            return edges, (rank - seen) / count
        seen += count
    return ordered[-1][0], 1.0


def _ordered(cells: Cells) -> list[tuple[tuple[float, float], float]]:
    return sorted(((edges, count) for edges, count in cells.items() if count > 0), key=lambda one: one[0][::-1])


def _above(cells: Cells, value: float) -> float:
    """Samples above a value; of the bucket that holds it, a part."""
    return sum(count * _part_above(edges, value) for edges, count in cells.items())


def _part_above(edges: tuple[float, float], value: float) -> float:
    low, high = edges
    if value <= low:
        return 1.0
    if value >= high:
        return 0.0
    return log(high / value) / log(high / low) if low > 0 else (high - value) / (high - low)


def cells(buckets: Iterable[Sequence[object]]) -> dict[tuple[float, float], float]:
    """The buckets of a histogram as Prometheus' API writes them: kind of edges, both edges, count, all but the first as text.

    Raises ValueError or IndexError for another form.
    """
    return {(float(str(one[1])), float(str(one[2]))): float(str(one[3])) for one in buckets}
