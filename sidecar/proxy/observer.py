"""The hooks by which the relay tells an observer about a request, and the guard that protects traffic from observers.

The relay moves bytes and calls these hooks with instants; it knows nothing of lanes, tokens or metrics.
`Guard` stands between: a hook that raises is counted, observation of that request ends, and the bytes go on unobserved.

The hooks of every request and of every token are called by the relay itself, each in this form; all others by the guard's
methods:

    try:
        guard.inner.data(at, data)
    except Exception:
        guard.blinded()
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, Protocol

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Fields, RequestHead, ResponseHead
from sidecar.proxy.tcp import SendTimes
from sidecar.timeline.outcome import Outcome


class Mark(Enum):
    """An event of a request; the hook also gets its instant."""

    RECEIVED = "received"
    """The last byte of the request body was read."""
    CONNECTING = "connecting"
    """A new connection to the engine is opened for the request."""
    CONNECTED = "connected"
    SENT = "sent"
    """The engine's socket has the whole request."""
    PAUSED = "paused"
    """The client does not keep up: reading from the engine stopped."""
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
    """Fields that replace the client's of the same name, or are added."""


UNCHANGED = Instead()


class End(NamedTuple):
    """How a request ended."""

    outcome: Outcome
    failure: Failure | None = None
    status: int | None = None
    """Status of the response; None if no response came."""
    delivery: SendTimes | None = None
    """Kernel times for which the last hop held the response back; None if it was not delivered whole."""
    resent: str | None = None
    """The request was sent twice; the proof that the engine never had the first."""


class Cutter(Protocol):
    """Takes bytes out of a response body before it is written. Bytes that it holds back go out later, in order."""

    def cut(self, data: bytes) -> bytes:
        """The bytes that go to the client now, out of `data` and of the bytes held back before."""
        ...

    def rest(self) -> bytes:
        """The body is over: returns the bytes still held back. A second call returns none."""
        ...


class Observer(Protocol):
    """One request's observer. All instants are monotonic seconds."""

    wants_body: bool
    """Whether `request_body` is called, before anything is sent, with as much body as the look-in bound allows."""

    @property
    def done(self) -> bool:
        """The stream's own end mark has been seen: a client that leaves now has everything."""
        ...

    def look(self, body: bytes | bytearray) -> Iterator[None]:
        """Read a whole body that is too long for one turn of the loop; each step takes about 0.2 ms. Then comes `request_body`."""
        ...

    def request_body(self, body: bytes, *, whole: bool) -> Instead:
        """Take in the body, or its beginning. Returns the changes to the request that the engine gets."""
        ...

    def mark(self, mark: Mark, at: float) -> None: ...

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        """The response head was read. The cutter, if there is one, sees the body before it is written."""
        ...

    def data(self, at: float, data: bytes) -> None:
        """Body bytes that were read at `at` have been written to the client. `data`: as read, with nothing cut out."""
        ...

    def blinded(self) -> None:
        """A hook has raised: from now on only `close` is called."""
        ...

    def close(self, at: float, end: End) -> None: ...


class Unobserved:
    """Observes nothing."""

    wants_body = False
    done = False

    def look(self, body: bytes | bytearray) -> Iterator[None]:  # noqa: ARG002  the hook's shape
        return iter(())

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
) -> Callable[[RequestHead], "Guard"]:
    """Makes observers that cannot break their request. Each must be closed exactly once."""

    def observe(head: RequestHead) -> Guard:
        try:
            return Guard(observer_of(head), dropped)
        except Exception:  # noqa: BLE001  a request that cannot be observed is served all the same, and counted
            dropped("observer_error")
            return Guard(Unobserved(), dropped)

    return observe


class Guard:
    """Stands between the relay and one observer: failures of the observer are counted, and traffic is unaffected."""

    def __init__(self, observer: Observer, dropped: Callable[[str], None]) -> None:
        self.wants_body = observer.wants_body
        self.inner: Observer = observer
        """The observer whose hooks may be called; one that observes nothing, once a hook has raised."""
        self._observer = observer
        self._dropped = dropped

    @property
    def done(self) -> bool:
        return self._observer.done

    def blinded(self) -> None:
        """A hook has raised: no other one is called from now on, except `close`."""
        self.inner = _Blind(self._observer)
        try:
            self._dropped("observer_error")
            self._observer.blinded()
        except Exception:  # noqa: BLE001  counting a failure must not fail the traffic either
            return

    def look(self, body: bytes | bytearray) -> Iterator[None]:
        """The steps; the caller guards each of them."""
        try:
            return self.inner.look(body)
        except Exception:  # noqa: BLE001  this class never raises
            self.blinded()
            return iter(())

    def mark(self, mark: Mark, at: float) -> None:
        try:
            self.inner.mark(mark, at)
        except Exception:  # noqa: BLE001  this class never raises
            self.blinded()

    def close(self, at: float, end: End) -> None:
        try:
            self.inner.close(at, end)
        except Exception:  # noqa: BLE001  this class never raises
            self.blinded()


class _Blind(Unobserved):
    """Observes nothing but the end: a blinded request has an outcome too, which is recorded without a whole timeline."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def close(self, at: float, end: End) -> None:
        self._observer.close(at, end)


class GuardedCutter:
    """A cutter that never raises. If it or its observer fails, held bytes go out first, and the rest passes uncut."""

    def __init__(self, inner: Cutter, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard
        self._observer = guard.inner

    def cut(self, pieces: list[bytes]) -> list[bytes]:
        """Return what goes to the client now, out of each of these pieces and of the bytes held back before."""
        kept = []
        for piece in pieces:
            if self._guard.inner is self._observer:
                try:
                    kept.append(self._inner.cut(piece))
                    continue
                except Exception:  # noqa: BLE001  this class never raises; the inner cutter failed before it took the piece
                    self._guard.blinded()
            kept.append(self.rest() + piece)
        return kept

    def rest(self) -> bytes:
        try:
            return self._inner.rest()
        except Exception:  # noqa: BLE001  this class never raises
            self._guard.blinded()
            return b""
