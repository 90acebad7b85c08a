"""How many replicas keep the mean queue wait below a target: two queues in a row, for one replica and for several.

1. The line for prefill. Prompts are computed one after another, so they queue behind each other long before the slots
   are taken. This is an M/G/1 queue: mean wait = residual * busy / (1 - busy) (Pollaczek and Khinchine). `busy` is the
   share of time in which a prompt is in prefill, and `residual` is the mean rest of the prefill that an arriving
   request finds running, E[S^2] / (2 E[S]).
2. The slots: the birth-death chain of `chain.py` over the service of `service.py`.

The two waits are added. This is an approximation; docs/capacity.md has its error and the simulation that gave it. A
random router splits a Poisson stream into independent ones, so each replica follows this model at its share exactly. A
router that joins the shortest queue lies between that and one common queue, so the answer for it is a range. Pure
functions. Loads that no number of replicas can carry are refused.
"""

from dataclasses import dataclass
from math import inf

from sidecar.commands.capacity import chain
from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.service import Service


MOST_REPLICAS = 10_000
MOST_BEYOND = 0.05
"""Largest accepted share of time in states in which the replica was never observed."""


@dataclass(frozen=True, slots=True)
class Line:
    """The queue of prompts for prefill at one replica."""

    seconds: float
    """Mean own prefill of a request."""
    residual_seconds: float
    """Mean rest of a running prefill, E[S^2] / (2 E[S])."""

    def wait_seconds(self, rate: float) -> float:
        """Mean wait in seconds at `rate` requests per second; inf if prompts arrive faster than they are computed."""
        busy = rate * self.seconds
        return self.residual_seconds * busy / (1 - busy) if busy < 1 else inf

    def shared_wait_seconds(self, rate: float, replicas: int) -> float:
        """Mean wait with one line for all: M/G/c after Lee and Longton, the wait of M/M/c times residual over mean."""
        if not self.seconds:
            return 0.0
        common = chain.solve(rate, lambda n: n / self.seconds, replicas)
        return common.wait_seconds * self.residual_seconds / self.seconds


def line_of(prefills: list[tuple[float, float]]) -> Line:
    """The line of a mix of prompts, given as (weight, prefill seconds) of each kind."""
    total = sum(weight for weight, _ in prefills)
    mean = sum(weight * seconds for weight, seconds in prefills) / total
    square = sum(weight * seconds**2 for weight, seconds in prefills) / total
    return Line(mean, square / (2 * mean) if mean else 0.0)


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of one replica; all requests have the same service."""

    service: Service
    count: int
    scale: float = 1.0
    """Factor on the chain's wait: 1.0 for exponential service, else (1 + cv^2) / 2 (Lee and Longton)."""

    def waiting(self, rate: float, replicas: int = 1) -> chain.Waiting:
        """The chain for `replicas` replicas as one: all slots behind one queue, requests spread evenly."""
        service = self.service
        return chain.solve(
            rate, lambda n: replicas * service.leaving(n / replicas), self.count * replicas, service.known * replicas
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A number of replicas: the mean queue wait of a request, and how busy each replica is."""

    replicas: int
    random_seconds: float
    """Mean queue wait with a router that picks at random."""
    shared_seconds: float
    """Mean queue wait with one common queue: no router can be better."""
    prefill_busy: float | None
    slots_busy: float | None
    """Arrival rate divided by the rate of leaving with all slots taken."""
    beyond: float
    """Share of time in states that were never observed."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Identical replicas that share `rate` requests per second. One of the two queues may be None (unknown)."""

    rate: float
    line: Line | None
    slots: Slots | None

    def row(self, replicas: int) -> Row:
        each = self.rate / replicas
        random = shared = beyond = 0.0
        prefill_busy = slots_busy = None
        if self.line is not None:
            prefill_busy = each * self.line.seconds
            random += self.line.wait_seconds(each)
            shared += self.line.shared_wait_seconds(self.rate, replicas)
        if self.slots is not None:
            own = self.slots.waiting(each)
            slots_busy, beyond = own.utilisation, own.beyond
            random += own.wait_seconds * self.slots.scale
            shared += self.slots.waiting(self.rate, replicas).wait_seconds * self.slots.scale
        return Row(replicas, random, min(shared, random), prefill_busy, slots_busy, beyond)

    def fewest(self, wait_seconds: float, *, shared: bool = False) -> Row:
        """The fewest replicas with a mean wait up to `wait_seconds`. Raises RefusedError if the data do not tell."""
        if self.line is None and self.slots is None:
            raise RefusedError("the time to serve a request is not known")

        def good(row: Row) -> bool:
            return (row.shared_seconds if shared else row.random_seconds) <= wait_seconds

        # Each added replica lowers the wait, so the fewest good replicas are found by doubling, then by bisection.
        low, high = 0, 1
        while not good(self.row(high)):
            low, high = high, high * 2
            if high > MOST_REPLICAS:
                raise RefusedError(
                    f"not even {MOST_REPLICAS:,} replicas reach that wait: the target is too near 0 (while two requests can"
                    " come together, some wait remains)"
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if good(self.row(middle)) else (middle, high)
        found = self.row(high)
        if found.beyond > MOST_BEYOND:
            assert self.slots is not None
            raise RefusedError(
                f"with {high} replicas each would spend {found.beyond:.0%} of its time with more than {self.slots.service.known} requests"
                " inside, a load at which its speed was not measured: test it under more load"
            )
        return found
