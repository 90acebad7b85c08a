"""Growth of counters over trailing windows, as PromQL's `increase` finds it, without its extrapolation.

It knows resets, failed scrapes and sums over labels and pods. It refuses to know tiers and phases.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from bench.incidents.samples import Column, Labels
from bench.roots.passage import Columns


K = TypeVar("K", bound=Hashable)


class Growth:
    """A counter's growth since the first scrape, at each scrape."""

    __slots__ = ("total",)

    def __init__(self, total: list[float]) -> None:
        self.total = total

    @classmethod
    def of(cls, column: Column) -> "Growth":
        """Growth of one series. Its first value is no growth, a lower one than before is all growth."""
        total, grown, last = [], 0.0, None
        for value in column:
            if value is not None:
                if last is not None:
                    grown += value - last if value >= last else value
                last = value
            total.append(grown)
        return cls(total)

    @classmethod
    def sum(cls, parts: Iterable["Growth"]) -> "Growth":
        """Growth of the sum of these series; without any, nothing grows."""
        return cls([sum(each) for each in zip(*(part.total for part in parts), strict=True)])

    def over(self, scrape: int, scrapes: int) -> float:
        """Growth from `scrapes` scrapes before this one up to it."""
        if scrape >= len(self.total):
            return 0.0
        return self.total[scrape] - self.total[max(0, scrape - scrapes)]


NOTHING_GROWS = Growth([])


def by(columns: Columns, name: str, *labels: str) -> dict[tuple[str, ...], Growth]:
    """Growth of one metric of a pod, by the values of these labels; other labels are summed over."""
    found: dict[tuple[str, ...], list[Growth]] = defaultdict(list)
    for (metric, pairs), column in columns.items():
        if metric == name:
            found[values_of(pairs, *labels)].append(Growth.of(column))
    return {key: Growth.sum(parts) for key, parts in found.items()}


def together(parts: Iterable[Mapping[K, Growth]]) -> dict[K, Growth]:
    """Growth by key, summed over several mappings."""
    found: dict[K, list[Growth]] = defaultdict(list)
    for part in parts:
        for key, growth in part.items():
            found[key].append(growth)
    return {key: Growth.sum(each) for key, each in found.items()}


def values_of(pairs: Labels, *labels: str) -> tuple[str, ...]:
    """The values of these labels, empty where a series does not have one."""
    named = dict(pairs)
    return tuple(named.get(label, "") for label in labels)
