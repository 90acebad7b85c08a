"""Requests and answers as other parsers read them: h11, and the standard library's http.server and http.client.

None of them shares code with llhttp, which the relay uses, or with the garden's strict reader.
"""

import http.client
import io
from http.server import BaseHTTPRequestHandler
from typing import Any, cast
from unittest.mock import patch

import h11


Words = tuple[bytes, bytes, bytes]
"""Method, target and body."""
LARGEST_HEAD = 1 << 20


def by_h11(data: bytes) -> list[Words]:
    """Every whole request in the bytes of one connection. Raises h11.RemoteProtocolError."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
    connection.receive_data(data)
    found: list[Words] = []
    head, body = None, b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            found.append((head.method, head.target, body))
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return found
            connection.start_next_cycle()
        else:
            return found


def by_the_standard_library(data: bytes) -> list[Words]:
    """As `by_h11`. A request that http.server refuses ends the list with its status for a method."""
    stream = io.BytesIO(data)
    found: list[Words] = []
    # Its limits are below the relay's.
    with patch.multiple(http.client, _MAXHEADERS=1000, _MAXLINE=LARGEST_HEAD):
        _read_all(stream, len(data), found)
    return found


def _read_all(stream: io.BytesIO, length: int, found: list[Words]) -> None:
    while stream.tell() < length:
        handler = _Handler(stream)
        if not handler.raw_requestline.endswith(b"\n"):
            break
        if not handler.parse_request():
            found.append((b"refused", str(handler.refusal).encode(), b""))
            break
        body = _body(handler, stream)
        if body is None:
            break
        method, target = handler.raw_requestline.split()[:2]
        found.append((method, target, body))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, stream: io.BytesIO) -> None:
        self.rfile = cast(Any, stream)
        self.raw_requestline = stream.readline(LARGEST_HEAD)
        self.refusal: int | None = None
        self.client_address = ("127.0.0.1", 0)

    def send_error(self, code: int, *_: object, **__: object) -> None:
        self.refusal = code

    def handle_expect_100(self) -> bool:
        return True


def _body(handler: BaseHTTPRequestHandler, stream: io.BytesIO) -> bytes | None:
    """The body behind a head that http.server has read; None if it is not whole. http.client reads the chunks."""
    if handler.headers.get("transfer-encoding", "").lower() == "chunked":
        start = stream.tell()
        prefix = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        whole = _NoSocket(prefix + stream.read())
        answer = http.client.HTTPResponse(cast(Any, whole))
        answer.begin()
        try:
            body = answer.read()
        except (http.client.IncompleteRead, ValueError):
            return None
        stream.seek(start + whole.stream.position - len(prefix))
        return body
    length = int(handler.headers.get("content-length", "0"))
    body = stream.read(length)
    return body if len(body) == length else None


class _NoSocket:
    def __init__(self, data: bytes) -> None:
        self.stream = _Told(data)

    def makefile(self, _: str) -> io.BytesIO:
        return self.stream


class _Told(io.BytesIO):
    """Tells how far it was read, also after it was closed."""

    position = 0

    def close(self) -> None:
        self.position = self.tell()
        super().close()


def answers_by_h11(data: bytes, methods: list[bytes], *, ended: bool) -> tuple[list[tuple[int, bytes]], bool]:
    """The whole final answers to these requests, and whether h11 found bytes that are no HTTP. An end is no such bytes."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)
    if data:
        connection.receive_data(data)
    if ended:
        connection.receive_data(b"")
    found: list[tuple[int, bytes]] = []
    for method in methods:
        try:
            answer = _answer(connection, method)
        except h11.RemoteProtocolError as error:
            return found, "closed" not in str(error)
        if answer is None:
            return found, False
        found.append(answer)
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            break
        connection.start_next_cycle()
    return found, bool(connection.trailing_data[0])


def _answer(connection: h11.Connection, method: bytes) -> tuple[int, bytes] | None:
    """The answer to one request; None if it is not there, or not whole."""
    connection.send(h11.Request(method=method, target="/", headers=[("host", "garden")]))
    connection.send(h11.EndOfMessage())
    status, body = 0, b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return status, body
        elif not isinstance(event, h11.InformationalResponse):
            return None
