"""The lag of the event loop in a sidecar with a CPU quota, as the product's own timer would measure it.

It repeats the wait of `measure_lag` (`sidecar/health/health.py`) in virtual time, with that module's period. It refuses to
know which alert reads the lags, and the delays of single reads (`wire.py` has them).
"""

from collections.abc import Callable
from random import Random

from bench.incidents.wire import next_run_at
from bench.incidents.world import Throttle
from sidecar.health.health import LAG_SECONDS


WORK_SECONDS = 0.0005
"""Mean of the work that the loop has before the timer's turn, on a quiet machine: a few callbacks of 0.1 ms."""


class LoopLag:
    """The timer of one process. It runs late by the work before it and, while the quota is in force, by its pauses."""

    def __init__(
        self, observe: Callable[[float], None], throttle: Throttle, throttled: tuple[float, float], born_at: float
    ) -> None:
        """`throttled`: first and last instant of the quota. `born_at`: instant at which the process began."""
        self._observe = observe
        self._throttle = throttle
        self._throttled = throttled
        self._luck = Random(f"{born_at}/lag")
        self._due_at = born_at + LAG_SECONDS
        self._fires_at = self._fires()

    def advance(self, until: float) -> None:
        """Observe each lag that is known at this instant."""
        while self._fires_at <= until:
            self._observe(self._fires_at - self._due_at)
            self._due_at = self._fires_at + LAG_SECONDS
            self._fires_at = self._fires()

    def _fires(self) -> float:
        at = self._due_at + self._luck.expovariate(1 / WORK_SECONDS)
        began_at, ended_at = self._throttled
        return next_run_at(at, self._throttle, 0.0) if began_at <= at < ended_at else at
