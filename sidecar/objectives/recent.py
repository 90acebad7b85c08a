"""Whether objectives burn now: they are missed faster than their error budget allows. Pure.

Knows recent misses only, lane by lane and objective by objective: one lane that burns is not hidden by others that do
well. Samples taken while an objective burns are not used as baseline (`prefill_work.py`, `root/`).
"""

from math import exp, sqrt


MEMORY_SECONDS = 150.0
"""Time constant with which misses fade: half of the remembered weight is from the last 100 s."""
FEWEST = 3.0
FACTOR = 2.0
"""An objective burns at FEWEST recent misses or more, if they are also at least FACTOR times what its target allows,
and more than chance makes of that."""
CHANCE = 2.0
"""Standard deviations of a number of misses by chance."""


class _Recent:
    """Recent misses and recent error budget of one objective; both fade."""

    __slots__ = ("allowed", "faded_at", "misses")

    def __init__(self, at: float) -> None:
        self.misses = 0.0
        self.allowed = 0.0
        self.faded_at = at

    def fade(self, at: float) -> None:
        if at > self.faded_at:
            faded = exp((self.faded_at - at) / MEMORY_SECONDS)
            self.misses *= faded
            self.allowed *= faded
            self.faded_at = at

    @property
    def burns(self) -> bool:
        usual = FACTOR * self.allowed
        return self.misses >= FEWEST and self.misses >= usual + CHANCE * sqrt(usual)


class Burning:
    """All objectives of one process."""

    def __init__(self) -> None:
        self._recent: dict[object, _Recent] = {}
        self._burns = self._exceeds = False
        """False is certain until the next miss: what fades, and what is met, makes neither true."""

    def decided(self, at: float, objective: object, *, missed: bool, allowed: float) -> None:
        """An objective of one request was decided. `objective`: behind its model and lane; `allowed`: 1 - target."""
        recent = self._recent.get(objective)
        if recent is None:
            recent = self._recent[objective] = _Recent(at)
        recent.fade(at)
        recent.allowed += allowed
        if missed:
            recent.misses += 1.0
            self._burns = self._exceeds = True

    def at(self, at: float) -> bool:
        """Whether any objective burns at this instant."""
        if self._burns:
            self._fade(at)
            self._burns = any(recent.burns for recent in self._recent.values())
        return self._burns

    def exceeds(self, at: float) -> bool:
        """Whether any objective has more than one recent miss, and more than FACTOR times what its target allows."""
        if self._exceeds:
            self._fade(at)
            self._exceeds = any(
                each.misses > 1.0 and each.misses > FACTOR * each.allowed for each in self._recent.values()
            )
        return self._exceeds

    def worst(self, at: float) -> float:
        """How many times its budget the objective misses that does worst, of those that burn; 0 if none does."""
        self._fade(at)
        burning = [each for each in self._recent.values() if each.burns]
        return max((each.misses / max(each.allowed, 1e-9) for each in burning), default=0.0)

    def _fade(self, at: float) -> None:
        for recent in self._recent.values():
            recent.fade(at)
