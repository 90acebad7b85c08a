"""The connections to the one engine: how one is opened, and how long an idle one may be kept.

Nothing is ever retried here: a request that loses its connection is answered 502, because a POST may have reached the
engine (RFC 9110 9.2.2). That is why idle connections are kept for a shorter time than any engine keeps them.
"""

import asyncio
import socket
from collections.abc import Callable

from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.read_limit import Soon, soon


SHORTEST_IDLE_SECONDS = 0.01
"""An engine that closes sooner than this after an answer closes after every answer: then nothing is reused."""
LEARNED_FOR_SECONDS = 300.0
"""A learned limit lasts so long: an engine's restart closes connections early too, and must not end reuse for ever."""


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
        soon: Soon = soon,
    ) -> None:
        self.host = host
        self.port = port
        self.clock = clock
        self.soon = soon
        self.configured_idle_seconds = idle_seconds
        self.idle_seconds = idle_seconds
        self._learned_at = 0.0
        self.max_headers = max_headers
        self.receive_buffer_bytes = receive_buffer_bytes
        self._idle: list[EngineConnection] = []
        self._open: set[EngineConnection] = set()

    def __repr__(self) -> str:
        return f"<EnginePool {len(self._open)} open, {len(self._idle)} idle>"

    def take(self) -> EngineConnection | None:
        """An idle connection that is young enough, or None: then `connect`."""
        at = self.clock()
        while self._idle:
            connection = self._idle.pop()
            if at - connection.idle_since < self.idle_seconds and connection.quiet:
                return connection
            connection.abort()
        return None

    async def connect(self) -> EngineConnection:
        """Open a connection. Raises OSError; the caller sets the time limit."""
        loop = asyncio.get_running_loop()
        sock = await self._connected_socket(loop)
        connection = EngineConnection(self)
        try:
            await loop.create_connection(lambda: connection, sock=sock)
        except BaseException:
            # If cancelled in the turn in which the connection came, uvloop has called `connection_made` and never calls
            # `connection_lost`.
            self._open.discard(connection)
            sock.close()
            raise
        connection.socket = sock
        return connection

    async def _connected_socket(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        failure: OSError | None = None
        for family, kind, proto, _, address in await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind | socket.SOCK_NONBLOCK, proto)
            try:
                # Before connecting: the receive window is negotiated from it. A small one makes a paused stream stop in the engine.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
                await loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure or OSError(f"no address for {self.host}")

    def keep_for(self, idle_seconds: float) -> None:
        """Set a new configured limit, in seconds."""
        self.configured_idle_seconds = self.idle_seconds = idle_seconds

    def put(self, connection: EngineConnection) -> None:
        """Keep a connection on which the last message ended exactly."""
        connection.idle_since = self.clock()
        self._idle.append(connection)

    def discard(self, connection: EngineConnection) -> None:
        """Forget an idle connection."""
        if connection in self._idle:
            self._idle.remove(connection)

    def opened(self, connection: EngineConnection) -> None:
        self._open.add(connection)

    def closed(self, connection: EngineConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
            idled_seconds = self.clock() - connection.idle_since
            if idled_seconds < max(self.idle_seconds, SHORTEST_IDLE_SECONDS):
                safe = idled_seconds / 2
                self.idle_seconds = min(self.idle_seconds, safe if safe >= SHORTEST_IDLE_SECONDS else 0.0)
                self._learned_at = self.clock()

    def sweep(self, at: float) -> None:
        """Close what has idled too long; forget a learned limit that has not been confirmed for a while."""
        if at - self._learned_at > LEARNED_FOR_SECONDS:
            self.idle_seconds = self.configured_idle_seconds
        for connection in [idle for idle in self._idle if at - idle.idle_since > self.idle_seconds]:
            self._idle.remove(connection)
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
