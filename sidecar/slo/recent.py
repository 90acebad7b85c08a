"""Whether objectives burn now: they are missed faster than their error budget allows. Pure.

Knows recent misses only. Samples taken while an objective burns are not used as baseline (`prefill_work.py`).
"""

from math import exp


MEMORY_SECONDS = 150.0
"""Time constant with which misses fade: half of the remembered weight is from the last 100 s."""
FEWEST = 3.0
FACTOR = 2.0
"""An objective burns at FEWEST recent misses or more, if they are also at least FACTOR times what the targets allow."""


class Burning:
    """Recent misses and recent error budget of one process; both fade."""

    def __init__(self) -> None:
        self._misses = 0.0
        self._allowed = 0.0
        self._faded_at = 0.0

    def decided(self, at: float, *, missed: bool, allowed: float) -> None:
        """One objective of one request was decided; `allowed`: 1 - target."""
        self._fade(at)
        self._misses += missed
        self._allowed += allowed

    def at(self, at: float) -> bool:
        self._fade(at)
        return self._misses >= FEWEST and self._misses >= FACTOR * self._allowed

    def _fade(self, at: float) -> None:
        if at > self._faded_at:
            faded = exp((self._faded_at - at) / MEMORY_SECONDS)
            self._misses *= faded
            self._allowed *= faded
            self._faded_at = at
