"""Clients that leave unread: the kernel's word about real sockets, in order and without a clock."""

import asyncio
import itertools
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sidecar.proxy import server
from sidecar.proxy.leavers import MOST_AT_ONCE, Leavers
from sidecar.timeline.outcome import Outcome
from tests.support.origin import Origin, Visit
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


AGREED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
Peer = tuple[socket.socket, socket.socket]


@contextmanager
def listening() -> Iterator[Callable[[], Peer]]:
    """Makes TCP connections: (our end, the far end). All are closed at the end."""
    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def connection() -> Peer:
            theirs = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
            ends.extend((ours, theirs))
            return ours, theirs

        try:
            yield connection
        finally:
            for end in ends:
                end.close()


def closes(theirs: socket.socket) -> None:
    theirs.close()


def half_closes(theirs: socket.socket) -> None:
    theirs.shutdown(socket.SHUT_WR)


def resets(theirs: socket.socket) -> None:
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()


WAYS = pytest.mark.parametrize("leave", [closes, half_closes, resets])


class Told:
    """The names of the connections that were told of, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._more = asyncio.Event()

    def of(self, name: str) -> Callable[[], None]:
        def left() -> None:
            self.names.append(name)
            self._more.set()

        return left

    async def until(self, name: str) -> list[str]:
        while name not in self.names:
            self._more.clear()
            await self._more.wait()
        return self.names


@contextmanager
def watching() -> Iterator[Leavers]:
    leavers = Leavers()
    leavers.start()
    try:
        yield leavers
    finally:
        leavers.close()


@WAYS
@pytest.mark.parametrize("before", [False, True], ids=["after the pause", "before the pause"])
def test_a_client_that_leaves_behind_unread_bytes_is_told_of_once(
    leave: Callable[[socket.socket], None], *, before: bool
) -> None:
    """However it leaves, and also if it has left already; another one, which only speaks, is not told of."""

    async def scenario() -> list[str]:
        with listening() as connection, watching() as leavers:
            told = Told()
            (ours, theirs), (talker, talks), (last, ends) = connection(), connection(), connection()
            theirs.send(b"unread")
            if before:
                leave(theirs)
            leavers.watch(talker, told.of("talker"))
            leavers.watch(ours, told.of("leaver"))
            talks.send(b"unread")
            if not before:
                leave(theirs)
            await told.until("leaver")
            leavers.watch(last, told.of("last"))
            ends.close()
            return await told.until("last")

    assert play(scenario()) == ["leaver", "last"]


def test_a_client_that_half_closes_and_resets_is_told_of_once() -> None:
    """The kernel has a word for each of the two; the connection is over with the first."""

    async def scenario() -> list[str]:
        with listening() as connection, watching() as leavers:
            told = Told()
            (ours, theirs), (last, ends) = connection(), connection()
            leavers.watch(ours, told.of("leaver"))
            half_closes(theirs)
            await told.until("leaver")
            resets(theirs)
            leavers.watch(last, told.of("last"))
            ends.close()
            return await told.until("last")

    assert play(scenario()) == ["leaver", "last"]


def test_a_connection_that_is_read_again_is_not_told_of() -> None:
    """Its end comes by reading, as always."""

    async def scenario() -> list[str]:
        with listening() as connection, watching() as leavers:
            told = Told()
            (ours, theirs), (last, ends) = connection(), connection()
            leavers.unwatch(leavers.watch(ours, told.of("read again")))
            leavers.watch(last, told.of("last"))
            theirs.close()
            ends.close()
            return await told.until("last")

    assert play(scenario()) == ["last"]


@pytest.mark.parametrize("shared", [False, True], ids=["closed", "held open by another descriptor"])
def test_a_number_that_was_another_files_before_is_told_of_as_what_it_is_now(*, shared: bool) -> None:
    """The first connection's number goes to the second before the first one's end is known here.

    Nothing that becomes of the first one then, in the kernel or here, is taken for the second one's leaving or ends its
    watch; also if the kernel still has the first file under that number.
    """

    async def scenario() -> list[str]:
        with listening() as connection, watching() as leavers:
            told = Told()
            (first, leaves), (second, stays) = connection(), connection()
            watch = leavers.watch(first, told.of("first"))
            number = first.detach()
            kept = os.dup(number) if shared else None
            os.dup2(second.fileno(), number)  # closes the first connection's
            reused = socket.socket(fileno=number)
            leavers.watch(reused, told.of("second"))
            leavers.unwatch(watch)
            leaves.close()
            other, ends = connection()
            leavers.watch(other, told.of("other"))
            ends.close()
            await told.until("other")
            assert leavers._epoll is not None
            assert leavers._epoll.poll(0) == [], "the loop is woken for ever"
            stays.close()
            found = await told.until("second")
            reused.close()
            if kept is not None:
                os.close(kept)
            return found

    assert play(scenario()) == ["other", "second"]


def test_of_many_that_leave_at_once_each_is_told_of_and_others_have_their_turn() -> None:
    """A turn of the loop tells of a bounded number; the callbacks that wait meanwhile come in between."""

    async def scenario() -> tuple[int, list[int]]:
        with listening() as connection, watching() as leavers:
            told, loop = Told(), asyncio.get_running_loop()
            pairs = [connection() for _ in range(3 * MOST_AT_ONCE)]
            for number, (ours, _) in enumerate(pairs):
                leavers.watch(ours, told.of(str(number)))
            for _, theirs in pairs:
                theirs.close()
            counts: list[int] = []

            def count() -> None:
                counts.append(len(told.names))
                if len(told.names) < len(pairs):
                    loop.call_soon(count)

            count()
            for number in range(len(pairs)):
                await told.until(str(number))
            return len(told.names), counts

    total, counts = play(scenario())

    assert total == 3 * MOST_AT_ONCE
    assert max(after - before for before, after in itertools.pairwise(counts)) <= MOST_AT_ONCE


def test_before_its_start_and_after_its_end_nothing_is_watched() -> None:
    """A connection may outlive the watching; nothing is raised then."""

    async def scenario() -> list[str]:
        with listening() as connection:
            told, leavers = Told(), Leavers()
            ours, theirs = connection()
            leavers.unwatch(leavers.watch(ours, told.of("early")))
            leavers.start()
            watch = leavers.watch(ours, told.of("late"))
            leavers.close()
            leavers.unwatch(watch)
            theirs.close()
            await asyncio.sleep(0)
            leavers.close()
            return told.names

    assert play(scenario()) == []


async def says_nothing(visit: Visit) -> None:
    await visit.request()
    await visit.until_left()


@WAYS
@pytest.mark.parametrize("unread", [0, 500], ids=["all is read", "requests are unread"])
def test_a_request_ends_when_its_client_leaves_while_the_connection_is_not_read(
    leave: Callable[[socket.socket], None], unread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipelined requests fill the room for those that wait. No sweep of the time limits comes in this test."""
    monkeypatch.setattr(server, "SWEEP_SECONDS", 3600.0)

    async def scenario() -> list[Outcome]:
        async with Origin(says_nothing).listening() as origin, running(origin.port) as relay:
            client = socket.create_connection(("127.0.0.1", relay.port))
            client.sendall(GET * 70)
            while not any(connection.reading_paused for connection in relay.traffic._connections):  # noqa: ASYNC110  a test may look often
                await asyncio.sleep(0.005)
            client.sendall(GET * unread)
            leave(client)
            await relay.settled()
            client.close()
            return [end[0] for end in relay.ends]

    assert play(scenario()) == [Outcome.CLIENT_CANCELLED]


def test_the_last_bytes_of_a_tunnel_reach_an_engine_that_reads_them_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client has closed behind them, and the relay was told; a request whose client left later has ended meanwhile.

    No sweep gives the connection up after some seconds: a slow machine may need longer.
    """
    monkeypatch.setattr(server, "SWEEP_SECONDS", 3600.0)
    go, read, got = asyncio.Event(), asyncio.Event(), 0

    async def script(visit: Visit) -> None:
        nonlocal got
        if b"/ws" not in await visit.head():
            await visit.until_left()
            return
        visit.send(AGREED)
        await go.wait()
        while data := await visit.reader.read(1 << 20):
            got += len(data)
        read.set()

    async def scenario() -> int:
        async with Origin(script).listening() as origin, running(origin.port) as relay:
            talker = await RawClient.connect(relay.port)
            talker.send(b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert await talker.until(b"\r\n\r\n") == AGREED
            sent = 0
            (tunnel,) = relay.traffic._connections
            while not tunnel.reading_paused:
                talker.send(b"x" * 65536)
                sent += 65536
                await asyncio.sleep(0.002)
            await talker.close()
            other = socket.create_connection(("127.0.0.1", relay.port))
            other.sendall(GET * 70)
            while [each.reading_paused for each in relay.traffic._connections] != [True] * 2:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.005)
            other.close()
            while not relay.ends:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.005)
            assert [end[0] for end in relay.ends] == [Outcome.CLIENT_CANCELLED]
            go.set()
            await relay.settled()
            await read.wait()  # the relay has written all; the engine may still be reading
            return sent

    assert play(scenario()) == got > 0
