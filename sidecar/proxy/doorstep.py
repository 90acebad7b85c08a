"""Sockets that listen before the code that answers on them is loaded: the kernel keeps new connections until then.

A port that is taken is an error at the start, and not when the process already serves. Binds as the loop's `create_server` does:
every address of a host, an IPv6 socket for IPv6 alone. Knows no protocol, and accepts nothing.
"""

import asyncio
import errno
import socket
from typing import Any


WAITING_CONNECTIONS = 128
"""Connections that may wait: many times the probes and scrapes of half a second."""


class Doorstep:
    """The listening sockets of one listener, until it takes them."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen on every address of the host; returns the first. An empty host is every interface, port 0 any free one.

        Raises OSError.
        """
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT and not host:  # every interface, of a kernel without IPv6
                    continue
                raise
            self._sockets.append(sock)
            _listen(sock, (address[0], port or self._port, *address[2:]))
        bound: tuple[str, int] = self._sockets[0].getsockname()[:2]
        return bound

    @property
    def _port(self) -> int:
        """The port of the first socket, once it listens: those of one listener have the same."""
        return int(self._sockets[0].getsockname()[1])

    def taken(self) -> list[socket.socket]:
        """The sockets. The caller closes them."""
        taken, self._sockets = self._sockets, []
        return taken

    def close(self) -> None:
        """Close what was not taken."""
        for each in self.taken():
            each.close()


def _listen(sock: socket.socket, address: Any) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.setblocking(False)
    try:
        sock.bind(address)
        sock.listen(WAITING_CONNECTIONS)
    except OSError as error:
        why = f"error while attempting to bind on address {address!r}: {(error.strerror or '').lower()}"
        raise OSError(error.errno, why) from None
