"""The connections to the one engine: how one is opened, and how long an idle one may be kept.

Nothing is retried here: a POST that loses its connection may have reached the engine (RFC 9110 9.2.2), and only `forward.py`
can prove that it has not. That is why idle connections are kept for a shorter time than any engine keeps them.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from itertools import islice
from typing import Any

from sidecar.proxy.addresses import ATTEMPT_DELAY_SECONDS, Address, Remembered, first_connected
from sidecar.proxy.errors import is_ours
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.read_limit import Soon, Turns
from sidecar.proxy.standstill import Now


CLOSED_AT_ONCE = 32
"""Idle connections that one sweep closes: each close costs some 20 us, in which no token passes."""
SHORTEST_IDLE_SECONDS = 0.01
"""An engine that closes sooner than this after an answer closes after every answer: then nothing is reused."""
LEARNED_FOR_SECONDS = 300.0
"""A learned limit lasts so long: an engine's restart closes connections early too, and must not end reuse for ever."""
LAST_BYTES_SECONDS = 5.0
"""An engine that does not take the last bytes of a tunnel within this time loses them: else it could hold a file for ever."""


FULL_QUEUE_SECONDS = 0.01
"""Interval of trying again at a Unix socket whose accept queue is full."""
ONE_TURN_SECONDS = 0.001
"""A timer of this length fires in a later turn of the loop, after its sockets and threads have been looked at."""


async def _connect(loop: asyncio.AbstractEventLoop, sock: socket.socket, address: Any, timeout_seconds: float) -> None:
    """Connect, within the time. Raises OSError.

    The request for a connection goes out before the time begins, and the kernel is asked before the time limit is believed:
    if our loop was late, the engine has long accepted, and only this process has not looked. That is never charged to the engine.
    """
    failed, until = sock.connect_ex(address), loop.time() + timeout_seconds
    while failed == errno.EAGAIN:  # a Unix socket whose accept queue is full; a TCP socket waits by itself
        if loop.time() > until:
            raise TimeoutError
        await asyncio.sleep(FULL_QUEUE_SECONDS)
        failed = sock.connect_ex(address)
    if failed == errno.EINPROGRESS and not _is_connected(sock):
        writable: asyncio.Future[None] = loop.create_future()
        loop.add_writer(sock, _done, writable)
        try:
            async with asyncio.timeout(timeout_seconds):
                await writable
        except TimeoutError:
            if not _is_connected(sock):
                raise
        finally:
            loop.remove_writer(sock)
        failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed not in (0, errno.EINPROGRESS):
        raise OSError(failed, os.strerror(failed))


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


class EnginePool:
    """Connections to one engine: idle ones are reused newest first and thrown away after `idle_seconds`.

    The limit learns: when the engine closes a connection that idled for less, half of that becomes the limit for a
    while, because a POST that races with such a close cannot be retried (RFC 9110 9.2.2).
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        clock: Callable[[], float],
        idle_seconds: float,
        max_headers: int,
        receive_buffer_bytes: int,
        unix_path: str = "",
        soon: Soon | None = None,
    ) -> None:
        """`unix_path`: the engine listens on this Unix socket; `host` and `port` are then only what it is called. `soon`: see
        `Turns`.
        """
        self.host = host
        self.port = port
        self.unix_path = unix_path
        self.clock = clock
        self.soon = soon
        self.turns = Turns(clock, soon)
        self.configured_idle_seconds = idle_seconds
        self.idle_seconds = idle_seconds
        self._learned_at = 0.0
        self._remembered = Remembered()
        self.max_headers = max_headers
        self.receive_buffer_bytes = receive_buffer_bytes
        self._idle: dict[EngineConnection, None] = {}
        """In the order in which they became idle."""
        self._open: set[EngineConnection] = set()
        self._closing_since: dict[EngineConnection, float] = {}
        """Connections that close once their socket has taken everything."""

    def __repr__(self) -> str:
        return f"<EnginePool {len(self._open)} open, {len(self._idle)} idle>"

    def take(self) -> EngineConnection | None:
        """An idle connection that is young enough, or None: then `connect`."""
        at = self.clock()
        while self._idle:
            connection, _ = self._idle.popitem()
            if at - connection.idle_since >= self.idle_seconds:
                connection.abort()
                break  # the others have idled for longer: the sweep closes them, a few at a time
            transport, arrivals = connection.transport, connection.arrivals
            # Idle for the kernel too: else it is closing, or its bytes would be read as the next answer.
            if transport is not None and not transport.is_closing() and (arrivals is None or not arrivals.poll(0)):
                return connection
            connection.abort()
        return None

    async def connect(self, timeout_seconds: float) -> EngineConnection:
        """Open a connection. Raises OSError; TimeoutError if the engine did not accept one in time."""
        loop = asyncio.get_running_loop()
        sock = await self._connected_socket(loop, timeout_seconds)
        connection = EngineConnection(self)
        try:
            await loop.create_connection(lambda: connection, sock=sock)
        except BaseException:
            # If cancelled in the turn in which the connection came, uvloop has called `connection_made` and never calls
            # `connection_lost`.
            self._open.discard(connection)
            sock.close()
            raise
        connection.opened_on(sock)
        return connection

    async def _connected_socket(self, loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> socket.socket:
        began_at = loop.time()
        until = began_at + timeout_seconds
        found = await self._addresses(loop, timeout_seconds)
        # A late loop may have spent the time of the look-up: the engine has one delay at least.
        until = max(until, loop.time() + min(timeout_seconds, ATTEMPT_DELAY_SECONDS))
        ours: OSError | None = None

        async def attempt(address: Address) -> socket.socket:
            return await self._attempt(loop, address, max(0.0, until - loop.time()))

        def failed(address: Address, error: OSError | None) -> None:
            nonlocal ours
            if error is not None and is_ours(error):
                ours = error  # it says nothing about the address
            else:
                self._remembered.failed(address, self.clock())

        try:
            if len(found) == 1:
                return await attempt(found[0])
            address, sock = await first_connected(
                self._remembered.in_order(found, self.clock()), attempt, failed, until
            )
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                # It restarts: that it closed idle connections early says nothing about its next life.
                self.idle_seconds = self.configured_idle_seconds
            raise ours or error from None
        self._remembered.connected(address)
        return sock

    async def _attempt(
        self, loop: asyncio.AbstractEventLoop, address: Address, timeout_seconds: float
    ) -> socket.socket:
        family, kind, proto, peer = address
        sock = socket.socket(family, kind | socket.SOCK_NONBLOCK, proto)
        try:
            # Before connecting: the receive window is negotiated from it. A small one makes a paused stream stop in the engine.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
            await _connect(loop, sock, peer, timeout_seconds)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _addresses(self, loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> list[Address]:
        if self.unix_path:
            return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.unix_path)]
        lookup = loop.create_task(loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM))
        try:
            await asyncio.wait({lookup}, timeout=timeout_seconds)
            if not lookup.done():
                await asyncio.sleep(ONE_TURN_SECONDS)  # a late loop may have the answer before it
            if not lookup.done():
                raise TimeoutError
            found = lookup.result()
        except socket.gaierror:
            socket.socket().close()  # a resolver without a file to open says that the name is unknown; this says the truth
            raise
        finally:
            lookup.cancel()
        return [(family, kind, proto, address) for family, kind, proto, _, address in found]

    def keep_for(self, idle_seconds: float) -> None:
        """Set a new configured limit, in seconds."""
        self.configured_idle_seconds = self.idle_seconds = idle_seconds

    def put(self, connection: EngineConnection) -> None:
        """Keep a connection on which the last message ended exactly."""
        connection.idle_since = self.clock()
        self._idle[connection] = None

    def discard(self, connection: EngineConnection) -> None:
        """Forget an idle connection."""
        self._idle.pop(connection, None)

    def opened(self, connection: EngineConnection) -> None:
        self._open.add(connection)

    def closes(self, connection: EngineConnection) -> None:
        """It is being closed, once its socket has taken everything."""
        self._closing_since[connection] = self.clock()

    def closed(self, connection: EngineConnection) -> None:
        self._open.discard(connection)
        self._closing_since.pop(connection, None)
        if connection in self._idle:
            del self._idle[connection]
            idled_seconds = self.clock() - connection.idle_since
            if idled_seconds < max(self.idle_seconds, SHORTEST_IDLE_SECONDS):
                safe = idled_seconds / 2
                self.idle_seconds = min(self.idle_seconds, safe if safe >= SHORTEST_IDLE_SECONDS else 0.0)
                self._learned_at = self.clock()

    def sweep(self, now: Now) -> None:
        """Close what has idled or been closing too long; forget a learned limit that has not been confirmed for a while.

        An idle connection ages through a standstill too: the engine counts that time.
        """
        if now.at - self._learned_at > LEARNED_FOR_SECONDS:
            self.idle_seconds = self.configured_idle_seconds
        oldest = islice(self._idle, CLOSED_AT_ONCE)
        for connection in [idle for idle in oldest if now.at - idle.idle_since > self.idle_seconds]:
            del self._idle[connection]
            connection.abort()
        for connection, since in list(self._closing_since.items()):
            if now.since(since) > LAST_BYTES_SECONDS:
                del self._closing_since[connection]
                connection.abort()

    def close(self) -> None:
        """Close every connection, busy or idle."""
        self._idle.clear()
        for connection in list(self._open):
            connection.abort()

    @property
    def open_connections(self) -> int:
        """Connections open now, busy and idle."""
        return len(self._open)
