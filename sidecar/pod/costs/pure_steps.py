"""The cost of decodes by the recent steps that held no prompt. Pure.

It knows what such steps took, and is told what they usually cost when it is asked: that is learned meanwhile. It refuses to know
which steps these are (`steps.py`), and whether they still speak for now (`decode_now.py`).
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.pod.costs.linear_costs import Compared, Costs, decode_terms
from sidecar.pod.costs.steps import Step
from sidecar.pod.factor import Factor, median_of


KEPT_STEPS = 1024
STOPPED_SHARE = 0.25
"""Pure steps that take less than this share of the time that they took before have stopped."""
PARTS_OF_A_RISE = 3
"""Parts of a short window that must all be dear. The steps of one moment are dear together, for a reason that may end with it: the
first prompts of a burst, or a machine that did something else. So many of them say no more than one."""


class _Ended(NamedTuple):
    at: float
    seconds: float
    sequences: int
    context_tokens: float
    weight: float


class PureSteps:
    """The recent pure steps of one engine."""

    def __init__(self) -> None:
        self._ended: deque[_Ended] = deque(maxlen=KEPT_STEPS)

    def add(self, step: Step, seconds: float, weight: float) -> None:
        """A step of so many seconds has ended. `weight`: about its seconds, because slow steps are few, and quick ones from before a
        fault are many.
        """
        self._ended.append(_Ended(step.ended_at, seconds, step.sequences, step.context_tokens, weight))

    def forget(self) -> None:
        """The engine was replaced."""
        self._ended.clear()

    def ended_since(self, since: float) -> bool:
        """Whether any has ended since this instant."""
        return bool(self._ended) and self._ended[-1].at >= since

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

    def factor(self, since: float, fewest: int, usual: Costs) -> Compared | None:
        """The decode factor since this instant; None if fewer have ended."""
        return _factor([each for each in self._ended if each.at >= since], fewest, usual)

    def risen(self, at: float, seconds: float, fewest: int, usual: Costs, before: Factor) -> Compared | None:
        """The decode factor of the last `seconds` before this instant, if it is clearly above `before` and each part of this window
        is above it too; None if not, or if fewer steps have ended.
        """
        found = self.factor(at - seconds, fewest, usual)
        if found is None or found.factor.low <= before.high:
            return None
        part_seconds = seconds / PARTS_OF_A_RISE
        for number in range(PARTS_OF_A_RISE):
            since = at - seconds + number * part_seconds
            part = _factor([each for each in self._ended if since <= each.at < since + part_seconds], 1, usual)
            if part is None or part.factor.value <= before.high:
                return None
        return found


def _factor(ended: Sequence[_Ended], fewest: int, usual: Costs) -> Compared | None:
    if len(ended) < fewest:
        return None
    found = sorted(
        (each.seconds / usual.decode_seconds(each.sequences, each.context_tokens), each.weight) for each in ended
    )
    total = sum(each.weight for each in ended)
    terms = decode_terms(
        sum(each.weight * each.sequences for each in ended) / total,
        sum(each.weight * each.context_tokens for each in ended) / total,
    )
    return Compared(median_of([ratio for ratio, _ in found], [weight for _, weight in found]), terms)
