"""The response half of an exchange: each read of the engine's answer is written to the client, then shown to the observer.

Knows heads, framing and the cutter, and the observer's hooks for an answer. Refuses to know the request, why an exchange
ends, and what follows then: that is decided in `relay.py`. The steps of a read stand in `forward.py`.
"""

import asyncio

from sidecar.proxy.chunks import CHUNK, LAST_CHUNK
from sidecar.proxy.client import Client
from sidecar.proxy.guard import Guard, GuardedCutter
from sidecar.proxy.headers import Framing, RequestHead, ResponseHead, response_bytes
from sidecar.proxy.road import OVERHEAD_SAMPLE, Road
from sidecar.proxy.upload import Upload


class Answering:
    """Base of `Exchange`: everything that comes from the engine and goes to the client."""

    # Set by `Exchange`, in one call for both halves.
    road: Road
    client: Client
    head: RequestHead
    observer: Guard
    upload: Upload
    tunnel: bool
    engine_read_at: float
    _response: ResponseHead | None
    _framing: Framing
    _chunked: bool
    """The client gets chunks."""
    _keep_alive: bool
    _transport: asyncio.Transport | None
    """The client's."""
    _out: list[bytes]
    """Heads that are to be written with the next bytes of body."""
    _cutter: GuardedCutter | None
    _response_complete: bool
    _sent_before: bytes | None
    _ended: bool

    def engine_head(self, head: ResponseHead) -> None:
        """A response head: interim ones are passed on as they are, the final one is framed for the client."""
        if head.status < 200 and head.status != 101:
            # RFC 9110 15.2: a proxy forwards 1xx, but not to HTTP/1.0; the sidecar itself answers `Expect` with 100.
            if head.status != 100 and self.head.version == "1.1":
                self._out.append(response_bytes(head, Framing.NONE, close=False))
            return
        self._response = head
        self.upload.forget()
        self._framing = head.framing
        old = self.head.version == "1.0"
        if head.framing is Framing.CHUNKED and old:
            self._framing = Framing.UNTIL_CLOSE
        self._chunked = self._framing is Framing.CHUNKED
        self.tunnel = head.status == 101
        self._keep_alive = (
            self.head.keep_alive
            and self.upload.complete
            and self._framing is not Framing.UNTIL_CLOSE
            and not self.road.draining
        )
        self._out.append(
            response_bytes(
                head,
                self._framing,
                close=not self._keep_alive,
                keep_alive=old,
                upgrade=self.tunnel,
                caused=self.upload.instead.caused,
            )
        )

    def engine_read(self, at: float, pieces: list[bytes], *, complete: bool) -> None:
        """All of one read has been parsed: write it in one piece, then let the observer see it."""
        if self._ended:
            return
        self.engine_read_at = at
        self._response_complete = complete
        if self._out and self._response is not None:
            self._show_head(at, self._response, complete=complete)
        self._write(at, pieces)
        if self.tunnel:
            self.client_tunnel(self.client.early_tunnel_bytes())
            return
        if pieces:
            try:
                self.observer.data(at, pieces[0] if len(pieces) == 1 else b"".join(pieces))
            except Exception:  # noqa: BLE001  see `guard.py`
                self.observer.blinded()
        if complete:
            self._answered(at)

    def engine_chunk(self, at: float, chunk: bytes, said: bytes) -> None:
        """A read that is one whole chunk: a client that gets chunks gets these very bytes, unless the cutter changes them."""
        if self._out or not self._chunked or self._ended:
            self.engine_read(at, [said], complete=False)
            return
        self.engine_read_at = at
        kept = said if self._cutter is None else self._cutter.cut(said)
        if kept:
            self._send(at, chunk if kept is said else CHUNK % (len(kept), kept))
        try:
            self.observer.data(at, said)
        except Exception:  # noqa: BLE001  see `guard.py`
            self.observer.blinded()

    def _write(self, at: float, pieces: list[bytes]) -> None:
        """Write all of one read at once, less the bytes cut out: the head, if there is one, and the body in this
        client's framing.
        """
        out, self._out = self._out, []
        cutter, chunked, complete = self._cutter, self._chunked, self._response_complete
        if cutter is not None:
            pieces = list(map(cutter.cut, pieces))
            if complete:
                pieces.append(cutter.rest())
        # One chunk for each of the engine's chunks, so that their boundaries stay.
        for piece in pieces:
            if piece:
                out.append(CHUNK % (len(piece), piece) if chunked else piece)
        if chunked and complete:
            out.append(LAST_CHUNK)
        if out:
            self._send(at, b"".join(out))

    def _send(self, at: float, data: bytes) -> None:
        """Hand bytes to the client's socket. `at`: when they were read from the engine's."""
        transport, road = self._transport, self.road
        if transport is not None and not transport.is_closing():
            transport.write(data)
        road.engine_heard_at = at
        road.writes += 1
        if road.writes % OVERHEAD_SAMPLE == 0:
            road.overhead(road.clock() - at)

    def _show_head(self, at: float, head: ResponseHead, *, complete: bool) -> None:
        """The final head is about to be written: let the observer see it, and ask it for a cutter."""
        guard = self.observer
        try:
            cutter = guard.inner.head(at, head)
            guard.data = guard.inner.data
            self._cutter = None if cutter is None else GuardedCutter(cutter, guard)
        except Exception:  # noqa: BLE001  see `guard.py`
            guard.blinded()
        if guard.wants_body and not complete:  # an answer that is written in one piece is held up only if it waits here
            self._sent_before = self.client.send_reading()

    def client_tunnel(self, data: bytes) -> None:
        """Pass on bytes that the client sent into a tunnel."""
        raise NotImplementedError

    def _answered(self, at: float) -> None:
        """The engine has sent the whole response."""
        raise NotImplementedError
