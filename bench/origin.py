"""A trivial event-stream origin and its client, on bare asyncio protocols: the smallest server to measure a proxy with.

Both run in the measuring process, so that a direct round trip costs almost nothing, and the extra time of a proxied one
is due to the proxy. The prompt of a request states the answer it wants: `N events GAP seconds`. Every event carries the
instant at which it was handed to the kernel; the clock is the machine's monotonic one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast


MODEL = "bench"
EVENT_BYTES = 230
"""Size of one event, as of vLLM's chunks: about 230 bytes for one token."""
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
USAGE = (
    b'data: {"id":"cmpl-bench","object":"text_completion","created":1700000000,"model":"bench","choices":[],'
    b'"usage":{"prompt_tokens":9,"total_tokens":10,"completion_tokens":1},"metrics":{"time_to_first_token_ms":0.01,'
    b'"generation_time_ms":0.01,"queue_time_ms":0.01,"mean_itl_ms":null,"tokens_per_second":100.0}}\n\n'
)
"""vLLM's answer to include_usage, which the sidecar requests: it reads a report from this chunk and cuts it out."""
_BEFORE = b'data: {"id":"cmpl-bench","object":"text_completion","created":1700000000,"model":"bench","sent":'
_AFTER = b',"choices":[{"index":0,"text":" %b","logprobs":null,"finish_reason":null,"stop_reason":null}]}\n\n'
_STAMP = b"%18.7f"
_TAIL = _AFTER % (b"x" * (EVENT_BYTES - len(_BEFORE) - 18 - len(_AFTER) + 2))
_MODELS = b'{"object":"list","data":[{"id":"bench","object":"model","owned_by":"vllm"}]}'


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event() -> bytes:
    """One token's event, stamped now, EVENT_BYTES long."""
    return _BEFORE + _STAMP % time.monotonic() + _TAIL


def stamp_of(data: bytes) -> float:
    """The instant in the first event of these bytes."""
    return float(data.partition(b'"sent":')[2].partition(b",")[0])


def question(prompt: str) -> bytes:
    """A streamed completion request with this prompt."""
    body = b'{"model":"%b","prompt":"%b","stream":true}' % (MODEL.encode(), prompt.encode())
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return head % len(body) + body


LARGE_BODY_BYTES = 65_536
"""A body of which more than this is missing is an upload that is not answered."""


class OriginConnection(asyncio.Protocol):
    """One connection of the origin. `lost` is done once it is gone, with that instant."""

    def __init__(self, origin: "Origin") -> None:
        self._origin = origin
        self._pending = b""
        self._body_left = 0
        """Bytes of a large body that are still to come: they are counted and dropped, or this engine would take longer than the sidecar."""
        self._timer: asyncio.Handle | None = None
        self.transport: asyncio.Transport | None = None
        self.writing = True
        self._include_usage = False
        self.lost: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._timer is not None:
            self._timer.cancel()
        self.transport = None
        self.lost.set_result(time.monotonic())

    def pause_writing(self) -> None:
        self.writing = False

    def resume_writing(self) -> None:
        self.writing = True

    def data_received(self, data: bytes) -> None:
        if self._body_left > 0:
            self._body_left -= len(data)
            self._origin.on_request(self)
            return
        self._pending += data
        while (end := self._pending.find(b"\r\n\r\n")) >= 0:
            _, stated, rest = self._pending[:end].lower().partition(b"content-length:")
            length = int(rest.split(b"\r\n", 1)[0]) if stated else 0
            if (left := end + 4 + length - len(self._pending)) > 0:
                if left > LARGE_BODY_BYTES:
                    self._body_left, self._pending = left, b""
                self._origin.on_request(self)
                return
            request, self._pending = self._pending[: end + 4 + length], self._pending[end + 4 + length :]
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        assert self.transport is not None
        if request.startswith(b"GET"):
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (len(_MODELS), _MODELS)
            )
            return
        prompt = request.partition(b'"prompt":"')[2].partition(b'"')[0].decode()
        words = prompt.split()
        self._include_usage = b'"include_usage":true' in request
        self._origin.on_request(self)
        if words[:1] == ["silence"]:
            return
        if words[:1] == ["head"]:
            self.transport.write(STREAM + chunk(b": prefilling\n\n"))
        elif words[:1] == ["flood"]:
            self.transport.write(STREAM)
            self._flood()
        else:
            self._stream(int(words[0]), float(words[2]), asyncio.get_running_loop().time(), STREAM)

    def _stream(self, left: int, gap_seconds: float, due_at: float, before: bytes = b"") -> None:
        """Send `left` events on a fixed schedule: each is due one gap after the last was due, even if that was late."""
        if self.transport is None:
            return
        if left == 1:
            last = event().replace(b'"finish_reason":null', b'"finish_reason":"length"')
            usage = chunk(USAGE) if self._include_usage else b""
            self.transport.write(before + chunk(last) + usage + chunk(DONE) + b"0\r\n\r\n")
            return
        self.transport.write(before + chunk(event()))
        next_at = due_at + gap_seconds
        self._timer = asyncio.get_running_loop().call_at(next_at, self._stream, left - 1, gap_seconds, next_at)

    def _flood(self) -> None:
        """As much as is taken, a bounded part at a time: a connection that is gone takes everything, and this loop must hear of it."""
        if self.transport is None or self.transport.is_closing():
            return
        for _ in range(64):
            if not self.writing:
                break
            self.transport.write(chunk(event() * 16))
        self._timer = asyncio.get_running_loop().call_later(0.001 if self.writing else 0.05, self._flood)


class Origin:
    """The listener, with a hook for measuring code."""

    def __init__(self) -> None:
        self.port = 0
        self.on_request: Callable[[OriginConnection], None] = lambda _connection: None
        """Called when a POST has arrived on this connection, or a part of one that is larger than a read."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running_origin() -> AsyncIterator[Origin]:
    """An origin on a free port of loopback, in this event loop."""
    origin = Origin()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: OriginConnection(origin), "127.0.0.1", 0, backlog=1024)
    origin.port = server.sockets[0].getsockname()[1]
    try:
        yield origin
    finally:
        server.close()


class Reader(asyncio.Protocol):
    """A client that reads one stream after the other on one connection, and records the delay of each event."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.first_at: float | None = None
        self.delays: list[float] = []
        self.events = 0
        self._end: asyncio.Future[None] | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._end is not None and not self._end.done():
            self._end.set_exception(ConnectionError("the stream was cut short"))

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        count = data.count(b'"sent":')
        if count:
            self.events += count
            if self.first_at is None:
                self.first_at = at
            else:
                self.delays.append(at - stamp_of(data))
        self._tail = (self._tail + data)[-16:]
        if self._tail.endswith(b"\r\n0\r\n\r\n") and self._end is not None and not self._end.done():
            self._end.set_result(None)

    async def ask(self, prompt: str) -> float:
        """Send a request and read its whole answer; returns the seconds to its first event. Raises ConnectionError."""
        assert self.transport is not None
        self.first_at = None
        self._tail = b""
        self._end = asyncio.get_running_loop().create_future()
        sent_at = time.monotonic()
        self.transport.write(question(prompt))
        await self._end
        assert self.first_at is not None
        return self.first_at - sent_at

    async def read_some(self) -> None:
        """Wait until an event has arrived."""
        while self.first_at is None:  # noqa: ASYNC110  a bench may poll each millisecond
            await asyncio.sleep(0.001)

    @classmethod
    async def open(cls, port: int) -> "Reader":
        _, reader = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return reader
