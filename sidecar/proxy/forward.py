"""The engine's side of the relay: one connection, and the reading of its responses.

Knows how to read an HTTP response, and hands what it reads to the `Exchange` that currently owns the connection
(`relay.py`) without looking inside. A connection serves again only if its last message ended exactly where its framing
said, with nothing behind it and nothing of the upload missing; `pool.py` keeps it until then.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

import httptools

from sidecar.proxy.chunks import CHUNK, SIZE_LINE_BYTES
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import (
    ANSWER_HEADS_BYTES,
    FRAMING_ABOVE_BODY_BYTES,
    NOT_IN_A_REASON,
    Framing,
    ResponseHead,
    members,
    read_response_framing,
)
from sidecar.proxy.read_limit import SMALL_BYTES, Turns
from sidecar.proxy.sending import Consumer, Sending
from sidecar.proxy.tcp import acknowledge_at_once


LEAVES_AFTER_STREAMS = frozenset({b"llama.cpp"})
"""`Server` of engines that announce keep-alive and yet close after each stream, a millisecond later (seen on llama.cpp
b11434, after every chunked answer). The next request would race with that, and most of those that lose have no proof that they may
be sent again (`idle_edge.py`)."""
CHUNK_FRAMING_BYTES = 8
"""Framing that a chunk may have on top, whatever its length: so tiny chunks alone, as from an engine that streams plain
text token by token, are never too many."""
MOST_PIECES = 64
"""Most chunks of one read that are passed on as they are. More are joined: each costs some Python, and chunk boundaries
mean nothing (RFC 9112 7.1)."""


_LF_CR_LF = b"\n\r\n"
_START = re.compile(rb"[\r\n]*HTTP/1\.")
"""The beginning of a response. Parsers skip empty lines before it (RFC 9112 2.2 asks servers to)."""


class Pool(Protocol):
    """Keeps the connections that are open, and those that are idle."""

    clock: Callable[[], float]
    max_headers: int
    turns: Turns

    def opened(self, connection: "EngineConnection") -> None: ...
    def put(self, connection: "EngineConnection") -> None: ...
    def discard(self, connection: "EngineConnection") -> None: ...
    def closes(self, connection: "EngineConnection") -> None: ...
    def closed(self, connection: "EngineConnection") -> None: ...


# One read from the engine takes these steps:
#   1. The connection parses all of it. A head calls `Exchange.engine_head`, which only puts the client's head into `_out`.
#      A read that is one chunk, as an engine sends a token, goes to `Exchange.engine_chunk`: that is steps 2 to 4 in short.
#   2. `Exchange.engine_read` gets all pieces of body at once. With a new head it first asks `observer.head` for a cutter.
#   3. `Exchange._write` passes the pieces through the cutter and writes everything at once.
#   4. `observer.data` gets the bytes as read. If the response is complete, `_answered` follows.
# A failure that the same read brought comes last, as `engine_failed`, so the bytes before it reach the client.
class EngineConnection(Sending):
    """One connection to the engine, and the parser of its responses."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool.turns)
        self.pool = pool
        self.idle_since = 0.0
        self._method = b""
        self._websocket = False
        self._parser: httptools.HttpResponseParser | None = None
        self._reason = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._max_headers = 0
        self._head: ResponseHead | None = None
        self._pieces: list[bytes] = []
        self.on_body: Callable[[bytes], None] = self._pieces.append
        self._pieces_of_message = 0
        self._complete = False
        self._excess = False
        self._framing_bytes = 0
        self._between_chunks = False
        """The parser stands behind a whole chunk: it need not see a read that is one chunk, because it would stand there again."""
        self._began: list[bytes] | None = None
        """The reads from the first one until a final head is complete."""
        self._head_from = 0
        """The place in them at which the next head begins."""
        self._failure: Failure | None = None
        self._tunnel = False

    # --- one exchange ------------------------------------------------------------------------------------------------

    def serve(self, consumer: Consumer, method: bytes, *, websocket: bool = False) -> None:
        """Take the connection for one exchange.

        `method` decides whether the answer has a body, `websocket` whether it may be a 101.
        """
        self.consumer = consumer
        self.reused = self._written_bytes > 0
        self._written_before = self._written_bytes
        self._method = method
        self._websocket = websocket
        self._parser = httptools.HttpResponseParser(self)
        self._reason, self._fields, self._head = b"", [], None
        self._complete = self._excess = False
        self._failure = None
        self._framing_bytes = 0
        self._between_chunks = False
        self._began = []
        self._head_from = 0

    def release(self, *, upload_complete: bool) -> None:
        """The exchange is over: into the pool if both messages ended exactly, else closed."""
        exact = self._complete and not self._excess and self._read_to == len(self._unread)
        exact = exact and not self._tunnel and upload_complete
        reusable = exact and self._head is not None and self._head.reusable and not self.blocked
        self.consumer = None
        self._parser = None
        if reusable and self.transport is not None and not self.transport.is_closing():
            if self.reading_paused:  # for this exchange's slow client; the next client is another one
                self.resume_reading()
            self.pool.put(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once, so that the engine stops working for this request."""
        self.consumer = None
        self.drop_unread()
        if self.transport is not None:
            self.transport.abort()

    def close(self) -> None:
        """Close once the socket has taken what was written: the end of a tunnel."""
        self.consumer = None
        self.drop_unread()
        if self.transport is not None:
            self.pool.closes(self)
            self.transport.close()

    @property
    def unwanted(self) -> bool:
        """A connection that closes because a write failed may still hold an answer that was read before."""
        return self.consumer is None

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # No user-space buffer towards the engine: bytes that its socket does not take stop the upload, and the instant
        # at which the buffer is empty is `sent_at`.
        self.transport.set_write_buffer_limits(high=0)
        self.pool.opened(self)

    def eof_received(self) -> bool:
        nothing_came = self._began == [] and not self._unread
        if nothing_came and self.seek_proof(self._proven):
            return True  # what is still unsent must go out: the engine's answer to it is the proof
        # At once, not when `close` has flushed: an engine that answers and closes may never take the upload's rest.
        self.after_unread(partial(self._lost, None))  # the unread bytes came before the end of the connection
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.after_unread(partial(self._lost, exc))

    def _proven(self, never_had_it: bool) -> None:
        consumer = self.consumer
        if never_had_it and consumer is not None:
            self.pool.closed(self)
            self._parser = None
            self.abort()
            consumer.engine_never_had_it(
                f"the engine's end, then a reset, 0 of {self.request_bytes} bytes acknowledged"
            )
            return
        self._lost(None)
        self.abort()

    def _lost(self, exc: Exception | None) -> None:
        if self.in_question:
            self.pool.closed(self)
            return  # `_proven` ends the exchange
        self._parser = None  # it holds this connection, which holds it: only the garbage collector would free them
        self.pool.closed(self)
        consumer, self.consumer = self.consumer, None
        if consumer is None:
            return
        at = self.pool.clock()
        if self.is_our_error(exc):
            consumer.engine_failed(Failure.INTERNAL, at)
        elif self._tunnel:
            consumer.engine_failed(Failure.ENGINE_TRUNCATED, at)
        elif self._head is None:
            consumer.engine_failed(Failure.ENGINE_CLOSED, at)
        elif self._head.framing is Framing.UNTIL_CLOSE and exc is None:
            # The end of the connection is the end of the message; a reset is not.
            self._complete = True
            consumer.engine_read(at, [], complete=True)
        else:
            consumer.engine_failed(Failure.ENGINE_TRUNCATED, at)
        if self.blocked:
            self.abort()

    def data_received(self, data: bytes) -> None:
        at = self.pool.clock()
        consumer, parser = self.consumer, self._parser
        if consumer is None or parser is None:
            self._unexpected()
            return
        size = len(data)
        if self._between_chunks and size <= SMALL_BYTES and (self.slicing or not self._unread):
            begins = data.find(b"\n", 0, SIZE_LINE_BYTES) + 1
            # A size line that came by itself says nothing: mypyc 2.4 refuses a slice of bytes that ends before it begins.
            said = data[begins:-2] if size > begins + 1 else b""  # in order: the condition says so
            # It is what CHUNK makes of its body, and its framing is no more than `_body` allows: the last chunk's is more.
            if data == CHUNK % (len(said), said) and self._framing_bytes + size <= 2 * len(said):
                self._framing_bytes = 0
                consumer.engine_chunk(at, data, said)
                return
        began = self._began  # a head, or a part of it
        if (size > SMALL_BYTES or self._unread or (began is not None and self._turns.busy)) and not self.slicing:
            self.take_in_turn(data)
        elif self._tunnel:
            consumer.engine_read(at, [data], complete=False)
        else:
            if began is not None:
                began.append(data)
            ends = self._parse(at, consumer, parser, data)
            if ends or began is not None:
                if not ends and self.socket is not None:
                    acknowledge_at_once(self.socket)  # the engine may keep the body until its head is acknowledged
                if not self.slicing:
                    self._turns.spend(at)  # the begin and the end of an answer cost ten times as much as a token

    def _parse(self, at: float, consumer: Consumer, parser: httptools.HttpResponseParser, data: bytes) -> bool:
        """Parse a read and hand on what it brought. Returns whether the answer ended with it."""
        self._framing_bytes += len(data)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as stop:
            self._parser_stopped(stop, data)
        self._between_chunks = data[-3:] == _LF_CR_LF and not self._complete and self._after_chunk(data)
        if len(self._pieces) == 1 and not self._complete and self._framing_bytes <= 2 * len(self._pieces[0]):
            self._framing_bytes, pieces = 0, [self._pieces.pop()]  # a token, as `_body` would give it
        else:
            pieces = self._body()
        if self._failure is not None:
            self._refuse(self._failure, consumer, at, pieces)
            return True
        ends = self._complete  # the connection may serve another exchange already when this call returns
        consumer.engine_read(at, pieces, complete=ends)
        return ends

    def _after_chunk(self, data: bytes) -> bool:
        """Whether the line end behind the LF at the end of `data` is that of a chunk: an event's, as engines send them.

        It ends no size line and no trailer, because these are not empty. And it is no part of a body, be it in chunks or not:
        else the last piece would be the last bytes of the read.
        """
        return bool(self._pieces) and not data.endswith(self._pieces[-1])

    def _unexpected(self) -> None:
        """Bytes came on an idle connection: they would be read as the next client's answer."""
        self.pool.discard(self)
        self.abort()

    def _refuse(self, failure: Failure, consumer: Consumer, at: float, pieces: list[bytes]) -> None:
        self.consumer = None
        answered = self._head is not None and self._head.status >= 200
        consumer.engine_read(at, pieces if answered else [], complete=False)
        consumer.engine_failed(failure, at)
        self.abort()

    def _body(self) -> list[bytes]:
        """The pieces of the message's body that the last read brought. Framing that outweighs the body is a failure."""
        pieces = self._pieces[:]
        self._pieces.clear()  # the list itself stays: `on_body` is its `append`
        if self._complete and len(pieces) > self._pieces_of_message:
            self._excess = True
            del pieces[self._pieces_of_message :]
        if pieces:
            # The body's own bytes were counted when they came, and each of them allows one byte of framing.
            if 2 * len(pieces[0]) < self._framing_bytes:
                allowed = 2 * sum(map(len, pieces)) + CHUNK_FRAMING_BYTES * len(pieces)
                self._framing_bytes = max(0, self._framing_bytes - allowed)
            else:
                self._framing_bytes = 0
        if self._framing_bytes > FRAMING_ABOVE_BODY_BYTES and not self._complete:
            in_heads = self._head is None or self._head.status < 200
            if not in_heads or self._framing_bytes > ANSWER_HEADS_BYTES:
                self._failure = self._failure or Failure.ENGINE_BAD_RESPONSE
        return pieces if len(pieces) <= MOST_PIECES else [b"".join(pieces)]

    def _parser_stopped(self, stop: Exception, data: bytes) -> None:
        """The parser has stopped in `data`: at a switch of protocols, an error of the sidecar itself, or bytes that are no HTTP."""
        if isinstance(stop, httptools.HttpParserCallbackError):
            raise stop.__context__ or stop from None  # the sidecar's own: the HTTP is not at fault
        if isinstance(stop, httptools.HttpParserUpgrade):
            self._upgraded(data[stop.args[0] :])
        else:
            self._unparseable()

    def _unparseable(self) -> None:
        if self._complete:
            self._excess = True  # garbage behind a complete message: the message is valid, the connection is not reused
        elif self._head is None or self._head.status < 200:
            self._failure = self._failure or Failure.ENGINE_BAD_RESPONSE
        else:
            self._failure = self._failure or Failure.ENGINE_TRUNCATED

    def _upgraded(self, rest: bytes) -> None:
        if self._head is not None and self._head.status == 101 and not self._failure:
            self._tunnel = True
            self._began = None
            self._framing_bytes = 0
            if rest:
                self._pieces.append(rest)
        else:
            self._unparseable()

    # --- llhttp ------------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            self._excess = True
        elif self._head is not None and self._head.status < 200:
            self._reason, self._fields, self._head = b"", [], None  # the final response behind a 1xx (RFC 9110 15.2)

    def on_status(self, reason: bytes) -> None:
        if not self._complete:
            self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come this way too, after the body has begun: they are dropped, never merged into the head.
        if self._head is None and not self._complete:
            if len(self._fields) >= self.pool.max_headers:
                # Not kept: thousands of fields on each of forty connections make one garbage collection take 60 ms.
                self._failure = self._failure or Failure.ENGINE_BAD_RESPONSE
                return
            self._fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._complete or self._failure is not None or self._parser is None or self.consumer is None:
            return
        status = self._parser.get_status_code()
        version = self._parser.get_http_version()
        head = ResponseHead(status, self._reason, self._fields, Framing.NONE)
        found = head.found
        framing = read_response_framing(self._method, status, found)
        options = members(found[b"connection"]) if b"connection" in found else ()
        agreed = status != 101 or (
            self._websocket and b"upgrade" in options and members(found.get(b"upgrade", ())) == [b"websocket"]
        )
        spoken = self._is_http(status) and version in ("1.0", "1.1") and not NOT_IN_A_REASON.search(self._reason)
        if framing is None or not agreed or not spoken:
            self._failure = Failure.ENGINE_BAD_RESPONSE
            return
        head.framing, head.content_length = framing
        chunked = head.framing is Framing.CHUNKED
        head.reusable = (
            b"close" not in options
            and head.framing is not Framing.UNTIL_CLOSE
            # HTTP/1.0 has no chunks: after such framing the connection is not reused (RFC 9112 6.1).
            and (version == "1.1" or (b"keep-alive" in options and not chunked))
            and not (chunked and b"server" in found and not LEAVES_AFTER_STREAMS.isdisjoint(found[b"server"]))
        )
        self._head = head
        self.consumer.engine_head(head)
        if status < 200:
            return
        self._framing_bytes = 0
        if head.framing is Framing.NONE:
            # llhttp cannot know that this answers a HEAD and would wait for a body that never comes.
            self.on_message_complete()

    def _is_http(self, status: int) -> bool:
        """Whether the head that is now complete says HTTP/1: llhttp reads RTSP/1.0 and ICE/1.0 in the same way."""
        reads, self._began = self._began or [b""], None
        began = reads[0] if len(reads) == 1 else b"".join(reads)
        start = _START.match(began, self._head_from)
        if start is not None and status < 200:  # no body follows an interim head: the next head begins where it ends
            self._began, self._head_from = [began], began.find(b"\r\n\r\n", start.end())
        return start is not None

    def on_message_complete(self) -> None:
        if not self._complete and self._head is not None and self._head.status >= 200:
            self._complete = True
            self._pieces_of_message = len(self._pieces)
