"""The cost of decodes by the recent steps that held no prompt. Pure.

It knows what such steps cost over what they cost while all was well. It refuses to know which steps these are (`steps.py`), and
whether they still speak for now (`step_model.py`).
"""

from collections import deque
from typing import NamedTuple

from sidecar.slo.factor import Factor, median_of


KEPT_STEPS = 1024


class _Ended(NamedTuple):
    at: float
    ratio: float
    weight: float


class PureSteps:
    """The recent pure steps of one engine."""

    def __init__(self) -> None:
        self._ended: deque[_Ended] = deque(maxlen=KEPT_STEPS)

    def add(self, ended_at: float, ratio: float, weight: float) -> None:
        """A step has ended. `ratio`: of its seconds to its usual cost. `weight`: its seconds, since slow steps are few and quick
        ones from before a fault are many.
        """
        self._ended.append(_Ended(ended_at, ratio, weight))

    def forget(self) -> None:
        """The engine was replaced."""
        self._ended.clear()

    def enough(self, since: float, fewest: int) -> bool:
        """Whether so many have ended since this instant."""
        return len(self._ended) >= fewest and self._ended[-fewest].at >= since

    def factor(self, since: float, fewest: int) -> Factor | None:
        """The decode factor since this instant; None if fewer have ended."""
        if not self.enough(since, fewest):
            return None
        found = sorted((each.ratio, each.weight) for each in self._ended if each.at >= since)
        return median_of([ratio for ratio, _ in found], [weight for _, weight in found])
