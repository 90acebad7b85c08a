"""The state that all connections share: limits, clock, the pool towards the engine, the in-flight count, the observers.

Knows no socket and no request; `wiring.py` makes one `Road`, connections and exchanges read it. Refuses to know what a
request means, which `observe` decides. Every request that is let in is closed exactly once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from sidecar.budgets.budgets import Budgets
from sidecar.proxy.crowd import Crowd
from sidecar.proxy.drain import Drain
from sidecar.proxy.endings import Endings
from sidecar.proxy.errors import Failure
from sidecar.proxy.gate import Gate
from sidecar.proxy.guard import guarded
from sidecar.proxy.headers import RequestHead
from sidecar.proxy.leavers import Leavers
from sidecar.proxy.observer import Observer
from sidecar.proxy.pace import Floors
from sidecar.proxy.places import Places
from sidecar.proxy.pool import EnginePool
from sidecar.proxy.read_limit import Turns
from sidecar.proxy.standstill import Now, Standstills


OVERHEAD_SAMPLE = 64
"""One read in this many is timed, so that timing costs nothing (design section 6)."""


class Limits(Floors, Protocol):
    """The bounds of the client's side; seconds and bytes. Defaults and reasons: `ProxyConfig` (`sidecar/config/`)."""

    max_connections_per_peer: int
    max_head_bytes: int
    max_headers: int
    max_body_bytes: int
    look_in_bytes: int
    client_buffer_bytes: int
    head_timeout_seconds: float
    keep_alive_seconds: float
    body_gap_timeout_seconds: float


class EngineLimits(Protocol):
    """The bounds of the engine's side, in seconds. Defaults and reasons: `EngineConfig` in `sidecar/config/schema.py`."""

    connect_timeout_seconds: float
    first_byte_timeout_seconds: float
    gap_timeout_seconds: float


class Road:
    """Shared by every connection of one process."""

    def __init__(
        self,
        limits: Limits,
        engine_limits: EngineLimits,
        pool: EnginePool,
        budgets: Budgets,
        *,
        clock: Callable[[], float],
        observe: Callable[[RequestHead], Observer],
        dropped: Callable[[str], None],
        refused: Callable[[Failure], None],
        overhead: Callable[[float], None],
        resent: Callable[[], None],
        via: bytes | None = None,
    ) -> None:
        self.limits = limits
        self.engine_limits = engine_limits
        self.pool = pool
        self.turns = Turns(clock, pool.soon)
        """The clients' turns. The engine's connections have their own, so that clients hold up no stream."""
        self.budgets = budgets
        self.endings = Endings(pool.turns)
        self.uploads = Gate(budgets.uploads)
        self.standstills = Standstills(clock())
        self.places = Places(budgets, lambda: Now(clock(), self.standstills))
        self.crowd = Crowd(budgets, self.uploads)
        self.clock = clock
        self.dropped = dropped
        self.refused = refused
        self.resent = resent
        """Called when a request is sent once more, because the engine proves never to have had it."""
        self.overhead = overhead
        """Called with the seconds between a read and the write of the same bytes, for one read in OVERHEAD_SAMPLE."""
        self.writes = 0
        self.via = via
        host = (f"[{pool.host}]" if ":" in pool.host else pool.host).encode()
        self.engine_authority = host if pool.unix_path else host + b":%d" % pool.port
        self.draining = False
        self.in_flight = 0
        """Exchanges that have begun and are not over."""
        self.drain = Drain(clock())
        """Counts the exchanges that are over."""
        self.engine_heard_at = float("-inf")
        """When the engine last sent a byte."""
        self.observe = guarded(observe, dropped)
        self.leavers = Leavers()
        self.tasks: set[asyncio.Task[None]] = set()

    def retry_after_seconds(self) -> int | None:
        """Seconds until the requests in flight are done, as far as the drain of late tells; None while it does not."""
        return self.drain.retry_after_seconds(self.budgets.requests.used, self.clock())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine beside the callbacks, kept from the garbage collector until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task
