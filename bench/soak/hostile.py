"""Hostile writers beside a soak's streams: those of the fairness bench (`bench/fairness/clients.py`), at a bounded rate.

There they write as fast as they are read, to measure what a token waits for. Here they are weather: a few at a time, one piece
after the other with a pause between them, so that the machine is not theirs. It knows sockets, and no writer by name.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from bench.fairness.clients import CLIENTS
from bench.fairness.step import RESET, Writer


AT_ONCE = 8
PIECE_SECONDS = 0.2
"""Between two pieces of one writer, each of at most some 64 KiB."""
LIFE_SECONDS = 10.0
"""After which a writer makes place for another one, on a new connection."""


def hostile_writers(port: int, draw: random.Random, counts: Counter[str]) -> list[Coroutine[Any, Any, None]]:
    """Coroutines that go on for ever, each with one writer after the other, in an order drawn for it."""
    return [_one_after_the_other(port, random.Random(draw.random()), counts) for _ in range(AT_ONCE)]


async def _one_after_the_other(port: int, draw: random.Random, counts: Counter[str]) -> None:
    names = sorted(CLIENTS)
    while True:
        draw.shuffle(names)
        for name in names:
            counts["hostile connections"] += 1
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(LIFE_SECONDS):
                    await _write(port, CLIENTS[name])
            await asyncio.sleep(PIECE_SECONDS)


async def _write(port: int, steps: Writer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reading = asyncio.ensure_future(_read_all(reader))
    try:
        for step in steps():
            # A reset may have come in the pause: uvloop refuses a write to a connection that is gone with RuntimeError.
            if step is RESET or writer.is_closing():
                return
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            await asyncio.sleep(max(PIECE_SECONDS, step) if isinstance(step, float) else PIECE_SECONDS)
    finally:
        reading.cancel()
        writer.transport.abort()


async def _read_all(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        while await reader.read(65536):
            pass
