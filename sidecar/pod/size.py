"""The size of a root: how many times its usual value its cause was, per which unit, with an interval. Pure.

Ratios of now (`Signs.grown`) sink as soon as a fault is over, while its backlog still misses objectives, and their windows mix the fault
with the time before and behind it. A page is read minutes later. So the size of a root is of the past: of the looks of the last minutes
in which misses showed the root by evidence of their own, the one with the upper quartile of the ratios. The looks in which the fault
began or ended are the smaller ones, and the largest of many is chance. So it grows while a fault grows, follows a fault that shrinks
after these minutes, and stays as it is once no miss shows it.

It knows ratios. It refuses to know which root leads (`incident.py`), and to tell a ratio that is too small to name its cause.
"""

from collections import deque
from typing import NamedTuple

from sidecar.pod.causes import SIZED_PER, WORTH_NAMING, Cause, Per, Root, root_of
from sidecar.pod.factor import Factor
from sidecar.pod.signs import Signs


SIZE_SECONDS = 300.0
"""Looks that are older teach no size: longer than any window of a ratio, and as long as the rules look back."""
MOST_LOOKS = 600
"""Looks that are kept: two a second."""
_QUARTILE = 0.75


class RootSize(NamedTuple):
    """A cause over its usual value, with the ends of its interval, an estimate of 95 %, and the unit of both."""

    ratio: Factor
    per: Per

    def as_json(self) -> dict[str, float | str]:
        """Ratio, ends and unit as values that JSON has."""
        return {"ratio": self.ratio.value, "low": self.ratio.low, "high": self.ratio.high, "per": str(self.per)}


class Sizes:
    """The looks at one root that may give its size. All instants are monotonic seconds."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, RootSize]] = deque(maxlen=MOST_LOOKS)

    def add(self, at: float, size: RootSize) -> None:
        """A miss showed the root, by the size that the last look gave. Several misses of one look bring the same object: it counts once."""
        looks = self._looks
        if not looks or looks[-1][1] is not size:
            looks.append((at, size))
        while looks[0][0] < at - SIZE_SECONDS:
            looks.popleft()

    @property
    def told(self) -> RootSize:
        """The size. Raises IndexError before the first look."""
        ordered = sorted((size for _, size in self._looks), key=lambda size: size.ratio.value)
        return ordered[int(_QUARTILE * (len(ordered) - 1))]


def sizes_of(signs: Signs) -> dict[Root, RootSize]:
    """The roots whose cause has grown enough at this look to be named, with its ratio."""
    return {
        root_of(cause): RootSize(
            factor, Per.STEP if cause is Cause.DECODE_COST and signs.per_step else SIZED_PER[cause][0]
        )
        for cause, factor in signs.grown.items()
        if factor.value > WORTH_NAMING[cause]
    }
