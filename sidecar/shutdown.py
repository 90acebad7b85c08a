"""The way out: one drain with one absolute deadline, however often and by whatever way it is asked for.

SIGTERM and `/-/drain` begin the same drain: not ready at once, served on for the lame-duck time with `Connection: close`, then
no new connections, then a wait until nothing is in flight or the grace is over. A second request joins it and starts no clock
anew. There is no way back: at the deadline it tells that the process has to end, so that a new one serves. Knows no signal and no
HTTP, and refuses to end the process: `app.py` does both.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

import structlog

from sidecar.lifecycle import Life, Readiness


IN_FLIGHT_LOOK_SECONDS = 0.05
"""Interval at which it is looked whether anything is in flight."""

log = structlog.get_logger()


class Times(Protocol):
    """Seconds since the drain began. Defaults and reasons: `ShutdownConfig` in `sidecar/config/schema.py`."""

    @property
    def lame_duck_seconds(self) -> float: ...
    @property
    def grace_seconds(self) -> float: ...


class Served(Protocol):
    """The traffic side, as far as a drain needs it."""

    def drain(self) -> None: ...
    def stop_accepting(self) -> None: ...


class Drained(NamedTuple):
    """The end of a drain, as `/-/drain` answers it."""

    drained: bool
    """Nothing is in flight any more."""
    in_flight: int
    waited_seconds: float
    """Seconds since the drain began, also if it was begun by another request."""


class Shutdown:
    """The one drain of a process. `times` is asked when it begins; `clock`: monotonic seconds.

    `on_deadline` is called once, when the drain is over and `grace_seconds` have passed since it began.
    """

    def __init__(
        self,
        times: Callable[[], Times],
        readiness: Readiness,
        traffic: Served,
        in_flight: Callable[[], int],
        clock: Callable[[], float],
        *,
        on_deadline: Callable[[], None],
    ) -> None:
        self._times = times
        self._readiness = readiness
        self._traffic = traffic
        self._in_flight = in_flight
        self._clock = clock
        self._on_deadline = on_deadline
        self._hurry = asyncio.Event()
        self._draining: asyncio.Task[Drained] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._grace_seconds = 0.0

    @property
    def left_seconds(self) -> float:
        """Seconds until the drain's deadline; 0 behind it, and where no drain has begun."""
        if self._draining is None or self._hurry.is_set():
            return 0.0
        return max(0.0, self._began_at + self._grace_seconds - self._clock())

    def hurry(self) -> None:
        """End the drain now, whatever is in flight."""
        self._hurry.set()

    async def drain(self) -> Drained:
        """Begin the drain, or join it; returns when nothing is in flight, or when its one deadline has passed."""
        if self._draining is None:
            self._began_at = self._clock()
            times = self._times()
            self._grace_seconds = times.grace_seconds
            self._draining = asyncio.create_task(self._drain(times), name="shutdown.drain")
            self._ending = asyncio.create_task(self._end(self._draining, times), name="shutdown.end")
        return await asyncio.shield(self._draining)  # a request for it that is given up does not end it

    async def _drain(self, times: Times) -> Drained:
        self._readiness.life = Life.LAME_DUCK
        log.info("lame_duck", seconds=times.lame_duck_seconds, in_flight=self._in_flight())
        self._traffic.drain()
        await self._wait_until(self._began_at + times.lame_duck_seconds, idle=False)
        self._readiness.life = Life.DRAINING
        self._traffic.stop_accepting()
        log.info("draining", in_flight=self._in_flight())
        await self._wait_until(self._began_at + times.grace_seconds, idle=True)
        in_flight = self._in_flight()
        return Drained(in_flight == 0, in_flight, round(self._clock() - self._began_at, 3))

    async def _end(self, draining: asyncio.Task[Drained], times: Times) -> None:
        await draining
        await self._wait_until(self._began_at + times.grace_seconds, idle=False)
        self._on_deadline()

    async def _wait_until(self, until: float, *, idle: bool) -> None:
        """Wait until the instant `until`, until there is hurry or, with `idle`, until no request is in flight."""
        while (left := until - self._clock()) > 0 and not (idle and self._in_flight() == 0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), min(IN_FLIGHT_LOOK_SECONDS, left))
                return
