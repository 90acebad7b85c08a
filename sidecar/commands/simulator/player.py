"""Plays a simulation in real time: virtual instants become wake-ups, tokens become deliveries.

The offset between the two clocks is taken once, so that delays never add up: a late wake-up plays all due events, and
the next wake-up is computed from the simulation again. HTTP is in `http_face.py`, batching in `simulation.py`.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

from sidecar.commands.simulator.simulation import Progress, SimulatedRequest, Simulation


class Cancellable(Protocol):
    """The handle that `call_later` returns."""

    def cancel(self) -> None: ...


class Reception:
    """The client's side of one request: tokens that were delivered and wait to be taken."""

    def __init__(self, request: SimulatedRequest) -> None:
        self.request = request
        self._delivered = 0
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None

    @property
    def complete(self) -> bool:
        """True when every token was taken."""
        return self._taken == self.request.output_tokens

    def deliver(self, tokens: int) -> None:
        """Add `tokens` delivered tokens and wake the waiting `take`."""
        self._delivered += tokens
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> int:
        """Wait for tokens; returns the number of new ones, at least 1. Must not be called when `complete`."""
        while self._delivered == self._taken:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        tokens = self._delivered - self._taken
        self._taken = self._delivered
        return tokens


class Player:
    """A simulation and a clock. `clock` returns monotonic seconds; `call_later` takes seconds and a callback."""

    def __init__(
        self,
        simulation: Simulation,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Cancellable],
        *,
        on_tokens: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        self.simulation = simulation
        self.withhold_seconds = 0.0
        """A fault outside the engine: tokens made in the first `withhold_seconds` after a request's first token are
        delivered together at the end of that time."""
        self._clock = clock
        self._call_later = call_later
        self._on_tokens = on_tokens
        self._offset = clock() - simulation.now
        self._receptions: dict[SimulatedRequest, Reception] = {}
        self._deliveries: list[tuple[float, int, Reception, int]] = []
        self._order = count()
        self._wake: Cancellable | None = None

    def submit(self, prompt_tokens: int, output_tokens: int, hashes: Sequence[bytes] = ()) -> Reception:
        """A request arrives now. Raises ValueError as the simulation does."""
        reception = Reception(self.simulation.arrive(self._now(), prompt_tokens, output_tokens, hashes))
        self._receptions[reception.request] = reception
        self._play()
        return reception

    def abort(self, reception: Reception) -> None:
        """The request's client has left; no effect if the request has finished already."""
        self._receptions.pop(reception.request, None)
        self.simulation.abort(self._now(), reception.request)
        self._play()

    def adjust(self, **knobs: Any) -> None:
        """Change the simulation's knobs (`physics.Knobs`) now."""
        self.simulation.adjust(self._now(), **knobs)
        self._play()

    def catch_up(self) -> None:
        """Play all due events. Called before the simulation's state is read."""
        self._play()

    def stop(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _now(self) -> float:
        return max(self._clock() - self._offset, self.simulation.now)

    def _play(self, woken_for: float = 0.0) -> None:
        self.stop()
        # A timer may fire a rounding error before its instant; the instant then counts as reached.
        now = max(self._now(), woken_for)
        for progress in self.simulation.advance(now):
            self._on_tokens(progress)
            self._dispatch(progress)
        while self._deliveries and self._deliveries[0][0] <= now:
            _, _, reception, tokens = heappop(self._deliveries)
            reception.deliver(tokens)
        event_at = self.simulation.next_event_at()
        if self._deliveries:
            due_at = self._deliveries[0][0]
            event_at = due_at if event_at is None else min(event_at, due_at)
        if event_at is not None:
            # Computed from the clock, not from `now`: errors of timers that fire early (uvloop rounds them to
            # milliseconds) must not add up.
            self._wake = self._call_later(
                max(event_at - (self._clock() - self._offset), 0.0), partial(self._play, event_at)
            )

    def _dispatch(self, progress: Progress) -> None:
        request = progress.request
        reception = self._receptions.get(request)
        if reception is None:
            return
        released_at = request.token_instants[0] + self.withhold_seconds
        for made_at in progress.instants:
            due_at = max(made_at, released_at) + request.delivery_seconds
            heappush(self._deliveries, (due_at, next(self._order), reception, 1))
        if progress.complete:
            del self._receptions[request]
