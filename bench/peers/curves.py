"""How a cost grows with a size: the exponent of its curve, and the table "How it scales". Pure: figures in, text out.

An exponent of 0 says that the cost is the same for every size, 1 that it grows in proportion, 2 with the square. It is fitted to
the figures of one round at a time, in which all sizes met the same minutes of the machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import linear_regression, median

from bench.peers.table import Results, spread


@dataclass(frozen=True, slots=True)
class Point:
    """One size of a curve: what it is called, and the row and column of its cost."""

    size: float
    label: str
    row: str
    column: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The cost of one row over sizes that rise."""

    cost: str
    """With its unit."""
    row: str
    over: str
    points: tuple[Point, ...]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of log(cost) over log(size), by least squares. Raises ValueError without two sizes, or for one that is not above 0."""
    if len(set(sizes)) < 2:
        raise ValueError(f"{len(set(sizes))} sizes have no slope")
    return linear_regression([log(size) for size in sizes], [log(cost) for cost in costs]).slope


def exponents(results: Results, points: Sequence[Point]) -> list[float]:
    """One for each round that has the cost of all sizes."""
    found = [results.values(point.row, point.column) for point in points]
    rounds = sorted(set.intersection(*(set(values) for values in found))) if found else []
    sizes = [point.size for point in points]
    costs = [[values[each] for values in found] for each in rounds]
    return [exponent(sizes, each) for each in costs if min(each) > 0] if len(set(sizes)) > 1 else []


def lines(results: Results, curves: Sequence[Curve], titles: Mapping[str, str], sizes: int = 2) -> list[str]:
    """The table of all curves that have a cost for so many sizes, 2 or more. `titles`: by row."""
    found = []
    for curve in curves:
        points = [point for point in curve.points if results.values(point.row, point.column)]
        fitted = exponents(results, points)
        if fitted and len(points) >= sizes:
            costs = ", ".join(
                f"{point.label}: {rounded(median(results.values(point.row, point.column).values()))}"
                for point in points
            )
            row = titles.get(curve.row, curve.row)
            found.append(f"| {curve.cost} | {row} | {curve.over} | {costs} | {spread(fitted).text(2)} |")
    head = ["| cost | of | over | by size | exponent |", "|---|---|---|---|---|"]
    return head + found if found else []


def rounded(cost: float) -> str:
    """Three digits, or all before the point."""
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"
