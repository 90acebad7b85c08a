"""Reads and decodes one request of spans in slices and hands each span on; HTTP and gRPC share it.

It knows the event loop and a clock, because it must not hold the loop for longer than one slice. It decodes on the
loop, not in a thread: a thread that walks bytes in Python takes the interpreter's lock for 5 ms at a time, and every
stream would wait that long. Slices of 0.5 ms with a rest of 1 ms after each leave the loop at least half of its time.
A request begins no slice without a rest, or many small ones would each take one in the same turn. One request is decoded
at a time, two are held in memory, up to 32 wait; a request beyond those is refused with 503 and may come again. It refuses
to know what a span means.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterator
from math import inf

from sidecar.budgets.budgets import MOST_SPAN_REQUESTS
from sidecar.engines.span import Span
from sidecar.otlp import protobuf
from sidecar.otlp.inflation import Inflation
from sidecar.otlp.limits import (
    MAX_DECODED_BYTES,
    MAX_EXPORT_BYTES,
    BusyError,
    MalformedError,
    RefusedError,
    Tally,
    TooLargeError,
)
from sidecar.otlp.received import ReceivedSpan
from sidecar.otlp.request_memory import RequestMemory


SLICE_SECONDS = 0.0005
REST_SECONDS = 0.001
HELD_AT_ONCE = 2
WAITING_AT_ONCE = MOST_SPAN_REQUESTS - HELD_AT_ONCE
READ_TIMEOUT_SECONDS = 10.0
"""Exporters give up after 10 s by default: a slower upload has already been abandoned by its sender."""


class Intake:
    """Takes requests. `sink` gets each span and returns whether some request's report is made of it.

    `forward` gets each well-formed span. `count` gets `taken`, `unknown` or `rejected` and the number of spans;
    `dropped` a reason of DROP_REASONS and a number, `unread` the signal of a request that carries no spans (UNREAD_SIGNALS).
    """

    def __init__(
        self,
        sink: Callable[[Span], bool],
        *,
        clock: Callable[[], float],
        count: Callable[[str, int], None],
        dropped: Callable[[str, int], None],
        forward: Callable[[ReceivedSpan], None] | None = None,
        unread: Callable[[str], None] = lambda _signal: None,
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._count = count
        self._dropped = dropped
        self._forward = forward
        self.unread = unread
        self._held = asyncio.Semaphore(HELD_AT_ONCE)
        self._decoding = asyncio.Lock()
        self.inside = 0
        """Requests that are being received."""
        self.found_no_room = 0
        self._until = -inf

    async def take(self, chunks: AsyncIterable[bytes], *, gzip: bool = False) -> Tally:
        """Hand on every span of the request. Raises RefusedError; spans before the mistake have then been handed on."""
        if self.inside >= MOST_SPAN_REQUESTS:
            self.found_no_room += 1
            self.refused()
            raise BusyError("too many requests with spans at once")
        self.inside += 1
        tally = Tally()
        try:
            async with self._held:
                memory = RequestMemory(MAX_DECODED_BYTES if gzip else MAX_EXPORT_BYTES)
                try:
                    await self._read(chunks, memory, gzip=gzip)
                    async with self._decoding:
                        await self._decode(protobuf.spans(memory.body(), tally), tally)
                finally:
                    for _ in memory.give_back():
                        await self._breathe()
        except RefusedError:
            self.refused()
            raise
        finally:
            self.inside -= 1
            self._report(tally)
        return tally

    def refused(self) -> None:
        """Count a request that is refused as a whole."""
        self._dropped("span_request_refused", 1)

    async def _read(self, chunks: AsyncIterable[bytes], memory: RequestMemory, *, gzip: bool) -> None:
        inflation = Inflation() if gzip else None
        received = 0
        try:
            async with asyncio.timeout(READ_TIMEOUT_SECONDS):
                async for chunk in chunks:
                    received += len(chunk)
                    if received > MAX_EXPORT_BYTES:
                        raise TooLargeError(f"more than {MAX_EXPORT_BYTES} bytes")
                    for piece in (chunk,) if inflation is None else inflation.feed(chunk):
                        memory.add(piece)
                        await self._breathe()
        except TimeoutError:
            raise MalformedError("the body did not arrive in time") from None
        if inflation is not None:
            inflation.end()

    async def _decode(self, steps: Iterator[ReceivedSpan | None], tally: Tally) -> None:
        for received in steps:  # the decoding goes on in the slice of the reading
            if received is not None:
                self._hand_on(received, tally)
            await self._breathe()

    async def _breathe(self) -> None:
        """Rest for REST_SECONDS if the slice is used up, so that other tasks of the loop run."""
        if self._clock() >= self._until:
            await asyncio.sleep(REST_SECONDS)
            self._until = self._clock() + SLICE_SECONDS

    def _hand_on(self, received: ReceivedSpan, tally: Tally) -> None:
        try:
            if self._sink(received.span):
                tally.taken += 1
            else:
                tally.unknown += 1
            if self._forward is not None:
                self._forward(received)
        except Exception:  # noqa: BLE001  an engine's reader that fails on one span must not lose the others
            self._dropped("observer_error", 1)

    def _report(self, tally: Tally) -> None:
        for result, spans in (("taken", tally.taken), ("unknown", tally.unknown), ("rejected", tally.rejected)):
            if spans:
                self._count(result, spans)
        if tally.unknown:
            self._dropped("span_unknown", tally.unknown)
        if tally.rejected:
            self._dropped("span_rejected", tally.rejected)
