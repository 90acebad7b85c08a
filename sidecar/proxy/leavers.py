"""Clients that leave while their connection is not read: the kernel says so at once, by epoll's EPOLLRDHUP.

Knows the sockets of the connections whose reading is paused, and no other. Does not know why reading is paused, nor
what a client's leaving means. Neither uvloop nor asyncio reports the end of a connection that it does not read, and
uvloop refuses `add_reader` for the sockets of its own transports. So there is one epoll object of our own, whose own file
the loop watches; a connection is in it from its pause to its resumption, and costs nothing before and after.
"""

import asyncio
import select
import socket
from collections.abc import Callable
from contextlib import suppress

from sidecar.proxy.tcp import peer_has_left


MOST_AT_ONCE = 16
"""Clients told of in one turn of the loop: each ends a request. The next ones have the next turn."""


class Watch:
    """One paused connection. The number of its file may already belong to another connection when this one is over."""

    __slots__ = ("fd", "left", "sock")

    def __init__(self, sock: socket.socket, left: Callable[[], None]) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.left = left


class Leavers:
    """The paused connections of one event loop. Before `start`, and where there is no epoll, they are not watched."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._watched: dict[int, Watch] = {}

    def start(self) -> None:
        """Begin in the running loop. Raises OSError if no file is left."""
        if hasattr(select, "epoll"):  # Linux; elsewhere a client's leaving is seen when its connection is read again
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._tell)

    def close(self) -> None:
        """Watch no more."""
        epoll, self._epoll = self._epoll, None
        self._watched.clear()
        if epoll is not None:
            asyncio.get_running_loop().remove_reader(epoll.fileno())
            epoll.close()

    def watch(self, sock: socket.socket, left: Callable[[], None]) -> Watch:
        """Call `left` once if the peer closes, half-closes or resets, or has done so; until `unwatch`."""
        watch = Watch(sock, left)
        if self._epoll is not None:
            with suppress(OSError):  # no kernel memory: then it is seen when the connection is read again
                # Edges: a file that lives on in another descriptor after its connection's end cannot be taken out of an
                # epoll any more, and would wake the loop for ever.
                self._epoll.register(watch.fd, select.EPOLLRDHUP | select.EPOLLET)
                self._watched[watch.fd] = watch
        return watch

    def unwatch(self, watch: Watch) -> None:
        """The connection is read again, or over."""
        if self._epoll is not None and self._watched.get(watch.fd) is watch:
            del self._watched[watch.fd]
            with suppress(OSError):  # the kernel has taken out a file that is closed
                self._epoll.unregister(watch.fd)

    def _tell(self) -> None:
        if self._epoll is None:
            return
        for fd, _ in self._epoll.poll(0, MOST_AT_ONCE):
            watch = self._watched.get(fd)
            # An event may be another file's that had this number before: the socket itself is asked.
            if watch is not None and peer_has_left(watch.sock):
                self.unwatch(watch)
                watch.left()
