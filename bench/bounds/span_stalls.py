"""Time for which spans hold the event loop: the longest turn while a request of spans is taken, real and hostile ones.

A turn is a slice and the step that goes beyond it (tests/otlp/test_intake.py: other tasks run after each slice); while a
second request is read, its slice may fall into the same turn. The slice is a constant; the steps are measured, by the thread's
own CPU clock. An exporter's own batch is 512 spans.
"""

import gzip
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise

from bench.bounds.bound import Bound, longest_step, spread
from sidecar.otlp.intake import SLICE_SECONDS, Intake
from sidecar.otlp.limits import MAX_EXPORT_BYTES, RefusedError


ROUNDS = 5
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
    large = _spans(6000, 19)
    return {
        "512 spans as vLLM sends them": (_spans(512, 15), {}),
        "6,000 spans, gzipped to 4 %": (gzip.compress(large, 1), {"gzip": True}),
        "spans at the limit of attributes": (_spans(800, 128), {}),
        "only fields": (b"\x08\x01" * (MAX_EXPORT_BYTES // 2), {}),
        "only resources": (_field(1, _field(1, b"")) * (MAX_EXPORT_BYTES // 4), {}),
        "a bomb": (gzip.compress(bytes(64 << 20)), {"gzip": True}),
    }


async def _chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), CHUNK_BYTES):
        yield body[at : at + CHUNK_BYTES]


class _Steps:
    """The clock of an intake that never rests: it notes the thread's CPU time of each look at it."""

    def __init__(self) -> None:
        self.looked_at: list[float] = []

    def __call__(self) -> float:
        self.looked_at.append(time.thread_time())
        return 0.0

    def took(self) -> list[float]:
        """CPU milliseconds of each step, in order."""
        return [(after - before) * 1e3 for before, after in pairwise(self.looked_at)]


async def _steps(body: bytes, encoding: dict[str, bool]) -> list[float]:
    steps = _Steps()
    intake = Intake(lambda _: False, clock=steps, count=lambda *_: None, dropped=lambda *_: None)
    with suppress(RefusedError):
        await intake.take(_chunks(body), **encoding)
    steps()
    return steps.took()


async def span_stalls() -> list[Bound]:
    """One bound per kind of request."""
    bounds = []
    for name, (body, encoding) in hostile_exports().items():
        rounds = [await _steps(body, encoding) for _ in range(ROUNDS)]
        words = f"longest turn while {len(body) / (1 << 20):.2f} MiB of spans are taken: {name}"
        slice_ms = SLICE_SECONDS * 1e3
        single = spread(slice_ms + max(steps) for steps in rounds)
        single += f"; {slice_ms:g} ms of it are the slice"
        bounds.append(Bound(words, BOUND_MS, slice_ms + longest_step(rounds), "ms", single, "nothing to compare with"))
    return bounds
