"""Time for which spans hold the event loop: the longest turn while a request of spans is taken, real and hostile ones.

Runs in this process and on uvloop, as the sidecar does. Measured by the thread's own CPU clock between two turns of
another task on the loop, which a busy machine does not falsify. An exporter's own batch is 512 spans.
"""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator
from statistics import median

from bench.bounds.bound import Bound, spread
from sidecar.otlp.intake import Intake
from sidecar.otlp.limits import MAX_EXPORT_BYTES, RefusedError


ROUNDS = 3
BOUND_MS = 2.0
CHUNK_BYTES = 64 << 10


def _field(number: int, content: bytes) -> bytes:
    size, out = len(content), bytearray([number << 3 | 2])
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + content


_IDS = _field(1, b"\x01" * 16) + _field(2, b"\x02" * 8) + _field(4, b"\x03" * 8) + _field(5, b"llm_request")


def _spans(count: int, attributes: int) -> bytes:
    attribute = [
        _field(9, _field(1, b"gen_ai.latency.time_%d" % n) + _field(2, b"\x21" + bytes(8))) for n in range(attributes)
    ]
    return _field(1, _field(2, _field(2, _IDS + b"".join(attribute)) * count))


def hostile_exports() -> dict[str, tuple[bytes, dict[str, bool]]]:
    """Name to body and its encoding; most are as large as the receiver allows, or nearly."""
    json_span = b'{"attributes":[' + b"{}," * 10_000 + b"{}]}"
    around = b'{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{},"spans":[%b]}]}]}'
    large = _spans(6000, 19)
    return {
        "512 spans as vLLM sends them": (_spans(512, 15), {}),
        "6,000 spans, gzipped to 4 %": (gzip.compress(large, 1), {"gzip": True}),
        "spans at the limit of attributes": (_spans(800, 128), {}),
        "only fields": (b"\x08\x01" * (MAX_EXPORT_BYTES // 2), {}),
        "only resources": (_field(1, _field(1, b"")) * (MAX_EXPORT_BYTES // 4), {}),
        "a bomb": (gzip.compress(bytes(64 << 20)), {"gzip": True}),
        "JSON, only brackets": (b'{"a":[' + b"[]," * (MAX_EXPORT_BYTES // 3 - 4) + b"[]]}", {"json": True}),
        "JSON, spans of 10,000 attributes": (around % b",".join([json_span] * 100), {"json": True}),
    }


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), CHUNK_BYTES):
        yield body[at : at + CHUNK_BYTES]


async def _longest_turn(body: bytes | None, encoding: dict[str, bool]) -> float:
    """Longest CPU milliseconds between two turns of an otherwise idle task while the body is taken; None: no body."""
    intake = Intake(lambda _: False, clock=time.perf_counter, count=lambda *_: None, dropped=lambda *_: None)
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while not done:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        if body is None:
            await asyncio.sleep(0.1)
        else:
            await intake.take(_chunks(body), **encoding)
    except RefusedError:
        pass
    done = True
    await watching
    return longest * 1e3


async def span_stalls() -> list[Bound]:
    """One bound per kind of request."""
    floor = f"{median([await _longest_turn(None, {}) for _ in range(ROUNDS)]):.3f} ms without spans"
    bounds = []
    for name, (body, encoding) in hostile_exports().items():
        turns = [await _longest_turn(body, encoding) for _ in range(ROUNDS)]
        words = f"longest turn while {len(body) / (1 << 20):.2f} MiB of spans are taken: {name}"
        bounds.append(Bound(words, BOUND_MS, median(turns), "ms", spread(turns), floor))
    return bounds
