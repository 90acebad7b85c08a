"""Facts that the kernel has about a connection (Linux `struct tcp_info`, include/uapi/linux/tcp.h).

They say whether the connection is quiet, whether the peer has left, how much of what was sent it has acknowledged, and what
held the stream back.
"""

import socket
import struct
from typing import NamedTuple


TCP_CLOSE = 7
TCP_CLOSE_WAIT = 8
_ACKNOWLEDGED_OFFSET = 120
"""tcpi_bytes_acked: u64, since Linux 4.1. It counts the SYN too."""
_ACKNOWLEDGED = struct.Struct("=Q")
_BUSY_OFFSET = 168
"""tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited: three u64 of microseconds, since Linux 4.9."""
_TIMES = struct.Struct("=QQQ")


class SendTimes(NamedTuple):
    """For how long a connection had data to send, and was held back by what; seconds since the connection began."""

    busy_seconds: float
    receive_window_limited_seconds: float
    """The peer's receive buffer was full: the next hop (often an ingress) did not read."""
    send_buffer_limited_seconds: float
    """The sidecar's send buffer was full: the path has much delay, or the buffer is small."""

    def since(self, earlier: "SendTimes") -> "SendTimes":
        """The difference between two readings of the same connection."""
        return SendTimes(
            self.busy_seconds - earlier.busy_seconds,
            self.receive_window_limited_seconds - earlier.receive_window_limited_seconds,
            self.send_buffer_limited_seconds - earlier.send_buffer_limited_seconds,
        )


def send_times(sock: socket.socket) -> SendTimes | None:
    """The kernel's times of this connection, or None if it keeps none."""
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
    if len(info) < _BUSY_OFFSET + _TIMES.size:
        return None
    busy, window, buffer = _TIMES.unpack_from(info, _BUSY_OFFSET)
    return SendTimes(busy / 1e6, window / 1e6, buffer / 1e6)


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


def is_quiet(sock: socket.socket) -> bool:
    """Whether nothing waits to be read: no byte, no end and no reset that the event loop has not handled yet."""
    try:
        sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def peer_has_left(sock: socket.socket) -> bool:
    """Whether the peer has closed a connection that is not being read just now."""
    if not hasattr(socket, "TCP_INFO"):
        return False
    try:
        state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return True
    return bool(state) and state[0] in (TCP_CLOSE, TCP_CLOSE_WAIT)
