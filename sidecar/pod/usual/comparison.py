"""A quantity now over the same quantity while all was well, with an interval. Pure.

A quantity is a sum over an expected sum, both taken in slices of some seconds: arrivals over seconds, prompt tokens over
the tokens of as many usual prompts. The usual ratio is learned from slices that stayed calm for two minutes after they
ended, so the beginning of a fault teaches nothing. The interval comes from the scatter of the slices: a load that comes
in bursts is compared less sharply than a steady one.

It knows numbers. It refuses to know their meaning (`pod.py`).
"""

from collections import deque
from collections.abc import Mapping
from math import exp, inf, sqrt
from typing import Any, ClassVar

from sidecar.pod.factor import LEAST_MARGIN, Factor, Z, chance_grown
from sidecar.pod.usual.cost_guard import LASTING_SECONDS, USUAL
from sidecar.pod.usual.learner import Amount, Learner


CALM_AFTER_SECONDS = 120.0
"""A slice teaches only if no objective burned for so long after it."""
YOUNG_CALM_SECONDS = 30.0
"""The same of a quantity without a usual value: any usual value is better than none, and in its first ten minutes a process learns nothing
while misses are many (`learning.py`). Each quantity by itself: one that begins to be known keeps no other one waiting."""
FADES = 0.9981
"""Weight of a learned slice once one more is learned: of slices of 5 s, half of the weight is half an hour old."""
SOON_SECONDS, RECENT_SECONDS = 20.0, 60.0
COMPARED_SECONDS = SOON_SECONDS, RECENT_SECONDS
"""The windows that are compared with the usual: a short one, and a long one for what is seldom."""
FEWEST_SLICES = 12
KEPT_SLICES = 60
"""Slices that are kept to compare: five minutes of slices of 5 s."""
TOGETHER = 1.3
"""Neighbouring slices are not independent: the interval is wider by this factor."""
GUARD_SECONDS = 120.0
"""A guarded quantity teaches nothing while its ratio over the last so many seconds has grown to `USUAL`, or fallen to one over it."""
MOST_MARGIN = 20.0
"""Largest margin of a logarithm. After hours without traffic, a ratio to the usual traffic may be anything."""


class Comparison(Learner):
    """One quantity of one pod. A slice is a few steps, an answer at most `KEPT_SLICES` of them."""

    KEPT: ClassVar = {
        "_learned": Amount(whole=True),
        "_value": Amount(-inf),
        "_expected": Amount(),
        "_squares": Amount(),
        "_count": Amount(),
    }

    def __init__(self, *, guarded: bool = False) -> None:
        """`guarded`: while it is well off the usual, it teaches nothing, although no objective burns: a fault that burns nothing yet
        must not become usual. Traffic changes by itself, a cost does not.
        """
        self._guarded = guarded
        self._off_since: float | None = None
        self.calm_after_seconds = CALM_AFTER_SECONDS
        self._slices: deque[tuple[float, float, float]] = deque(maxlen=KEPT_SLICES)
        """Instant of its end, value, expected value."""
        self._waiting: deque[tuple[float, float, float]] = deque()
        """Slices that have yet to stay calm before they teach."""
        self._learned = 0
        self._value = self._expected = 0.0
        self._squares = self._count = 0.0
        """Sum of squared residuals, each over its expected value, and the number of slices in it; both fade."""

    @property
    def young(self) -> bool:
        """Whether too few slices taught to know the usual ratio."""
        return self._learned < FEWEST_SLICES or self._value <= 0.0

    @property
    def _tells(self) -> bool:
        """Whether the usual ratio and its scatter are known."""
        return not self.young and self._count >= 2.0

    def problem(self, found: Mapping[str, Any]) -> str | None:
        return "a value of nothing that was expected" if found["_value"] > 0.0 >= found["_expected"] else None

    def add(self, at: float, value: float, expected: float, *, calm: bool) -> None:
        """A slice ended at this instant. Nothing was expected in it if `expected` is 0. `calm`: no objective burns."""
        if expected > 0.0:
            self._slices.append((at, value, expected))
        if not calm:
            self._off_since = None
        if not calm or (self._guarded and self._is_off(at)):
            self._waiting.clear()
            return
        if expected > 0.0:
            self._waiting.append((at, value, expected))
        after_seconds = self.calm_after_seconds if self._tells else min(self.calm_after_seconds, YOUNG_CALM_SECONDS)
        while self._waiting and self._waiting[0][0] <= at - after_seconds:
            _, *taught = self._waiting.popleft()
            self._learn(*taught)

    def _is_off(self, at: float) -> bool:
        """Whether it is well off the usual now, and not for so long that this is the usual one."""
        now = self.since(at - GUARD_SECONDS)
        if now is None:
            return False  # nothing was there to compare: that ends no time off the usual
        off = max(chance_grown(each, USUAL) for each in (now, _inverse(now))) > 0.5
        self._off_since = None if not off else at if self._off_since is None else self._off_since
        if self._off_since is None or at - self._off_since < LASTING_SECONDS:
            return off
        self._off_since, self._learned = None, 0
        self._value = self._expected = self._squares = self._count = 0.0
        return False

    def _learn(self, value: float, expected: float) -> None:
        if self._learned >= FEWEST_SLICES and self._value > 0.0:
            residual = value - expected * self._value / self._expected
            self._squares = FADES * self._squares + residual * residual / expected
            self._count = FADES * self._count + 1.0
        self._learned += 1
        self._value = FADES * self._value + value
        self._expected = FADES * self._expected + expected

    def since(self, at: float) -> Factor | None:
        """The ratio of all slices that ended after this instant to the usual one; None if either is unknown."""
        if not self._tells:
            return None
        value = expected = 0.0
        count = 0
        for ended_at, one, expectation in reversed(self._slices):
            if ended_at <= at:
                break
            value += one
            expected += expectation
            count += 1
        if expected <= 0.0:
            return None
        usual = self._value / self._expected
        scatter = self._squares / self._count
        spread = TOGETHER * sqrt(scatter * (1.0 / expected + 1.0 / self._expected)) / usual
        # The sum of few unequal terms has a longer tail than one of many: 1.2 times as wide with two slices, 1.04 with twelve.
        spread *= sqrt(1.0 + 1.0 / count)
        ratio = max(value / expected / usual, 1e-6)
        # The scatter of a sum that is larger than usual is larger too; of logarithms it stays the same.
        margin = min(max(Z * spread / max(1.0, sqrt(ratio)), LEAST_MARGIN), MOST_MARGIN)
        return Factor(ratio, ratio * exp(-margin), ratio * exp(margin))


def _inverse(factor: Factor) -> Factor:
    return Factor(1.0 / factor.value, 1.0 / factor.high, 1.0 / max(factor.low, 1e-9))
