"""However many connections a client holds at the admin listener, a newcomer is served, and few files are held."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from sidecar.admin import connections
from sidecar.admin.connections import MOST_CONNECTIONS, Runner
from sidecar.admin.listener import AdminListener
from sidecar.budgets.budgets import KEPT_FILES
from sidecar.shutdown import Drained
from tests.support.admin import Double, metrics


PROBE = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
DRAIN = b"POST /-/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def play(scenario: Callable[[AdminListener, Callable[[bytes], Awaitable[Stream]]], Awaitable[None]]) -> None:
    async def whole() -> None:
        registry = metrics()
        admin = AdminListener(Double(registry), registry, asyncio.get_running_loop().time)
        ((_, port),) = await admin.start("127.0.0.1", 0)
        opened: list[Stream] = []

        async def connect(told: bytes) -> Stream:
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            opened[-1][1].write(told)
            return opened[-1]

        try:
            await scenario(admin, connect)
        finally:
            for _, writer in opened:
                writer.close()
            await admin.stop()

    uvloop.run(whole())


async def left(reader: asyncio.StreamReader) -> bool:
    """Whether the connection has ended without an answer, by FIN or RST."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


def test_a_probe_is_answered_while_a_client_holds_every_place_and_the_oldest_make_way() -> None:
    """With silence, or with a head that never ends: both would be held for more than a minute."""

    async def scenario(_admin: AdminListener, connect: Callable[[bytes], Awaitable[Stream]]) -> None:
        hogs = [
            await connect(b"" if n % 2 else b"GET /metrics HTTP/1.1\r\nX-Slow: ") for n in range(2 * MOST_CONNECTIONS)
        ]
        probe, _ = await connect(PROBE)

        assert (await probe.readline()).startswith(b"HTTP/1.1 200 ")
        ended = hogs[: MOST_CONNECTIONS + 1]
        assert [await left(reader) for reader, _ in ended] == [True] * len(ended)
        assert not any(reader.at_eof() for reader, _ in hogs[len(ended) :])

    play(scenario)


def test_an_answer_that_is_under_way_is_the_last_to_make_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(admin: AdminListener, connect: Callable[[bytes], Awaitable[Stream]]) -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> list[str]:
            began.set()
            await go_on.wait()
            return []

        monkeypatch.setattr(admin._app, "reload", slow)
        asked, _ = await connect(
            b"POST /-/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        )
        await began.wait()
        for _ in range(2 * MOST_CONNECTIONS):
            reader, _ = await connect(PROBE)
            await reader.readline()
        go_on.set()

        assert (await asked.read()).endswith(b"Reloaded.\n")

    play(scenario)


def test_requests_whose_answers_never_end_hold_no_more_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(admin: AdminListener, connect: Callable[[bytes], Awaitable[Stream]]) -> None:
        async def never() -> list[str]:
            await asyncio.Event().wait()
            return []

        monkeypatch.setattr(admin._app, "reload", never)
        monkeypatch.setattr(connections, "is_loopback", lambda _: False)
        for _ in range(2 * MOST_CONNECTIONS):
            await connect(b"POST /-/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        probe, _ = await connect(PROBE)

        assert (await probe.readline()).startswith(b"HTTP/1.1 200 ")
        assert admin._runner is not None
        server = super(Runner, admin._runner).server
        assert server is not None
        assert len(server.connections) <= MOST_CONNECTIONS

    play(scenario)


def test_a_hook_of_this_pod_keeps_its_answer_whatever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for /-/drain, and the engine stops when it ends: its connection must not be cut by a flood from outside."""

    async def scenario(admin: AdminListener, connect: Callable[[bytes], Awaitable[Stream]]) -> None:
        begun, go_on = asyncio.Queue[None](), asyncio.Event()

        async def slow() -> Drained:
            begun.put_nowait(None)
            await go_on.wait()
            return Drained(drained=True, in_flight=0, waited_seconds=1.0)

        monkeypatch.setattr(admin._app, "drain", slow)
        waiting = []
        for _ in range(MOST_CONNECTIONS + 1):
            waiting.append(await connect(DRAIN))
            await begun.get()
        probe, _ = await connect(PROBE)
        await probe.readline()
        go_on.set()

        assert {(await reader.readline()) for reader, _ in waiting} == {b"HTTP/1.1 200 OK\r\n"}

    play(scenario)


def test_room_is_left_for_the_other_files() -> None:
    assert 8 < MOST_CONNECTIONS < KEPT_FILES - 8
