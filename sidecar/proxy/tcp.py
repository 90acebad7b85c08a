"""Facts that the kernel has about a connection (Linux `struct tcp_info`, include/uapi/linux/tcp.h).

They say whether the connection is quiet, whether the peer has left, how much of what was sent it has acknowledged, and what
held the stream back. And one order that the kernel takes: to acknowledge without delay.
"""

import select
import socket
import struct
from contextlib import suppress
from typing import NamedTuple


TCP_CLOSE = 7
TCP_CLOSE_WAIT = 8
_ACKNOWLEDGED_OFFSET = 120
"""tcpi_bytes_acked: u64, since Linux 4.1. It counts the SYN too."""
_ACKNOWLEDGED = struct.Struct("=Q")
_TIMES = struct.Struct("=QQQ")
_TIMES_OFFSET = 168
"""tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited: three u64 of microseconds, since Linux 4.9."""
_TIMES_END = _TIMES_OFFSET + _TIMES.size


class SendTimes(NamedTuple):
    """For how long a connection had data to send, and was held back by what; in seconds."""

    busy_seconds: float
    receive_window_limited_seconds: float
    """The peer's receive buffer was full: the next hop (often an ingress) did not read."""
    send_buffer_limited_seconds: float
    """The sidecar's send buffer was full: the path has much delay, or the buffer is small."""


_NEVER_BUSY = SendTimes(0.0, 0.0, 0.0)


class Borrowed(socket.socket):
    """A socket whose file is a transport's: it closes nothing, and must be let go of when the connection is lost.

    uvloop's own object for a transport's socket asks the kernel for the address before it passes a question on.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.fileno())

    def __del__(self) -> None:
        self.detach()


def send_reading(sock: socket.socket) -> bytes | None:
    """The kernel's times of sending on this connection, as it keeps them; None if it keeps none. Two of them make a
    `times_between`.
    """
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TIMES_END)
    except OSError:
        return None
    return info[_TIMES_OFFSET:] if len(info) == _TIMES_END else None


def times_between(before: bytes, after: bytes) -> SendTimes:
    """The times between two readings of the same connection."""
    if before == after:  # nearly every short answer
        return _NEVER_BUSY
    return SendTimes(
        *((late - early) / 1e6 for early, late in zip(_TIMES.unpack(before), _TIMES.unpack(after), strict=True))
    )


class Heard(NamedTuple):
    """The bytes that the peer's kernel has acknowledged, and whether the connection is closed on both sides."""

    acknowledged_bytes: int
    """Since the connection began, the SYN included."""
    closed: bool
    """Both sides have ended it: after the peer's own end this means that it has reset what was sent to it later."""


def heard(sock: socket.socket) -> Heard | None:
    """How far the peer has heard this connection, or None if the kernel does not say so, as for a Unix socket."""
    if sock.family == socket.AF_UNIX or not hasattr(socket, "TCP_INFO"):
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED_OFFSET + _ACKNOWLEDGED.size)
    except OSError:
        return None
    if len(info) < _ACKNOWLEDGED_OFFSET + _ACKNOWLEDGED.size:
        return None
    return Heard(_ACKNOWLEDGED.unpack_from(info, _ACKNOWLEDGED_OFFSET)[0], info[0] == TCP_CLOSE)


def acknowledge_at_once(sock: socket.socket) -> None:
    """Have the kernel acknowledge what comes here as soon as it is read, until something is sent again (tcp(7), TCP_QUICKACK).

    After a request on a kept connection Linux waits 40 ms for an answer that could carry the acknowledgement. An engine without TCP_NODELAY
    sends its head, and by Nagle's algorithm keeps its first token until that head is acknowledged (RFC 1122 4.2.3.4). Seen on
    Dynamo 1.6.1: a first token 40 ms late. Does nothing on a Unix socket, on a closed one, and where the kernel is not Linux.
    """
    if sock.family != socket.AF_UNIX and hasattr(socket, "TCP_QUICKACK"):
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def arrivals(sock: socket.socket) -> "select.poll | None":
    """A poll object that tells whether anything waits to be read: `poll(0)` then returns something. A byte, an end or a reset waits
    until the event loop has handled it. None for a socket that is closed.
    """
    # Asked for each request on a kept connection: a recv that finds nothing raises, and costs twice as much.
    if sock.fileno() < 0:
        return None
    found = select.poll()
    found.register(sock, select.POLLIN)
    return found


def peer_has_left(sock: socket.socket) -> bool:
    """Whether the peer has closed a connection that is not being read just now."""
    if not hasattr(socket, "TCP_INFO"):
        return False
    try:
        state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return True
    return bool(state) and state[0] in (TCP_CLOSE, TCP_CLOSE_WAIT)
