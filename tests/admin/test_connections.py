"""However many connections a client holds at the admin listener, a newcomer is served, and few files are held."""

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from sidecar.admin import connections
from sidecar.admin.access import Access
from sidecar.admin.connections import MOST_CONNECTIONS
from sidecar.admin.listener import AdminListener
from sidecar.budgets.budgets import KEPT_FILES
from sidecar.shutdown import Drained
from tests.support.admin import Double, metrics
from tests.support.certificates import Authority


PROBE = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
DRAIN = b"POST /-/drain HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00"
"""The first bytes of a TLS ClientHello of 512 bytes."""


def play(scenario: Callable[[AdminListener, Callable[..., Awaitable[Stream]]], Awaitable[None]], web: str = "") -> None:
    """`web`: the path of a web config. `connect(told, tls)`: a connection on which `told` is sent."""

    async def whole() -> None:
        registry, clock = metrics(), asyncio.get_running_loop().time
        admin = AdminListener(Double(registry), registry, clock, access=Access(web, registry, clock))
        ((_, port),) = await admin.start("127.0.0.1", 0)
        opened: list[Stream] = []

        async def connect(told: bytes, tls: ssl.SSLContext | None = None) -> Stream:
            opened.append(await asyncio.open_connection("127.0.0.1", port, ssl=tls))
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

    async def scenario(_admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
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
    async def scenario(admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
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
    async def scenario(admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
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
        assert admin._runner.held <= MOST_CONNECTIONS

    play(scenario)


def test_a_hook_of_this_pod_keeps_its_answer_whatever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for /-/drain, and the engine stops when it ends: its connection must not be cut by a flood from outside."""

    async def scenario(admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
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


# --- handshakes of TLS -----------------------------------------------------------------------------------------------------


def with_tls(folder: Path) -> tuple[str, ssl.SSLContext]:
    """A web config with TLS, and a client's context for it."""
    authority, file = Authority(folder), folder / "web.yml"
    file.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}")
    return str(file), authority.client()


def test_handshakes_that_do_not_go_on_hold_no_more_than_that_and_keep_no_probe_out(tmp_path: Path) -> None:
    """With silence, or with the beginning of a ClientHello. The oldest make way, and a probe's handshake is done in its turn."""
    web, tls = with_tls(tmp_path)

    async def scenario(admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
        hogs = [await connect(b"" if n % 2 else HELLO_BEGINS) for n in range(2 * MOST_CONNECTIONS)]
        probe, _ = await connect(PROBE, tls)

        assert (await probe.readline()).startswith(b"HTTP/1.1 200 ")
        assert admin._runner is not None
        assert admin._runner.held <= MOST_CONNECTIONS
        ended = hogs[: MOST_CONNECTIONS + 1]
        assert [await left(reader) for reader, _ in ended] == [True] * len(ended)
        assert not any(reader.at_eof() for reader, _ in hogs[len(ended) :])

    play(scenario, web)


def test_connections_past_their_handshake_and_before_it_share_the_places(tmp_path: Path) -> None:
    web, tls = with_tls(tmp_path)

    async def scenario(admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
        shaken = [await connect(PROBE, tls) for _ in range(MOST_CONNECTIONS)]
        for reader, _ in shaken:
            await reader.readline()
        for _ in range(MOST_CONNECTIONS):
            await connect(HELLO_BEGINS)
        probe, _ = await connect(PROBE, tls)

        assert (await probe.readline()).startswith(b"HTTP/1.1 200 ")
        assert admin._runner is not None
        assert admin._runner.held <= MOST_CONNECTIONS
        for reader, _ in shaken:
            while await reader.readline():
                pass

    play(scenario, web)


def test_a_handshake_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.01)
    web, _ = with_tls(tmp_path)

    async def scenario(_admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
        silent, _ = await connect(b"")
        assert await left(silent)

    play(scenario, web)


def test_the_listener_stops_without_waiting_for_handshakes(tmp_path: Path) -> None:
    web, tls = with_tls(tmp_path)

    async def scenario(admin: AdminListener, connect: Callable[..., Awaitable[Stream]]) -> None:
        silent, _ = await connect(b"")
        probe, _ = await connect(PROBE, tls)
        await probe.readline()
        await admin.stop()
        assert await left(silent)

    play(scenario, web)


class Unlucky(asyncio.Transport):
    """A connection that was accepted with the last file."""

    ended = False

    def get_extra_info(self, _name: str, _default: object = None) -> "Unlucky":
        return self

    def dup(self) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    def abort(self) -> None:
        self.ended = True


def test_a_newcomer_is_let_go_at_once_when_no_second_file_is_left() -> None:
    """For a moment each needs two, and its client may try again."""
    taken: list[object] = []
    unlucky = Unlucky()

    connections._Arrival(taken.append).connection_made(unlucky)

    assert (unlucky.ended, taken) == (True, [])


def test_room_is_left_for_the_other_files() -> None:
    assert 8 < MOST_CONNECTIONS < KEPT_FILES - 8
