"""The state of one latency: met, near its limit or broken. Pure."""

from sidecar.diagnosis.findings import Number, State
from sidecar.diagnosis.measured import Latency


NEAR = 0.75
"""Share of the threshold from which a p99 is near it."""
NEAR_THE_FLOOR = 1.5
"""Multiple of the time for reading the weights up to which a token is mostly that reading."""
NEAR_BURN = 0.5
"""Share of the allowed misses from which an objective is near its limit."""
MISSES_BEYOND_CHANCE = 3
"""Fewer misses may be chance, even if they are more than the target allows."""


def judged(latency: Latency, *, unfinished: bool = False) -> Number:
    """The state of one latency within the window: by its misses if the lane has the objective, else by the p99.

    `unfinished`: answers are under way that are judged at their end. While none is judged, the p99 counts.
    """
    if latency.misses is not None and not (unfinished and latency.burn is None):
        over = _burning(latency)
        if not over and not latency.samples and (latency.misses or not latency.judged):
            return Number(latency, State.UNKNOWN, None)
        return Number(latency, State.BROKEN if over >= 1 else State.NEAR if over >= NEAR_BURN else State.MET, over)
    if latency.p99_seconds is None or latency.threshold_seconds is None:
        return Number(latency, State.UNKNOWN, None)
    over = latency.p99_seconds / latency.threshold_seconds
    return Number(latency, State.BROKEN if over > 1 else State.NEAR if over > NEAR else State.MET, over)


def _burning(latency: Latency) -> float:
    """Misses of the window over the allowed ones; 0 if there are so few that they may be chance.

    The last half hour never makes an objective broken that is met now: it only shows that one or two misses in the window
    are more than chance.
    """
    misses, burn = latency.misses or 0.0, latency.burn or 0.0
    if misses >= MISSES_BEYOND_CHANCE:
        return burn
    long = latency.burn_long or 0.0
    return min(burn, long) if misses > 0 and (latency.misses_long or 0.0) >= MISSES_BEYOND_CHANCE else 0.0
