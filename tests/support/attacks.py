"""Attacks on the sidecar's resources, by legal or half-legal requests: many clients that each hold a little.

`ATTACKS` names those that were found against it (S1 to S4 of the findings, and drips), `OVERLOADS` goes to twice each budget. All run
in the test's event loop against one port of loopback; `Flock` holds their sockets. They judge nothing.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple


CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\n"
OPENED_AT_ONCE = 200
SLOW = b"/slow"
"""A path on which the test's engine never answers."""
WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
)


class Flock:
    """The connections of one attacker."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []
        self.refused = 0
        """Connections that could not be opened, or that were closed while something was sent."""

    async def open(self, count: int, first: bytes = b"") -> list[socket.socket]:
        """Open so many connections; `first` is sent on each."""
        gate = asyncio.Semaphore(OPENED_AT_ONCE)

        async def one() -> socket.socket | None:
            async with gate:
                sock = socket.socket()
                sock.setblocking(False)
                self._sockets.append(sock)
                try:
                    async with asyncio.timeout(10):
                        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
                except OSError:
                    self.refused += 1
                    return None
                if first:
                    await self.send(sock, first)
                return sock

        return [sock for sock in await asyncio.gather(*(one() for _ in range(count))) if sock is not None]

    async def send(self, sock: socket.socket, data: bytes, *, patience_seconds: float = 5.0) -> bool:
        """Send bytes; False if the other side has closed or takes no more."""
        try:
            async with asyncio.timeout(patience_seconds):
                await asyncio.get_running_loop().sock_sendall(sock, data)
        except OSError:
            self.refused += 1
            return False
        return True

    async def send_all(self, socks: list[socket.socket], data: bytes) -> None:
        """Send the same bytes on each, side by side."""
        await asyncio.gather(*(self.send(sock, data) for sock in socks))

    async def forever(self, socks: list[socket.socket], data: bytes) -> None:
        """Send the same bytes on each again and again, until cancelled or refused."""

        async def one(sock: socket.socket) -> None:
            while await self.send(sock, data, patience_seconds=60):  # noqa: ASYNC110  every socket has its turn
                await asyncio.sleep(0)

        await asyncio.gather(*(one(sock) for sock in socks))

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


@asynccontextmanager
async def flock(port: int) -> AsyncIterator[Flock]:
    """A flock whose connections end with the block."""
    attackers = Flock(port)
    try:
        yield attackers
    finally:
        attackers.close()


class Attack(NamedTuple):
    """One attack. `run` returns when everything is in place; what it has opened stays so."""

    about: str
    run: Callable[[Flock, Mapping[str, int]], Awaitable[None]]
    """Takes the limits of the budgets, by label."""


async def tiny_chunks(attackers: Flock, _limits: Mapping[str, int]) -> None:
    socks = await attackers.open(4, CHAT + b"Transfer-Encoding: chunked\r\n\r\n")
    with suppress(TimeoutError):
        async with asyncio.timeout(5):
            await attackers.forever(socks, b"2\r\naa\r\n" * 512)


async def held_tiny_chunks(attackers: Flock, _limits: Mapping[str, int]) -> None:
    socks = await attackers.open(40, CHAT + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(110):
        await attackers.send_all(socks, b"5\r\naaaaa\r\n" * 950)


async def held_bodies(attackers: Flock, _limits: Mapping[str, int]) -> None:
    body = b'{"a":"' + b"x" * ((1 << 20) - 16)
    socks = await attackers.open(1000, CHAT + b"Content-Length: 1048576\r\n\r\n")
    for start in range(0, len(socks), 50):
        await attackers.send_all(socks[start : start + 50], body)


async def heads_without_bodies(attackers: Flock, limits: Mapping[str, int]) -> None:
    count = limits["uploads"] + 100
    await attackers.open(count, CHAT + b"Content-Length: 10\r\n\r\n")
    await attackers.open(count, b"POST /other HTTP/1.1\r\nHost: pod\r\nContent-Length: 10\r\n\r\n")


async def dripping_uploads(attackers: Flock, limits: Mapping[str, int]) -> None:
    """A byte on each every half second, for some seconds; one that is thrown out is opened again."""
    head = CHAT + b"Content-Length: 100000\r\n\r\n"
    socks = await attackers.open(limits["uploads"] + 2, head)
    for _ in range(16):
        took = await asyncio.gather(*(attackers.send(sock, b"x") for sock in socks))
        socks = [sock for sock, ok in zip(socks, took, strict=True) if ok]
        socks += await attackers.open(limits["uploads"] + 2 - len(socks), head)
        await asyncio.sleep(0.5)


async def idle_connections(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(limits["connections"] + 500)


ATTACKS = {
    "S1": Attack("four connections loop a chunked body of two-byte chunks", tiny_chunks),
    "S2, small pieces": Attack("40 connections hold a body each that came in small chunks", held_tiny_chunks),
    "S2, large bodies": Attack("1,000 connections hold an unfinished body of 1 MiB each", held_bodies),
    "S3": Attack("more heads with a Content-Length and no body than there are places", heads_without_bodies),
    "drips": Attack("more uploads than there are places, each a byte every half second", dripping_uploads),
    "S4": Attack("more idle connections than the process takes", idle_connections),
}


async def twice_the_connections(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(2 * limits["connections"])


async def twice_the_uploads(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(2 * limits["uploads"], CHAT + b"Content-Length: 100000\r\n\r\n" + b"x" * 50_000)


async def twice_the_held_bytes(attackers: Flock, limits: Mapping[str, int]) -> None:
    size = (1 << 20) - 64
    count = 2 * limits["held_bytes"] // size
    socks = await attackers.open(count, CHAT + b"Content-Length: 1048576\r\n\r\n")
    for start in range(0, len(socks), 50):
        await attackers.send_all(socks[start : start + 50], b"x" * size)


async def unfinished_heads(attackers: Flock, limits: Mapping[str, int]) -> None:
    head = b"GET / HTTP/1.1\r\nHost: pod\r\n" + b"x: %b\r\n" % (b"a" * 500) * 110
    await attackers.open(2 * limits["held_bytes"] // len(head), head)


async def small_fields(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(min(4000, limits["connections"]), b"GET / HTTP/1.1\r\nHost: pod\r\n" + b"a:b\r\n" * 12_000)


async def pipelines(attackers: Flock, limits: Mapping[str, int]) -> None:
    request = b"GET %b HTTP/1.1\r\nHost: pod\r\n\r\n" % SLOW
    await attackers.open(2 * limits["requests"], request * 2000)


async def twice_the_requests(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(2 * limits["requests"], b"GET %b HTTP/1.1\r\nHost: pod\r\n\r\n" % SLOW)


async def slow_readers(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(limits["requests"], b"GET /large HTTP/1.1\r\nHost: pod\r\n\r\n")


async def twice_the_tunnels(attackers: Flock, limits: Mapping[str, int]) -> None:
    await attackers.open(2 * limits["tunnels"], WEBSOCKET)


OVERLOADS = {
    "connections": Attack("idle connections", twice_the_connections),
    "uploads": Attack("uploads of which half has come", twice_the_uploads),
    "held_bytes": Attack("bodies of nearly 1 MiB, never complete", twice_the_held_bytes),
    "heads": Attack("heads of 56 KB, never complete", unfinished_heads),
    "small fields": Attack("heads of 12,000 fields", small_fields),
    "pipelines": Attack("2,000 requests behind one that is never answered, on each connection", pipelines),
    "requests": Attack("requests that are never answered", twice_the_requests),
    "slow readers": Attack("as many clients as places, none of which reads its answer of 1 MiB", slow_readers),
    "tunnels": Attack("websockets", twice_the_tunnels),
}
"""Twice each budget."""
