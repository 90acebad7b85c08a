"""The client's bytes that are held back: it is not read while the engine does not keep up, or while too much waits.

Knows why a client is not read, and counts the bytes of it that were read before. Meanwhile the kernel says whether the
client has left, because its end would not be read either. Refuses to know what the bytes mean and how a connection ends:
that is decided in `accept.py`.
"""

from sidecar.proxy.leavers import Watch
from sidecar.proxy.read_limit import ReadLimit
from sidecar.proxy.relay import Exchange
from sidecar.proxy.road import Road
from sidecar.proxy.waiting import Waiting


class HeldBack(ReadLimit):
    """Base of `ClientConnection`: everything that stops its reading."""

    def __init__(self, road: Road) -> None:
        super().__init__(road.turns)
        self.road = road
        self.exchange: Exchange | None = None
        self._waiting = Waiting(road.budgets.held)
        self._upload_paused = False
        self._closing = False
        self._watch: Watch | None = None
        """While reading is paused: the kernel's word that the client has left."""

    def pause_upload(self) -> None:
        """Stop reading the upload: the engine does not take it as fast as it comes."""
        self._upload_paused = True
        self._update_reading()
        if self.unread_bytes and not self.slicing:  # else the piece that is being parsed may end the upload
            self._stands_at_gate(self.road.clock())

    def resume_upload(self) -> None:
        """Read the upload again: the engine takes it."""
        self._upload_paused = False
        self._update_reading()

    def _stands_at_gate(self, at: float) -> None:
        """All that may be parsed is parsed: an upload that is not whole now is one of those that run."""
        exchange = self.exchange
        if exchange is None or exchange.upload.complete or self._waiting.parts:
            return
        if self.reading_paused or not self.unread_bytes:
            exchange.client_pauses(at)

    def _hold_after_upgrade(self, data: bytes) -> None:
        self._waiting.hold(data)
        self._update_reading()

    def early_tunnel_bytes(self) -> bytes:
        """The client's bytes that came before the engine's 101; a second call returns none."""
        early = self._waiting.release()
        self._update_reading()
        return early

    def _update_reading(self) -> None:
        waiting = self._waiting
        pause = (self._upload_paused or (waiting.bytes > 0 and waiting.full)) and not self._closing
        if pause == self.reading_paused:
            return
        if pause:
            self.pause_reading()
        else:
            self.resume_reading()

    def pause_reading(self) -> None:
        super().pause_reading()
        self._waiting.count_unread(len(self._unread) if self.unread_bytes else 0)
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        if sock is not None and self._watch is None:
            self._watch = self.road.leavers.watch(sock, self._left_unread)

    def resume_reading(self) -> None:
        self._unwatch()
        self._waiting.count_unread(0)
        super().resume_reading()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self.road.leavers.unwatch(self._watch)
            self._watch = None

    def _left_unread(self) -> None:
        """The client has left, and its last bytes are not read: they do not matter, unless they belong to a tunnel."""
        self._watch = None
        if self.exchange is None or not self.exchange.tunnel:
            self._end_exchange()
            self.abort()

    def _end_exchange(self) -> None:
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.client_left(self.road.clock())

    def abort(self) -> None:
        """Close now; unsent bytes are lost."""
        if self.transport is not None:
            self.transport.abort()
