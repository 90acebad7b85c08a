"""How many replicas keep the mean queue wait below a target: two queues in a row, and what a router makes of several replicas.

1. The line for prefill. Prompts are computed one after another, so they queue behind each other long before the slots are taken:
   M/G/1, mean wait = residual * busy / (1 - busy) (Pollaczek and Khinchine), where `busy` is the share of time in which a prompt is
   in prefill, and `residual` what is left of the one found there, E[S^2] / (2 E[S]).
2. The slots: the birth-death chain of `chain.py` over the service of `service.py`.

The waits are added: an approximation, and its error stands in docs/capacity.md beside the simulation it was taken from. A random
router splits a Poisson stream into independent ones, so each replica is that model at its share: exact. One that joins the shortest
queue lies between that and one common queue, so it gets a range. Pure; it refuses loads that no number of replicas carries.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

from sidecar.capacity import chain
from sidecar.capacity.answer import RefusedError
from sidecar.capacity.service import Service


MOST_REPLICAS = 10_000
MOST_BEYOND = 0.05
"""Share of time that an answer may rest on states in which nobody has seen the replica."""


@dataclass(frozen=True, slots=True)
class Line:
    """Prompts before the prefill, one replica."""

    seconds: float
    """Of a request's own prefill, mean."""
    residual_seconds: float
    """E[S^2] / (2 E[S])."""

    def wait_seconds(self, rate: float) -> float:
        """Mean; inf where prompts come faster than they are computed."""
        busy = rate * self.seconds
        return self.residual_seconds * busy / (1 - busy) if busy < 1 else inf

    def shared_wait_seconds(self, rate: float, replicas: int) -> float:
        """Mean, were there one line for all: M/G/c after Lee and Longton, the wait of M/M/c times residual over mean."""
        if not self.seconds:
            return 0.0
        common = chain.solve(rate, lambda n: n / self.seconds, replicas)
        return common.wait_seconds * self.residual_seconds / self.seconds


def line_of(prefills: list[tuple[float, float]]) -> Line:
    """From (weight, seconds) of each kind of prompt."""
    total = sum(weight for weight, _ in prefills)
    mean = sum(weight * seconds for weight, seconds in prefills) / total
    square = sum(weight * seconds**2 for weight, seconds in prefills) / total
    return Line(mean, square / (2 * mean) if mean else 0.0)


@dataclass(frozen=True, slots=True)
class Slots:
    """A replica's slots, one common service for all requests."""

    service: Service
    count: int
    scale: float = 1.0
    """Exponential service waits 1.0 of what the chain says; service that varies less, less: (1 + cv^2) / 2 (Lee and Longton)."""

    def waiting(self, rate: float, replicas: int = 1) -> chain.Waiting:
        """`replicas` as one: all slots behind one queue, requests spread evenly."""
        return chain.solve(rate, self._leaving(replicas), self.count * replicas, self.service.known * replicas)

    def _leaving(self, replicas: int) -> Callable[[int], float]:
        return lambda n: replicas * self.service.leaving(n / replicas)


@dataclass(frozen=True, slots=True)
class Row:
    """So many replicas: the mean queue wait of a request, and how busy each is."""

    replicas: int
    random_seconds: float
    """With a router that picks at random."""
    shared_seconds: float
    """Were there one common queue: no router does better."""
    prefill_busy: float | None
    slots_busy: float | None
    """Arrival rate over the rate of leaving with all slots taken."""
    beyond: float
    """Share of time in states that nobody observed."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Identical replicas under `rate` requests a second in all. One of the two queues may be unknown (None), not both."""

    rate: float
    line: Line | None
    slots: Slots | None
    most_each: float | None = None
    """Requests a second at one replica beyond which what was measured says nothing; None: no bound."""

    def row(self, replicas: int) -> Row:
        """The fleet with so many."""
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
        """The fewest replicas whose mean wait is not above it. Raises RefusedError where the data carry no such number."""
        if self.line is None and self.slots is None:
            raise RefusedError("nothing is known of how long a request is served")

        def good(row: Row) -> bool:
            return (row.shared_seconds if shared else row.random_seconds) <= wait_seconds

        # The wait falls with every replica, so the first good one is found by doubling and halving.
        low = 0 if self.most_each is None else ceil(self.rate / self.most_each) - 1
        high = low + 1
        while not good(self.row(high)):
            low, high = high, high * 2
            if high > MOST_REPLICAS:
                raise RefusedError(
                    f"not even {MOST_REPLICAS:,} replicas reach that wait: the target is too near 0 (some wait is left as long as two"
                    " requests can meet)"
                )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if good(self.row(middle)) else (middle, high)
        found = self.row(high)
        if found.beyond > MOST_BEYOND:
            assert self.slots is not None
            raise RefusedError(
                f"with {high} replicas each would spend {found.beyond:.0%} of its time with more than {self.slots.service.known} requests"
                " inside, where nobody has observed how fast it serves: watch it, or test it, under more load"
            )
        return found
