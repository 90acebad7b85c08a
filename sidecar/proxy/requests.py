"""Reads requests from the bytes of a client connection: the head, the body, the end. Knows no socket.

llhttp reads HTTP and calls back for every chunk of a body; this reader delivers the chunks of one read as one piece, so
that a chunk costs no Python. It adds what llhttp lacks (limits on heads, on header counts and on framing; trailers kept
out of the head; a refusal of RTSP and ICE, which llhttp reads as if they were HTTP) and asks `headers.py` whether a head may pass. The first refusal ends the reading: nothing behind it on
the same connection can be trusted to be a request.
"""

from collections.abc import Callable

import httptools

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import FRAMING_ABOVE_BODY_BYTES, Framing, RequestHead, check_request


Part = RequestHead | bytes | None
"""A head, a piece of body, or None for the end of the message."""
FIELD_COST_BYTES = 128
"""Bytes that a header field costs in memory beside its text."""
METHOD_BYTES = 64
"""Bytes of an unfinished request line that are kept beside its target: a method and its spaces."""
HTTP2_PREFACE = b"PRI"
"""The method with which HTTP/2 begins where its client has not asked first (RFC 9113 3.4); no request has it."""
OTHER_PROTOCOLS = (b"RTSP/", b"ICE/")
"""Protocols that llhttp reads as if they were HTTP."""
PROTOCOLS = (b"HTTP/", *OTHER_PROTOCOLS)
LONGEST_PROTOCOL = max(map(len, PROTOCOLS))
LINE_BYTES = 4
"""Bytes of a field's line beside its name and its value: colon, space, CR and LF."""


class RequestReader:
    """One connection's requests, delivered in order to `deliver`, from within `feed`."""

    __deletable__ = ("_parser",)  # mypyc asks for it

    def __init__(
        self, deliver: Callable[[Part], None], *, max_head_bytes: int, max_headers: int, max_body_bytes: int
    ) -> None:
        self.refusal: Failure | None = None
        self.refused_head: RequestHead | None = None
        """The head of the refused request, if it was well-formed enough to be read."""
        self.began_at: float | None = None
        """Instant of the first byte of the message that is not complete yet; None between messages."""
        self._deliver = deliver
        self._max_head_bytes = max_head_bytes
        self._max_headers = max_headers
        self._max_body_bytes = max_body_bytes
        self._at = 0.0
        self._url = b""
        self._read = b""
        """The bytes of the present read, and before them the request line that began in an earlier one."""
        self._read_from = 0
        self._unfinished_line = b""
        self._line_judged = False
        # Names beside values, and pairs only when the head is complete: a pair of its own costs 64 bytes for each field of each
        # unfinished head.
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self.in_head = True
        """The head of the next message has not ended."""
        self._pieces: list[bytes] = []
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self._unproductive_bytes = 0
        self._unproductive_limit = max_head_bytes
        self._body_unread: RequestHead | None = None
        self._resuming = False
        self._parser = httptools.HttpRequestParser(self)

    def feed(self, data: bytes, at: float) -> bytes | None:
        """Read what came at `at`. Returns the bytes behind a request that asks for an upgrade, else None."""
        self._at = at
        self._read = self._unfinished_line + data if self._unfinished_line else data
        self._read_from, self._unfinished_line = 0, b""
        self._unproductive_bytes += len(data)
        behind = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as stop:
            behind = self._stopped(stop, data)
        if self._pieces:
            self._deliver_body()
        if self.in_head and self.began_at is not None:
            self._keep_line()
        self._read = b""
        if self._unproductive_bytes > self._unproductive_limit or (
            self.in_head and len(self._names) > self._max_headers  # each field costs more memory than its text
        ):
            # A head, a chunk extension or a trailer without end, or tiny chunks.
            self.refusal = self.refusal or Failure.HEAD_TOO_LARGE
        return behind

    def forget(self) -> None:
        """The connection is gone: let go of it, and of what was read. Else only the garbage collector would free them."""
        self._deliver = _ignored
        self._names, self._values, self._url = [], [], b""
        self._read = self._unfinished_line = b""
        del self._parser  # it holds this reader, which holds it

    @property
    def head_bytes(self) -> int:
        """Bytes of an unfinished head, with the cost of its fields; 0 if none has begun."""
        if not self.in_head or self.began_at is None:
            return 0
        return self._unproductive_bytes + FIELD_COST_BYTES * len(self._names)

    def _keep_line(self) -> None:
        """The read ends within a head: judge the request line now, or keep it until the rest of it comes."""
        if self._line_judged:
            return
        protocol_at = self._protocol_at()
        if protocol_at is not None and protocol_at + LONGEST_PROTOCOL <= len(self._read):
            self._judge_line()
        else:
            spare = len(self._read) - len(self._url) - METHOD_BYTES
            self._unfinished_line = self._read[spare:] if spare > 0 else self._read

    def _judge_line(self) -> None:
        """Refuse a request line that names RTSP or ICE: llhttp takes both, and does not say so.

        Only a body in the same read, before this request, that holds this very line could be mistaken for it.
        """
        self._line_judged = True
        protocol_at = self._protocol_at()
        if protocol_at is not None:
            self._read_from = protocol_at
            if self._read.startswith(OTHER_PROTOCOLS, protocol_at):
                self.refusal = self.refusal or Failure.UNSUPPORTED_VERSION

    def _protocol_at(self) -> int | None:
        """Return where the protocol stands in the present read, behind the method and the target; None if that line is not there.

        In linear time: no method and no target holds a space, so what is compared ends before the next place to look at.
        """
        method, url, read = self._parser.get_method(), self._url, self._read
        at = read.find(method, self._read_from) if url else -1
        while at >= 0:
            behind = _behind_spaces(read, at + len(method))
            if behind > at + len(method) and read.startswith(url, behind):
                protocol_at = _behind_spaces(read, behind + len(url))
                cut = protocol_at + LONGEST_PROTOCOL > len(read)
                if protocol_at > behind + len(url) and (cut or read.startswith(PROTOCOLS, protocol_at)):
                    return protocol_at
            at = read.find(method, at + len(method))
        return None

    def _deliver_body(self) -> None:
        """Deliver the pieces of body that llhttp has called back for since the last delivery, as one."""
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        # The body's own bytes were counted when they came, and each of them allows one byte of framing.
        self._unproductive_bytes = max(0, self._unproductive_bytes - 2 * len(body))
        self._unproductive_limit = min(self._unproductive_bytes + self._max_head_bytes, FRAMING_ABOVE_BODY_BYTES)
        if self.refusal is None:
            self._deliver(body)

    def _stopped(self, stop: Exception, data: bytes) -> bytes | None:
        """The parser has stopped in `data`: at an upgrade, an error of the sidecar itself, or bytes that are no HTTP."""
        while True:
            if isinstance(stop, httptools.HttpParserCallbackError):
                raise stop.__context__ or stop from None  # the sidecar's own: the HTTP is not at fault
            if not isinstance(stop, httptools.HttpParserUpgrade):
                if self._pieces:
                    self._deliver_body()  # these bytes came before the error
                speaks_http2 = self.in_head and self._parser.get_method() == HTTP2_PREFACE
                self.refusal = self.refusal or (Failure.UNSUPPORTED_VERSION if speaks_http2 else Failure.BAD_REQUEST)
                return None
            data = data[stop.args[0] :]
            if self._body_unread is None:
                return data
            self._resume_body(self._body_unread)
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as again:
                stop = again
            else:
                return None

    def _resume_body(self, head: RequestHead) -> None:
        """Read the body of a request that asked for an upgrade: `Upgrade: h2c` on a POST is what Java's HttpClient sends.

        httptools takes every such request for one without a body, whatever its fields say, and would read the body as
        the next request: a way to smuggle one. A fresh parser gets the framing once more, and reads on from there.
        """
        self._body_unread = None
        framing = b"Transfer-Encoding: chunked" if head.framing is Framing.CHUNKED else b"Content-Length: %d"
        if head.framing is Framing.LENGTH:
            framing %= head.content_length
        connection = b"keep-alive" if head.keep_alive else b"close"
        self._parser = httptools.HttpRequestParser(self)
        self._resuming = True
        self._parser.feed_data(
            b"POST / HTTP/%b\r\nConnection: %b\r\n%b\r\n\r\n" % (head.version.encode(), connection, framing)
        )
        self._resuming = False

    # --- llhttp ------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        self._url = b""
        self._line_judged = False
        self.in_head = True
        self.began_at = self._at

    def on_url(self, url: bytes) -> None:
        if not self._resuming:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.in_head:  # else a trailer: dropped, never merged into the head
            self._names.append(name)
            self._values.append(value.rstrip(b" \t"))  # RFC 9110 5.5: white space around a value is no part of it

    def on_headers_complete(self) -> None:
        if self._resuming:
            return
        self.in_head, self._unproductive_bytes = False, 0
        if self._read.startswith(usual := b"%b %b HTTP/" % (self._parser.get_method(), self._url), self._read_from):
            self._read_from += len(usual)  # most requests begin a read
        elif not self._line_judged:
            self._judge_line()
        if self.refusal is not None:
            return
        head = RequestHead(
            method=self._parser.get_method(),
            target=self._url,
            version=self._parser.get_http_version(),
            fields=list(zip(self._names, self._values, strict=True)),
            keep_alive=self._parser.should_keep_alive(),
            accepted_at=self._at if self.began_at is None else self.began_at,
        )
        fields_bytes = sum(map(len, self._names)) + sum(map(len, self._values)) + LINE_BYTES * len(self._names)
        del self._names[:], self._values[:]
        if len(self._url) + fields_bytes > self._max_head_bytes:
            self.refusal = Failure.HEAD_TOO_LARGE
        else:
            self.refusal = check_request(head, max_headers=self._max_headers, max_body_bytes=self._max_body_bytes)
        if self.refusal is not None:
            self.refused_head = head
            return
        if self._parser.should_upgrade() and head.framing is not Framing.NONE:
            self._body_unread = head
        self._deliver(head)

    def on_message_complete(self) -> None:
        if self._body_unread is not None:
            return
        if self._pieces:  # as in `_deliver_body`; what it counts begins anew
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces.clear()
            if self.refusal is None:
                self._deliver(body)
        self.in_head = True
        self._unproductive_bytes = 0
        self._unproductive_limit = self._max_head_bytes
        self.began_at = None
        if self.refusal is None:
            self._deliver(None)


def _behind_spaces(text: bytes, at: int) -> int:
    """The first place from `at` on that is no space."""
    while text[at : at + 1] == b" ":  # in order: the second is one more
        at += 1
    return at


def _ignored(_part: Part) -> None:
    """Takes the parts of a connection that is gone."""
