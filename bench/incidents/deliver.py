"""The way of a pod's tokens from its engine to its clients: events, hop, merged reads, slow client, the sidecar's quota.

It knows the order in which these apply, and which of them apply to a request. It refuses to know the engine, and the
arithmetic of each (`wire.py`). All instants are in seconds of the run.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from random import Random

from bench.incidents.fault import Hop
from bench.incidents.traffic import Active, Asked
from bench.incidents.wire import (
    coalesced,
    in_intervals,
    next_run_at,
    through_hop,
    through_quota,
    to_slow_client,
    together,
)
from bench.incidents.world import Throttle, World


FLUSH_SECONDS = 0.0005
"""From the read of the last byte to its flush to a client that keeps up."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """One answer as the sidecar reads and passes it on, as far as it has come."""

    reads: list[float]
    """Instants of reads; those of an answer that is not streamed are not recorded."""
    events: list[int]
    """Number of events in each read."""
    pauses: list[tuple[float, float]]
    last_read_at: float
    flushed_at: float
    """Instant at which the client has all of it."""


class Quota:
    """CPU quota of one sidecar, which a fault may change."""

    def __init__(self, active: Active, usual: Throttle | None, phase_seconds: float) -> None:
        """`usual`: quota without a fault. `phase_seconds`: instant at which a period begins."""
        self._phase_seconds = phase_seconds
        self._from = [0.0, *active.edges(), inf]
        self._throttles: list[Throttle | None] = []
        for at in self._from[:-1]:
            own = [episode.fault.throttle for episode in active.at(at) if episode.fault.throttle is not None]
            self._throttles.append(own[-1] if own else usual)
        self._never = not any(self._throttles)

    def runs_at(self, at: float) -> float:
        """First instant from `at` on at which the sidecar runs."""
        throttle = None if self._never else self._throttles[bisect_right(self._from, at) - 1]
        return at if throttle is None else next_run_at(at, throttle, self._phase_seconds)

    def reads(self, instants: Sequence[float], counts: Sequence[int]) -> tuple[list[float], list[int]]:
        """Reads of a sidecar with this quota, from those of a sidecar that always runs."""
        if self._never:
            return list(instants), list(counts)
        read_at: list[float] = []
        read: list[int] = []
        for first, last, throttle in self._parts(instants):
            part, events = instants[first:last], counts[first:last]
            if throttle is not None:
                part, events = through_quota(part, events, throttle, self._phase_seconds)
            for at, count in zip(part, events, strict=True):
                if read_at and at <= read_at[-1]:
                    read[-1] += count
                else:
                    read_at.append(at)
                    read.append(count)
        return read_at, read

    def _parts(self, instants: Sequence[float]) -> Iterator[tuple[int, int, Throttle | None]]:
        """Parts of these instants under one quota each: first index, index behind the last, quota."""
        for (begins, ends), throttle in zip(pairwise(self._from), self._throttles, strict=True):
            first, last = bisect_left(instants, begins), bisect_left(instants, ends)
            if first < last:
                yield first, last, throttle


class Delivery:
    """Everything between one pod's engine and its clients."""

    def __init__(self, world: World, active: Active, seed: str) -> None:
        self._world = world
        self._active = active
        self._seed = seed
        # A buffer or a slow client holds as many tokens as ever, in fewer events.
        self._tokens_an_event = max(world.stream_interval, world.tokens_a_step)
        period = Throttle(0.0).period_seconds
        self.quota = Quota(active, world.throttle, Random(f"{seed}/quota").uniform(0.0, period))

    def delivered(self, number: int, asked: Asked, sent: Sequence[float], *, complete: bool) -> Delivered:
        """The answer to a request; the same arguments give the same reads.

        `number`: of the request in its pod. `sent`: instants at which its tokens left the engine, at least one.
        `complete`: the last of them ends the answer.
        """
        if not asked.streaming:
            at = self.quota.runs_at(sent[-1])
            return Delivered([], [], [], at, at + FLUSH_SECONDS)
        hop, pace = self._ways(asked)
        instants, counts = self._events(sent, hop, complete=complete)
        merged = max([self._world.coalesced, *(each.fault.merged for each in self._active.at(asked.at))])
        if merged:
            luck = Random(f"{self._seed}/{number}/reads")
            instants, counts = coalesced(instants, counts, merged, luck)
        if pace is None:
            instants, counts = self.quota.reads(instants, counts)
            return Delivered(instants, counts, [], instants[-1], instants[-1] + FLUSH_SECONDS)
        reads, pauses, flushed_at = to_slow_client(instants, counts, pace / self._tokens_an_event)
        reads, counts = self.quota.reads(reads, counts)
        pauses = [(self.quota.runs_at(began), self.quota.runs_at(ended)) for began, ended in pauses]
        pauses = [(began, ended) for began, ended in pauses if began < reads[-1] and began < ended]
        return Delivered(reads, counts, pauses, reads[-1], self.quota.runs_at(flushed_at))

    def _events(self, sent: Sequence[float], hop: Hop | None, *, complete: bool) -> tuple[list[float], list[int]]:
        """Instants at which the engine's events leave the hop, and their number each time."""
        speculates = self._world.tokens_a_step > 1.0
        if self._world.stream_interval > 1:
            sent = in_intervals(sent, self._world.stream_interval, complete=complete)
        if hop is None:
            return together(sent, one_event=speculates)
        if speculates:
            sent, _ = together(sent, one_event=True)
        held = max(1, round(hop.events / self._tokens_an_event))
        return through_hop(sent, Hop(held, hop.seconds), complete=complete)

    def _ways(self, asked: Asked) -> tuple[Hop | None, float | None]:
        """The hop that a request passes, and its client's tokens per second; None without a hop or slow client."""
        hop, pace = None, None
        for episode in self._active.at(asked.at):
            hop = episode.fault.hop or hop
            clients = episode.fault.slow_clients.get(asked.lane)
            # Other digits of its luck than those that decide whether its client gives up.
            if clients is not None and (asked.luck * 7919) % 1.0 < clients.share:
                pace = clients.tokens_per_second
        return hop, pace
