"""How many replicas keep the mean queue wait below a target: two queues in a row, at each replica.

1. The line for prefill. Prompts are computed one after another, so they queue behind each other long before the slots
   are taken. This is an M/G/1 queue: mean wait = residual * busy / (1 - busy) (Pollaczek and Khinchine). `busy` is the
   share of time in which a prompt is in prefill, and `residual` is the mean rest of the prefill that an arriving
   request finds running, E[S^2] / (2 E[S]).
2. The slots: an M/M/c queue in which each request runs as long as among full slots. With R = rate of leaving with all
   slots taken and busy = arrivals / R, mean wait = busy^(sqrt(2 (slots + 1)) - 1) / ((1 - busy) R) (Sakasegawa 1977,
   "An approximation formula Lq = a rho^b / (1 - rho)"; exact for one slot). Requests run faster while slots are free,
   so the wait is rather too long than too short.

The two waits are added. This is an approximation; docs/capacity.md has its error and the simulation that gave it. A
random router splits a Poisson stream into independent ones, so each replica follows this model at its share. Pure
functions. Loads that no number of replicas can carry are refused.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from math import inf, sqrt

from sidecar.commands.capacity.answer import RefusedError
from sidecar.commands.capacity.service import Service


MOST_REPLICAS = 10_000


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

    def busy(self, rate: float) -> float:
        """`rate` divided by the rate of leaving with all slots taken; 1 or more: the queue grows for ever."""
        return rate / self.service.leaving(self.count)

    def wait_seconds(self, rate: float) -> float:
        """Mean wait in seconds at `rate` requests per second; inf if more come than can leave."""
        busy = self.busy(rate)
        if busy >= 1:
            return inf
        return math.pow(busy, sqrt(2 * (self.count + 1)) - 1) / ((1 - busy) * self.service.leaving(self.count))


@dataclass(frozen=True, slots=True)
class Row:
    """A number of replicas: the mean queue wait of a request, and how busy each replica is."""

    replicas: int
    wait_seconds: float
    """inf: the queue grows for ever."""
    prefill_busy: float | None
    slots_busy: float | None
    """Arrival rate divided by the rate of leaving with all slots taken."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Identical replicas that share `rate` requests per second. One of the two queues may be None (unknown)."""

    rate: float
    line: Line | None
    slots: Slots | None

    def row(self, replicas: int) -> Row:
        each, line, slots = self.rate / replicas, self.line, self.slots
        return Row(
            replicas,
            (line.wait_seconds(each) if line else 0.0) + (slots.wait_seconds(each) if slots else 0.0),
            each * line.seconds if line else None,
            slots.busy(each) if slots else None,
        )

    def fewest(self, wait_seconds: float) -> Row:
        """The fewest replicas with a mean wait up to `wait_seconds`. Raises RefusedError if no number reaches it."""
        # Each added replica lowers the wait.
        numbers = range(1, MOST_REPLICAS + 1)
        found = bisect_left(numbers, -wait_seconds, key=lambda replicas: -self.row(replicas).wait_seconds)
        if found == MOST_REPLICAS:
            raise RefusedError(
                f"not even {MOST_REPLICAS:,} replicas reach that wait: the target is too near 0 (while two requests can"
                " come together, some wait remains)"
            )
        return self.row(numbers[found])
