"""Attacks that are legal HTTP and cost the hop something: slow heads, unfinished uploads, idle connections, slow readers.

While each runs, for a bounded time and with a bounded number of connections, other requests are sent at a steady pace. A
hop passes if all of these are answered in time, during the attack and after it. Knows sockets and one clock.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from sidecar.attack.garden_rounds import Hop, talk
from sidecar.attack.judgement import final_answers
from sidecar.attack.recording_origin import STREAM_TARGET
from sidecar.attack.strict_reader import read_answers


class Load(StrEnum):
    """The kinds of resource attacks."""

    SLOW_HEADS = "slow-heads"
    UNFINISHED_UPLOADS = "unfinished-uploads"
    IDLE_CONNECTIONS = "idle-connections"
    SLOW_READERS = "slow-readers"
    TINY_CHUNKS = "tiny-chunks"
    FLOODED_PIPELINES = "flooded-pipelines"


LOAD_WORDS = {
    Load.SLOW_HEADS: "heads that come one byte a second",
    Load.UNFINISHED_UPLOADS: "uploads that stop behind the head",
    Load.IDLE_CONNECTIONS: "connections that send nothing",
    Load.SLOW_READERS: "long answers that the client does not read (needs --origin-listen)",
    Load.TINY_CHUNKS: "uploads in chunks of two bytes, as fast as they are taken",
    Load.FLOODED_PIPELINES: "requests without end on one connection, whose answers the client reads slowly",
}
_BUSY_CONNECTIONS = 4
"""Connections that send as fast as they can: more of them would load the client's own loop, which also measures."""
_BETWEEN_PROBES_SECONDS = 0.1
_PROBE = b"GET /garden/probe HTTP/1.1\r\nHost: garden\r\nConnection: close\r\n\r\n"
SLOWEST_PROBE_SECONDS = 1.0
"""Longest time that another client's request may take during an attack. A hop on the same host answers in milliseconds."""
PROBE_PATIENCE_SECONDS = 5.0
_BODY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Probed:
    """The other clients' requests during one attack."""

    sent: int
    refused: int
    """Requests without an answer, or with a 5xx."""
    slowest_seconds: float

    @property
    def fault(self) -> str | None:
        """Why the hop failed, in one line, or None."""
        if self.refused:
            return f"{self.refused} of {self.sent} other requests got no answer or a 5xx"
        if self.slowest_seconds > SLOWEST_PROBE_SECONDS:
            return f"another request took {self.slowest_seconds:.1f} s, more than {SLOWEST_PROBE_SECONDS:g} s"
        return None


async def attack_resources(hop: Hop, load: Load, *, connections: int, seconds: float) -> Probed:
    """Run one attack for `seconds` with at most `connections` connections, and probe beside it and once behind it."""
    if load in (Load.TINY_CHUNKS, Load.FLOODED_PIPELINES):
        connections = min(connections, _BUSY_CONNECTIONS)
    ends_at = time.monotonic() + seconds
    attackers = [asyncio.ensure_future(_kept_up(hop, _ATTACKERS[load], ends_at)) for _ in range(connections)]
    probes: list[tuple[bool, float]] = []
    try:
        while time.monotonic() < ends_at:
            probes.append(await probe(hop))
            await asyncio.sleep(_BETWEEN_PROBES_SECONDS)
    finally:
        for attacker in attackers:
            attacker.cancel()
        await asyncio.gather(*attackers, return_exceptions=True)
    probes.append(await probe(hop))
    return Probed(len(probes), sum(not answered for answered, _ in probes), max(took for _, took in probes))


async def probe(hop: Hop) -> tuple[bool, float]:
    """Whether one request is answered with less than 500, and the seconds that this took."""
    began = time.monotonic()
    got = await talk(hop, (_PROBE,), lambda data: bool(_answers(data, ended=False)), PROBE_PATIENCE_SECONDS)
    answers = _answers(got.received, ended=got.ended)
    return bool(answers) and answers[0] < 500, time.monotonic() - began


def _answers(data: bytes, *, ended: bool) -> list[int]:
    return [message.status for message in final_answers(read_answers(data, [b"GET"], ended=ended))]


_Attacker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _kept_up(hop: Hop, attacker: _Attacker, ends_at: float) -> None:
    """One attacking connection; a new one whenever the hop has closed it."""
    while time.monotonic() < ends_at:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(hop.host, hop.port, limit=1024)
            try:
                await attacker(reader, writer)
            finally:
                writer.transport.abort()
        await asyncio.sleep(_BETWEEN_PROBES_SECONDS)


async def _until_closed(reader: asyncio.StreamReader) -> None:
    while await reader.read(4096):
        pass


async def _read_slowly(reader: asyncio.StreamReader, most: int, pause_seconds: float) -> None:
    while await reader.read(most):  # noqa: ASYNC110  a slow reader is meant
        await asyncio.sleep(pause_seconds)


async def _slow_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for byte in b"POST /garden/slow HTTP/1.1\r\nHost: garden\r\nX: " + b"a" * 10_000:
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(1)


async def _unfinished_upload(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST /garden/unfinished HTTP/1.1\r\nHost: garden\r\nContent-Length: 100000\r\n\r\n{")
    await writer.drain()
    await _until_closed(reader)


async def _idle(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await _until_closed(reader)


async def _slow_reader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET %b HTTP/1.1\r\nHost: garden\r\n\r\n" % STREAM_TARGET)
    await _read_slowly(reader, 64, 0.5)


async def _tiny_chunks(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"POST /garden/tiny HTTP/1.1\r\nHost: garden\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _number in range(_BODY_BYTES):
        writer.write(b"2\r\naa\r\n" * 2000)
        await writer.drain()
        await asyncio.sleep(0)


async def _flooded_pipeline(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reading = asyncio.ensure_future(_read_slowly(reader, 256, 0.05))
    try:
        while not reading.done():
            writer.write(b"GET /garden/pipeline HTTP/1.1\r\nHost: garden\r\n\r\n" * 200)
            await writer.drain()
            await asyncio.sleep(0)
    finally:
        reading.cancel()


_ATTACKERS: dict[Load, _Attacker] = {
    Load.SLOW_HEADS: _slow_head,
    Load.UNFINISHED_UPLOADS: _unfinished_upload,
    Load.IDLE_CONNECTIONS: _idle,
    Load.SLOW_READERS: _slow_reader,
    Load.TINY_CHUNKS: _tiny_chunks,
    Load.FLOODED_PIPELINES: _flooded_pipeline,
}
