"""Which idle connection may carry a request: the kernel is asked at the last moment, as a POST is never sent twice."""

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.pool import LAST_BYTES_SECONDS, EnginePool
from tests.support.memory import Clock, Road


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def take_after(happens: Callable[[socket.socket], None]) -> EngineConnection | None:
    """Put a real connection into a pool, run `happens` at its far end, and take one before the loop runs again."""

    async def scenario() -> EngineConnection | None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            pool = EnginePool(
                "127.0.0.1", port, clock=Clock(), idle_seconds=3.0, max_headers=32, receive_buffer_bytes=65536
            )
            connection = await pool.connect(2.0)
            engine, _ = listener.accept()
            pool.put(connection)
            with engine:
                happens(engine)
                taken = pool.take()
            pool.close()
            await asyncio.sleep(0)
            return taken

    return uvloop.run(scenario())


def close_with_a_reset(engine: socket.socket) -> None:
    engine.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    engine.close()


def test_a_quiet_connection_is_taken() -> None:
    """This is the control case: nothing happened."""
    assert take_after(lambda _engine: None) is not None


@pytest.mark.parametrize(
    "happens",
    [
        socket.socket.close,
        close_with_a_reset,
        lambda engine: engine.shutdown(socket.SHUT_WR),
        lambda engine: engine.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
    ],
    ids=["closed", "reset", "half-closed", "spoke-unasked"],
)
def test_a_connection_that_is_closing_or_has_spoken_is_not_taken(happens: Callable[[socket.socket], None]) -> None:
    """The event loop has not seen it, but the kernel has: the request uses a new connection, and is no 502."""
    assert take_after(happens) is None


class Connected(EnginePool):
    """A pool with sockets that are already connected, so that `connect` takes a known number of turns of the loop."""

    async def _connected_socket(self, loop: asyncio.AbstractEventLoop, timeout_seconds: float) -> socket.socket:
        del loop, timeout_seconds
        ours, self.engine = socket.socketpair()
        return ours


def test_a_connect_without_a_waiting_request_leaves_nothing_open() -> None:
    """The client leaves in the very turn in which the connection is made: in no turn may it stay half open."""

    async def scenario() -> list[tuple[int, bytes]]:
        left = []
        for turns in range(6):
            pool = Connected("x", 1, clock=Clock(), idle_seconds=3.0, max_headers=32, receive_buffer_bytes=65536)
            connecting = asyncio.create_task(pool.connect(2.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            if not connecting.cancelled():
                connecting.result().abort()
            for _ in range(4):
                await asyncio.sleep(0)
            if hasattr(pool, "engine"):
                with pool.engine as engine:
                    left.append((pool.open_connections, engine.recv(1)))
        return left

    assert set(uvloop.run(scenario())) == {(0, b"")}


def test_the_newest_idle_connection_is_taken_first() -> None:
    """The older ones then age and are closed: the connections of a burst do not live for ever."""
    road = Road()
    first, second = road.client(), road.client()

    first.send(GET)
    older = road.engine
    second.send(GET)
    newer = road.engine
    older.send(OK)
    road.clock.later(1)
    newer.send(OK)
    first.send(GET)
    road.clock.later(2.5)
    road.traffic.sweep(road.clock.now)

    assert newer.taken == GET + GET
    assert older.lost
    assert not newer.lost


def test_an_engine_that_does_not_take_a_tunnels_last_bytes_is_left_all_the_same() -> None:
    """The client has left: its bytes get some seconds, and then the connection holds no file any more."""
    road = Road()
    client = road.client()
    client.send(b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    road.engine.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    road.engine.room = 0
    client.send(b"the last words")

    client.lose()
    road.traffic.sweep(road.clock.later(LAST_BYTES_SECONDS))
    assert not road.engine.lost
    road.traffic.sweep(road.clock.later(0.1))

    assert road.engine.reset
    assert road.pool.open_connections == 0


def test_a_pool_that_keeps_none_keeps_none() -> None:
    """`engine.pool_idle_seconds: 0` means a connection per request."""
    road = Road()
    road.pool.keep_for(0)
    client = road.client()

    for _ in range(3):
        client.send(GET)
        road.engine.send(OK)
        road.clock.later(0.001)

    assert len(road.pool.sockets) == 3
