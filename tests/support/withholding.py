"""A hop that buffers: a TCP relay that passes a response's head and holds back its first output for `seconds`.

An ingress with response buffering does this between engine and sidecar. Nothing is delayed for good: held bytes come in
one burst, and later ones pass at once. Knows only that a head ends in a blank line.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Withholding:
    """A relay in front of an engine. `seconds` may be changed at any time."""

    port: int = 0
    seconds: float = 0.0
    """Time from the first byte of a response's body for which its output is held back."""


@asynccontextmanager
async def withholding(engine_port: int) -> AsyncIterator[Withholding]:
    """A hop on `hop.port` of loopback, in this event loop; at first it withholds nothing."""
    hop = Withholding()
    relays: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = loop.create_task(_relay(hop, engine_port, reader, writer))
        relays.add(relay)
        relay.add_done_callback(relays.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    hop.port = server.sockets[0].getsockname()[1]
    try:
        yield hop
    finally:
        server.close()
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)


async def _relay(
    hop: Withholding, engine_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    engine_reader, engine_writer = await asyncio.open_connection("127.0.0.1", engine_port)
    up = asyncio.ensure_future(_upload(reader, engine_writer))
    down = asyncio.ensure_future(_answers(hop, engine_reader, writer))
    try:
        await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in (up, down):
            direction.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        writer.close()
        engine_writer.close()


async def _upload(reader: asyncio.StreamReader, engine: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        engine.write(data)


class _Gate:
    """Holds bytes until it is opened, then lets everything through."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._held: list[bytes] | None = []

    def put(self, data: bytes) -> None:
        if self._held is None:
            self._writer.write(data)
        else:
            self._held.append(data)

    def open(self) -> None:
        held, self._held = self._held, None
        self._writer.writelines(held or ())


async def _answers(hop: Withholding, engine: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One answer after the other; each is chunked, as every streamed answer of the simulated engine is."""
    loop = asyncio.get_running_loop()
    while True:
        writer.write(await engine.readuntil(b"\r\n\r\n"))
        gate, end = _Gate(writer), b""
        while not end.endswith(b"\r\n0\r\n\r\n"):
            if not (data := await engine.read(65_536)):
                return
            if not end:
                loop.call_later(hop.seconds, gate.open)
            gate.put(data)
            end = (end + data)[-16:]
