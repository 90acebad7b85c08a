"""A connection to the engine that does not come about: whose failure it is, how soon it is told, and when service is back."""

import asyncio
import errno
import resource
import select
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from sidecar.proxy import pool
from sidecar.proxy.addresses import Address
from sidecar.proxy.errors import Failure, of_connecting
from sidecar.proxy.pool import EnginePool
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Clock
from tests.support.origin import Origin, Visit, answering
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"


def pool_to(host: str, port: int) -> EnginePool:
    return EnginePool(host, port, clock=Clock(), idle_seconds=3.0, max_headers=32, receive_buffer_bytes=65536)


class LateLoop:
    """A loop whose time limits are over before it looks at what the kernel has done meanwhile."""

    def __init__(self) -> None:
        self.missed = 0
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)

    async def getaddrinfo(self, host: str, port: int, **named: int) -> object:
        """The answer is there in the turn behind the time limit."""
        self.missed += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await self._loop.getaddrinfo(host, port, **named)

    def add_writer(self, sock: socket.socket, *_work: object) -> None:
        """The kernel has the connection, and this loop does not tell of it."""
        self.missed += 1
        assert select.select([], [sock], [], 30)[1]


def test_a_late_loop_is_not_charged_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It misses the look-up's answer and the connection, until no time is left: both are used, and there is no 504."""
    connected = pool._is_connected
    looks: list[bool] = []

    def not_yet(sock: socket.socket) -> bool:
        looks.append(len(looks) > 0 and connected(sock))
        return looks[-1]

    monkeypatch.setattr(pool, "_is_connected", not_yet)

    async def scenario() -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            late = LateLoop()
            engine = pool_to("127.0.0.1", listener.getsockname()[1])
            with await engine._connected_socket(late, 0.0) as sock:  # type: ignore[arg-type]  # what is asked of a loop
                assert sock.getpeername() == listener.getsockname()
            return late.missed

    assert (uvloop.run(scenario()), looks) == (2, [False, True])


def test_an_engine_that_accepts_nothing_is_out_of_time() -> None:
    """Its accept queue is full, by the kernel's own word."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
            engine = pool_to("127.0.0.1", listener.getsockname()[1])
            try:
                for _ in range(8):
                    await engine.connect(0.05)
            finally:
                engine.close()
                await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        uvloop.run(scenario())


def test_without_a_free_file_the_sidecar_blames_itself() -> None:
    """503 `no_files`, outcome `sidecar_error`; with a file again, the engine answers."""

    async def scenario() -> None:
        async with Origin(answering(OK)).listening() as origin, running(origin.port) as relay:
            client = await RawClient.connect(relay.port)
            second = await RawClient.connect(relay.port)
            client.send(GET)
            await client.until(b"ok")
            relay.sweep_in(4)
            while relay.pool.open_connections:  # noqa: ASYNC110  the kernel closes it
                await asyncio.sleep(0.001)
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as lowest:
                used = lowest.fileno()
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
            try:
                client.send(GET)
                answer, _ = await client.rest()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, before)
            assert b"\r\nx-sidecar-error: no_files\r\nretry-after: 1\r\n" in answer
            second.send(GET)
            assert await second.until(b"ok") == OK
            await client.close()
            await second.close()
            await relay.settled()
            assert relay.ends[1:] == [(Outcome.SIDECAR_ERROR, Failure.NO_FILES, None), (Outcome.OK, None, 200)]

    play(scenario())


async def begins(visit: Visit) -> None:
    await visit.request()
    visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await visit.until_left()


def test_an_engine_that_goes_away_and_comes_back() -> None:
    """Its streams are cut short; what comes is answered 503 at once; the first request after its return is served."""

    async def scenario() -> None:
        engine = Origin(begins)
        first_life = AsyncExitStack()
        await first_life.enter_async_context(engine.listening())
        async with running(engine.port) as relay:
            stream = await RawClient.connect(relay.port)
            stream.send(GET)
            await stream.until(b"hello")
            await first_life.aclose()
            streamed, _ = await stream.rest()
            assert streamed == b"\r\n"
            comes = await RawClient.connect(relay.port)
            comes.send(GET)
            assert (await comes.rest())[0].startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            engine.script = answering(OK)
            async with engine.listening():
                back = await RawClient.connect(relay.port)
                back.send(GET)
                assert await back.until(b"ok") == OK
                await back.close()
            await comes.close()
            await stream.close()
            await relay.settled()
            outcomes = [end[0] for end in relay.ends]
            assert outcomes == [Outcome.ENGINE_TRUNCATED, Outcome.ENGINE_UNREACHABLE, Outcome.OK]

    play(scenario())


def test_a_restart_of_the_engine_does_not_end_the_reuse_of_connections() -> None:
    """It closed connections that had idled for an instant: the limit fell to 0, until it refused one, and so restarts."""

    async def scenario() -> tuple[float, float]:
        engine = Origin(answering(OK))
        life = AsyncExitStack()
        await life.enter_async_context(engine.listening())
        async with running(engine.port) as relay:
            client = await RawClient.connect(relay.port)
            client.send(GET)
            await client.until(b"ok")
            await life.aclose()
            while relay.pool.open_connections:  # noqa: ASYNC110  the kernel tells it
                await asyncio.sleep(0.001)
            learned = relay.pool.idle_seconds
            client.send(GET)
            await client.rest()
            await client.close()
            return learned, relay.pool.idle_seconds

    learned, after = play(scenario())
    assert learned < after == 3.0


class SeveralAddresses(EnginePool):
    """A pool whose engine's name has these addresses of loopback; it writes down which are tried, and may have no files."""

    def __init__(self, port: int, *hosts: str, without_files: str = "") -> None:
        super().__init__("engine", port, clock=Clock(), idle_seconds=3.0, max_headers=32, receive_buffer_bytes=65536)
        self.hosts = hosts
        self.without_files = without_files
        self.tried: list[str] = []

    async def _addresses(self, loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> list[Address]:
        del loop, timeout_seconds
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, (host, self.port)) for host in self.hosts]

    async def _attempt(
        self, loop: asyncio.AbstractEventLoop, address: Address, timeout_seconds: float
    ) -> socket.socket:
        self.tried.append(address[3][0])
        if address[3][0] == self.without_files:
            raise OSError(errno.EMFILE, "no files")
        return await super()._attempt(loop, address, timeout_seconds)


@contextmanager
def silent(host: str, port: int) -> Iterator[None]:
    """An address that answers no connection: its accept queue is full, and stays so."""
    with socket.create_server((host, port), backlog=0), socket.socket() as one, socket.socket() as two:
        for filler in (one, two):
            filler.setblocking(False)
            filler.connect_ex((host, port))
        yield


def open_sockets() -> set[str]:
    """The sockets of this process, as the kernel names them."""
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself
            found.add(str(file.readlink()))
    return {name for name in found if name.startswith("socket:")}


def test_a_silent_address_costs_one_delay_and_then_is_tried_last() -> None:
    """The second request goes to the address that answers, at once; nothing stays open."""

    async def scenario() -> tuple[list[str], set[str]]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            engine = SeveralAddresses(port, "127.0.0.2", "127.0.0.1")
            before = open_sockets()
            with silent("127.0.0.2", port):
                for _ in range(2):
                    await engine.connect(5.0)
            engine.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return engine.tried, open_sockets() - before

    assert play(scenario()) == (["127.0.0.2", "127.0.0.1", "127.0.0.1"], set())


@pytest.mark.parametrize(
    ("without_files", "silence", "failure"),
    [
        ("", False, Failure.ENGINE_REFUSED),
        ("", True, Failure.ENGINE_CONNECT_TIMEOUT),
        ("127.0.0.2", False, Failure.NO_FILES),
    ],
)
def test_of_several_failures_our_own_comes_first_and_then_silence(
    without_files: str, silence: bool, failure: Failure
) -> None:
    """An address that could not even be tried says nothing about the engine; one that refuses has been heard before the others."""

    async def scenario() -> Failure:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        engine = SeveralAddresses(port, "127.0.0.2", "127.0.0.3", without_files=without_files)
        try:
            if silence:
                with silent("127.0.0.2", port):
                    await engine.connect(0.3)
            await engine.connect(0.3)
        except OSError as error:
            assert silence or engine.tried == ["127.0.0.2", "127.0.0.3"]
            return of_connecting(error)
        raise AssertionError

    assert play(scenario()) is failure
