"""The traffic listener: the one place that binds the road together.

Holds what all connections share (limits, the pool towards the engine, the in-flight gate, the clock) and the sweep that
enforces time limits. What a request means to whoever measures is behind `observe`; the traffic room only promises that
every request it lets in is closed exactly once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from sidecar.proxy.accept import ClientConnection
from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Guarded, Unwatched, Watch
from sidecar.proxy.pool import EnginePool


BACKLOG = 1024
OVERHEAD_SAMPLE = 64
"""One read in this many is timed, so that timing costs nothing (design section 6)."""
SWEEP_SECONDS = 0.25
"""How often time limits are looked at; they are seconds to minutes long, so this is exact enough and costs nothing per event."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that bounds a connection; seconds and bytes. The defaults and their reasons are in `sidecar/config/schema.py`."""

    max_in_flight: int
    max_head_bytes: int
    max_headers: int
    max_body_bytes: int
    look_in_bytes: int
    client_buffer_bytes: int
    head_timeout_seconds: float
    keep_alive_seconds: float
    body_gap_timeout_seconds: float
    client_write_timeout_seconds: float
    connect_timeout_seconds: float
    first_byte_timeout_seconds: float
    gap_timeout_seconds: float


class Traffic:
    """Shared state of the road, and its listener."""

    def __init__(
        self,
        limits: Limits,
        pool: EnginePool,
        *,
        clock: Callable[[], float],
        watch: Callable[[RequestHead], Watch],
        dropped: Callable[[str], None],
        refused: Callable[[Failure], None],
        overhead: Callable[[float], None],
        via: bytes | None = None,
    ) -> None:
        self.limits = limits
        self.pool = pool
        self.clock = clock
        self.refused = refused
        self._overhead = overhead
        self._writes = 0
        self.via = via
        self.engine_authority = (f"[{pool.host}]" if ":" in pool.host else pool.host).encode() + b":%d" % pool.port
        self.draining = False
        self._closes_idle = False
        self.in_flight = 0
        self.engine_heard_at = float("-inf")
        """When the engine last sent a byte."""
        self._watch = watch
        self._dropped = dropped
        self._connections: set[ClientConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    # --- the listener ------------------------------------------------------------------------------------------------

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections; returns the address actually bound (port 0 picks a free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ClientConnection(self), host, port, backlog=BACKLOG, reuse_address=True
        )
        self._sweeper = loop.create_task(self._sweep_forever())
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    def drain(self) -> None:
        """From now on every answer says `Connection: close`. New requests are still served, on idle connections too.

        An idle connection is left to its client as long as requests may come: closing it could race with one.
        """
        self.draining = True

    def stop_accepting(self) -> None:
        """Close the listener and what is idle; requests in flight go on."""
        self._closes_idle = True
        if self._server is not None:
            self._server.close()
            self._server = None
        self._close_idle()

    def abandon(self) -> None:
        """The grace is over: end what is still in flight, each with its outcome."""
        at = self.clock()
        for connection in list(self._connections):
            if connection.exchange is not None:
                connection.exchange.fail(Failure.SHUTTING_DOWN, at)
            else:
                connection.abort()

    async def close(self) -> None:
        """Stop everything. Nothing may be in flight any more."""
        self.stop_accepting()
        for connection in list(self._connections):
            connection.abort()
        self.pool.close()
        tasks = [task for task in (self._sweeper, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _close_idle(self) -> None:
        for connection in list(self._connections):
            if connection.idle:
                connection.close_when_flushed()

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(self.clock())

    def sweep(self, at: float) -> None:
        """Enforce every time limit once."""
        self.pool.sweep(at)
        for connection in list(self._connections):
            if self._closes_idle and connection.idle:
                connection.close_when_flushed()
            else:
                connection.sweep(at)

    # --- requests ----------------------------------------------------------------------------------------------------

    def observe(self, head: RequestHead) -> Watch:
        """A watch for one request, which can neither delay nor break it. It must be closed exactly once."""
        try:
            return Guarded(self._watch(head), self._dropped)
        except Exception:  # noqa: BLE001  a request that cannot be watched is served all the same, and counted
            self._dropped("observer_error")
            return Unwatched()

    def enter(self) -> bool:
        """Pass the in-flight gate. Whoever passed calls `leave` exactly once."""
        if self.in_flight >= self.limits.max_in_flight:
            return False
        self.in_flight += 1
        return True

    def leave(self) -> None:
        """A request is over."""
        self.in_flight -= 1

    def wrote(self, read_at: float) -> None:
        """Bytes that were read at `read_at` have just been written: time one write in `OVERHEAD_SAMPLE`."""
        self.engine_heard_at = read_at
        self._writes += 1
        if self._writes % OVERHEAD_SAMPLE == 0:
            self._overhead(self.clock() - read_at)

    # --- connections -------------------------------------------------------------------------------------------------

    def connected(self, connection: ClientConnection) -> None:
        self._connections.add(connection)

    def disconnected(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)

    @property
    def open_connections(self) -> int:
        """Client connections open now."""
        return len(self._connections)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something beside the callbacks, kept from the garbage collector until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
