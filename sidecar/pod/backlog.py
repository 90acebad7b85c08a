"""How long requests have waited on each other: the stretch of time in which more of them wait than usually. Pure.

A request that arrives behind a backlog waits for whatever made it, although that may be over. So the life of a miss
counts from the beginning of the backlog that it arrived in, within limits: on an engine near saturation some request
always waits. It knows numbers of waiting requests. It refuses to know what they wait for.
"""

from collections import deque
from statistics import fmean
from typing import ClassVar

from sidecar.pod.usual.comparison import FADES
from sidecar.pod.usual.learner import Amount, Learner


LONGEST_SECONDS = 45.0
"""A miss is never traced back further than this before its own arrival."""
MORE = 1.5
"""So many times the usual number of waiting requests, and at least `FEWEST_WAITING`, are a backlog."""
FEWEST_WAITING = 2.0
REMEMBERED = 64
TREND_SECONDS = 60.0
"""The trend of a backlog is that of so long: its last third beside its first."""
DRAINS = 0.9
"""With less than this share of the waiting requests of before, a backlog drains."""


class Backlog(Learner):
    """The backlogs of one pod."""

    KEPT: ClassVar = {"_usual": Amount(), "_count": Amount()}

    def __init__(self) -> None:
        self._usual = 0.0
        self._count = 0.0
        self._began_at: float | None = None
        self._ended: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        self._recent: deque[tuple[float, int]] = deque()
        """Instants of the looks of the last TREND_SECONDS, and how many waited; by time, because a scrape looks too."""

    def tick(self, at: float, waiting: int, *, calm: bool) -> None:
        """So many requests wait now. Call it about once a second. `calm`: no objective burns."""
        if calm:
            self._usual = FADES * self._usual + waiting
            self._count = FADES * self._count + 1.0
        self._recent.append((at, waiting))
        while self._recent[0][0] < at - TREND_SECONDS:
            self._recent.popleft()
        usual = self._usual / self._count if self._count else 0.0
        if waiting > max(FEWEST_WAITING, MORE * usual):
            self._began_at = at if self._began_at is None else self._began_at
        elif self._began_at is not None:
            self._ended.append((self._began_at, at))
            self._began_at = None

    def since(self, received_at: float) -> float:
        """The instant from which on a request that arrived then may have waited because of what happened."""
        began_at = self.began(received_at)
        return received_at if began_at is None else max(began_at, received_at - LONGEST_SECONDS)

    def began(self, received_at: float) -> float | None:
        """The instant at which the backlog began that a request met which arrived then; None if it met none."""
        began_at = self._began_at
        if began_at is not None and received_at >= began_at:
            return began_at
        return next((since for since, until in self._ended if since <= received_at <= until), None)

    def stood_since(self, at: float) -> float | None:
        """The instant at which the oldest backlog began that stood at this instant or after it; None if none did."""
        return next((since for since, until in self._ended if until >= at), self._began_at)

    def stands(self, at: float) -> bool:
        """Whether a backlog of a minute and more does not drain: as many requests wait as a minute ago, or more."""
        if self._began_at is None or self._began_at > at - TREND_SECONDS:
            return False
        before = [waiting for when, waiting in self._recent if when < at - 2 * TREND_SECONDS / 3]
        lately = [waiting for when, waiting in self._recent if when > at - TREND_SECONDS / 3]
        return bool(before and lately) and fmean(lately) >= DRAINS * fmean(before)
