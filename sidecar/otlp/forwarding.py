"""Sends engine spans on to the user's own collector, if the client had sampled their trace, so that they stay visible.

A client that sampled its trace expects the engine's spans under its own. But the engine sends them to the sidecar, and
their parent is a span id that the sidecar minted and never exports. So a span of such a trace is sent on (OTLP/HTTP,
protobuf) with the client's span as its parent again; all other bytes stay as they came. A trace that the client had not
sampled was sampled for the sidecar only, and its spans are not sent on. This module knows the minted span ids and the
sampled traces. It refuses to wait: spans that the collector does not take in time are dropped and counted.
"""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable, Container, Mapping

import aiohttp

from sidecar.classify.trace import Minted
from sidecar.otlp.protobuf import PARENT
from sidecar.otlp.received import ReceivedSpan, Surroundings
from sidecar.otlp.responses import message
from sidecar.otlp.wire_format import Fields


MAX_WAITING_SPANS = 4096
MAX_WAITING_BYTES = 8 << 20
"""Each span counts with its resource and scope, although neighbouring spans share them."""
BATCH_SPANS = 512
BATCH_BYTES = 1 << 20
GATHER_SECONDS = 1.0
FORWARD_TIMEOUT_SECONDS = 10.0
WAITS_SECONDS = (0.0, 1.0, 4.0)
"""Wait before each attempt: a collector that restarts is back after a few seconds."""
AT_END_SECONDS = 1.0
_AGAIN = frozenset({429, 502, 503, 504})
"""HTTP statuses after which the batch is sent again (OTLP 1.x, "Retryable Response Codes")."""

Waiting = tuple[Surroundings, bytes]


class Forward:
    """A bounded queue of spans and the task that empties it. `minted`: span id to the context minted under it.

    `sampled`: ids of the traces to send on. `sent` and `dropped` are called with a number of spans.
    """

    def __init__(
        self,
        url: str,
        *,
        minted: Mapping[str, Minted],
        sampled: Container[str],
        sent: Callable[[int], None],
        dropped: Callable[[int], None],
    ) -> None:
        self._url = url
        self._minted = minted
        self._sampled = sampled
        self._sent = sent
        self._dropped = dropped
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._some = asyncio.Event()

    def offer(self, received: ReceivedSpan) -> None:
        """Queue a span if the client had sampled its trace; ignore any other. A full queue drops and counts it."""
        span = received.span
        minted = self._minted.get(span.parent_span_id)
        if minted is None:
            if span.trace_id not in self._sampled:
                return
            parent = None
        elif minted.client is None or not minted.client.sampled or minted.trace_id != span.trace_id:
            return
        else:
            parent = minted.client.parent_id
        around = received.around
        if around is None or len(self._waiting) >= MAX_WAITING_SPANS:
            self._dropped(1)
            return
        raw = received.raw if parent is None else with_parent(received.raw, parent)
        size = len(raw) + len(around.resource) + len(around.scope)
        if self._waiting_bytes + size > MAX_WAITING_BYTES:
            self._dropped(1)
            return
        self._waiting.append((around, raw))
        self._waiting_bytes += size
        self._some.set()

    async def run(self) -> None:
        """Send batches until cancelled. Then the queued spans are sent once, within 1 s, and the rest is dropped."""
        try:
            timeout, jar = aiohttp.ClientTimeout(total=FORWARD_TIMEOUT_SECONDS), aiohttp.DummyCookieJar()
            connector = aiohttp.TCPConnector(ssl=await _trusted() if self._url.startswith("https:") else True)
            async with aiohttp.ClientSession(timeout=timeout, cookie_jar=jar, connector=connector) as session:
                await self._send_on(session)
        finally:
            self._dropped(len(self._waiting))
            self._waiting.clear()

    async def _send_on(self, session: aiohttp.ClientSession) -> None:
        try:
            while True:
                await self._some.wait()
                await asyncio.sleep(GATHER_SECONDS)
                while self._waiting:
                    await self._send(session, self._batch())
                self._some.clear()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AT_END_SECONDS):
                    while self._waiting:
                        await self._send(session, self._batch(), waits=(0.0,))

    def _batch(self) -> list[Waiting]:
        batch: list[Waiting] = []
        size = 0
        while self._waiting and len(batch) < BATCH_SPANS and size < BATCH_BYTES:
            around, raw = self._waiting.popleft()
            batch.append((around, raw))
            size += len(raw) + len(around.resource) + len(around.scope)
        self._waiting_bytes -= size
        return batch

    async def _send(
        self, session: aiohttp.ClientSession, batch: list[Waiting], waits: tuple[float, ...] | None = None
    ) -> None:
        body, taken = request_of(batch), False
        try:
            for wait in WAITS_SECONDS if waits is None else waits:
                await asyncio.sleep(wait)
                status = await self._post(session, body)
                taken = status is not None and 200 <= status < 300
                if status is not None and status not in _AGAIN:
                    break
        finally:
            (self._sent if taken else self._dropped)(len(batch))

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> int | None:
        """The collector's HTTP status, or None if it did not answer."""
        headers = {"Content-Type": "application/x-protobuf"}
        try:
            async with session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                return answer.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None


async def _trusted() -> ssl.SSLContext:
    """The certificates that this machine trusts: 20 ms of reading, so in a thread. aiohttp's own were not read (`app.py`)."""
    return await asyncio.to_thread(ssl.create_default_context)


def with_parent(raw: bytes, parent_id: str) -> bytes:
    """The fields of a Span with this parent; all other bytes unchanged. `raw` must be well-formed."""
    out, copied = bytearray(), 0
    for tag, began, _, end in Fields(raw).between(0, len(raw)):
        if tag == PARENT:
            out += raw[copied:began]
            copied = end
    return bytes(out + raw[copied:] + message(4, bytes.fromhex(parent_id)))


def request_of(batch: list[Waiting]) -> bytes:
    """An ExportTraceServiceRequest; neighbouring spans of the same scope stay together."""
    out = bytearray()
    at = 0
    while at < len(batch):
        around = batch[at][0]
        scope = bytearray(around.scope)
        while at < len(batch) and batch[at][0] == around:
            scope += message(2, batch[at][1])
            at += 1
        out += message(1, around.resource + message(2, bytes(scope)))
    return bytes(out)
