"""One request's way from the client to the engine; the observer is shown the body first, if it wants to see it.

Knows when the last byte was handed to the engine's socket, and how many bytes wait here for a connection. The
`Exchange` (`relay.py`) chooses the connection, decides when the client must be held back, and answers.
"""

from collections.abc import Callable, Iterator

from sidecar.budgets.budgets import Budget
from sidecar.proxy.chunks import CHUNK, LAST_CHUNK
from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.guard import Guard
from sidecar.proxy.headers import CONTENT_CODING, Framing, RequestHead, request_bytes
from sidecar.proxy.observer import UNCHANGED, Mark, Wakes
from sidecar.proxy.pace import Floors, UploadPace
from sidecar.proxy.sending import Buffer
from sidecar.proxy.standstill import Now


LONG_BODY_BYTES = 32_768
"""A longer body is looked at in steps, in several turns of the loop: in one call, a MiB would take up to 45 ms. A body
of this length takes at most 1 ms, whatever stands in it (`make bounds`)."""
FIRST_BYTES = 65536
"""Bytes of a long request that an idle connection gets first. If the engine had closed, on loopback its reset is there at
once; to write on would fail before the end is read, and such a failure leaves nothing to prove."""
AGAIN_BYTES = 65536
"""Most bytes that are kept for a second sending, if the request did not go out in one piece."""
BEGINNING_OF_LONG_BYTES = 32_768
"""Bytes of a body that is known to be too long to be held, which are shown as its beginning before it goes on."""
STOOD_STILL_SECONDS = 5.0
"""An engine, or a hop before it, that closes after so long a pause in an upload has most likely waited for the rest: body
timeouts are 5 s and longer (nginx 60 s), and a segment that is lost and sent again pauses for 3 s at most. An engine that
dies in such a pause is seen by the other requests."""


class Upload:
    """One request on its way to the engine."""

    def __init__(
        self, head: RequestHead, observer: Guard, look_in_bytes: int, budget: Budget, clock: Callable[[], float]
    ) -> None:
        """`budget`: of the bytes that the process holds. Beyond it the body is shown as far as it has come, and passes."""
        self.complete = False
        """The client has sent all of it."""
        self.sent_at: float | None = None
        """When the engine's socket had all of it."""
        self.size = 0
        """Bytes of body that have come."""
        self._head = head
        self._observer = observer
        self._look_in_bytes = look_in_bytes
        self._clock = clock
        self.held = observer.wants_body
        """The body is still being collected for the observer; nothing may be sent yet."""
        self._budget = budget
        self._counted_bytes = 0
        self.looking: Iterator[Wakes | None] | None = None
        """The body has come whole, and the observer reads it in steps, because it is long: `look_on` is due. `held` until then."""
        self._watched = False
        self._waiting: bytes | bytearray = b""
        """One piece of memory: a list of small pieces would cost many times their bytes."""
        self.instead = UNCHANGED  # how the request that goes to the engine differs from the client's
        self._engine: EngineConnection | None = None
        self.stopped = False
        """Body bytes that still come are thrown away."""
        self._again: list[Buffer] | None = None
        self._swept = False
        self._pace: UploadPace | None = None

    def body(self, data: bytes) -> None:
        """A piece of the body: sent on, or kept until the observer has seen it and a connection is open."""
        self.size += len(data)
        if self.stopped:
            return
        if self._engine is not None:
            self._send(self._engine, CHUNK % (len(data), data) if self._head.framing is Framing.CHUNKED else data)
            self._watch(data)
            return
        budget = self._budget
        budget.used += len(data)
        self._counted_bytes += len(data)
        if self._waiting:
            self._join(data)
        else:
            self._waiting = data
        if not self.held:
            self._watch(data)
            return
        if self._head.framing is Framing.CHUNKED and len(self._waiting) > LONG_BODY_BYTES:
            self._watch(data if self._watched else self._waiting)
        most = BEGINNING_OF_LONG_BYTES if self._head.content_length > self._look_in_bytes else self._look_in_bytes
        if len(self._waiting) > min(most, self._look_in_bytes) or budget.used > budget.limit:
            budget.exceeded += budget.used > budget.limit
            self._show_body(whole=False)

    def _join(self, data: bytes) -> None:
        if not isinstance(self._waiting, bytearray):
            self._waiting = bytearray(self._waiting)
        self._waiting += data

    def _watch(self, data: bytes | bytearray) -> None:
        """Let the observer read this piece of a body that is not held, or that may become too long for it."""
        if not self._observer.wants_body:
            return
        self._watched = True
        try:
            self._observer.inner.request_data(data)
        except Exception:  # noqa: BLE001  see `guard.py`
            self._observer.blinded()

    def end(self, at: float) -> None:
        """The client has sent all of it."""
        try:
            self._observer.inner.mark(Mark.RECEIVED, at)
        except Exception:  # noqa: BLE001  see `guard.py`
            self._observer.blinded()
        self.complete = True
        if self.held:
            if len(self._waiting) > LONG_BODY_BYTES or CONTENT_CODING in self._head.found:
                self.looking = self._observer.look(self._waiting)
            else:
                self._show_body(whole=True)
        elif self._engine is not None:
            if self._head.framing is Framing.CHUNKED:
                self._send(self._engine, LAST_CHUNK)
            self.written()

    def look_on(self, woken: Callable[[], None]) -> bool:
        """Let the observer read the long body one step further. Returns whether another step is due now.

        `woken`: called when it is due, if it is not now and `looking` goes on.
        """
        if self.looking is None:
            return False
        try:
            for wakes in self.looking:
                if wakes is not None:
                    wakes(woken)
                return wakes is None
        except Exception:  # noqa: BLE001  see `guard.py`
            self._observer.blinded()
        self.looking = None
        self._show_body(whole=True)
        return False

    def _show_body(self, *, whole: bool) -> None:
        """Show the body to the observer, who may state a change of it for the engine."""
        self.held = False
        try:
            self.instead = self._observer.inner.request_body(self._waiting, whole=whole)
        except Exception:  # noqa: BLE001  see `guard.py`
            self._observer.blinded()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of body that wait here for a connection."""
        return len(self._waiting)

    def start(self, engine: EngineConnection, *, authority: bytes, via: bytes | None) -> None:
        """The engine's connection is open: the head and the body bytes that have come go out.

        They go out in one write. On a reused connection a long request goes out in two: the first FIRST_BYTES ask whether
        the engine still listens. A long body is not copied here.
        """
        instead, chunked = self.instead, self._head.framing is Framing.CHUNKED
        splice = instead.splice
        body, self._waiting = self._waiting, b""
        size = len(body)
        if splice is None:
            out: list[Buffer] = [body] if body else []
        else:
            size += len(splice.text) - (splice.end - splice.start)
            view = memoryview(body)
            out = list(filter(len, (view[: splice.start], splice.text, view[splice.end :])))
        if chunked:
            out = [b"%x\r\n" % size, *out, b"\r\n"] if out else out
            if self.complete:
                out.append(LAST_CHUNK)
        head = request_bytes(
            self._head,
            engine_authority=authority,
            content_length=size if splice is not None and not chunked else None,
            identity=splice is not None or instead.caused is not None,
            via=via,
            instead=instead.fields,
        )
        out.insert(0, head)
        self._engine = engine
        if size <= LONG_BODY_BYTES:
            out = [b"".join(out)]
        if len(out[0]) <= FIRST_BYTES and len(out) == 1:
            engine.write(out[0])
        elif not engine.reused:
            engine.write_all(out)
        else:
            first, rest = parted(out, FIRST_BYTES)
            engine.write_all(first)
            if rest and not engine.has_ended:
                engine.write_all(rest)
        self._again = out if engine.reused else None
        self.written()

    # --- a second sending, if the engine proves never to have had the first ------------------------------------------

    def _send(self, engine: EngineConnection, data: bytes) -> None:
        if self._again is not None:
            self._again.append(data)
            if sum(map(len, self._again)) > AGAIN_BYTES:
                self.forget()
            elif engine.has_ended:
                return
        engine.write(data)

    @property
    def whole_in_memory(self) -> bool:
        """Whether the request can be sent once more: all of it has come, and none of it has been forgotten."""
        return self.complete and self._again is not None

    def start_again(self, engine: EngineConnection) -> None:
        """Send the same bytes over this new connection."""
        request, self._again = self._again or [], None
        self._engine, self.sent_at = engine, None
        engine.write_all(request)
        self.written()

    def forget(self) -> None:
        """The engine has begun to answer: the request cannot be sent again."""
        self._again = None
        if self._counted_bytes and self._engine is not None and not self._engine.blocked:
            self._budget.used -= self._counted_bytes
            self._counted_bytes = 0

    def swept(self) -> None:
        """A sweep came by, after the sending. At the second one the request is forgotten: an idle connection that closes does so at once.

        Sweeps and not seconds, because a loop that was late has not looked at its sockets in these seconds.
        """
        if self._swept:
            self.forget()
        self._swept = True

    def failure(self, now: Now, began_at: float, moved_at: float, floors: Floors, *, excused: bool) -> Failure | None:
        """The floor that the client has missed while it sends (see `UploadPace.failure`), or None."""
        if self.complete:
            return None
        self._pace = self._pace or UploadPace(began_at)
        return self._pace.failure(now, moved_at, self.size, floors, excused=excused)

    def or_stalled(self, failure: Failure, at: float, silent_since: float, *, excused: bool) -> Failure:
        """Return this failure of the engine's, or the upload's own if the engine ended an upload that stood still before it answered.

        `excused`: the sidecar does not read the client.
        """
        stood_still = not self.complete and not excused and at - silent_since > STOOD_STILL_SECONDS
        return Failure.UPLOAD_STALLED if stood_still and failure is Failure.ENGINE_CLOSED else failure

    def stop(self) -> None:
        """The engine has answered, or its connection is gone: body bytes that still come are thrown away."""
        self.stopped = True
        self._engine = self.looking = None
        self._waiting, self._again = b"", None
        self._budget.used -= self._counted_bytes
        self._counted_bytes = 0

    def written(self) -> None:
        """Bytes were written: if they were the last and the engine's socket has them, this instant is `sent_at`."""
        if self._engine is None or self._engine.blocked:
            return
        if self._again is None:
            self._budget.used -= self._counted_bytes
            self._counted_bytes = 0
        if self.complete and self.sent_at is None:
            self.sent_at = at = self._clock()
            try:
                self._observer.inner.mark(Mark.SENT, at)
            except Exception:  # noqa: BLE001  see `guard.py`
                self._observer.blinded()


def parted(out: list[Buffer], first_bytes: int) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers with the first bytes, and those with all others; none is copied."""
    left = first_bytes
    for at, each in enumerate(out):
        if left == 0:
            return out[:at], out[at:]
        if len(each) > left:
            view = memoryview(each)
            return [*out[:at], view[:left]], [view[left:], *out[at + 1 :]]
        left -= len(each)
    return out, []
