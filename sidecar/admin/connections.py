"""Room for the admin listener's connections: a newcomer is always let in, and the oldest connection makes way for it.

The process keeps few files for what is no traffic (`budgets/budgets.py`), and a probe that finds no place would have the pod
restarted; so no newcomer is refused. A connection counts from its acceptance until its file is closed, TLS handshake included.
Those that wait for a request make way first, then those with an answer under way, and never those of this pod that wait for an
answer. This module knows aiohttp's server, and no route.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from aiohttp import web

from sidecar.admin.access import is_loopback
from sidecar.budgets.budgets import KEPT_FILES


MOST_CONNECTIONS = KEPT_FILES * 5 // 8
"""Files that the listener's connections may hold; the others are for the engine's probes, logs and span exports."""
HANDSHAKE_SECONDS = 5.0
"""Limit of a TLS handshake, and of TLS's goodbye. A kubelet's probe has given up before."""


class Runner(web.AppRunner):
    """Runs an application as aiohttp's runner does, with at most MOST_CONNECTIONS open connections.

    `tls`: the context for the next connection, or None for plain HTTP. The site itself must have none: its handshakes would begin
    before a connection is counted.
    """

    def __init__(
        self, app: web.Application, tls: Callable[[], ssl.SSLContext | None] = lambda: None, **named: Any
    ) -> None:
        super().__init__(app, **named)
        self._tls = tls
        self._held: list[_Connection] = []
        """By age, the oldest first."""

    @property
    def server(self) -> Any:
        """The factory of protocols that a site hands to the loop; None before `setup`."""
        return None if super().server is None else lambda: _Arrival(self._take)

    @property
    def held(self) -> int:
        """Connections that hold a file now."""
        self._held = [each for each in self._held if each.holds_file]
        return len(self._held)

    def _take(self, accepted: Any) -> None:
        server = super().server
        if server is None:
            accepted.close()
            return
        excess = self.held + 1 - MOST_CONNECTIONS
        if excess > 0:
            for each in sorted(filter(_may_go, self._held), key=_answers)[:excess]:
                each.abort()
                self._held.remove(each)
        self._held.append(_Connection(accepted, server(), self._tls()))

    async def shutdown(self) -> None:
        """End the handshakes; aiohttp knows of the other connections."""
        for each in self._held:
            if not each.shaken:
                each.abort()
        await super().shutdown()


class _Arrival(asyncio.Protocol):
    """Takes a new connection's socket from the loop's transport before anything is read, as a transport's handshake counts nowhere."""

    def __init__(self, take: Callable[[Any], None]) -> None:
        self._take = take

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            accepted = transport.get_extra_info("socket").dup()
        except OSError:
            return  # no file is left: the client is told by the end of its connection
        finally:
            cast(asyncio.Transport, transport).abort()
        accepted.setblocking(False)
        self._take(accepted)


class _Connection:
    """One connection from its acceptance on. `handler`: aiohttp's protocol, which is told of it after the handshake."""

    def __init__(self, accepted: Any, handler: Any, tls: ssl.SSLContext | None) -> None:
        self.handler = handler
        self._socket = accepted
        self._transport: asyncio.Transport | None = None
        self._opening = asyncio.create_task(self._open(tls), name="admin.connection")

    async def _open(self, tls: ssl.SSLContext | None) -> None:
        limit = None if tls is None else HANDSHAKE_SECONDS
        # An error here is the client's: it left, spoke no TLS, showed no certificate, or was too slow. The loop closes the file.
        with suppress(OSError):
            self._transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self.handler, self._socket, ssl=tls, ssl_handshake_timeout=limit, ssl_shutdown_timeout=limit
            )

    @property
    def holds_file(self) -> bool:
        return bool(self._socket.fileno() >= 0)

    @property
    def shaken(self) -> bool:
        """Whether aiohttp has been told of this connection."""
        return self._transport is not None or self.handler.transport is not None

    @property
    def peer(self) -> str:
        try:
            return str(self._socket.getpeername()[0])
        except OSError:  # it has left
            return ""

    def abort(self) -> None:
        """Close it at once; the file is free in the next turns of the loop."""
        if self.shaken:
            (self._transport or self.handler.transport).abort()
        else:
            self._opening.cancel()
            self._socket.close()  # for a task that had no turn; else the transport closes the file


def _answers(connection: _Connection) -> bool:
    """Whether an answer is under way. aiohttp says so nowhere else."""
    return bool(connection.handler._request_in_progress)  # noqa: SLF001


def _may_go(connection: _Connection) -> bool:
    # A hook of this pod waits for /-/drain, and the engine stops when the hook ends.
    return not (_answers(connection) and is_loopback(connection.peer))
