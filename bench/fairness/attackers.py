"""The process of the attackers: `PORT COUNT NAME` on standard input begins an attack, an empty line ends it.

Each of the COUNT connections sends what the writer of this name says, throws the answers away, and begins anew when it is
closed. It prints a line when an attack has begun, and one when it has ended. It ends with its standard input.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

import uvloop

from bench.fairness.answers import ANSWERS, NDJSON
from bench.fairness.clients import CLIENTS
from bench.fairness.engine import HOSTILE
from bench.fairness.spans import SPANS
from bench.fairness.step import RESET, Step, Writer


PAUSE_SECONDS = 0.002
"""Behind a connection that was refused or reset."""


def asking(name: str) -> Writer:
    """A client that asks for a hostile answer, and reads it."""
    path = b"/api/generate" if next(ANSWERS[name]()) == NDJSON else b"/v1/completions"
    body = b'{"model":"bench","stream":true,%b%b"}' % (HOSTILE, name.encode())
    head = b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    def ask() -> Iterator[Step]:
        yield head % (path, len(body)) + body
        yield 3600.0

    return ask


async def attack(port: int, writer: Writer) -> None:
    """One hostile connection after the other."""
    while True:
        with socket.socket() as sock, suppress(OSError):
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            halves = [asyncio.ensure_future(send(sock, writer())), asyncio.ensure_future(drain(sock))]
            try:
                await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for half in halves:
                    half.cancel()
                await asyncio.gather(*halves, return_exceptions=True)
        await asyncio.sleep(PAUSE_SECONDS)


async def send(sock: socket.socket, steps: Iterator[Step]) -> None:
    loop = asyncio.get_running_loop()
    for step in steps:
        if isinstance(step, float):
            await asyncio.sleep(step)
        elif step is RESET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        elif isinstance(step, bytes):
            await loop.sock_sendall(sock, step)
            await asyncio.sleep(0)  # a send that is taken at once does not yield


async def drain(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(sock, 262_144):  # noqa: ASYNC110  a read that is ready at once does not yield
        await asyncio.sleep(0)


async def main() -> None:
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    attacks: list[asyncio.Future[None]] = []
    while line := (await commands.readline()).decode():
        for each in attacks:
            each.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)
        attacks.clear()
        if line.strip():
            port, count, name = line.strip().split(" ", 2)
            writer = asking(name) if name in ANSWERS else (CLIENTS | SPANS)[name]
            attacks += [asyncio.ensure_future(attack(int(port), writer)) for _ in range(int(count))]
        print("done", flush=True)


if __name__ == "__main__":
    uvloop.run(main())
