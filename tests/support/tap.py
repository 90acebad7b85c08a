"""A TCP relay that records the bytes that pass: it stands between the sidecar and an engine and knows nothing of HTTP.

It has a thread and an event loop of its own, so that a plain `with` builds the chain engine, tap, sidecar from left to
right. Bytes are kept per connection, so that the sidecar's own questions (`/health`, `/metrics`) do not mix with
traffic.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass(slots=True)
class Exchange:
    """The bytes of one connection since they were last taken."""

    to_engine: bytearray = field(default_factory=bytearray)
    from_engine: bytearray = field(default_factory=bytearray)


class Tap:
    """Relays every connection on `port` to `engine_port`, both on loopback, byte for byte."""

    def __init__(self, engine_port: int) -> None:
        self._engine_port = engine_port
        self._exchanges: list[Exchange] = []
        self._loop = asyncio.new_event_loop()
        self._relays: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._listening = threading.Event()
        self.port = 0

    def take(self, beginning: bytes) -> list[Exchange]:
        """Bytes since the last call, on connections with a request line that begins with `beginning` (`POST /v1/`)."""

        async def take() -> list[Exchange]:
            spoken = [exchange for exchange in self._exchanges if exchange.to_engine.startswith(beginning)]
            taken = [Exchange(exchange.to_engine[:], exchange.from_engine[:]) for exchange in spoken]
            for exchange in spoken:
                exchange.to_engine.clear()
                exchange.from_engine.clear()
            return taken

        return asyncio.run_coroutine_threadsafe(take(), self._loop).result(timeout=10)

    def run(self) -> None:
        """The thread's function: listen until stopped, then drop every connection."""
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._stop.wait()
        server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: asyncio would own the task then, and could not be told to end it.
        relay = self._loop.create_task(self._relay(reader, writer))
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange()
        self._exchanges.append(exchange)
        try:
            engine_reader, engine_writer = await asyncio.open_connection("127.0.0.1", self._engine_port)
        except OSError:
            writer.transport.abort()
            return
        directions = [
            self._loop.create_task(_copy(reader, engine_writer, exchange.to_engine)),
            self._loop.create_task(_copy(engine_reader, writer, exchange.from_engine)),
        ]
        try:
            # No half-open connections: when one side is done, so is the other.
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            for side in (writer, engine_writer):
                side.close()
                with suppress(OSError):
                    await side.wait_closed()

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self.run, name="tap", daemon=True)
        thread.start()
        if not self._listening.wait(timeout=10):
            raise RuntimeError("the tap does not listen")
        return thread

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            record += data
            writer.write(data)
            await writer.drain()


@contextmanager
def tapping(engine_port: int) -> Iterator[Tap]:
    """A tap on a port of its own (`tap.port`) for the length of a `with` block."""
    tap = Tap(engine_port)
    thread = tap.start()
    try:
        yield tap
    finally:
        tap.stop()
        thread.join(timeout=10)
