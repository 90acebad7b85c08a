"""The turns of connections that are read by uvloop itself, from real sockets."""

import asyncio
import socket
from collections import Counter

import pytest

from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Observer
from sidecar.proxy.read_limit import MOST_FED_BYTES, TURN_BYTES, Turns
from sidecar.proxy.unobserved import Unobserved
from sidecar.proxy.upload import Upload
from sidecar.timeline.outcome import Outcome
from tests.support.origin import Origin, Visit, answering
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.reaches_in
def test_uvloop_reads_a_stranger_between_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have sent before the loop polls: the second client's head is read before the other's third 64 KiB."""
    read: list[int | str] = []
    body = Upload.body

    def noted(upload: Upload, data: bytes) -> None:
        read.append(len(data))
        body(upload, data)

    def observe(head: RequestHead) -> Observer:
        read.append(head.method.decode())
        return Unobserved()

    monkeypatch.setattr(Upload, "body", noted)

    async def scenario() -> None:
        async with Origin(answering(OK)).listening() as origin, running(origin.port, observe=observe) as relay:
            large, stranger = await RawClient.connect(relay.port), await RawClient.connect(relay.port)
            large.send(POST % 10_000_000)
            while relay.pool.open_connections == 0:  # noqa: ASYNC110  until the upload goes on as it comes
                await asyncio.sleep(0.001)
            large.send(b"x" * 1_000_000)  # the kernel takes as much of it as it has room for
            stranger.send(GET)
            await stranger.until(b"ok")
            large.leave()
            await stranger.close()

    play(scenario())
    second = read.index("GET")
    assert sum(what for what in read[:second] if isinstance(what, int)) <= 2 * TURN_BYTES
    assert max(what for what in read if isinstance(what, int)) <= MOST_FED_BYTES
    assert len(read) > second + 3


@pytest.mark.reaches_in
def test_no_turn_of_uvloop_reads_more_of_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread sends 16 MiB as fast as the kernel takes them; libuv alone would read 8 MB of them in one turn."""
    size, turn = 16 << 20, 0
    read: Counter[int] = Counter()
    body = Upload.body

    def noted(upload: Upload, data: bytes) -> None:
        read[turn] += len(data)
        body(upload, data)

    monkeypatch.setattr(Upload, "body", noted)

    async def listens(visit: Visit) -> None:
        await visit.head()
        await visit.until_left()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with Origin(listens).listening() as origin, running(origin.port) as relay:
            counting = asyncio.create_task(count_turns())
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                await asyncio.to_thread(client.sendall, POST % size + b"x" * size)
                while read.total() < size:  # noqa: ASYNC110  what the kernel still holds
                    await asyncio.sleep(0.001)
            await relay.settled()
            counting.cancel()

    play(scenario())
    assert max(read.values()) <= 65536


def test_a_client_whose_leaving_waits_for_a_turn_is_settled_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn of the loop has time left when it closes: uvloop keeps its connection open until its turn, and not longer."""
    busy = property(lambda _turns: True, lambda _turns, _value: None)
    monkeypatch.setattr(Turns, "busy", busy, raising=False)
    left_open: list[int] = []

    async def streams(visit: Visit) -> None:
        await visit.head()
        visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n")
        await visit.until_left()

    async def scenario() -> list[Outcome]:
        async with Origin(streams).listening() as origin, running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(GET)
            await client.until(b"token")
            client.leave()
            await relay.settled()
            while relay.traffic.open_connections:  # noqa: ASYNC110  uvloop tells of the end in a later turn
                await asyncio.sleep(0.001)
            left_open.append(relay.pool.open_connections)
            return [outcome for outcome, _, _ in relay.ends]

    assert play(scenario()) == [Outcome.CLIENT_CANCELLED]
    assert left_open == [0]
