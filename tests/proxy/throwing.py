"""An observer that raises in one hook."""

from sidecar.proxy.headers import ResponseHead
from sidecar.proxy.observer import Cutter, End, Instead, Mark
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.outcome import Outcome


class Broken(Exception):  # noqa: N818  it is what a bug in an observer would raise
    pass


class Throwing(Unobserved):
    """An observer that raises in one hook."""

    def __init__(self, hook: str, *, cuts: bool) -> None:
        self.wants_body = True
        self.closed: list[Outcome] = []
        self._cuts = cuts
        self._hook = hook

    def _maybe(self, hook: str) -> None:
        if hook == self._hook:
            raise Broken(hook)

    def request_body(self, body: bytes | bytearray, *, whole: bool) -> Instead:
        self._maybe("request_body")
        return super().request_body(body, whole=whole)

    def mark(self, mark: Mark, at: float) -> None:
        del at
        self._maybe(mark.value)

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        del at, head
        self._maybe("head")
        return self if self._cuts else None

    def data(self, at: float, data: bytes) -> None:
        del at, data
        self._maybe("data")

    def cut(self, data: bytes) -> bytes:
        self._maybe("cut")
        return data

    def rest(self) -> bytes:
        self._maybe("rest")
        return b""

    def close(self, at: float, end: End) -> None:
        del at
        self.closed.append(end.outcome)
        self._maybe("close")
