"""How long requests wait for a slot: a birth-death chain whose service rate grows with the number of requests inside.

State n is the requests in one replica, waiting ones included. They arrive at a rate that does not depend on n (Poisson) and leave at
R(n), which grows up to the number of slots and then stays. In steady state rate * p(n) = R(n + 1) * p(n + 1), solved exactly: no
truncation, since beyond the slots it is a geometric series. R(n) = n / S is the M/M/c queue (Erlang C), R(1) alone the M/M/1.

For the load at which R was observed that balance holds whatever the service times are, if R(n) is the mean rate of leaving in state
n; for another load it assumes that R(n) stays the same. Waits by Little's law: mean waiting requests over the rate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Waiting:
    """One replica's steady state. All are inf, and `utilisation` is 1 or more, where it has none: the queue grows for ever."""

    wait_seconds: float
    """Mean, over all requests."""
    inside: float
    """Mean number of requests in it, waiting or running."""
    utilisation: float
    """Arrival rate over the rate of leaving with all slots taken."""
    all_slots_taken: float
    """Share of requests that find no free slot (arrivals of a Poisson process see the time average)."""
    beyond: float
    """Share of time in states above `known`, of which nobody has observed the rate."""


def solve(rate: float, leaving: Callable[[int], float], slots: int, known: int | None = None) -> Waiting:
    """The chain with `rate` arrivals a second, where n requests leave at `leaving(n)` a second (n from 1 to `slots`)."""
    full = leaving(slots)
    ratio = rate / full
    if ratio >= 1:
        return Waiting(inf, inf, ratio, 1.0, 1.0)
    # Scaled by the largest so far: with many slots the products leave the range of a float.
    weights = [1.0]
    for n in range(1, slots + 1):
        weights.append(weights[-1] * rate / leaving(n))
        if weights[-1] > 1e200:
            weights = [weight * 1e-200 for weight in weights]
    # From the last slot on the weights are weights[slots] * ratio^k: their sum, and their sums times k.
    last = weights[slots]
    tail = last / (1 - ratio)
    excess = last * ratio / (1 - ratio) ** 2
    total = sum(weights[:slots]) + tail
    inside = (sum(n * weight for n, weight in enumerate(weights[:slots])) + slots * tail + excess) / total
    known = slots if known is None else known
    beyond = sum(weights[known + 1 : slots]) + tail if known < slots else 0.0
    return Waiting(excess / total / rate, inside, ratio, tail / total, beyond / total)
