"""The guard between the relay and an observer: a hook that raises is counted, and the bytes go on unobserved.

The hooks of every request and of every token are called by the relay itself, each in this form; all others by the guard's
methods:

    try:
        guard.data(at, data)
    except Exception:
        guard.blinded()
"""

from collections.abc import Callable, Iterator

from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Cutter, End, Mark, Observer, Wakes
from sidecar.proxy.unobserved import Unobserved


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
        self.data = observer.data
        """The observer's hook for bytes of the response: found once, when it has seen the head (`Answering._show_head`)."""
        self._observer = observer
        self._dropped = dropped

    @property
    def done(self) -> bool:
        return self._observer.done

    @property
    def awaits_output(self) -> bool:
        return self.inner.awaits_output  # a blinded one sees no output

    def blinded(self) -> None:
        """A hook has raised: no other one is called from now on, except `close`."""
        self.inner = _Blind(self._observer)
        self.data = self.inner.data
        try:
            self._dropped("observer_error")
            self._observer.blinded()
        except Exception:  # noqa: BLE001  counting a failure must not fail the traffic either
            return

    def look(self, body: bytes | bytearray) -> Iterator[Wakes | None]:
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

    def cut(self, piece: bytes) -> bytes:
        """Return what goes to the client now, out of this piece and of the bytes held back before."""
        if self._guard.inner is self._observer:
            try:
                return self._inner.cut(piece)
            except Exception:  # noqa: BLE001  this class never raises; the inner cutter failed before it took the piece
                self._guard.blinded()
        return self.rest() + piece

    def rest(self) -> bytes:
        try:
            return self._inner.rest()
        except Exception:  # noqa: BLE001  this class never raises
            self._guard.blinded()
            return b""
