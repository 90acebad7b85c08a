"""Facts that the kernel has about a connection, asked of real sockets on loopback."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sidecar.proxy.tcp import Borrowed, Heard, SendTimes, arrivals, heard, peer_has_left, send_reading, times_between


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of one TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        with theirs:
            yield ours, theirs


Ends = tuple[socket.socket, socket.socket]


def is_quiet(ours: socket.socket) -> bool:
    found = arrivals(ours)
    assert found is not None
    return found.poll(0) == []


def seen_after(ours: socket.socket) -> tuple[bool, bool]:
    """(quiet, peer has left) once the kernel has handled what the peer did."""
    ours.settimeout(10)
    with suppress(ConnectionResetError):
        ours.recv(1, socket.MSG_PEEK)
    return is_quiet(ours), peer_has_left(ours)


def test_a_borrowed_socket_answers_and_closes_nothing(ends: Ends) -> None:
    """It is asked, and forgotten: the connection goes on."""
    ours, theirs = ends

    borrowed = Borrowed(ours)
    reading = send_reading(borrowed)
    del borrowed
    ours.send(b"x")

    assert reading == send_reading(theirs)
    assert theirs.recv(1) == b"x"


def test_a_connection_on_which_nothing_happened_is_quiet(ends: Ends) -> None:
    ours, _ = ends

    assert (is_quiet(ours), peer_has_left(ours)) == (True, False)


def test_a_peer_that_speaks_has_not_left(ends: Ends) -> None:
    """Unread bytes are no end, and they stay where they are."""
    ours, theirs = ends
    theirs.send(b"x")

    assert seen_after(ours) == (False, False)
    assert ours.recv(2) == b"x"


def test_a_peer_that_closed_has_left_also_behind_unread_bytes(ends: Ends) -> None:
    """A paused stream is not read, so the end behind its bytes shows in the kernel's state alone."""
    ours, theirs = ends
    theirs.send(b"unread")
    theirs.close()

    assert seen_after(ours) == (False, True)


def test_a_reset_is_neither_quiet_nor_a_peer(ends: Ends) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    theirs.close()

    assert seen_after(ours) == (False, True)


def test_the_times_of_a_stream_are_the_difference_of_two_readings() -> None:
    """A kept connection has the times of earlier answers too."""
    before, after = (
        struct.pack("=QQQ", *times) for times in ((1_000_000, 250_000, 500_000), (4_000_000, 1_250_000, 500_000))
    )

    assert times_between(before, after) == SendTimes(3.0, 1.0, 0.0)
    assert times_between(after, after) == SendTimes(0.0, 0.0, 0.0)


def test_a_socket_that_is_no_connection_has_no_times_and_no_arrivals(ends: Ends) -> None:
    """A closed socket and a datagram socket have none; a connection that has sent nothing was never held back."""
    ours, _ = ends
    closed = socket.socket()
    closed.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram:
        assert (send_reading(closed), send_reading(datagram)) == (None, None)

    assert send_reading(ours) == bytes(24)
    assert arrivals(closed) is None


def test_the_peer_has_heard_what_it_acknowledged(ends: Ends) -> None:
    """Its kernel acknowledges what it takes; the process need not have read it. Then the peer's answer is its end."""
    ours, theirs = ends
    before = heard(ours)
    ours.sendall(b"x" * 40)
    theirs.recv(40)
    theirs.shutdown(socket.SHUT_WR)
    ours.recv(1)
    after = heard(ours)

    assert before is not None
    assert after == Heard(before.acknowledged_bytes + 40, closed=False)


def test_a_peer_that_had_closed_has_heard_nothing(ends: Ends) -> None:
    """It resets what comes after its end: the connection is closed, and not one byte is acknowledged."""
    ours, theirs = ends
    before = heard(ours)
    theirs.close()
    ours.sendall(b"x" * 40)
    ours.settimeout(10)

    assert before is not None
    assert (ours.recv(1), heard(ours)) == (b"", Heard(before.acknowledged_bytes, closed=True))


def test_a_unix_socket_says_nothing_about_what_was_heard() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert heard(ours) is None
