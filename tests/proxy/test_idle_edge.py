"""The idle edge on real sockets: a request is sent once more if, and only if, the kernel proves that the engine never had it.

The far end does its part in the very moment between the relay's last look at the idle connection and the writing of the
request, so that every race is played on purpose, fifty times each.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from sidecar.proxy import server
from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.tcp import Heard
from sidecar.timeline.outcome import Outcome
from tests.support.proxy import RawClient, Relay, running
from tests.support.scenario_loop import play


TIMES = 50
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%b"}]}'
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b"


@pytest.fixture(autouse=True)
def _sweeps_come_from_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sweep behind a request forgets it: on a slow machine the server's own would come in the middle of a story."""
    monkeypatch.setattr(server, "SWEEP_SECONDS", 3600.0)


def post(number: int, size: int = 10) -> bytes:
    body = BODY % (b"%d " % number + b"x" * size)
    return POST % (len(body), body)


class Engine:
    """A listening engine in the test's hands: it accepts, takes and answers when it is told to."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.here: socket.socket | None = None

    async def accept(self) -> None:
        self.here, _ = await asyncio.get_running_loop().sock_accept(self.listener)
        self.here.setblocking(False)

    async def take(self, size: int) -> bytes:
        """Read exactly so many bytes, or what there is before the end."""
        assert self.here is not None
        found = b""
        while len(found) < size and (more := await asyncio.get_running_loop().sock_recv(self.here, size - len(found))):
            found += more
        return found

    async def answer(self) -> None:
        assert self.here is not None
        await asyncio.get_running_loop().sock_sendall(self.here, OK)

    def close(self) -> None:
        here, self.here = self.here, None
        if here is not None:
            here.close()

    def reset(self) -> None:
        assert self.here is not None
        self.here.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def stop_sending(self) -> None:
        assert self.here is not None
        self.here.shutdown(socket.SHUT_WR)


def before_the_request(relay: Relay, happens: Callable[[], None]) -> None:
    """`happens` is called once, after an idle connection was found quiet and before the request is written to it."""
    take = relay.pool.take

    def taken() -> EngineConnection | None:
        found = take()
        if found is not None:
            relay.pool.__dict__.pop("take")  # the class's own again
            happens()
        return found

    relay.pool.__dict__["take"] = taken  # a moment that no hook shows


async def served_anew(engine: Engine, client: RawClient, request: bytes) -> None:
    """The engine gets the whole request on a new connection, and the client gets the engine's answer."""
    await engine.accept()
    assert await engine.take(len(request)) == request
    await engine.answer()
    assert await client.until(b"ok") == OK


Play = Callable[[Engine, Relay, RawClient, bytes], Awaitable[None]]


def played(story: Play, size: int = 10) -> tuple[list[Outcome], list[Failure | None], int]:
    """(outcomes, failures, requests sent twice) of the second requests of TIMES pairs on one connection each."""
    ends = []
    resent = 0

    async def scenario() -> None:
        nonlocal resent
        engine = Engine()
        try:
            async with running(engine.port, look_in_bytes=8 << 20) as relay:
                for number in range(TIMES):
                    relay.pool.keep_for(3.0)  # what it has learned from the close before would end the reuse
                    client = await RawClient.connect(relay.port)
                    client.send(post(number))
                    await engine.accept()
                    await engine.take(len(post(number)))
                    await engine.answer()
                    await client.until(b"ok")
                    await story(engine, relay, client, post(TIMES + number, size))
                    engine.close()
                    await client.close()
                    await relay.settled()
                ends.extend(relay.ends[1::2])
                resent = relay.resent
        finally:
            engine.close()
            engine.listener.close()

    play(scenario())
    return [end[0] for end in ends], [end[1] for end in ends], resent


def sweeps(relay: Relay) -> None:
    """More sweeps than a request on its way is kept for."""
    for _ in range(3):
        relay.traffic.sweep(relay.road.clock())


SENT_AGAIN = ([Outcome.OK] * TIMES, [None] * TIMES, TIMES)
NOT_AGAIN = ([Outcome.ENGINE_UNREACHABLE] * TIMES, [Failure.ENGINE_CLOSED] * TIMES, 0)


@pytest.mark.parametrize("size", [10, 20_000, 3_000_000], ids=["small", "some packets", "more than a socket takes"])
def test_an_engine_that_had_closed_before_gets_the_request_once_more(size: int) -> None:
    """The end came first and no byte was acknowledged: the client gets its answer, and the engine the same bytes once."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        before_the_request(relay, engine.close)
        client.send(request)
        await served_anew(engine, client, request)

    assert played(story, size) == SENT_AGAIN


def test_the_request_is_kept_while_its_new_connection_is_made() -> None:
    """That may take a name's look-up or a lost packet: many sweeps pass, and the engine gets every byte all the same."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        connect = relay.pool.connect

        async def late(timeout_seconds: float) -> EngineConnection:
            relay.pool.__dict__.pop("connect")
            sweeps(relay)
            return await connect(timeout_seconds)

        def closed() -> None:
            engine.close()
            relay.pool.__dict__["connect"] = late

        before_the_request(relay, closed)
        client.send(request)
        await served_anew(engine, client, request)

    assert played(story) == SENT_AGAIN


def test_the_request_is_kept_while_the_proof_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's reset may come after its end, and sweeps in between."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        def undecided(_sock: socket.socket) -> Heard:
            monkeypatch.undo()
            sweeps(relay)
            return Heard(0, closed=False)

        def closed() -> None:
            engine.close()
            monkeypatch.setattr("sidecar.proxy.idle_edge.heard", undecided)

        before_the_request(relay, closed)
        client.send(request)
        await served_anew(engine, client, request)

    assert played(story) == SENT_AGAIN


def test_sweeps_before_the_request_is_sent_do_not_count() -> None:
    """A body that took its time is as safe as any other: here one sweep comes between the sending and the engine's end."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        def closed() -> None:
            engine.close()
            asyncio.get_running_loop().call_soon(relay.traffic.sweep, relay.road.clock())

        before_the_request(relay, closed)
        begun = len(relay.recordings)
        client.send(request[:-5])
        while len(relay.recordings) == begun:  # noqa: ASYNC110  a test may look often
            await asyncio.sleep(0)
        sweeps(relay)
        client.send(request[-5:])
        await served_anew(engine, client, request)

    assert played(story) == SENT_AGAIN


def test_an_engine_that_has_read_the_request_and_closes_does_not_get_it_again() -> None:
    """Its kernel acknowledged: it may work on it."""

    async def story(engine: Engine, _relay: Relay, client: RawClient, request: bytes) -> None:
        client.send(request)
        assert await engine.take(len(request)) == request
        engine.close()
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 502 ")

    assert played(story) == NOT_AGAIN


def test_an_engine_that_dies_with_the_request_unread_does_not_get_it_again() -> None:
    """A reset says that bytes came, and not how many of them were read."""

    async def story(engine: Engine, _relay: Relay, client: RawClient, request: bytes) -> None:
        client.send(request)
        assert engine.here is not None
        while True:
            try:
                assert engine.here.recv(1, socket.MSG_PEEK)
                break
            except BlockingIOError:
                await asyncio.sleep(0)
        engine.close()
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 502 ")

    assert played(story) == NOT_AGAIN


def test_after_a_reset_nothing_is_sent_again() -> None:
    """Even one that came before the request: a reset does not say when its sender stopped reading."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        before_the_request(relay, engine.reset)
        client.send(request)
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 502 ")

    assert played(story) == NOT_AGAIN


@pytest.mark.long
def test_an_engine_that_only_stopped_sending_may_read_on_and_does_not_get_it_again() -> None:
    """Its end came first, as if it had closed, but its kernel takes the request: the acknowledgement comes later."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        before_the_request(relay, engine.stop_sending)
        client.send(request)
        assert await engine.take(len(request)) == request
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 502 ")

    assert played(story) == NOT_AGAIN


def test_a_request_is_sent_twice_at_most() -> None:
    """The new connection is no idle one: if it too is closed without an answer, nothing proves what the engine had."""

    async def story(engine: Engine, relay: Relay, client: RawClient, request: bytes) -> None:
        before_the_request(relay, engine.close)
        client.send(request)
        await engine.accept()
        engine.close()
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 502 ")

    assert played(story) == (*NOT_AGAIN[:2], TIMES)
