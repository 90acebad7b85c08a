"""The road in memory: the real `Traffic`, connections and `Exchange`, between fake sockets and with a fake clock.

Nothing waits here. A socket takes as many bytes as its `room` allows and buffers the rest as asyncio's transports do
(pause_writing above the high-water mark, resume_writing below the low one), so that a slow reader is a number and not a
sleep. `Road.pool.sockets` holds the connections that the relay opened to the engine, in order.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from sidecar.budgets.budgets import Budgets, Kind, limits_of
from sidecar.config.schema import EngineConfig, ProxyConfig
from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.headers import RequestHead, ResponseHead
from sidecar.proxy.observer import Cutter, End, Instead, Mark, Observer, Splice
from sidecar.proxy.pool import EnginePool
from sidecar.proxy.read_limit import Soon
from sidecar.proxy.road import Road as SharedRoad
from sidecar.proxy.server import SWEEP_SECONDS, Traffic
from sidecar.proxy.standstill import Now
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.outcome import Outcome


LIMITS = ProxyConfig(
    max_in_flight=4,
    max_head_bytes=4096,
    max_headers=16,
    max_body_bytes=1 << 20,
    look_in_bytes=1024,
    client_buffer_bytes=1000,  # below what a config allows, so that few bytes fill it
)
"""All other limits are the config's defaults."""
ENGINE_LIMITS = EngineConfig(url="http://127.0.0.1:1")
WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def limits_with(**others: float) -> ProxyConfig:
    """LIMITS with other values for these keys."""
    return replace(LIMITS, **others)


class Clock:
    """Monotonic seconds that pass only in `later`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def later(self, seconds: float) -> float:
        self.now += seconds
        return self.now


class Socket(asyncio.Transport):
    """A fake transport. `taken` is what the far end has read; `room` is how many more bytes it takes (None: all)."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.taken = bytearray()
        self.room: int | None = None
        self.writes = 0
        self.given: list[bytes | bytearray | memoryview] = []
        """Everything that was written, as the objects that were handed over."""
        self.reading = True
        self.ended = False
        """write_eof was called."""
        self.reset = False
        """abort was called: nothing unsent goes out."""
        self.lost = False
        self._unsent = bytearray()
        self._high, self._low = 65536, 16384
        self._paused = False
        self._closing = False
        self.then: Callable[[], object] = lambda: None
        """Called when the far end has sent or taken: the turns of the loop that follow."""

    # --- what the relay does ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes += 1
        self.given.append(data)
        self._unsent += data
        self._drain()
        self._pause_if_full()

    def writelines(self, buffers: Iterable[bytes | bytearray | memoryview]) -> None:
        gathered = tuple(buffers)
        assert all(gathered), "an empty buffer keeps asyncio's own transport waiting"
        self.given += gathered[:-1]
        self.write(b"".join(gathered))
        self.given[-1] = gathered[-1]

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65536 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pause_if_full()

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        if not self._unsent:
            self.lose()

    def abort(self) -> None:
        self._closing = self.reset = True
        self._unsent.clear()
        self.lose()

    def get_extra_info(self, _name: str, default: object = None) -> object:
        return default

    # --- what the far end does ---

    def take(self, size: int | None) -> None:
        """The far end reads `size` more bytes (None: from now on everything)."""
        self.room = None if size is None else (self.room or 0) + size
        self._drain()
        if self._paused and len(self._unsent) <= self._low:
            self._paused = False
            self.protocol.resume_writing()
        if self._closing and not self._unsent:
            self.lose()
        self.then()

    def send(self, data: bytes, size: int | None = None) -> None:
        """The far end sends bytes, in pieces of `size` if given. The relay must be reading, or the test is wrong."""
        step = size or max(1, len(data))
        for start in range(0, len(data), step):
            if self._closing:
                return
            assert self.reading, "the relay is not reading"
            self.protocol.data_received(data[start : start + step])
            self.then()

    def end(self) -> None:
        """The far end closes its side."""
        if not self.lost and not self.protocol.eof_received():
            self.close()

    def lose(self, error: Exception | None = None) -> None:
        """The connection is gone; with an error, it was reset."""
        if not self.lost:
            self.lost = self._closing = True
            self.protocol.connection_lost(error)
            self.then()

    def _drain(self) -> None:
        size = len(self._unsent) if self.room is None else min(self.room, len(self._unsent))
        self.taken += self._unsent[:size]
        del self._unsent[:size]
        if self.room is not None:
            self.room -= size

    def _pause_if_full(self) -> None:
        if not self._paused and len(self._unsent) > self._high:
            self._paused = True
            self.protocol.pause_writing()


class InstantPool(EnginePool):
    """A pool that connects at once, to fake sockets."""

    def __init__(self, clock: Clock, soon: Soon) -> None:
        super().__init__(
            "engine", 8000, clock=clock, idle_seconds=3.0, max_headers=32, receive_buffer_bytes=65536, soon=soon
        )
        self.sockets: list[Socket] = []
        self.then: Callable[[], object] = lambda: None

    def take(self) -> EngineConnection:
        idle = super().take()
        if idle is not None:
            return idle
        connection = EngineConnection(self)
        socket = Socket(connection)
        socket.then = self.then
        self.sockets.append(socket)
        connection.connection_made(socket)
        return connection


class Recording(Unobserved):
    """An observer that records its calls, as (hook, instant or fact)."""

    def __init__(self, head: RequestHead, *, wants_body: bool = False) -> None:
        self.request = head
        self.wants_body = wants_body
        self.told: list[tuple[str, object]] = []
        self.body = bytearray()
        self.response: ResponseHead | None = None
        self.shown: bytes | bytearray = b""
        """The body that `request_body` was shown: the object itself."""
        self.splice: Splice | None = None
        """The change that `request_body` makes."""
        self.closed: list[tuple[Outcome, Failure | None, int | None]] = []

    def request_body(self, body: bytes | bytearray, *, whole: bool) -> Instead:
        self.shown = body
        self.told.append(("request_body", (bytes(body), whole)))
        return Instead(self.splice)

    def request_data(self, data: bytes | bytearray) -> None:
        self.told.append(("request_data", bytes(data)))

    def mark(self, mark: Mark, at: float) -> None:
        if mark not in (Mark.CONNECTING, Mark.CONNECTED):  # no fake socket has to be connected
            self.told.append((mark.value, at))

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        self.response = head
        self.told.append(("head", at))
        return None

    def data(self, at: float, data: bytes) -> None:
        self.told.append(("data", at))
        self.body += data

    def close(self, at: float, end: End) -> None:
        self.told.append(("close", at))
        self.closed.append((end.outcome, end.failure, end.status))

    def instants(self, *hooks: str) -> list[tuple[str, object]]:
        """The recorded calls of these hooks, in order."""
        return [told for told in self.told if told[0] in hooks]


class Road:
    """A whole relay in memory."""

    def __init__(
        self,
        limits: ProxyConfig = LIMITS,
        observe: Callable[[RequestHead], Observer] | None = None,
        budgets: Mapping[Kind, int] = {},
        *,
        turns_by_itself: bool = True,
    ) -> None:
        """`budgets`: limits of budgets that differ from those of a machine with 1 GiB and 4,096 files.

        `turns_by_itself`: the loop turns after each read until no work is scheduled; else only in `turn`.
        """
        self.clock = Clock()
        self._next_turn: list[Callable[[], None]] = []
        self.pool = InstantPool(self.clock, self._next_turn.append)
        self.recordings: list[Recording] = []
        self.dropped: list[str] = []
        self.refused: list[Failure] = []
        self.budgets = Budgets({**limits_of(1 << 30, 4096, limits), **budgets})
        self.shared = SharedRoad(
            limits,
            ENGINE_LIMITS,
            self.pool,
            self.budgets,
            clock=self.clock,
            observe=observe or self._record,
            dropped=self.dropped.append,
            refused=self.refused.append,
            overhead=lambda _seconds: None,
            resent=lambda: None,
        )
        self.traffic = Traffic(self.shared)
        if turns_by_itself:
            self.pool.then = self.turns

    def turns(self) -> int:
        """Turn until no work is scheduled; returns the number of turns."""
        count = 0
        while self.turn():
            count += 1
        return count

    def turn(self) -> bool:
        """One turn of the event loop: scheduled work is called. False if there was none."""
        due, self._next_turn[:] = self._next_turn[:], []
        for work in due:
            work()
        return bool(due)

    def _record(self, head: RequestHead) -> Observer:
        recording = Recording(head, wants_body=head.method == b"POST" and head.target == b"/v1/chat/completions")
        self.recordings.append(recording)
        return recording

    def now(self) -> Now:
        """This instant, for a sweep; the process has run all the time."""
        return Now(self.clock.now, self.shared.standstills)

    def runs(self, seconds: float) -> None:
        """So much time passes, in which the process sweeps as it does in its own loop."""
        for _ in range(round(seconds / SWEEP_SECONDS)):
            self.stands_still(SWEEP_SECONDS)

    def stands_still(self, seconds: float) -> None:
        """The process stands still for so many seconds, and then sweeps."""
        self.clock.later(seconds)
        for _ in self.traffic.sweep_in_turns(self.look):
            pass

    def look(self) -> Now:
        """This instant, as the process's own loop sees it."""
        return self.shared.standstills.look(self.clock.now)

    def client(self) -> Socket:
        """A new client connection."""
        connection = self.traffic.connection()
        socket = Socket(connection)
        socket.then = self.pool.then
        connection.connection_made(socket)
        return socket

    def tunnel(self) -> Socket:
        """A new client connection that the engine has switched to a websocket."""
        client = self.client()
        client.send(WEBSOCKET)
        self.engine.send(SWITCHED)
        return client

    @property
    def in_flight(self) -> int:
        """Requests that have been received and have not ended."""
        return self.shared.in_flight

    @property
    def engine(self) -> Socket:
        """The newest connection that the relay opened to the engine."""
        return self.pool.sockets[-1]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of every request that has ended, in order of arrival; each exactly once."""
        assert all(len(observer.closed) <= 1 for observer in self.recordings), "a request ended twice"
        return [observer.closed[0][0] for observer in self.recordings if observer.closed]
