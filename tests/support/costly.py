"""A road in memory whose observers take their time: what an answer's head and a request's end cost is stated, by a fake clock."""

from collections.abc import Callable

from sidecar.proxy.headers import RequestHead, ResponseHead
from sidecar.proxy.observer import Cutter, End, Observer
from tests.support.memory import Recording, Road, limits_with


class Costly(Recording):
    """An observer whose hooks for the head of an answer and for the end of the request take their time."""

    def __init__(self, head: RequestHead, later: Callable[[float], object], head_seconds: float, end_seconds: float):
        super().__init__(head)
        self._later, self._head_seconds, self._end_seconds = later, head_seconds, end_seconds

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        self._later(self._head_seconds)
        return super().head(at, head)

    def close(self, at: float, end: End) -> None:
        self._later(self._end_seconds)
        super().close(at, end)


def turning(head_seconds: float = 0.0, end_seconds: float = 0.0) -> Road:
    """A road whose loop turns only when the test says so. What an answer's head and a request's end cost is stated."""

    def observe(head: RequestHead) -> Observer:
        recording = Costly(head, road.clock.later, head_seconds, end_seconds)
        road.recordings.append(recording)
        return recording

    road = Road(limits_with(max_in_flight=16), observe=observe, turns_by_itself=False)
    return road
