"""The client's side of the relay: one connection, one request after the other, whatever arrives in whatever pieces.

Knows how to read HTTP requests (llhttp does), which of them are refused at the door, and how a connection is kept, held
back, lingered on and closed. Requests that arrive while another is being answered (pipelining) wait in order, within a
bound. What a request means and where it goes is the `Exchange`'s business (`relay.py`).
"""

import asyncio
import socket
import struct
from collections import deque
from typing import cast

from sidecar.proxy.errors import Failure, error_response
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import End
from sidecar.proxy.read_limit import TURN_BYTES, ReadLimit
from sidecar.proxy.relay import Exchange
from sidecar.proxy.requests import Part, RequestReader
from sidecar.proxy.road import Road
from sidecar.proxy.tcp import SendTimes, peer_has_left, send_times


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
PIPELINE_BYTES = 65536
"""Bytes of requests that may wait behind the one being answered; past that the connection is not read."""
LINGER_SECONDS = 2.0
LINGER_BYTES = 64 << 20
"""How long, and for how many bytes, the rest of an unwanted upload is read after the answer, so that a reset does not eat the answer (RFC 9112 9.6)."""


def _weight(part: Part) -> int:
    """What a part that waits counts for, in bytes; a head costs more memory than its text."""
    if isinstance(part, bytes):
        return len(part)
    if part is None:
        return 64
    return 1024 + len(part.target) + sum(len(name) + len(value) for name, value in part.fields)


class ClientConnection(ReadLimit):
    """One client connection."""

    def __init__(self, road: Road, all_open: "set[ClientConnection]") -> None:
        """`all_open`: it stands in there for as long as its socket lives."""
        super().__init__(road.pool.soon)
        self.road = road
        self._all_open = all_open
        self.exchange: Exchange | None = None
        limits = road.limits
        self._requests = RequestReader(
            self._deliver,
            max_head_bytes=limits.max_head_bytes,
            max_headers=limits.max_headers,
            max_body_bytes=limits.max_body_bytes,
        )
        self._waiting: deque[Part] = deque()
        self._waiting_bytes = 0
        self._at = 0.0
        self._upload_paused = False
        self._flushing = False
        self._closing = False
        self._lingering_since: float | None = None
        self._lingered_bytes = 0
        self._idle_since = 0.0
        self._after_upgrade: list[bytes] | None = None

    # --- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=self.road.limits.client_buffer_bytes)
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            # A small kernel buffer: a slow client is felt here soon, and not hidden behind megabytes that were "sent".
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.road.limits.client_buffer_bytes)
        self._idle_since = self.road.clock()
        self._all_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        self._all_open.discard(self)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_left(self.road.clock())
        self.transport = None  # not before: what was still unsent decides whether the client has everything

    def eof_received(self) -> bool:
        # A half-closed client cannot be told from one that is gone; every proxy that aborts work for the gone treats both alike.
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_left(self.road.clock())
        return False

    def data_received(self, data: bytes) -> None:
        if len(data) > TURN_BYTES:
            data = self.first_part(data)
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
        elif self._after_upgrade is not None:
            self._hold_after_upgrade(data)
        else:
            self._read(data, at)

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
            exchange.client_flushed(self.road.clock())

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, at: float) -> None:
        behind = self._requests.feed(data, at)
        if behind is not None:
            self._upgrade_asked(behind, at)
        if self._requests.refusal is not None:
            self._refuse(self._requests.refusal, at)

    def _upgrade_asked(self, rest: bytes, at: float) -> None:
        exchange = self.exchange
        if exchange is not None and exchange.head.websocket and not self._waiting:
            self._after_upgrade = []
            self._hold_after_upgrade(rest)
        elif rest:
            # An upgrade that nobody here honours (h2c): the request went on without it, and what follows is HTTP.
            self._read(rest, at)

    def _hold_after_upgrade(self, data: bytes) -> None:
        """Bytes behind a websocket request: for the tunnel if the engine agrees, the next request if it does not."""
        if self._after_upgrade is not None and data:
            self._after_upgrade.append(data)
            self._waiting_bytes += len(data)
            self._update_reading()

    def early_tunnel_bytes(self) -> bytes:
        """The client's bytes that came before the engine's 101, once."""
        early = b"".join(self._after_upgrade or ())
        self._after_upgrade = None
        self._waiting_bytes -= len(early)
        self._update_reading()
        return early

    # --- requests, in order ------------------------------------------------------------------------------------------

    def _deliver(self, part: Part) -> None:
        if self._waiting or not self._may_take():
            if isinstance(part, RequestHead):
                part.websocket = False  # what follows is read as HTTP before the engine can answer
            self._waiting.append(part)
            self._waiting_bytes += _weight(part)
            self._update_reading()
        else:
            self._take(part, self._at)

    def _may_take(self) -> bool:
        """No request is being answered, or the one that is has not been read to its end."""
        return not self._closing and (self.exchange is None or not self.exchange.upload.complete)

    def _take(self, part: Part, at: float) -> None:
        if isinstance(part, RequestHead):
            self._begin(part, at)
        elif self.exchange is not None:
            if part is None:
                self.exchange.client_end(at)
            else:
                self.exchange.client_body(part, at)

    def _begin(self, head: RequestHead, at: float) -> None:
        observer = self.road.observe(head)
        if self.road.in_flight >= self.road.limits.max_in_flight:
            failure = Failure.TOO_MANY_IN_FLIGHT
            observer.close(at, End(failure.outcome, failure))
            self.answer(failure, bodyless=head.method == b"HEAD", upload_complete=False)
            return
        if head.expects_continue:
            self.write(CONTINUE)
        self.exchange = Exchange(self.road, self, head, observer, at)
        if not self.exchange.upload.held:
            self.exchange.forward()

    def exchange_over(self, *, keep_alive: bool) -> None:
        """The response is out whole. Take the next request that waits, or wait for one."""
        self.exchange = None
        if not keep_alive or self.transport is None:
            self.close_when_flushed()
            return
        self.transport.set_write_buffer_limits(high=self.road.limits.client_buffer_bytes)
        self._idle_since = self.road.clock()
        if rest := self.early_tunnel_bytes():
            self._read(rest, self._idle_since)
        self._take_waiting(self._idle_since)

    def _take_waiting(self, at: float) -> None:
        while self._waiting and self._may_take():
            part = self._waiting.popleft()
            self._waiting_bytes -= _weight(part)
            self._take(part, at)
        self._update_reading()
        if self._requests.refusal is not None:
            self._refuse(self._requests.refusal, at)

    # --- holding back ------------------------------------------------------------------------------------------------

    def pause_upload(self) -> None:
        """The engine does not take the upload as fast as it comes."""
        self._upload_paused = True
        self._update_reading()

    def resume_upload(self) -> None:
        """It does again."""
        self._upload_paused = False
        self._update_reading()

    def _update_reading(self) -> None:
        pause = (self._upload_paused or self._waiting_bytes > PIPELINE_BYTES) and not self._closing
        if pause == self.reading_paused:
            return
        if pause:
            self.pause_reading()
        else:
            self.resume_reading()

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
            return False  # the client is gone, and `connection_lost` is on its way to say so
        if self.transport.get_write_buffer_size() == 0:
            return True
        self._flushing = True
        self.transport.set_write_buffer_limits(high=0)  # resume_writing now means: empty
        return False

    def answer(self, failure: Failure, *, bodyless: bool, upload_complete: bool) -> None:
        """Answer in the engine's place, and close: at once if the request had been read whole, else after its rest."""
        self.exchange = None
        self.write(error_response(failure, close=True, bodyless=bodyless))
        if upload_complete:
            self.close_when_flushed()
        else:
            self.linger()

    def _refuse(self, failure: Failure, at: float) -> None:
        """What came is no request that may pass. Nothing after it on this connection can be trusted."""
        exchange = self.exchange
        if exchange is not None:
            if not exchange.upload.complete:
                exchange.fail(failure, at)
            return  # else a pipelined request is at fault, and the one before it is answered first
        if self._closing:
            return
        head = self._requests.refused_head
        if head is not None:
            self.road.observe(head).close(at, End(failure.outcome, failure))
        else:
            self.road.refused(failure)
        self.answer(failure, bodyless=head is not None and head.method == b"HEAD", upload_complete=False)

    def cut_short(self, *, reset: bool) -> None:
        """The response cannot be completed: make that visible. Without a framing of its own only a reset can say so (RFC 9112 8)."""
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
        """Say that nothing more is coming, and read the rest of the upload for a moment before closing."""
        self.exchange = None
        self._closing = True
        self._lingering_since = self.road.clock()
        self._upload_paused = False
        self._waiting.clear()
        self._waiting_bytes = 0
        self._update_reading()
        if self.transport is not None and self.transport.can_write_eof():
            self.transport.write_eof()

    def close_when_flushed(self) -> None:
        """Close once the client's socket has taken everything."""
        self.exchange = None
        self._closing = True
        self._idle_since = self.road.clock()
        self._close()

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close now, whatever is still unsent."""
        if self.transport is not None:
            self.transport.abort()

    # --- limits in time ----------------------------------------------------------------------------------------------

    def sweep(self, at: float) -> None:
        """Close or fail what has taken too long. Called a few times a second."""
        limits = self.road.limits
        if self.exchange is not None:
            self._sweep_exchange(self.exchange, at)
        elif self._lingering_since is not None:
            if at - self._lingering_since > LINGER_SECONDS:
                self.abort()
        elif self._closing:
            if at - self._idle_since > limits.client_write_timeout_seconds:
                self.abort()
        elif self._requests.began_at is not None:
            if at - self._requests.began_at > limits.head_timeout_seconds:
                self._refuse(Failure.HEAD_TIMEOUT, at)
        elif at - self._idle_since > limits.keep_alive_seconds:
            self.abort()

    def _sweep_exchange(self, exchange: Exchange, at: float) -> None:
        if self.reading_paused and self._peer_has_left():
            self.exchange = None
            exchange.client_left(at)
            self.abort()
        elif (failure := exchange.overdue(at)) is not None:
            exchange.fail(failure, at)
            if failure is Failure.CLIENT_WRITE_STALLED:
                self.abort()

    def send_times(self) -> SendTimes | None:
        """What the kernel says about sending on this connection, since it began."""
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        return None if sock is None else send_times(sock)

    def _peer_has_left(self) -> bool:
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        return sock is not None and peer_has_left(sock)

    @property
    def idle(self) -> bool:
        """No request is in flight or half read."""
        return self.exchange is None and self._requests.began_at is None and not self._closing
