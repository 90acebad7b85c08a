"""Whether this process works, for `/-/healthy`: its loop turns, and its listeners listen.

Nothing that a client or the engine does may make it fail, because then a stranger could have the pod restarted: load, full
budgets, errors and an engine that is away are no reasons. It fails if the traffic listener's socket is lost, and, since
nothing answers then, while no turn of the loop ends (`watchdog.py` writes the reason).
"""

import asyncio
from collections.abc import Callable

from sidecar.health.watchdog import Watchdog
from sidecar.metrics.catalogue import EVENT_LOOP_CHECKS_TOTAL, EVENT_LOOP_LAG_SECONDS
from sidecar.metrics.registry import Metrics
from sidecar.metrics.vocabulary import LATE_TIMER_SECONDS, VERY_LATE_TIMER_SECONDS


TURN_SECONDS = 1.0
"""Interval at which the loop shows that it turns, and the engine's progress is looked at."""

LAG_SECONDS = 0.25
"""Interval at which the event loop's lag is measured."""


class Health:
    """The health of one process. `lost`: whether the traffic listener is lost; `look`: called once a second, never raises."""

    def __init__(self, lost: Callable[[], bool], look: Callable[[], object], watchdog: Watchdog | None = None) -> None:
        self._lost = lost
        self._look = look
        self._watchdog = watchdog or Watchdog()

    async def run(self) -> None:
        """Show for ever that the loop turns. Cancel to stop."""
        self._watchdog.start()
        try:
            while True:
                await asyncio.sleep(TURN_SECONDS)
                self._watchdog.turned()
                self._look()
        finally:
            self._watchdog.stop()

    def healthy(self) -> tuple[bool, str]:
        """Whether this process works, and the reason. A loop that runs this method turns."""
        return (False, "the traffic listener's socket is lost") if self._lost() else (True, "healthy")


def lags_of(metrics: Metrics) -> Callable[[float], None]:
    """Takes each lag of a timer, in seconds from 0: for the histogram, and for the counter that alerts read."""
    observe = metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().observe
    checks = metrics.counter(EVENT_LOOP_CHECKS_TOTAL)
    in_time, late, very_late = (checks.child(result) for result in ("in_time", "late", "very_late"))

    def taken(lag_seconds: float) -> None:
        observe(lag_seconds)
        if lag_seconds <= LATE_TIMER_SECONDS:
            in_time.inc()
        else:
            (late if lag_seconds <= VERY_LATE_TIMER_SECONDS else very_late).inc()

    return taken


async def measure_lag(clock: Callable[[], float], metrics: Metrics) -> None:
    """Measure for ever by how many seconds the loop's timers fire late. Cancel to stop."""
    observe = lags_of(metrics)
    while True:
        due_at = clock() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        observe(max(0.0, clock() - due_at))
