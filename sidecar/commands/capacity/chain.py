"""How long requests wait for a slot: a birth-death chain. The service rate grows with the number of requests inside.

State n is the number of requests in one replica, waiting ones included. They arrive at a rate that does not depend on
n (Poisson) and leave at R(n), which grows up to the number of slots and is constant above it. In steady state
rate * p(n) = R(n + 1) * p(n + 1). This is solved exactly, without truncation, because beyond the slots it is a
geometric series. R(n) = n / S gives the M/M/c queue (Erlang C); a single slot gives M/M/1.

For the load at which R was observed, that balance holds for any distribution of service times, if R(n) is the mean
rate of leaving in state n. For another load it assumes that R(n) stays the same. By Little's law, the mean wait is the
mean number of waiting requests divided by the arrival rate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Waiting:
    """One replica's steady state. Without one (the queue grows for ever) the wait is inf, `utilisation` 1 or more."""

    wait_seconds: float
    """Mean, over all requests."""
    inside: float
    """Mean number of requests in the replica, waiting or running."""
    utilisation: float
    """Arrival rate divided by the rate of leaving with all slots taken."""
    beyond: float
    """Share of time in states above `known`, in which the rate of leaving was never observed."""


def solve(rate: float, leaving: Callable[[int], float], slots: int, known: int | None = None) -> Waiting:
    """Solve the chain for `rate` arrivals per second; of n inside, `leaving(n)` per second leave (n: 1 to `slots`)."""
    full = leaving(slots)
    ratio = rate / full
    if ratio >= 1:
        return Waiting(inf, inf, ratio, 1.0)
    # Scaled down whenever they grow above 1e200: with many slots the products would leave the range of a float.
    weights = [1.0]
    for n in range(1, slots + 1):
        weights.append(weights[-1] * rate / leaving(n))
        if weights[-1] > 1e200:
            weights = [weight * 1e-200 for weight in weights]
    # From the last slot on the weights are weights[slots] * ratio^k: `tail` is their sum, `excess` their sum times k.
    last = weights[slots]
    tail = last / (1 - ratio)
    excess = last * ratio / (1 - ratio) ** 2
    total = sum(weights[:slots]) + tail
    inside = (sum(n * weight for n, weight in enumerate(weights[:slots])) + slots * tail + excess) / total
    known = slots if known is None else known
    beyond = sum(weights[known + 1 : slots]) + tail if known < slots else 0.0
    return Waiting(excess / total / rate, inside, ratio, beyond / total)
