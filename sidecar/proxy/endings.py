"""The closing of requests in quiet turns of the loop: it comes after the bytes of all other connections.

Knows the observers that are to be closed, in order. In a turn of the loop with time left each is closed at once. When many
requests end in one turn, as the streams of one engine step do, the rest waits here and is closed a few in each turn: three
hundred closings in a row take 30 ms, in which no new request is read. Refuses to know how a request ended, and what an
observer does then. A scrape waits for `closed`, and `flush` closes all at once: what ended since then, before the page is written; and
before a reload and the end of the process.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from sidecar.proxy.guard import Guard
from sidecar.proxy.observer import End
from sidecar.proxy.read_limit import Turns


CLOSED_IN_A_TURN = 16
"""Requests that are closed in one turn of the loop; fewer, if they take CLOSING_SECONDS."""
CLOSING_SECONDS = 0.001
MOST_WAITING = 256
"""Beyond so many, the oldest is closed at once: each keeps the memory of a request, and a scrape waits for all of them."""


class _Ending(NamedTuple):
    observer: Guard
    at: float
    end: End


class Endings:
    """The requests of one process that are over and not closed. `turns`: of the engine's side, where answers end."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: deque[_Ending] = deque()
        self._planned = False
        self._at_once = False
        self._closed = 0  # of those that had to wait

    def __len__(self) -> int:
        """Number of requests that are not closed yet."""
        return len(self._waiting)

    def close(self, observer: Guard, at: float, end: End) -> None:
        """The request is over: close its observer, in its order. Now, if this turn of the loop has time left."""
        if not self._waiting and (self._at_once or not self._turns.busy):
            observer.close(at, end)
            return
        self._waiting.append(_Ending(observer, at, end))
        if len(self._waiting) > MOST_WAITING:
            self._close_first()
        self._plan()

    async def closed(self) -> None:
        """Returns once all that wait now are closed, a few in each turn of the loop."""
        until = self._closed + len(self._waiting)
        while self._closed < until:  # noqa: ASYNC110  what is waited for is a turn of the loop
            await asyncio.sleep(0)

    def flush(self) -> None:
        """Close all that wait."""
        while self._waiting:
            self._close_first()

    def at_once(self) -> None:
        """From now on nothing waits: the process is about to end."""
        self._at_once = True
        self.flush()

    def _close_first(self) -> None:
        ending = self._waiting.popleft()
        self._closed += 1
        ending.observer.close(ending.at, ending.end)

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._turns.soon(self._close_some)

    def _close_some(self) -> None:
        self._planned = False
        began_at = self._turns.clock()
        for _ in range(min(CLOSED_IN_A_TURN, len(self._waiting))):
            self._close_first()
            if self._turns.clock() - began_at >= CLOSING_SECONDS:
                break
        if self._waiting:
            self._plan()
