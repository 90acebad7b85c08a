"""A TCP relay that writes down what passes: stands between the sidecar and an engine and knows nothing of HTTP.

What was said is kept per connection, so that the sidecar's own questions (`/health`, `/metrics`) do not mix with traffic.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class Exchange:
    """The bytes of one connection since the last look."""

    to_engine: bytearray = field(default_factory=bytearray)
    from_engine: bytearray = field(default_factory=bytearray)


class Tap:
    """Relays every connection to `engine_port` on loopback, byte for byte."""

    def __init__(self, engine_port: int) -> None:
        self._engine_port = engine_port
        self._exchanges: list[Exchange] = []
        self.port = 0

    def take(self, method: bytes = b"POST") -> list[Exchange]:
        """What was said since the last call on connections whose first request since then has this method."""
        spoken = [exchange for exchange in self._exchanges if exchange.to_engine.startswith(method + b" ")]
        taken = [Exchange(exchange.to_engine[:], exchange.from_engine[:]) for exchange in spoken]
        for exchange in spoken:
            exchange.to_engine.clear()
            exchange.from_engine.clear()
        return taken

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange()
        self._exchanges.append(exchange)
        try:
            engine_reader, engine_writer = await asyncio.open_connection("127.0.0.1", self._engine_port)
        except OSError:
            writer.transport.abort()
            return
        directions = [
            asyncio.create_task(_copy(reader, engine_writer, exchange.to_engine)),
            asyncio.create_task(_copy(engine_reader, writer, exchange.from_engine)),
        ]
        try:
            # HTTP knows no half-open connections here: when one side is done, so is the other.
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            for side in (writer, engine_writer):
                side.close()
                with suppress(OSError):
                    await side.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            record += data
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def tapping(engine_port: int) -> AsyncIterator[Tap]:
    """A tap on a port of its own (`tap.port`) for the length of an `async with` block."""
    tap = Tap(engine_port)
    server = await asyncio.start_server(tap.serve, "127.0.0.1", 0)
    tap.port = server.sockets[0].getsockname()[1]
    try:
        yield tap
    finally:
        server.close()
        # Cancels nothing by itself: connections end when the processes on both sides have gone.
