"""How fast a replica serves n requests at once: the mean time that a request runs, S(n) = alone + each * n.

Why a straight line: every step of the engine has a fixed cost that all sequences share (reading the weights), and a
cost for each sequence; and a request's prefill is work that delays all others. A request that runs among n takes the
fixed cost of its own steps, plus n times the rest. So n requests leave at R(n) = n / S(n) requests a second, which
grows with n and saturates at 1 / each.

Points of a load test (n requests at once took t seconds each) tell both parameters, by least squares; RefusedError if they do not determine them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.commands.capacity.answer import RefusedError


MOST_RESIDUAL = 0.15
"""Largest accepted relative distance of a point from the line: beyond it, a straight line is the wrong shape."""


@dataclass(frozen=True, slots=True)
class Service:
    """S(n), the range in which it was observed, and its error."""

    alone_seconds: float
    each_seconds: float
    known: int
    """The largest n that was observed."""
    error: float
    """The largest relative distance of a point from the line."""

    def leaving(self, n: float) -> float:
        """Requests that finish per second while n run. Each runs S(n) seconds from first schedule to last token."""
        return n / (self.alone_seconds + self.each_seconds * n)


def fit_points(points: Sequence[tuple[int, float]]) -> Service:
    """Fit S(n) to points of (requests at once, mean seconds that each ran). Raises RefusedError."""
    if len({n for n, _ in points}) < 2:
        raise RefusedError(
            "one point does not show how service slows as requests are added. Give --service twice or more, for example at 1"
            " request at once and at as many as there are slots (from a closed-loop load test)"
        )
    # Errors are weighed relative to the value: otherwise the long times at 64 requests would outweigh those at 1.
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, points, strict=True)) / total
    mean_s = sum(w * s for w, (_, s) in zip(weights, points, strict=True)) / total
    spread = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, points, strict=True))
    each = sum(w * (n - mean_n) * (s - mean_s) for w, (n, s) in zip(weights, points, strict=True)) / spread
    alone = mean_s - each * mean_n
    if each < 0 or alone < 0:
        raise RefusedError(
            "the points of --service contradict each other: "
            + ("a request takes less time among more of them" if each < 0 else "a request alone would take no time")
            + ". Were they measured at a steady load, with the same mix of lengths?"
        )
    residual = max(abs(alone + each * n - seconds) / seconds for n, seconds in points)
    if residual > MOST_RESIDUAL:
        raise RefusedError(
            f"the points of --service lie up to {residual:.0%} off a straight line (at most {MOST_RESIDUAL:.0%} is accepted):"
            " not only the number of requests changed between them"
        )
    return Service(alone, each, max(n for n, _ in points), residual)
