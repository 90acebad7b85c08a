"""The share of a time by which the sidecar's own loop was late, and how long it stood still at once. Pure.

A request that was measured meanwhile tells little of the engine: it may have waited in the sidecar. But a loop that stands still for a
twentieth of a second, however often, delays no first token by a second: what was measured over seconds is explained by stops that are long
beside it. It knows the sum of the lateness at each look, and the number of timers that it is of. It refuses to know requests, and what a
miss is worth.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import islice, pairwise
from operator import itemgetter
from typing import NamedTuple

from sidecar.pod.factor import between


KEPT_LOOKS = 600
"""Ten minutes of one look a second, and at least five: a scrape looks too, but not twice in half a second."""
LATE_FROM, LATE_AT = 0.08, 0.2
"""Shares of time by which the loop is late: below the first it explains no miss, above the second it explains them."""
TURNS = 3
"""Turns of the loop that one measured time may wait for: the request comes, it goes on to the engine, and output comes."""
DELAYED = 1 / 3
"""Share of a measured time, below which a delay explains no miss."""
_AT = itemgetter(0)


class Lags(NamedTuple):
    """How late the timers of a loop have been since it began."""

    sum_seconds: float = 0.0
    timers: int = 0


class Late(NamedTuple):
    """How late the loop was in some time."""

    ratio: float = 0.0
    """Share of the time, 0 or more."""
    stop_seconds: float = 0.0
    """The longest that it stood still at once, as the mean of a look's timers."""

    def within(self, seconds: float) -> float:
        """The ratio, if stops are long enough to delay what was measured over so many seconds; else 0."""
        return self.ratio if TURNS * self.stop_seconds >= DELAYED * seconds else 0.0


class Lateness:
    """The lateness of one process's loop in the last minutes."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, Lags]] = deque(maxlen=KEPT_LOOKS)
        self._late_until = float("-inf")
        """Instant of the last look that ended a time in which the loop was late enough to explain a miss."""

    def add(self, at: float, lags: Lags) -> None:
        """Take in the lags until this instant."""
        if self._has_been_late(at, lags):
            self._late_until = at
        self._looks.append((at, lags))

    def explains(self, began_at: float, ended_at: float, now: tuple[float, Lags]) -> float:
        """The chance, 0 to 1, that lateness in this time explains a miss. `now`: as in `late`.

        Every miss asks this at its end. If the loop was late by more than `LATE_FROM` in no part of a time, it was not in the
        whole.
        """
        if began_at >= self._late_until and not self._has_been_late(*now):
            return 0.0
        return explained_by(self.late(began_at, ended_at, now).within(ended_at - began_at))

    def _has_been_late(self, at: float, lags: Lags) -> bool:
        """Whether the loop was late since the last look by a share that explains something."""
        last_at, last = self._looks[-1] if self._looks else (at, lags)
        return lags.sum_seconds - last.sum_seconds > LATE_FROM * (at - last_at)

    def late(self, began_at: float, ended_at: float, now: tuple[float, Lags] | None = None) -> Late:
        """How late the loop was in this time: from the look before it to the look after it, as far as these are kept or have come.

        `now`: a look that need not be kept, if the asked time may have ended since the last one.
        """
        looks = self._looks
        if not looks:
            return Late()
        first = max(0, bisect_right(looks, began_at, key=_AT) - 1)
        at = max(first, bisect_left(looks, ended_at, key=_AT))
        asked = [*islice(looks, first, at + 1), *([now] if now is not None and at == len(looks) else [])]
        (since, before), (until, after) = asked[0], asked[-1]
        if until <= since:
            return Late()
        stops = (
            (two.sum_seconds - one.sum_seconds) / max(1, two.timers - one.timers)
            for (_, one), (_, two) in pairwise(asked)
        )
        return Late((after.sum_seconds - before.sum_seconds) / (until - since), max(stops))


def explained_by(late_ratio: float) -> float:
    """The chance, 0 to 1, that this lateness explains a miss."""
    return between(late_ratio, LATE_FROM, LATE_AT)
