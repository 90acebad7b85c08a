"""The hooks by which the relay tells an observer what passes, and the guard that keeps measuring from being felt.

The relay moves bytes and calls these hooks with instants; it knows nothing of lanes, tokens or metrics. `GuardedObserver`
stands between: a hook that throws is counted, observation of that request ends, and the bytes go on unobserved.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Fields, RequestHead, ResponseHead
from sidecar.proxy.tcp import SendTimes
from sidecar.timeline.outcome import Outcome


class Mark(Enum):
    """Something that happens to a request, at an instant."""

    RECEIVED = "received"
    """The last byte of its body was read."""
    CONNECTING = "connecting"
    """A new connection to the engine is opened for it."""
    CONNECTED = "connected"
    SENT = "sent"
    """The engine's socket has all of it."""
    PAUSED = "paused"
    """Its client does not keep up: reading from the engine stopped."""
    RESUMED = "resumed"
    ENDED = "ended"
    """The engine's message is complete, or failed."""
    FLUSHED = "flushed"
    """The client's socket took the last byte."""


class Instead(NamedTuple):
    """How the request that goes to the engine differs from the client's."""

    body: bytes | None = None
    """None: unchanged."""
    fields: Fields = ()
    """Take the place of the client's fields of the same name, or are added."""


UNCHANGED = Instead()


class End(NamedTuple):
    """How a request ended."""

    outcome: Outcome
    failure: Failure | None = None
    status: int | None = None
    """Of the response; None where none came."""
    delivery: SendTimes | None = None
    """What the kernel says held the response back on its last hop; None where it was not delivered whole."""


class Cutter(Protocol):
    """Takes bytes out of a response body before it is written. Nothing is lost: what is held back goes out in order."""

    def cut(self, data: bytes) -> bytes:
        """The bytes that go to the client now, out of `data` and of what was held back before."""
        ...

    def rest(self) -> bytes:
        """The body is over: what is still held back. Calling it again gives nothing."""
        ...


class Observer(Protocol):
    """One request's observer. All instants are monotonic seconds."""

    wants_body: bool
    """`request_body` is to be called, with as much of the body as the look-in bound allows, before anything is sent."""

    @property
    def done(self) -> bool:
        """The stream's own end mark has been seen: a client that leaves now has everything."""
        ...

    def request_body(self, body: bytes, *, whole: bool) -> Instead:
        """The body, or its beginning. Returns what the engine gets instead."""
        ...

    def mark(self, mark: Mark, at: float) -> None: ...

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        """The response head was read. The cutter, if there is one, sees the body before it is written."""
        ...

    def data(self, at: float, data: bytes) -> None:
        """Body bytes that were read at `at` have been written to the client: what came, before anything was cut out."""
        ...

    def blinded(self) -> None:
        """A hook has thrown: nothing more is told but how it ends."""
        ...

    def close(self, at: float, end: End) -> None: ...


class Unobserved:
    """Observes nothing."""

    wants_body = False
    done = False

    def request_body(self, body: bytes, *, whole: bool) -> Instead:  # noqa: ARG002  the hook's shape
        return UNCHANGED

    def mark(self, mark: Mark, at: float) -> None: ...

    def head(self, at: float, head: ResponseHead) -> Cutter | None:  # noqa: ARG002  the hook's shape
        return None

    def data(self, at: float, data: bytes) -> None: ...
    def blinded(self) -> None: ...
    def close(self, at: float, end: End) -> None: ...


def guarded(
    observer_of: Callable[[RequestHead], Observer], dropped: Callable[[str], None]
) -> Callable[[RequestHead], Observer]:
    """Makes observers that can neither delay nor break their request. Each must be closed exactly once."""

    def observe(head: RequestHead) -> Observer:
        try:
            return GuardedObserver(observer_of(head), dropped)
        except Exception:  # noqa: BLE001  a request that cannot be observed is served all the same, and counted
            dropped("observer_error")
            return Unobserved()

    return observe


class GuardedObserver:
    """An observer whose failures are counted and never felt."""

    def __init__(self, inner: Observer, dropped: Callable[[str], None]) -> None:
        self._inner = inner
        self._dropped = dropped
        self.blind = False
        self.wants_body = inner.wants_body

    @property
    def done(self) -> bool:
        return self._inner.done

    def blinded(self) -> None:
        self.blind = True
        try:
            self._dropped("observer_error")
            self._inner.blinded()
        except Exception:  # noqa: BLE001  counting a failure must not fail the traffic either
            return

    def request_body(self, body: bytes, *, whole: bool) -> Instead:
        if not self.blind:
            try:
                return self._inner.request_body(body, whole=whole)
            except Exception:  # noqa: BLE001  the promise of this class
                self.blinded()
        return UNCHANGED

    def mark(self, mark: Mark, at: float) -> None:
        if not self.blind:
            try:
                self._inner.mark(mark, at)
            except Exception:  # noqa: BLE001  the promise of this class
                self.blinded()

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        if not self.blind:
            try:
                cutter = self._inner.head(at, head)
            except Exception:  # noqa: BLE001  the promise of this class
                self.blinded()
            else:
                return None if cutter is None else GuardedCutter(cutter, self)
        return None

    def data(self, at: float, data: bytes) -> None:
        if not self.blind:
            try:
                self._inner.data(at, data)
            except Exception:  # noqa: BLE001  the promise of this class
                self.blinded()

    def close(self, at: float, end: End) -> None:
        # Even a blinded request ended in one outcome, and the observer's own close knows how to say so without a timeline.
        try:
            self._inner.close(at, end)
        except Exception:  # noqa: BLE001  the promise of this class
            self.blinded()


class GuardedCutter:
    """A cutter whose failures, and those of its observer, cost no byte: what it held back goes first, the rest passes uncut."""

    def __init__(self, inner: Cutter, observer: GuardedObserver) -> None:
        self._inner = inner
        self._observer = observer

    def cut(self, data: bytes) -> bytes:
        if not self._observer.blind:
            try:
                return self._inner.cut(data)
            except Exception:  # noqa: BLE001  the promise of this class; it failed before it took this piece
                self._observer.blinded()
        return self.rest() + data

    def rest(self) -> bytes:
        try:
            return self._inner.rest()
        except Exception:  # noqa: BLE001  the promise of this class
            self._observer.blinded()
            return b""
