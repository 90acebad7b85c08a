"""Whether objectives are being missed now, faster than their budget allows: what is seen meanwhile must teach nobody. Pure."""

from math import exp


MEMORY_SECONDS = 150.0
"""Misses fade with this time constant: half of what is remembered is from the last hundred seconds."""
FEWEST = 3.0
FACTOR = 2.0
"""Burning: at least so many recent misses, and so many times what the targets allow."""


class Burning:
    """Recent misses and recent budget of one process, fading."""

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
        """Whether it burns at this instant."""
        self._fade(at)
        return self._misses >= FEWEST and self._misses >= FACTOR * self._allowed

    def _fade(self, at: float) -> None:
        if at > self._faded_at:
            faded = exp((self._faded_at - at) / MEMORY_SECONDS)
            self._misses *= faded
            self._allowed *= faded
            self._faded_at = at
