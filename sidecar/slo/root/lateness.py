"""The share of a time by which the sidecar's own loop was late. Pure.

A request that was measured meanwhile tells little of the engine: it may have waited in the sidecar. It knows the sum of the
lateness at each look. It refuses to know requests, and what a miss is worth.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from operator import itemgetter

from sidecar.slo.factor import between


KEPT_LOOKS = 600
"""Ten minutes of one look a second, and at least five: a scrape looks too, but not twice in half a second."""
LATE_FROM, LATE_AT = 0.08, 0.2
"""Shares of time by which the loop is late: below the first it explains no miss, above the second it explains them."""
_AT = itemgetter(0)


class Lateness:
    """The lateness of one process's loop in the last minutes."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque(maxlen=KEPT_LOOKS)
        """Instant, and the sum of the lateness until then in seconds."""
        self._late_until = float("-inf")
        """Instant of the last look that ended a time in which the loop was late enough to explain a miss."""

    def add(self, at: float, sum_seconds: float) -> None:
        """Take in the sum of the lateness until this instant."""
        if self._has_been_late(at, sum_seconds):
            self._late_until = at
        self._looks.append((at, sum_seconds))

    def explains(self, began_at: float, ended_at: float, now: tuple[float, float]) -> float:
        """The chance, 0 to 1, that lateness in this time explains a miss. `now`: as in `ratio`.

        Every miss asks this at its end. If the loop was late by more than `LATE_FROM` in no part of a time, it was not in the
        whole.
        """
        if began_at >= self._late_until and not self._has_been_late(*now):
            return 0.0
        return explained_by(self.ratio(began_at, ended_at, now))

    def _has_been_late(self, at: float, sum_seconds: float) -> bool:
        """Whether the loop was late since the last look by a share that explains something."""
        last_at, last_seconds = self._looks[-1] if self._looks else (at, sum_seconds)
        return sum_seconds - last_seconds > LATE_FROM * (at - last_at)

    def ratio(self, began_at: float, ended_at: float, now: tuple[float, float] | None = None) -> float:
        """Share of this time, 0 or more, by which the loop was late: from the look before it to the look after it, as far as
        these are kept or have come.

        `now`: a look that need not be kept, if the asked time may have ended since the last one.
        """
        looks = self._looks
        if not looks:
            return 0.0
        first = looks[max(0, bisect_right(looks, began_at, key=_AT) - 1)]
        at = bisect_left(looks, ended_at, key=_AT)
        last = looks[at] if at < len(looks) else now or looks[-1]
        return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else 0.0


def explained_by(late_ratio: float) -> float:
    """The chance, 0 to 1, that this lateness explains a miss."""
    return between(late_ratio, LATE_FROM, LATE_AT)
