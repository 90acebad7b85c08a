"""Sends spans to the user's collector (OTLP/HTTP, protobuf): a bounded queue, batches, and the fate of every span.

Each span that is put in is in flight until it has exactly one fate: the collector acknowledged it, or it was dropped for one
reason. A batch has one fate in one place (`_send`), when nothing more will be tried, so that another attempt counts nothing
twice. The spans of a batch that the collector rejects one by one (`partial_success`) are the only ones with a fate of their own.

OTLP 1.x says when a batch may be sent again: after no answer, 429, 502, 503 and 504, not before the collector's Retry-After
has passed. It knows batches and answers. It refuses to know what a span is about (`forwarding.py` and `exporting.py` do), and
it never makes its caller wait: what the collector does not take in time is dropped.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import aiohttp
import structlog

from sidecar.metrics.vocabulary import ACKNOWLEDGED, NotTaken
from sidecar.otlp.responses import rejected_spans


Item = TypeVar("Item")
BATCH_SPANS = 512
"""As many as OpenTelemetry's SDKs send at once."""
BATCH_BYTES = 1 << 20
GATHER_SECONDS = 1.0
COLLECTOR_TIMEOUT_SECONDS = 10.0
WAITS_SECONDS = (0.0, 1.0, 4.0)
"""Wait before each attempt: a collector that restarts is back after a few seconds."""
LONGEST_RETRY_AFTER_SECONDS = 300.0
"""A longer wait that a collector asks for is not believed: a batch is tried again after so long at the latest."""
ANSWER_BYTES = 64 << 10
"""Bytes of an answer that are read: a reason for rejected spans is one sentence."""
_AGAIN = frozenset({429, 502, 503, 504})
"""HTTP statuses after which the batch is sent again (OTLP 1.x, "Retryable Response Codes")."""

log = structlog.get_logger()


class Bounds(NamedTuple):
    """The most that waits: spans, and the bytes that they were put in with."""

    spans: int
    bytes: int = 0


class _Waiting(NamedTuple, Generic[Item]):
    item: Item
    spans: int
    size_bytes: int


class _Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_seconds: float


_NO_ANSWER = _Answer(0, b"", 0.0)


class Outbox(Generic[Item]):
    """One queue, and the task that empties it (`run`). `key`: the config key that names the collector, for the log.

    `body_of`: the request with these items; it yields to the loop where it takes long. `ended`: called with a fate
    (ACKNOWLEDGED or a NotTaken) and a number of spans, more than 0.
    """

    def __init__(
        self,
        key: str,
        url: str,
        bounds: Bounds,
        body_of: Callable[[list[Item]], Awaitable[bytes]],
        ended: Callable[[str, int], None],
    ) -> None:
        self._key = key
        self._url = url
        self._bounds = bounds
        self._body_of = body_of
        self._ended = ended
        self._waiting: deque[_Waiting[Item]] = deque()
        self._waiting_spans = self._waiting_bytes = self._sending_spans = 0
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        """A whole batch waits, or this is the end: gathering is over."""
        self._finishing = asyncio.Event()
        self._over = self._fails = False

    @property
    def in_flight(self) -> int:
        """Spans without a fate: they wait, or are being sent."""
        return self._waiting_spans + self._sending_spans

    def put(self, item: Item, spans: int = 1, size_bytes: int = 0) -> None:
        """Queue an item of so many spans; returns at once. One without room is dropped and counted."""
        if self._over:
            self._end(NotTaken.SHUTDOWN, spans)
        elif self._waiting_spans + spans > self._bounds.spans or self._waiting_bytes + size_bytes > self._bounds.bytes:
            self._end(NotTaken.QUEUE_FULL, spans)
        else:
            self._waiting.append(_Waiting(item, spans, size_bytes))
            self._waiting_spans += spans
            self._waiting_bytes += size_bytes
            self._some.set()
            if self._waiting_spans >= BATCH_SPANS or self._waiting_bytes >= BATCH_BYTES:
                self._full.set()

    def finish(self) -> None:
        """Send what waits at once, each batch once; then `run` returns."""
        self._finishing.set()
        self._some.set()
        self._full.set()

    async def run(self) -> None:
        """Send batches until `finish`, or until cancelled, which drops what is in flight."""
        try:
            timeout, jar = aiohttp.ClientTimeout(total=COLLECTOR_TIMEOUT_SECONDS), aiohttp.DummyCookieJar()
            connector = aiohttp.TCPConnector(ssl=await _trusted() if self._url.startswith("https:") else True)
            async with aiohttp.ClientSession(
                timeout=timeout, cookie_jar=jar, connector=connector, auto_decompress=False
            ) as session:
                while await self._gathered():
                    await self._send(session, self._batch())
        finally:
            self._over = True
            self._end(NotTaken.SHUTDOWN, self._waiting_spans)
            self._waiting.clear()
            self._waiting_spans = self._waiting_bytes = 0

    async def _gathered(self) -> bool:
        """Wait for a batch: a whole one, or what has come GATHER_SECONDS after a span. False: this is the end."""
        await self._some.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self._full.wait()
        return bool(self._waiting)

    def _batch(self) -> list[_Waiting[Item]]:
        batch: list[_Waiting[Item]] = []
        spans = size = 0
        while self._waiting and spans < BATCH_SPANS and size < BATCH_BYTES:
            one = self._waiting.popleft()
            batch.append(one)
            spans += one.spans
            size += one.size_bytes
        self._waiting_spans -= spans
        self._waiting_bytes -= size
        self._sending_spans = spans
        if not self._finishing.is_set():
            if not self._waiting:
                self._some.clear()
            if self._waiting_spans < BATCH_SPANS and self._waiting_bytes < BATCH_BYTES:
                self._full.clear()
        return batch

    async def _send(self, session: aiohttp.ClientSession, batch: list[_Waiting[Item]]) -> None:
        """Send one batch until it has a fate, and count it."""
        spans, fate, rejected = self._sending_spans, str(NotTaken.SHUTDOWN), 0
        try:
            items = [one.item for one in batch]
            batch.clear()
            body = await self._body_of(items)
            items.clear()
            fate, rejected = await self._delivered(session, body, spans)
        except Exception as error:  # noqa: BLE001  a mistake of ours loses one batch, and not all that come
            fate = NotTaken.UNWRITTEN
            self._tell(fate, 0, type(error).__name__)
        finally:
            self._sending_spans = 0
            self._end(NotTaken.REJECTED, rejected)
            self._end(fate, spans - rejected)

    async def _delivered(self, session: aiohttp.ClientSession, body: bytes, spans: int) -> tuple[str, int]:
        """The batch's fate, and the number of its spans that were rejected alone."""
        answer, why = _NO_ANSWER, ""
        fate: str = NotTaken.UNAVAILABLE
        rejected = 0
        for wait_seconds in WAITS_SECONDS:
            await self._pause(max(wait_seconds, answer.retry_after_seconds))
            is_last = self._finishing.is_set()
            answer = await self._post(session, body)
            if 200 <= answer.status < 300:
                fate = ACKNOWLEDGED
                rejected, why = rejected_spans(answer.body, spans)
            elif answer.status and answer.status not in _AGAIN:
                fate = NotTaken.REFUSED
            if fate != NotTaken.UNAVAILABLE or is_last:
                break
        self._tell(NotTaken.REJECTED if rejected else fate, answer.status, why)
        return fate, rejected

    async def _pause(self, seconds: float) -> None:
        """Wait, but not beyond the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._finishing.wait()

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> _Answer:
        headers = {"Content-Type": "application/x-protobuf", "Accept-Encoding": "identity"}
        try:
            async with session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                said = b""
                while len(said) < ANSWER_BYTES and (piece := await answer.content.read(ANSWER_BYTES - len(said))):
                    said += piece
                return _Answer(answer.status, said, _seconds(answer.headers.get("Retry-After", "")))
        except (aiohttp.ClientError, OSError, TimeoutError):
            return _NO_ANSWER

    def _end(self, fate: str, spans: int) -> None:
        if spans:
            self._ended(fate, spans)

    def _tell(self, fate: str, status: int, why: str) -> None:
        """Log that the collector begins to fail, and that it takes all again; not each batch between."""
        fails = fate != ACKNOWLEDGED
        if fails and not self._fails:
            log.warning("collector_fails", key=self._key, fate=str(fate), status=status or None, why=why)
        elif self._fails and not fails:
            log.info("collector_takes_spans", key=self._key)
        self._fails = fails


def _seconds(retry_after: str) -> float:
    """Retry-After in seconds (RFC 9110 10.2.3), as collectors write it; 0 for none, and for a date."""
    seconds = int(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else 0
    return min(float(seconds), LONGEST_RETRY_AFTER_SECONDS)


async def _trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts: 20 ms of reading, so in a thread. aiohttp's own were not read (`app.py`)."""
    return await asyncio.to_thread(ssl.create_default_context)
