"""The readers of HTTP: requests of clients and responses of an engine, cut anywhere, and read a second time by h11.

What is read whole must not depend on the cuts. Where h11 reads the same bytes without an error, both read the same messages:
two readers that accept one stream and see different messages in it are how requests are smuggled.
"""

import asyncio
from typing import NamedTuple, cast

import h11

from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection, Pool
from sidecar.proxy.headers import HOP_BY_HOP, RequestHead, ResponseHead, request_bytes, response_bytes
from sidecar.proxy.read_limit import Turns
from sidecar.proxy.requests import RequestReader
from sidecar.proxy.sending import Consumer
from tests.fuzz.target import Target, cuts
from tests.garden.foreign_readers import answers_by_h11


_LIMIT = 1 << 20
_HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: pod\r\n"
_METHODS = (b"GET", b"HEAD", b"POST")


class Message(NamedTuple):
    start: tuple[object, ...]
    fields: list[tuple[bytes, bytes]]
    body: bytes
    whole: bool


# --- requests ------------------------------------------------------------------------------------------------------------


def _requests(pieces: list[bytes], limit: int = _LIMIT) -> tuple[list[Message], list[RequestHead], Failure | None]:
    """The requests that the reader delivers of these segments, fed as a connection feeds them: nothing after a refusal or a tunnel."""
    heads: list[RequestHead] = []
    messages: list[Message] = []

    def deliver(part: RequestHead | bytes | None) -> None:
        if isinstance(part, RequestHead):
            heads.append(part)
            messages.append(Message((part.method, part.target, part.version), list(part.fields), b"", False))
        elif part is None:
            messages[-1] = messages[-1]._replace(whole=True)
        else:
            assert not messages[-1].whole
            messages[-1] = messages[-1]._replace(body=messages[-1].body + part)

    reader = RequestReader(deliver, max_head_bytes=limit, max_headers=100, max_body_bytes=_LIMIT)
    for piece in pieces:
        if reader.feed(piece, 0.0) is not None or reader.refusal is not None:
            break
    return messages, heads, reader.refusal


def check_requests(data: bytes) -> None:
    whole, heads, _ = first = _requests([data])
    for pieces in cuts(data):
        messages, _, refusal = _requests(pieces)
        assert (messages, refusal) == (whole, first[2]), "the requests depend on how their bytes are cut"
    _requests([data], limit=64)
    ours = [message for message in whole if message.whole]
    for one, other in zip(ours, _requests_of_h11(data), strict=False):
        assert (one.start[0], one.start[1], one.body) == other, "h11 reads another request"
    for head in heads:
        _sent_on(head)


def _sent_on(head: RequestHead) -> None:
    """The head that goes to the engine is one head, whatever came: nothing in it ends a line that we did not end."""
    sent = request_bytes(head, engine_authority=b"pod")
    lines = sent.split(b"\r\n")
    assert lines[-2:] == [b"", b""]
    assert not any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines)
    assert all(lines[:-2])
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=_LIMIT)
    server.receive_data(sent)
    try:
        event = server.next_event()
    except h11.RemoteProtocolError:
        return  # h11 is stricter about characters
    assert isinstance(event, h11.Request)
    assert (event.method, event.target) == (head.method, head.target)


def _requests_of_h11(data: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """(method, target, body) of each whole request, up to the first that h11 refuses or that ends its reading."""
    server = h11.Connection(h11.SERVER, max_incomplete_event_size=_LIMIT)
    found: list[tuple[bytes, bytes, bytes]] = []
    try:
        server.receive_data(data)
        while True:
            head, body = server.next_event(), b""
            if not isinstance(head, h11.Request):
                return found
            while isinstance(event := server.next_event(), h11.Data):
                body += bytes(event.data)
            if not isinstance(event, h11.EndOfMessage):
                return found
            target = head.target
            if not target.startswith(b"/"):
                return found  # absolute form: ours is rewritten to origin form
            found.append((head.method, target, body))
            server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            server.send(h11.EndOfMessage())
            if server.our_state is not h11.DONE or server.their_state is not h11.DONE:
                return found
            server.start_next_cycle()
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        return found


# --- responses -----------------------------------------------------------------------------------------------------------


class _Transport:
    """The transport of a connection whose bytes come from the target."""

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        del high

    def is_closing(self) -> bool:
        return False

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


class _Pool:
    clock = staticmethod(lambda: 0.0)
    max_headers = 100

    def __init__(self) -> None:
        self.turns = Turns(self.clock, lambda work: work())

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


class _Exchange:
    """The consumer of one response, which keeps what it is told."""

    def __init__(self) -> None:
        self.heads: list[ResponseHead] = []
        self.body = b""
        self.ended: object = None

    def engine_head(self, head: ResponseHead) -> None:
        self.heads.append(head)

    def engine_read(self, at: float, pieces: list[bytes], *, complete: bool) -> None:
        del at
        assert self.ended is None
        self.body += b"".join(pieces)
        self.ended = "complete" if complete else None

    def engine_chunk(self, at: float, chunk: bytes, said: bytes) -> None:
        assert chunk == b"%x\r\n%b\r\n" % (len(said), said)
        self.engine_read(at, [said], complete=False)

    def engine_failed(self, failure: Failure, at: float) -> None:
        del at
        assert self.ended is None
        self.ended = failure

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def _response(method: bytes, pieces: list[bytes]) -> _Exchange:
    """One answer to `method`, then the end of the connection."""
    exchange = _Exchange()
    connection = EngineConnection(cast("Pool", _Pool()))
    connection.connection_made(cast("asyncio.Transport", _Transport()))
    connection.serve(cast("Consumer", exchange), method, websocket=method == b"GET")
    for piece in pieces:
        connection.data_received(piece)
        if exchange.ended is not None:
            break
    if exchange.ended is None:
        connection.connection_lost(None)
    return exchange


def check_responses(data: bytes) -> None:
    method, data = _METHODS[data[0] % 3] if data else b"GET", data[1:]
    whole = _response(method, [data])
    for pieces in cuts(data):
        one = _response(method, pieces)
        assert (one.heads, one.body, one.ended) == (whole.heads, whole.body, whole.ended), "the cuts change the answer"
    for head in whole.heads:
        lines = response_bytes(head, head.framing, close=False).split(b"\r\n")
        assert lines[-2:] == [b"", b""]
        assert not any(b"\r" in line or b"\n" in line for line in lines)
        assert len(lines) <= 3 + sum(name.lower() not in HOP_BY_HOP for name, _ in head.fields) + 1
    other = _response_of_h11(method, data)
    if whole.ended == "complete" and other is not None and whole.heads[-1].status >= 200:
        assert (whole.heads[-1].status, whole.body) == other, "h11 reads another answer"


def _response_of_h11(method: bytes, data: bytes) -> tuple[int, bytes] | None:
    """Status and body of the final answer, the end of the data being the end of the connection; None: h11 refuses it."""
    try:
        found, _ = answers_by_h11(data, [method], ended=True)
    except RuntimeError:
        return None
    return found[0] if found else None


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nTrailer: x\r\n\r\n"

WIRE = (
    Target(
        "requests",
        check_requests,
        (
            _HEAD + b"Content-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n",
            _HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nX: y\r\n\r\n",
            b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
            _HEAD + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhi",
            b"OPTIONS http://[::1]:1/a?b HTTP/1.0\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
        ),
        (
            *(b"HTTP/1.1\r\n", b"HTTP/1.0\r\n", b"Host: ", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n"),
            *(
                b"\r\n\r\n",
                b"0\r\n\r\n",
                b"Connection: ",
                b"Upgrade: h2c\r\n",
                b"Expect: 100-continue\r\n",
                b"keep-alive",
            ),
            *(b"http://a/", b"\r\n ", b"\t", b"Content_Length: 1\r\n", b"close", b"websocket", b"te", b"gzip, "),
        ),
        most_bytes=512,
    ),
    Target(
        "responses",
        check_responses,
        (
            b"\0" + _CHUNKED,
            b"\2HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            b"\1HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            b"\0HTTP/1.0 200 OK\r\n\r\nuntil the end",
            b"\0HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00",
        ),
        (
            *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 304 N\r\n", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n"),
            *(
                b"\r\n\r\n",
                b"0\r\n\r\n",
                b"Connection: close\r\n",
                b"HTTP/1.1 100 C\r\n\r\n",
                b"RTSP/1.0 ",
                b"Trailer: a",
            ),
        ),
        most_bytes=512,
    ),
)
