"""An engine of one raw socket and a script: it sends exactly the script's bytes at its times, valid HTTP or not.

A script is a coroutine that gets one `Visit` (one connection of the relay's) and does as it likes. It knows just enough
HTTP to find the end of a request.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress


class RelayLeftError(Exception):
    """The relay closed or reset its connection."""


class Visit:
    """One connection, seen from the engine."""

    def __init__(self, origin: "Origin", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.origin = origin
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """Read the next request's head, blank line included. Raises RelayLeftError."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise RelayLeftError from error
        self.origin.heads.append(head)
        return head

    async def request(self) -> tuple[bytes, bytes]:
        """Read the next whole request: its head, and its body without framing. Raises RelayLeftError."""
        head = await self.head()
        fields = dict(line.lower().split(b": ", 1) for line in head[:-4].split(b"\r\n")[1:])
        try:
            if fields.get(b"transfer-encoding") == b"chunked":
                body = b"".join([piece async for piece in self.chunks()])
            else:
                body = await self.reader.readexactly(int(fields.get(b"content-length", b"0")))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise RelayLeftError from error
        self.origin.bodies.append(body)
        return head, body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The pieces of a chunked body, as they come."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    def send(self, data: bytes) -> None:
        """Send bytes. Raises RelayLeftError."""
        if self.writer.transport.is_closing():
            raise RelayLeftError
        self.writer.write(data)

    async def flush(self) -> None:
        """Wait until the kernel has most of the bytes. Raises RelayLeftError."""
        try:
            await self.writer.drain()
        except ConnectionError as error:
            raise RelayLeftError from error

    async def until_left(self) -> None:
        """Wait until the relay has closed its side; bytes that it still sends are dropped."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def reset(self) -> None:
        """End with a reset. Raises RelayLeftError."""
        sock = self.writer.get_extra_info("socket")
        if sock is None:
            raise RelayLeftError
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Visit], Awaitable[None]]


class Origin:
    """The listening engine. `heads` and `bodies` are the requests that it received, over all connections."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.port = 0
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.visits = 0
        self._scripts: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Origin"]:
        """Listen on a port of its own for the length of an `async with` block. Raises a script's first exception."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for running in self._scripts:
                running.cancel()
            ends = await asyncio.gather(*self._scripts, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: asyncio would own the task then, and could not be told to end it.
        self.visits += 1
        running = asyncio.get_running_loop().create_task(self._run(Visit(self, reader, writer)))
        self._scripts.add(running)
        running.add_done_callback(self._scripts.discard)

    async def _run(self, visit: Visit) -> None:
        try:
            with suppress(RelayLeftError, ConnectionError, asyncio.IncompleteReadError):
                await self.script(visit)
            visit.writer.close()
            with suppress(OSError):
                await visit.writer.wait_closed()
        finally:
            visit.writer.transport.abort()  # cancelled, it does not wait for a relay that takes no more


def answering(answer: bytes) -> Script:
    """Answers every request of a connection with these bytes."""

    async def script(visit: Visit) -> None:
        while True:
            await visit.request()
            visit.send(answer)

    return script
