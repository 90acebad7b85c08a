"""The traffic listener: accepts client connections, and ends them.

Holds the open connections, and the sweep that enforces time limits. The `Road` (`road.py`) holds the state that they
share, and each connection handles its own bytes (`accept.py`).
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import cast

from sidecar.budgets.budgets import backlog_of
from sidecar.proxy.accept import ClientConnection
from sidecar.proxy.errors import Failure
from sidecar.proxy.road import Road
from sidecar.proxy.standstill import Now


SWEEP_SECONDS = 0.25
"""Interval of checking the time limits; they are seconds to minutes long, so it is exact enough and costs nothing per event."""
SWEPT_AT_ONCE = 32
"""Connections that are swept in one turn of the loop: a look costs some 1 us, a connection that is closed some 20 us."""


class Traffic:
    """The listener for clients, and all their connections."""

    def __init__(self, road: Road) -> None:
        self.road = road
        self._closes_idle = False
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    def connection(self) -> ClientConnection:
        """Make the protocol of one new client connection."""
        return ClientConnection(self.road)

    @property
    def _connections(self) -> list[ClientConnection]:
        return [cast(ClientConnection, member) for member in self.road.crowd]

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections; returns the address actually bound (port 0 picks a free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        self.road.leavers.start()
        self._server = await loop.create_server(
            self.connection, host, port, backlog=backlog_of(self.road.budgets.files.limit), reuse_address=True
        )
        self._sweeper = loop.create_task(self._sweep_forever())
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    @property
    def lost(self) -> bool:
        """Whether a listening socket does not listen any more, although `stop_accepting` was not called."""
        return self._server is not None and not all(_listens(each.fileno()) for each in self._server.sockets)

    def drain(self) -> None:
        """From now on every answer says `Connection: close`. New requests are still served, on idle connections too.

        An idle connection is left to its client as long as requests may come: closing it could race with one.
        """
        self.road.draining = True

    def stop_accepting(self) -> None:
        """Close the listener and the idle connections; requests in flight go on."""
        self._closes_idle = True  # from the next sweep on
        self.road.endings.at_once()
        if self._server is not None:
            self._server.close()
            self._server = None

    def abandon(self) -> None:
        """The grace period is over: end the requests that are still in flight, each with its outcome."""
        at = self.road.clock()
        for connection in self._connections:
            connection.leave()  # who left in time has cancelled
            if connection.exchange is not None:
                connection.exchange.fail(Failure.SHUTTING_DOWN, at)
            else:
                connection.abort()

    async def close(self) -> None:
        """Stop everything. Nothing may be in flight any more."""
        self.stop_accepting()
        for connection in self._connections:
            connection.abort()
        self.road.pool.close()
        self.road.leavers.close()
        tasks = [task for task in (self._sweeper, *self.road.tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for _ in self.sweep_in_turns(lambda: self.road.standstills.look(self.road.clock())):
                await asyncio.sleep(0)

    def sweep(self, at: float) -> None:
        """Enforce every time limit once, at this instant."""
        now = Now(at, self.road.standstills)
        for _ in self.sweep_in_turns(lambda: now):
            pass

    def sweep_in_turns(self, look: Callable[[], Now]) -> Iterator[None]:
        """Enforce every time limit once; at each yield the loop has to turn, so that no stream waits for thousands.

        A limit is enforced as of the instant before a turn. In the turn the sockets are polled: what had come by that
        instant is read, and only what had not come can be late, however late this loop is itself.
        """
        now = look()
        yield
        self.road.pool.sweep(now)
        self.road.drain.sample(now.at)
        connections = self._connections
        for first in range(0, len(connections), SWEPT_AT_ONCE):
            for connection in connections[first : first + SWEPT_AT_ONCE]:
                try:
                    self._sweep_one(connection, now)
                except Exception as error:  # noqa: BLE001  one connection must not keep its limits from all others
                    asyncio.get_running_loop().call_exception_handler({"message": "a sweep failed", "exception": error})
                    connection.break_off(error)
            now = look()
            yield

    def _sweep_one(self, connection: ClientConnection, now: Now) -> None:
        if connection.transport is None:
            return  # it was closed since the sweep began
        if self._closes_idle and connection.idle:
            connection.close_when_flushed()
        else:
            connection.sweep(now)

    @property
    def open_connections(self) -> int:
        """Client connections open now."""
        return len(self.road.crowd)


def _listens(number: int) -> bool:
    """Whether this file is a listening socket, as the kernel sees it. It opens no file, so that it is right without any left."""
    try:
        asked = socket.socket(fileno=number)
    except (OSError, ValueError):  # no socket, or closed
        return False
    try:
        return bool(asked.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    finally:
        asked.detach()  # the file is the server's
