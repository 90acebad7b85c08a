"""The client's side of the relay: one connection, one request after the other, in pieces of any size.

Knows which requests are refused on arrival, and how a connection is kept, paused, lingered on and closed; llhttp reads
the HTTP. Requests that arrive while another is being answered (pipelining) wait in order, within a bound. Does not know
what a request means or where it goes: that is decided by the `Exchange` (`relay.py`).
"""

import asyncio
import socket
import struct
from typing import cast

from sidecar.proxy.crowd import Crowd
from sidecar.proxy.errors import Failure, error_response
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.holding_back import HeldBack
from sidecar.proxy.observer import End
from sidecar.proxy.read_limit import PARSE_SECONDS, SMALL_BYTES
from sidecar.proxy.relay import Exchange
from sidecar.proxy.requests import Part, RequestReader
from sidecar.proxy.road import Road
from sidecar.proxy.standstill import Now
from sidecar.proxy.tcp import Borrowed, send_reading


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LINGER_SECONDS = 2.0
LINGER_BYTES = 64 << 20
"""Seconds and bytes for which the rest of an unwanted upload is read after the answer, so that a reset does not discard
the answer (RFC 9112 9.6)."""


class ClientConnection(HeldBack):
    """One client connection."""

    def __init__(self, road: Road) -> None:
        super().__init__(road)
        self._crowd: Crowd = road.crowd
        limits = road.limits
        self._requests = RequestReader(
            self._deliver,
            max_head_bytes=limits.max_head_bytes,
            max_headers=limits.max_headers,
            max_body_bytes=limits.max_body_bytes,
        )
        self._socket: socket.socket | None = None
        self._at = 0.0
        self._flushing = False
        self._lingering_since: float | None = None
        self._lingered_bytes = 0
        self._idle_since = 0.0
        self._leaves = False
        """The client has closed its half; that its request ends waits for a turn."""

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.road.limits.client_buffer_bytes)
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            # A small kernel buffer: a slow client is noticed soon, and not hidden behind megabytes that were "sent".
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.road.limits.client_buffer_bytes)
        self._idle_since = at = self.road.clock()
        refusal = self._crowd.enter(self, at, sock, self.road.limits.max_connections_per_peer)
        if refusal is not None:
            self.road.refused(refusal)
            self._closing = True
            self.write(error_response(refusal, close=True))
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.exchange is not None and self.is_our_error(exc):
            self.transport = None
            self.exchange.fail(Failure.INTERNAL, self.road.clock())
        self._crowd.leave(self)
        self._end_exchange()
        self._waiting.drop()
        self._requests.forget()
        self._unwatch()
        self._socket = None
        self.transport = None  # not earlier: the unsent bytes decide whether the client has everything

    def eof_received(self) -> bool:
        # A half-closed client cannot be told from one that has left; every proxy that aborts work for clients that have
        # left treats both alike.
        if self.exchange is not None and self._turns.busy:
            # Forty clients that leave at once hold up the streams of the others as forty reads do.
            self._leaves = True
            self._turns.wait(self)
            return True
        began_at = self.road.clock()
        self._end_exchange()
        self._turns.spend(began_at)
        return False

    def _end_exchange(self) -> None:
        """The connection ends. What has come of a request that has not begun has no observer: it is counted here."""
        exchange = self.exchange
        super()._end_exchange()
        of_exchange = exchange is not None and (exchange.tunnel or not exchange.upload.complete)
        if not (self._closing or of_exchange) and (self.lost_unread or not self.idle):
            self.road.dropped("request_unread")
        self._closing = True  # a turn may come before the connection is lost: what waits on it must not begin any more

    def leave(self) -> None:
        """If the client has left, and its turn has not come yet: end its request now."""
        if self._leaves:
            self._end_exchange()
            self._close()

    def data_received(self, data: bytes) -> None:
        if not self.slicing and (len(data) > SMALL_BYTES or self._unread or self._turns.busy):
            self.take_in_turn(data)
            return
        self._at = at = self.road.clock()
        if self._lingering_since is not None:
            self._lingered_bytes += len(data)
            if self._lingered_bytes > LINGER_BYTES:
                self.abort()
            return
        if self._closing or self._requests.refusal is not None:
            return
        if self.exchange is not None and self.exchange.tunnel:
            self.exchange.client_tunnel(data)
        elif self._waiting.behind_upgrade:
            self._hold_after_upgrade(data)
        else:
            self._read(data, at)
            if not self.slicing:
                self._turns.spend(at)

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.client_blocked()

    def resume_writing(self) -> None:
        exchange = self.exchange
        if exchange is None:
            if self._closing:
                self._close()
            return
        exchange.client_unblocked()
        if self._flushing:
            self._flushing = False
            if self.transport is not None:
                self.transport.set_write_buffer_limits(high=self.road.limits.client_buffer_bytes)
            exchange.client_flushed(self.road.clock())

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, at: float) -> None:
        requests = self._requests
        behind = requests.feed(data, at)
        self.cheap_bytes = 0
        if requests.in_head and requests.began_at is not None:
            counts = not self.unread_bytes  # else its end may have been read already
        else:
            counts = self._waiting.head_bytes > 0
        if counts and not self._waiting.count_head(requests.head_bytes):
            requests.refusal = requests.refusal or Failure.NO_ROOM_FOR_HEAD
        if behind is not None:
            self._upgrade_asked(behind)
        if requests.refusal is not None:
            self._refuse(requests.refusal, at)
        elif (exchange := self.exchange) is not None and not exchange.upload.complete:
            if exchange.upload.held:
                self.cheap_bytes = exchange.head.content_length - exchange.upload.size
            if self.reading_paused or self._read_to == len(self._unread):
                self._stands_at_gate(at)

    def _upgrade_asked(self, rest: bytes) -> None:
        exchange = self.exchange
        if exchange is not None and exchange.head.websocket and not self._waiting.parts:
            self._hold_after_upgrade(rest)
        elif rest:
            # An upgrade that the sidecar does not support (h2c): the request went on without it; the rest is HTTP.
            self.put_back(rest)

    # --- requests, in order ------------------------------------------------------------------------------------------

    def _deliver(self, part: Part) -> None:
        """Take a part now, unless others wait before it; one that is read is taken, or waits, in its order."""
        exchange = self.exchange
        if self._waiting.parts or self._closing or (exchange is not None and exchange.upload.complete):
            self._hold(part)
        elif isinstance(part, RequestHead):
            self._begin(part, self._at)
        elif exchange is not None and part is not None:
            exchange.client_body(part, self._at)
        elif exchange is not None:
            exchange.client_end(self._at)
            if exchange.upload.looking is not None:
                self.has_long_work()

    def _hold(self, part: Part) -> None:
        if isinstance(part, RequestHead):
            part.websocket = False  # what follows is read as HTTP before the engine can answer
        if not self._closing:
            self._waiting.add(part)
            self._update_reading()

    def _take(self, part: Part, at: float) -> None:
        if isinstance(part, RequestHead):
            self._begin(part, at)
        elif (exchange := self.exchange) is not None and part is not None:
            exchange.client_body(part, at)
        elif exchange is not None:
            exchange.client_end(at)
            if exchange.upload.looking is not None:
                self.has_long_work()

    def _begin(self, head: RequestHead, at: float) -> None:
        observer = self.road.observe(head)
        if head.expects_continue:
            self.write(CONTINUE)
        self._crowd.without_request.pop(self, None)
        self.exchange = exchange = Exchange(self.road, self, head, observer, at)
        if not exchange.upload.held:
            exchange.forward()

    def exchange_over(self, *, keep_alive: bool) -> None:
        """The response was sent whole. Take the next request that waits, or wait for one."""
        self.exchange, self._upload_paused = None, False
        if not keep_alive or self.transport is None:
            self.close_when_flushed()
            return
        self._idle_since = self.road.clock()
        if self._waiting.behind_upgrade:
            self.put_back(self.early_tunnel_bytes())
        if self._waiting.parts:
            self._update_reading()
            self._turns.wait(self)  # a pipeline is work of this client, not of the engine's read that ends here
        elif self.reading_paused or self._requests.refusal is not None:
            self._take_waiting(self._idle_since)
        elif not self._closing:
            self._crowd.without_request[self] = None

    def _look_on(self, began_at: float) -> None:
        """Let the observer read the long body that has come, a step at a time; then it goes to the engine."""
        exchange = self.exchange
        try:
            if exchange is None or exchange.upload.looking is None:
                self.long_work = False
                if exchange is not None:
                    exchange.forward()  # a turn of its own: the write of a megabyte takes as long as some steps
                return
            while due := exchange.upload.look_on(self.has_long_work):
                if self._turns.clock() - began_at >= PARSE_SECONDS:
                    break
            self.long_work = due or exchange.upload.looking is None
        except BaseException as error:
            self.break_off(error)
            raise

    def have_turn(self, began_at: float) -> bool:
        if self._leaves:
            self.leave()
            return False
        if self.long_work:
            self._look_on(began_at)
            return self.long_work or super().have_turn(began_at)
        if self.exchange is None and self._waiting.parts and self.transport is not None:
            self._take_waiting(began_at)
        return super().have_turn(began_at)

    def _take_waiting(self, at: float) -> None:
        while (
            self._waiting.parts and not self._closing and (self.exchange is None or not self.exchange.upload.complete)
        ):
            self._take(self._waiting.next(), at)
        if self.exchange is None and not self._closing:
            self._crowd.without_request[self] = None
        self._update_reading()
        if self._requests.refusal is not None:
            self._refuse(self._requests.refusal, at)
        elif self.exchange is not None:
            self._stands_at_gate(at)

    # --- writing and closing -----------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Hand bytes to the client's socket."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the client's socket has not taken yet."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def flush(self) -> bool:
        """Whether the client's socket has taken everything; if not, `Exchange.client_flushed` follows when it has."""
        if self.transport is None or self.transport.is_closing():
            return False  # the client is gone: `connection_lost` will follow
        if self.transport.get_write_buffer_size() == 0:
            return True
        self._flushing = True
        self.transport.set_write_buffer_limits(high=0)  # resume_writing now means: empty
        return False

    def answer(self, failure: Failure, *, bodyless: bool, upload_complete: bool) -> None:
        """Answer in the engine's place, and close: at once if the request had been read whole, else after its rest."""
        self.exchange = None
        again = self.road.retry_after_seconds() if failure.value.by_drain else None
        self.write(error_response(failure, close=True, bodyless=bodyless, retry_after_seconds=again))
        if upload_complete:
            self.close_when_flushed()
        else:
            self.linger()

    def _refuse(self, failure: Failure, at: float) -> None:
        """Refuse bytes that are no acceptable request. Nothing after them on this connection can be trusted."""
        exchange = self.exchange
        if exchange is not None:
            if not exchange.upload.complete:
                exchange.fail(failure, at)
            return  # if the upload is complete, a pipelined request is at fault: the one before it is answered first
        if self._closing or self._waiting.parts:
            return  # requests that came before these bytes are answered first
        head = self._requests.refused_head
        if head is not None:
            self.road.observe(head).close(at, End(failure.outcome, failure))
        else:
            self.road.refused(failure)
        self.answer(failure, bodyless=head is not None and head.method == b"HEAD", upload_complete=False)

    def cut_short(self, *, reset: bool) -> None:
        """Show the client that the response is incomplete. Without framing, only a reset can (RFC 9112 8)."""
        self.exchange = None
        if not reset:
            self.close_when_flushed()
            return
        if self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.abort()

    def linger(self) -> None:
        """Close the sending half, and read the rest of the upload for up to LINGER_SECONDS before closing."""
        self.exchange = None
        self._closing = True
        self._lingering_since = self.road.clock()
        self._upload_paused = False
        self._waiting.drop()
        self._update_reading()
        self._crowd.without_request[self] = None
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()

    def close_when_flushed(self) -> None:
        """Close once the client's socket has taken everything."""
        self.exchange = None
        self._closing = True
        self._idle_since = self.road.clock()
        if self.transport is not None:
            self._crowd.without_request[self] = None
        self._close()

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def leave_room(self, at: float) -> None:
        """Another client needs the room of this connection, on which no request is being answered."""
        if self._requests.began_at is not None and not self._closing:
            self._refuse(Failure.MADE_ROOM, at)
        self.abort()

    # --- limits in time ----------------------------------------------------------------------------------------------

    def sweep(self, now: Now) -> None:
        """Close or fail what has taken too long. Called a few times a second."""
        limits = self.road.limits
        if self.exchange is not None:
            self._sweep_exchange(self.exchange, now)
        elif self._lingering_since is not None:
            if now.since(self._lingering_since) > LINGER_SECONDS:
                self.abort()
        elif self._closing:
            if now.since(self._idle_since) > limits.client_write_timeout_seconds:
                self.abort()
        elif self.unread_bytes or self._waiting.parts:
            return  # it has come, and waits for its turn
        elif self._requests.began_at is not None:
            if now.since(self._requests.began_at) > limits.head_timeout_seconds:
                self._refuse(Failure.HEAD_TIMEOUT, self.road.clock())
        elif now.since(self._idle_since) > limits.keep_alive_seconds:
            self.abort()

    def _sweep_exchange(self, exchange: Exchange, now: Now) -> None:
        if (failure := exchange.overdue(now)) is not None:
            exchange.fail(failure, self.road.clock())
            if failure in (Failure.CLIENT_WRITE_STALLED, Failure.CLIENT_TAKES_TOO_SLOWLY):
                self.abort()

    def send_reading(self) -> bytes | None:
        """The kernel's times of sending on this connection, since it began; None if it keeps none."""
        if self._socket is None and self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            self._socket = None if sock is None else Borrowed(sock)
        return None if self._socket is None else send_reading(self._socket)

    @property
    def idle(self) -> bool:
        """Whether no request is in flight or half read."""
        waits = self.unread_bytes or self._waiting.parts
        return not (self.exchange or self._closing or waits) and self._requests.began_at is None
