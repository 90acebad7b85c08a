"""Traffic on real sockets in this process, on uvloop, as in `sidecar serve`, but with a test's limits and observers.

Leaving `running` checks what must hold after any scenario: nothing in flight, every observer closed exactly once, no task
left behind, and no exception that reached the event loop's handler.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from sidecar.budgets.budgets import Budgets, limits_of
from sidecar.config.schema import EngineConfig, ProxyConfig
from sidecar.config.section import Section
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Observer
from sidecar.proxy.pool import EnginePool
from sidecar.proxy.road import Road
from sidecar.proxy.server import Traffic
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Recording
from tests.support.scenario_loop import opened


T = TypeVar("T")
AnySection = TypeVar("AnySection", bound=Section)

LIMITS: dict[str, float] = {
    "max_in_flight": 100,
    "max_head_bytes": 16384,
    "max_headers": 64,
    "max_body_bytes": 256 << 20,
    "look_in_bytes": 65536,
}
"""Keys of `proxy` and `engine`; all others have the config's defaults."""


def section(of: type[AnySection], limits: dict[str, float]) -> AnySection:
    """One section of a config, with those limits that are keys of this section."""
    said: dict[str, Any] = {key: value for key, value in limits.items() if key in of.__struct_fields__}
    if of is EngineConfig:
        said["url"] = "http://127.0.0.1:1"
    return of(**said)


class Relay:
    """A running traffic server, and what its observers recorded."""

    def __init__(
        self,
        engine_port: int,
        limits: dict[str, float],
        observe: Callable[[RequestHead], Observer] | None,
        unix_path: str = "",
    ) -> None:
        self.port = 0
        self.recordings: list[Recording] = []
        self.dropped: list[str] = []
        self.resent = 0
        self.loop_errors: list[dict[str, object]] = []
        self.pool = EnginePool(
            "localhost" if unix_path else "127.0.0.1",
            engine_port,
            clock=time.monotonic,
            idle_seconds=3.0,
            max_headers=64,
            receive_buffer_bytes=65536,
            unix_path=unix_path,
        )
        own = section(ProxyConfig, limits)
        self.road = Road(
            own,
            section(EngineConfig, limits),
            self.pool,
            Budgets(limits_of(1 << 30, 4096, own)),
            clock=time.monotonic,
            observe=observe or self._record,
            dropped=self.dropped.append,
            refused=lambda _failure: None,
            overhead=lambda _seconds: None,
            resent=self._count_resent,
        )
        self.traffic = Traffic(self.road)

    def _count_resent(self) -> None:
        self.resent += 1

    def _record(self, head: RequestHead) -> Observer:
        recording = Recording(head, wants_body=head.target == b"/v1/chat/completions")
        self.recordings.append(recording)
        return recording

    @property
    def in_flight(self) -> int:
        """Requests that have been received and have not ended."""
        return self.road.in_flight

    @property
    def ends(self) -> list[tuple[Outcome, Failure | None, int | None]]:
        """(outcome, failure, status) of every request that has ended, in order of arrival."""
        return [end for observer in self.recordings for end in observer.closed]

    async def settled(self) -> None:
        """Wait until nothing is in flight; the test's own time limit is the only one."""
        while self.in_flight:  # noqa: ASYNC110  a test may look often
            await asyncio.sleep(0.005)

    def sweep_in(self, seconds: float) -> None:
        """Enforce the time limits as if this much time had passed."""
        self.traffic.sweep(time.monotonic() + seconds)


@asynccontextmanager
async def running(
    engine_port: int,
    *,
    observe: Callable[[RequestHead], Observer] | None = None,
    unix_path: str = "",
    **limits: float,
) -> AsyncIterator[Relay]:
    """A relay of `engine_port` for the length of an `async with` block; `limits`: keys unlike those of LIMITS."""
    loop = asyncio.get_running_loop()
    relay = Relay(engine_port, {**LIMITS, **limits}, observe, unix_path)
    loop.set_exception_handler(lambda _loop, context: relay.loop_errors.append(context))
    tasks_before = asyncio.all_tasks()
    _, relay.port = await relay.traffic.listen("127.0.0.1", 0)
    try:
        yield relay
        await relay.settled()
    finally:
        await relay.traffic.close()
        await asyncio.sleep(0.01)
        loop.set_exception_handler(None)
    left = {task for task in asyncio.all_tasks() - tasks_before if "sidecar" in str(task.get_coro())}
    assert not left, f"tasks left behind: {left}"
    assert not relay.loop_errors, f"exceptions reached the event loop: {relay.loop_errors}"
    assert relay.in_flight == 0
    assert all(len(seen.closed) == 1 for seen in relay.recordings), "a request did not end exactly once"


class RawClient:
    """A client's socket that sends and reads raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, *, receive_buffer_bytes: int | None = None) -> "RawClient":
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        limit = 65536 if receive_buffer_bytes is None else receive_buffer_bytes
        client = cls(*await asyncio.open_connection(sock=sock, limit=limit))
        opened(client.writer.transport)
        return client

    def send(self, data: bytes) -> None:
        """Hand bytes to the kernel, unless the connection is closing."""
        if not self.writer.transport.is_closing():
            self.writer.write(data)

    async def until(self, end: bytes) -> bytes:
        """Read up to and including these bytes."""
        return await self.reader.readuntil(end)

    async def rest(self) -> tuple[bytes, bool]:
        """(everything until the connection ends, whether it ended with a reset)."""
        found = b""
        try:
            while data := await self.reader.read(1 << 20):
                found += data
        except ConnectionError:
            return found, True
        return found, False

    def leave(self) -> None:
        """Close at once; unsent bytes are lost."""
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
