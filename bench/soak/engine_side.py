"""The engine of a soak and the broken network before it: `python -m bench.soak.engine_side`, started by the soak.

The engine answers as vLLM does where the sidecar looks (models, metrics, `include_usage`), and each of its streams is computed
from the request's number (`tokens.py`). It cuts some of its writes at places that it draws (`faults.py`). It counts the requests
that it got, the streams that it ended and the writes that it cut.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import httptools

from bench.soak.chaos_relay import ChaosRelay
from bench.soak.faults import SLICE_GAP_SECONDS, Fault, cut
from bench.soak.side import run
from bench.soak.tokens import DONE, Asked, asked_in, events_of, usage_of, whole_answer


_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_PAGES = {
    b"/v1/models": b'{"object":"list","data":[{"id":"soak","object":"model","owned_by":"vllm"}]}',
    b"/version": b'{"version":"0.33.0"}',
    b"/health": b"",
}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class EngineConnection(asyncio.Protocol):
    """One connection: requests one after the other, each answered when its body is whole."""

    def __init__(self, engine: "EngineSide") -> None:
        self._engine = engine
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._pieces: deque[bytes] = deque()
        """The rest of what it wrote: each piece goes out in a turn of its own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._engine.unreadable += 1
            assert self._transport is not None
            self._transport.abort()

    def on_message_begin(self) -> None:
        self._url, self._body = b"", []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        if self._url == b"/metrics":
            self._whole(200, self._engine.page())
        elif self._url in _PAGES:
            self._whole(200, _PAGES[self._url])
        elif self._url != b"/v1/completions":
            self._whole(404, b"{}")
        else:
            self._engine.requests += 1
            try:
                asked, usage = asked_in(body)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                self._whole(400, b"{}")  # a hostile writer's
                return
            if asked.events:
                self._engine.running += 1
                self._stream(asked, events_of(asked), usage, asyncio.get_running_loop().time())
            else:
                self._whole(200, whole_answer(asked, body))

    def _whole(self, status: int, body: bytes) -> None:
        head = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        self._write(head + body)

    def _write(self, data: bytes) -> None:
        """Write behind what waits, in the pieces in which the engine cuts it."""
        pieces = cut(data, self._engine.draw)
        self._engine.cut_writes += len(pieces) > 1
        waits = bool(self._pieces)
        self._pieces += pieces
        if not waits:
            self._next_piece()

    def _next_piece(self) -> None:
        if self._transport is None or self._transport.is_closing():
            self._pieces.clear()
            return
        self._transport.write(self._pieces[0])
        if len(self._pieces) > 1:
            asyncio.get_running_loop().call_later(SLICE_GAP_SECONDS, self._rest)
        else:
            self._pieces.clear()

    def _rest(self) -> None:
        """The piece before has gone: the next one's turn."""
        if self._pieces:
            self._pieces.popleft()
            self._next_piece()

    def _stream(self, asked: Asked, events: Iterator[bytes], usage: bool, due_at: float, place: int = 0) -> None:
        """Send the event that is due, on a schedule of its own; the last one with all that ends the stream."""
        if self._transport is None or self._transport.is_closing():
            self._engine.running -= 1
            return
        data = (_STREAM if not place else b"") + _chunk(next(events))
        if place == asked.events - 1:
            self._engine.running -= 1
            self._engine.ended += 1
            self._write(data + (_chunk(usage_of(asked)) if usage else b"") + _chunk(DONE) + b"0\r\n\r\n")
            return
        self._write(data)
        next_at = due_at + asked.gap_milliseconds / 1000
        self._timer = asyncio.get_running_loop().call_at(
            next_at, self._stream, asked, events, usage, next_at, place + 1
        )


class EngineSide:
    """The engine and its relay."""

    def __init__(self) -> None:
        self.requests = 0
        self.ended = 0
        self.running = 0
        self.unreadable = 0
        self.cut_writes = 0
        self.draw = random.Random()
        self._relay = ChaosRelay(0)

    async def start(self, order: dict[str, Any]) -> dict[str, Any]:
        self.draw.seed(order["seed"])
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: EngineConnection(self), "127.0.0.1", 0, backlog=4096)
        self._relay.target_port = server.sockets[0].getsockname()[1]
        await self._relay.start()
        self._server = server
        return self.report()

    def obey(self, order: dict[str, Any]) -> None:
        self._relay.break_some(Fault.from_words(order["fault"]))

    def page(self) -> bytes:
        """Its own metrics, as far as the sidecar reads them."""
        return (
            f'vllm:num_requests_waiting{{engine="0"}} 0\nvllm:num_requests_running{{engine="0"}} {max(0, self.running)}\n'
        ).encode()

    def report(self) -> dict[str, Any]:
        relay = self._relay
        return {
            "port": relay.port,
            "requests": self.requests,
            "ended": self.ended,
            "unreadable": self.unreadable,
            "cut_writes": self.cut_writes,
            "injured": relay.injured,
            "refused": relay.refused,
            "open": relay.open,
        }


if __name__ == "__main__":
    run(EngineSide)
