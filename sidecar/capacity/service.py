"""How fast a replica serves n requests at once: the mean time that a request runs, S(n) = alone + each * n.

Why a line: every step of the engine costs a fixed part, which all share (reading the weights), and a part for each sequence; and a
request's prefill is work that delays all others. A request that runs among n needs the shared part of its own steps, and n times the
rest. So n requests leave at R(n) = n / S(n), which grows with n and saturates at 1 / each.

Two ways to learn it: points of a load test (n at once, so many seconds each), by least squares; or a watched replica, by maximum
likelihood: in so many seconds with n inside, so many left. Both refuse where the data do not carry two numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from sidecar.capacity.answer import RefusedError


MOST_RESIDUAL = 0.15
"""A point further than this from the line says that the line is the wrong shape."""
FEWEST_DEPARTURES = 100
"""Poisson: 10 % of error in a rate that does not vary; with two parameters it is more, which `MOST_ERROR` judges."""
MOST_ERROR = 0.15
"""Standard error of the rate with all slots taken."""


@dataclass(frozen=True, slots=True)
class Service:
    """S(n), where it was learned, and how well."""

    alone_seconds: float
    each_seconds: float
    known: int
    """The largest n that was observed."""
    error: float
    """Points: the largest distance from the line, relative. Watched: the relative standard error of R at `known`."""

    def running_seconds(self, n: float) -> float:
        """Mean time from first schedule to last token of a request that runs among n."""
        return self.alone_seconds + self.each_seconds * n

    def leaving(self, n: float) -> float:
        """Requests a second that leave while n run."""
        return n / self.running_seconds(n)


def fit_points(points: Sequence[tuple[int, float]]) -> Service:
    """From (requests at once, mean seconds that each ran). Raises RefusedError."""
    if len({n for n, _ in points}) < 2:
        raise RefusedError(
            "how service slows as requests are added is unknown: one point cannot tell. Give --service twice or more, for"
            " example at 1 request at once and at as many as there are slots (a closed-loop load test says both)"
        )
    # Relative errors count, so that the seconds at 64 do not drown those at 1.
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
            + ("a request runs shorter among more of them" if each < 0 else "a request alone would take no time")
            + ". Were they measured at a steady load, with the same mix of lengths?"
        )
    residual = max(abs(alone + each * n - seconds) / seconds for n, seconds in points)
    if residual > MOST_RESIDUAL:
        raise RefusedError(
            f"the points of --service lie up to {residual:.0%} off a straight line (at most {MOST_RESIDUAL:.0%} is accepted):"
            " something else than the number of requests changed between them"
        )
    return Service(alone, each, max(n for n, _ in points), residual)


@dataclass(frozen=True, slots=True)
class Exposure:
    """A short time of a watched replica."""

    inside: float
    """Requests in it when this time began. Not at its end: in steady state those who left say nothing of who is left behind (Burke), and
    a mean of both ends would halve the slope."""
    seconds: float
    left: int
    """Requests that ended in it."""


def fit_watched(exposures: Sequence[Exposure], slots: int) -> Service:
    """By maximum likelihood: `left` is Poisson with mean R(min(inside, slots)) * seconds. Raises RefusedError.

    Twice: while a time lasts the number inside drifts back to its mean, and how fast is known after the first fit.
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
    if service.error > MOST_ERROR:
        raise RefusedError(
            f"the rate of service at {known} requests at once is known to {service.error:.1%} only (at most {MOST_ERROR:.0%} is accepted):"
            " the load hardly varied while it was watched. Watch longer (--window) or give points of a load test (--service)"
        )
    return service


def _fit(seen: Sequence[tuple[float, float, int]]) -> Service:
    """From (inside, seconds, left)."""
    departures = sum(left for _, _, left in seen)
    busy = sum(n * seconds for n, seconds, _ in seen)
    logs = (log(busy / departures / 2), log(busy / departures / 2 / (busy / sum(seconds for _, seconds, _ in seen))))
    for _ in range(100):
        score, information = _likelihood(seen, *logs)
        step = _solve(information, score)
        logs = (logs[0] + max(-1.0, min(1.0, step[0])), logs[1] + max(-1.0, min(1.0, step[1])))
        # A parameter that the data put at 0 wanders off; far enough is 0.
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
    """Score and Fisher's information (two on the diagonal, one beside it) in the logarithms of both parameters."""
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
