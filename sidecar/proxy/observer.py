"""What the relay tells whoever measures, and the promise that measuring is never felt.

The relay moves bytes and calls these hooks with instants; it knows nothing of lanes, tokens or metrics. `Guarded` stands
between: a hook that throws is counted, observation of that request ends, and the bytes go on as if nobody had looked.
"""

from collections.abc import Callable
from typing import Protocol

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Fields, ResponseHead
from sidecar.proxy.tcp import SendTimes
from sidecar.timeline.outcome import Outcome


class Watch(Protocol):
    """One request's observer. All instants are monotonic seconds."""

    wants_body: bool
    """The request body is to be shown to `classify`, up to the look-in bound, before it goes on."""
    cuts: bool
    """The response body must pass through `cut` before it is written; known once `head` was called."""
    done: bool
    """The stream's own end mark has been seen: a client that leaves now has everything."""

    def classify(self, body: bytes, *, whole: bool) -> bytes | None:
        """Look at the body, or its beginning. Returns the bytes that go to the engine instead, or None: unchanged."""
        ...

    def request_fields(self) -> Fields:
        """Header fields that the engine gets in place of the client's of the same name, or in addition. Asked once, before sending."""
        ...

    def received(self, at: float) -> None: ...
    def sent(self, at: float) -> None: ...
    def connected(self, seconds: float) -> None: ...
    def head(self, at: float, head: ResponseHead) -> None: ...
    def feed(self, at: float, data: bytes) -> None: ...
    def cut(self, data: bytes) -> bytes:
        """What of `data`, and of what was held back before, goes to the client now. Observing waits for `seen`."""
        ...

    def cut_rest(self) -> bytes:
        """The stream is over: what is still held back. Must not fail."""
        ...

    def seen(self, at: float) -> None:
        """What was cut at `at` has been written."""
        ...

    def paused(self, at: float) -> None: ...
    def resumed(self, at: float) -> None: ...
    def ended(self, at: float) -> None: ...
    def flushed(self, at: float) -> None: ...
    def delivered(self, times: SendTimes) -> None: ...
    def blinded(self) -> None:
        """A hook has thrown: nothing more is told, except how it ends."""
        ...

    def close(self, at: float, outcome: Outcome, failure: Failure | None, status: int | None) -> None: ...


class Unwatched:
    """Nobody looks."""

    wants_body = False
    cuts = False
    done = False

    def classify(self, body: bytes, *, whole: bool) -> bytes | None:  # noqa: ARG002  the hook's shape
        return None

    def request_fields(self) -> Fields:
        return ()

    def received(self, at: float) -> None: ...
    def sent(self, at: float) -> None: ...
    def connected(self, seconds: float) -> None: ...
    def head(self, at: float, head: ResponseHead) -> None: ...
    def feed(self, at: float, data: bytes) -> None: ...

    def cut(self, data: bytes) -> bytes:
        return data

    def cut_rest(self) -> bytes:
        return b""

    def seen(self, at: float) -> None: ...

    def paused(self, at: float) -> None: ...
    def resumed(self, at: float) -> None: ...
    def ended(self, at: float) -> None: ...
    def flushed(self, at: float) -> None: ...
    def delivered(self, times: SendTimes) -> None: ...
    def blinded(self) -> None: ...
    def close(self, at: float, outcome: Outcome, failure: Failure | None, status: int | None) -> None: ...


class Guarded:
    """A Watch whose failures are counted and never felt."""

    def __init__(self, inner: Watch, dropped: Callable[[str], None]) -> None:
        self._inner = inner
        self._dropped = dropped
        self._blind = False
        self.wants_body = inner.wants_body
        self.cuts = False
        self.done = False

    def blinded(self) -> None:
        self._blind = True
        try:
            self._dropped("observer_error")
            self._inner.blinded()
        except Exception:  # noqa: BLE001  counting a failure must not fail the traffic either
            return

    def classify(self, body: bytes, *, whole: bool) -> bytes | None:
        try:
            return self._inner.classify(body, whole=whole)
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()
            return None

    def request_fields(self) -> Fields:
        if self._blind:
            return ()
        try:
            return self._inner.request_fields()
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()
            return ()

    def _tell(self, hook: Callable[..., None], *facts: object) -> None:
        if self._blind:
            return
        try:
            hook(*facts)
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()

    def received(self, at: float) -> None:
        self._tell(self._inner.received, at)

    def sent(self, at: float) -> None:
        self._tell(self._inner.sent, at)

    def connected(self, seconds: float) -> None:
        self._tell(self._inner.connected, seconds)

    def head(self, at: float, head: ResponseHead) -> None:
        self._tell(self._inner.head, at, head)
        self.cuts = self._inner.cuts and not self._blind

    def feed(self, at: float, data: bytes) -> None:
        if self._blind:
            return
        try:
            self._inner.feed(at, data)
            self.done = self._inner.done
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()

    def cut(self, data: bytes) -> bytes:
        if not self._blind:
            try:
                return self._inner.cut(data)
            except Exception:  # noqa: BLE001  the promise of this class
                self.blinded()
                # It failed before it took this piece: what had been held back goes first.
                return self.cut_rest() + data
        return data

    def seen(self, at: float) -> None:
        self._tell(self._inner.seen, at)
        self.done = self._inner.done

    def cut_rest(self) -> bytes:
        try:
            return self._inner.cut_rest()
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()
            return b""

    def paused(self, at: float) -> None:
        self._tell(self._inner.paused, at)

    def resumed(self, at: float) -> None:
        self._tell(self._inner.resumed, at)

    def ended(self, at: float) -> None:
        self._tell(self._inner.ended, at)

    def flushed(self, at: float) -> None:
        self._tell(self._inner.flushed, at)

    def delivered(self, times: SendTimes) -> None:
        self._tell(self._inner.delivered, times)

    def close(self, at: float, outcome: Outcome, failure: Failure | None, status: int | None) -> None:
        # Even a blinded request ended in one outcome, and the observer's own close knows how to say so without a timeline.
        try:
            self._inner.close(at, outcome, failure, status)
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()
