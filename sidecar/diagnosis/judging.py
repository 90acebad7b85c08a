"""The state of one latency: met, near its limit or broken. Pure."""

from sidecar.diagnosis.findings import Number, State
from sidecar.diagnosis.measured import Latency


NEAR = 0.75
"""Share of the threshold from which a p99 is near it."""
NEAR_BURN = 0.5
"""Share of the allowed misses from which an objective is near its limit."""
MISSES_BEYOND_CHANCE = 3
"""Fewer misses may be chance, even if they are more than the target allows."""


def judged(latency: Latency, *, unfinished: bool = False) -> Number:
    """The state of one latency: by its misses if the lane has the objective, else by the p99.

    `unfinished`: answers are under way that are judged at their end.
    """
    if latency.misses is not None:
        over = _burning(latency, unfinished=unfinished)
        if not over and not latency.samples:
            return Number(latency, State.UNKNOWN, None)
        return Number(latency, State.BROKEN if over >= 1 else State.NEAR if over >= NEAR_BURN else State.MET, over)
    if latency.p99_seconds is None or latency.threshold_seconds is None:
        return Number(latency, State.UNKNOWN, None)
    over = latency.p99_seconds / latency.threshold_seconds
    return Number(latency, State.BROKEN if over > 1 else State.NEAR if over > NEAR else State.MET, over)


def _burning(latency: Latency, *, unfinished: bool) -> float:
    """Misses of the window over the allowed ones; 0 if there are so few that they may be chance.

    The last half hour never makes an objective broken that is met now. It only shows that one or two misses in the window
    are more than chance, and it stands in for the window while answers are under way of which none is judged yet.
    """
    misses, burn = latency.misses or 0.0, latency.burn
    if burn is not None and misses >= MISSES_BEYOND_CHANCE:
        return burn
    if (latency.misses_long or 0.0) < MISSES_BEYOND_CHANCE:
        return 0.0
    long = latency.burn_long or 0.0
    if burn is None:
        return long if unfinished else 0.0
    return min(burn, long) if misses > 0 else 0.0
