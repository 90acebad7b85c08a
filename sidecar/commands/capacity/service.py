"""How fast a replica serves n requests at once: the mean time that a request runs, S(n) = alone + each * n.

Why a straight line: every step of the engine has a fixed cost that all sequences share (reading the weights), and a
cost for each sequence; and a request's prefill is work that delays all others. A request that runs among n takes the
fixed cost of its own steps, plus n times the rest. So n requests leave at R(n) = n / S(n) requests a second, which
grows with n and saturates at 1 / each.

Two ways to learn both parameters: points of a load test (n requests at once took t seconds each), by least squares;
or a watched replica, by maximum likelihood from the number of requests inside, the seconds, and the number that left.
Both raise RefusedError if the data do not determine the two parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from sidecar.commands.capacity.answer import RefusedError


MOST_RESIDUAL = 0.15
"""Largest accepted relative distance of a point from the line: beyond it, a straight line is the wrong shape."""
FEWEST_DEPARTURES = 100
"""Poisson: 10 % error in a rate that does not vary. With two parameters the error is larger; `MOST_RATE_ERROR` limits it."""
MOST_RATE_ERROR = 0.15
"""Largest accepted relative standard error of the service rate R at the largest n observed."""


@dataclass(frozen=True, slots=True)
class Service:
    """S(n), the range in which it was observed, and its error."""

    alone_seconds: float
    each_seconds: float
    known: int
    """The largest n that was observed."""
    error: float
    """From points: the largest relative distance from the line. Watched: relative standard error of R at `known`."""

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


@dataclass(frozen=True, slots=True)
class Exposure:
    """One short interval of a watched replica."""

    inside: float
    """Requests in the replica at the start of the interval. Not at its end: in steady state past departures are
    independent of the number left inside (Burke), and a mean of both ends would halve the slope."""
    seconds: float
    left: int
    """Requests that ended during the interval."""


def fit_observed(exposures: Sequence[Exposure], slots: int) -> Service:
    """Fit by maximum likelihood: `left` is Poisson with mean R(min(inside, slots)) * seconds. Raises RefusedError.

    The fit runs twice: the number inside drifts back to its mean during an interval, with a speed known from the first.
    """
    departures = sum(one.left for one in exposures)
    if departures < FEWEST_DEPARTURES:
        raise RefusedError(
            f"only {departures} requests ended while it was watched, and at least {FEWEST_DEPARTURES} are needed to tell how service"
            " slows with load: watch longer (--window), or give points of a load test (--service)"
        )
    rate = departures / sum(one.seconds for one in exposures)
    first = _fit([(min(one.inside, slots), one.seconds, one.left) for one in exposures if one.inside > 0])
    drifted = [
        (one.inside + (rate - first.leaving(min(one.inside, slots))) * one.seconds / 2, one) for one in exposures
    ]
    service = _fit([(min(max(inside, 0.1), slots), one.seconds, one.left) for inside, one in drifted])
    known = round(min(slots, max(one.inside for one in exposures)))
    service = Service(service.alone_seconds, service.each_seconds, max(1, known), service.error)
    if service.error > MOST_RATE_ERROR:
        raise RefusedError(
            f"the rate of service at {known} requests at once is known to {service.error:.1%} only (at most {MOST_RATE_ERROR:.0%} is accepted):"
            " the load hardly varied while it was watched. Watch longer (--window) or give points of a load test (--service)"
        )
    return service


def _fit(seen: Sequence[tuple[float, float, int]]) -> Service:
    """Newton's method over tuples of (inside, seconds, left)."""
    departures = sum(left for _, _, left in seen)
    busy = sum(n * seconds for n, seconds, _ in seen)
    logs = (log(busy / departures / 2), log(busy / departures / 2 / (busy / sum(seconds for _, seconds, _ in seen))))
    for _ in range(100):
        score, information = _likelihood(seen, *logs)
        step = _solve(information, score)
        logs = (logs[0] + max(-1.0, min(1.0, step[0])), logs[1] + max(-1.0, min(1.0, step[1])))
        # If the best value of a parameter is 0, its logarithm falls without end; e^-14 counts as 0.
        logs = (max(logs[0], -14.0), max(logs[1], -14.0))
        if max(abs(step[0]), abs(step[1])) < 1e-8:
            break
    _, information = _likelihood(seen, *logs)
    alone, each = exp(logs[0]), exp(logs[1])
    largest = max(n for n, _, _ in seen)
    gradient = (-alone / (alone + each * largest), -each * largest / (alone + each * largest))
    spread = _solve(information, gradient)
    error = sqrt(max(0.0, gradient[0] * spread[0] + gradient[1] * spread[1]))
    return Service(alone, each, round(largest), error)


_Matrix = tuple[float, float, float]


def _likelihood(
    seen: Sequence[tuple[float, float, int]], log_alone: float, log_each: float
) -> tuple[tuple[float, float], _Matrix]:
    """Score and Fisher information (diagonal entries, then the other one) in the logarithms of both parameters."""
    alone, each = exp(log_alone), exp(log_each)
    score_alone = score_each = aa = ee = ae = 0.0
    for n, seconds, left in seen:
        running = alone + each * n
        mean = n / running * seconds
        by_alone, by_each = -alone / running, -each * n / running
        score_alone += (left - mean) * by_alone
        score_each += (left - mean) * by_each
        aa += mean * by_alone * by_alone
        ee += mean * by_each * by_each
        ae += mean * by_alone * by_each
    return (score_alone, score_each), (aa + 1e-9, ee + 1e-9, ae)


def _solve(matrix: _Matrix, right: tuple[float, float]) -> tuple[float, float]:
    aa, ee, ae = matrix
    determinant = max(aa * ee - ae * ae, 1e-18)
    return (ee * right[0] - ae * right[1]) / determinant, (aa * right[1] - ae * right[0]) / determinant
