"""How long requests have waited on each other: the stretch of time in which more of them wait than usually. Pure.

A request that arrives behind a backlog waits for whatever made it, although that may be over. So the life of a miss
counts from the beginning of the backlog that it arrived in, within limits: on an engine near saturation some request
always waits. It knows numbers of waiting requests. It refuses to know what they wait for.
"""

from collections import deque
from typing import ClassVar

from sidecar.pod.usual.comparison import FADES
from sidecar.pod.usual.learner import Amount, Learner


LONGEST_SECONDS = 45.0
"""A miss is never traced back further than this before its own arrival."""
MORE = 1.5
"""So many times the usual number of waiting requests, and at least `FEWEST_WAITING`, are a backlog."""
FEWEST_WAITING = 2.0
REMEMBERED = 64


class Backlog(Learner):
    """The backlogs of one pod."""

    KEPT: ClassVar = {"_usual": Amount(), "_count": Amount()}

    def __init__(self) -> None:
        self._usual = 0.0
        self._count = 0.0
        self._began_at: float | None = None
        self._ended: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    def tick(self, at: float, waiting: int, *, calm: bool) -> None:
        """So many requests wait now. Call it about once a second. `calm`: no objective burns."""
        if calm:
            self._usual = FADES * self._usual + waiting
            self._count = FADES * self._count + 1.0
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
