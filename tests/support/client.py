"""An HTTP client that assumes nothing: raw bytes out, raw bytes in, an instant of its own clock beside every read.

Tests compare the sidecar's numbers with what this client saw, so it shares no code with the sidecar: no llhttp, no SSE
parser. It knows HTTP/1.1 framing of well-formed answers (Content-Length, chunked, until close) and raises on anything
else.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tests.support.scenario_loop import opened


@dataclass(slots=True)
class Answer:
    """One response. Instants are `time.monotonic()` seconds of this process."""

    sent_at: float
    """Instant at which the last byte of the request had been handed to the kernel."""
    status: int = 0
    reason: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Fields as received: order, case and duplicates are kept."""
    head: bytes = b""
    """The head's exact bytes, blank line included."""
    raw: bytes = b""
    """Every byte, head and framing included."""
    body: bytes = b""
    """The body without its framing."""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """(instant, body bytes) of each read that brought body bytes; for a chunked body, of each chunk."""
    headers_at: float = 0.0
    ended_at: float = 0.0
    """Instant of the read that completed the message (or found the connection closed)."""
    complete: bool = False
    """The message ended as its framing stated. False: cut short."""
    closed: bool = False
    """The connection was seen closed by the time the answer ended."""

    def header(self, name: str) -> bytes | None:
        """The first value of a field, or None."""
        wanted = name.lower().encode()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def json(self) -> object:
        return json.loads(self.body)


class Connection(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    def __init__(self) -> None:
        self.reads: list[tuple[float, bytes]] = []
        self.closed = False
        self._news = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int, host: str = "127.0.0.1") -> "Connection":
        transport, connection = await asyncio.get_running_loop().create_connection(cls, host, port)
        opened(transport)
        return connection

    # asyncio calls these.
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.reads.append((time.monotonic(), data))
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a reset and a FIN both end what is read; `complete` tells whether that was too early
        self.closed = True
        self._news.set()

    # The test calls these.
    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def write(self, data: bytes) -> float:
        """Hand bytes to the kernel; returns the instant at which that was done."""
        self.transport.write(data)
        return time.monotonic()

    def abort(self) -> None:
        """Leave at once, with a reset."""
        self.transport.abort()

    def close(self) -> None:
        """Leave politely, with a FIN."""
        self.transport.close()

    async def next_read(self) -> tuple[float, bytes] | None:
        """The next read in order, or None once the connection is closed and everything has been taken."""
        while not self.reads:
            if self.closed:
                return None
            self._news.clear()
            await self._news.wait()
        return self.reads.pop(0)

    async def request(self, request: bytes, *, bodiless: bool = False) -> Answer:
        """Send a request and read one whole answer. `bodiless`: it has no body whatever its head states (HEAD)."""
        return await self.answer(self.write(request), bodiless=bodiless)

    async def answer(self, sent_at: float, *, bodiless: bool = False) -> Answer:
        """Read one whole answer to a request that was already written. Never raises for a cut connection."""
        answer = Answer(sent_at=sent_at)
        framing: _Framing | None = None
        while framing is None or not framing.done:
            read = await self.next_read()
            if read is None:
                answer.ended_at = time.monotonic()
                answer.complete = framing is not None and framing.until_close
                break
            at, data = read
            answer.raw += data
            if framing is None:
                if b"\r\n\r\n" not in answer.raw:
                    continue
                head, data = answer.raw.split(b"\r\n\r\n", 1)
                _read_head(answer, head + b"\r\n\r\n", at)
                framing = _Framing(answer, bodiless=bodiless)
            for piece in framing.feed(data):
                answer.pieces.append((at, piece))
            answer.ended_at = at
            answer.complete = framing.done
        if framing is not None and framing.done and framing.rest:
            raise ValueError(f"bytes after the end of the message: {framing.rest[:80]!r}")
        answer.body = b"".join(piece for _, piece in answer.pieces)
        answer.closed = self.closed
        return answer


class _Framing:
    """Removes the framing of one body. `done` once its last byte was seen."""

    def __init__(self, answer: Answer, *, bodiless: bool) -> None:
        length = answer.header("content-length")
        self.chunked = (answer.header("transfer-encoding") or b"").lower() == b"chunked"
        self.left = 0 if bodiless or answer.status in (204, 304) else int(length) if length is not None else None
        self.until_close = self.left is None and not self.chunked
        self.done = self.left == 0
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        if self.left is not None:
            piece, self.rest = data[: self.left], data[self.left :]
            self.left -= len(piece)
            self.done = self.left == 0
            return [piece] if piece else []
        if not self.chunked:
            return [data] if data else []
        self.rest += data
        pieces = []
        while b"\r\n" in self.rest and not self.done:
            line, after = self.rest.split(b"\r\n", 1)
            size = int(line.split(b";", 1)[0], 16)
            if len(after) < size + 2:
                break
            if after[size : size + 2] != b"\r\n":
                raise ValueError(f"chunk of {size} bytes does not end in CRLF (trailers are not known here)")
            self.rest = after[size + 2 :]
            if size == 0:
                self.done = True
            else:
                pieces.append(after[:size])
        return pieces


def _read_head(answer: Answer, head: bytes, at: float) -> None:
    lines = head[:-4].split(b"\r\n")
    _, status, *reason = lines[0].split(b" ", 2)
    answer.head, answer.headers_at = head, at
    answer.status, answer.reason = int(status), b"".join(reason)
    for line in lines[1:]:
        name, value = line.split(b":", 1)
        answer.headers.append((name, value.strip()))


def parse_answer(raw: bytes) -> Answer:
    """One recorded answer without framing; its instants mean nothing. Raises ValueError if it is not exactly one."""
    answer = Answer(sent_at=0.0, raw=raw)
    head, separator, rest = raw.partition(b"\r\n\r\n")
    if not separator:
        raise ValueError(f"no whole head in {raw[:80]!r}")
    _read_head(answer, head + separator, 0.0)
    framing = _Framing(answer, bodiless=False)
    answer.pieces = [(0.0, piece) for piece in framing.feed(rest)]
    if not framing.done or framing.rest:
        raise ValueError(f"not exactly one answer: {framing.rest[:80]!r} left over")
    answer.body = b"".join(piece for _, piece in answer.pieces)
    answer.complete = True
    return answer


def post(path: str, body: Mapping[str, object] | bytes, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """The bytes of a JSON POST with Content-Length. Other headers: only Host, Content-Type and the caller's."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: engine.example", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"Content-Length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode() + content


def get(path: str) -> bytes:
    """The bytes of a GET."""
    return f"GET {path} HTTP/1.1\r\nHost: engine.example\r\n\r\n".encode()


def events(answer: Answer) -> list[tuple[float, bytes]]:
    """(instant, event text) of each server-sent event that ends in a blank line of two LF, as vLLM writes them.

    An event's instant is that of the read that brought its last byte.
    """
    found = []
    pending = b""
    for at, piece in answer.pieces:
        pending += piece
        *whole, pending = pending.split(b"\n\n")
        found += [(at, event) for event in whole]
    return found


def event_json(event: bytes) -> dict[str, object] | None:
    """The JSON of an event's data line; None for `[DONE]`, comments and anything that is no object."""
    for line in event.split(b"\n"):
        if line.startswith(b"data: {"):
            decoded: dict[str, object] = json.loads(line[6:])
            return decoded
    return None
