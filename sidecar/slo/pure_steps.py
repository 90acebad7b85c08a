"""The cost of decodes by the recent steps that held no prompt. Pure.

It knows what such steps cost over what they cost while all was well. It refuses to know which steps these are (`steps.py`), and
whether they still speak for now (`step_model.py`).
"""

from collections import deque
from typing import NamedTuple

from sidecar.slo.factor import Factor, median_of


KEPT_STEPS = 1024
STOPPED_SHARE = 0.25
"""Pure steps that take less than this share of the time that they took before have stopped."""


class _Ended(NamedTuple):
    at: float
    ratio: float
    weight: float


class PureSteps:
    """The recent pure steps of one engine."""

    def __init__(self) -> None:
        self._ended: deque[_Ended] = deque(maxlen=KEPT_STEPS)

    def add(self, ended_at: float, ratio: float, weight: float) -> None:
        """A step has ended. `ratio`: of its seconds to its usual cost. `weight`: about its seconds, because slow steps are few, and
        quick ones from before a fault are many.
        """
        self._ended.append(_Ended(ended_at, ratio, weight))

    def forget(self) -> None:
        """The engine was replaced."""
        self._ended.clear()

    def stopped(self, at: float, seconds: float, late_seconds: float) -> bool:
        """Whether pure steps took hardly any of the last `late_seconds` before this instant, compared with the rest of the last
        `seconds`.
        """
        before = late = 0.0
        for each in self._ended:
            if each.at >= at - late_seconds:
                late += each.weight
            elif each.at >= at - seconds:
                before += each.weight
        return late * (seconds - late_seconds) <= STOPPED_SHARE * before * late_seconds

    def factor(self, since: float, fewest: int) -> Factor | None:
        """The decode factor since this instant; None if fewer have ended."""
        found = sorted((each.ratio, each.weight) for each in self._ended if each.at >= since)
        if len(found) < fewest:
            return None
        return median_of([ratio for ratio, _ in found], [weight for _, weight in found])
