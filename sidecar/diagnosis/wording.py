"""Numbers as text, with three digits at most: buckets of histograms are not more exact."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf, isinf


WHOLE_MINUTES = 10
"""Minutes from which on no part of one is told."""


def seconds(value: float | None) -> str:
    """A duration as `80 ms`, `3.2 s`, `2.5 min` or `12 min`; `-` if it is unknown; words if it is above the last bucket."""
    if value is None:
        return "-"
    if isinf(value):
        return "above the last bucket"
    for unit, factor, below in (("ms", 1000.0, 0.9995), ("s", 1.0, 119.5), ("min", 1 / 60, inf)):
        if value < below:
            number = value * factor
            return f"{digits(round(number) if unit == 'min' and number >= WHOLE_MINUTES else number)} {unit}"
    raise ValueError(value)


def digits(value: float) -> str:
    """A number with three digits, without an exponent or trailing zeros."""
    if value >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if "e" in text else text


def percent(ratio: float) -> str:
    """A share as `78 %`; a share above 0 that would round to 0 is `below 1 %`."""
    return "below 1 %" if 0 < ratio < 0.005 else f"{ratio:.0%}".replace("%", " %")


def expected(gain: Mapping[str, float]) -> str:
    """The expected effect of a fix, as `30 to 70 % of the added time goes`. `gain`: `low` and `high`, shares of what the cause adds, 0 to 1."""
    return f"{100 * gain['low']:.0f} to {100 * gain['high']:.0f} % of the added time goes"


def is_known(gain: Mapping[str, float]) -> bool:
    """Whether an expected effect says anything: from none to all of the added time, it may be any."""
    return (gain["low"], gain["high"]) != (0.0, 1.0)


_EFFORT = {"minutes": "minutes", "restart": "a restart", "replicas": "more replicas", "project": "a project"}
_HELPS = {"spike": ["in a spike"], "steady": ["if it lasts"]}


def effort(phase: str, cost: str, works_when: str) -> str:
    """About one fix: its phase, its effort, and when it helps, unless it always does: `queue: a restart, if it lasts`."""
    return f"{phase_name(phase)}: {', '.join([_EFFORT[cost], *_HELPS.get(works_when, [])])}"


def times(ratio: float) -> str:
    """A factor as `2.2 x`."""
    return f"{digits(round(ratio, 2 if ratio < 2 else 1))} x"


def instant(at_unix: float) -> str:
    """An instant as `2026-11-20 22:15 UTC`. Unix seconds in."""
    return f"{datetime.fromtimestamp(at_unix, UTC):%Y-%m-%d %H:%M} UTC"


def to_the_second(at_unix: float) -> str:
    """An instant as `2026-11-20 22:15:07 UTC`. Unix seconds in."""
    return f"{datetime.fromtimestamp(at_unix, UTC):%Y-%m-%d %H:%M:%S} UTC"


def phase_name(phase: str) -> str:
    """The name of a phase as text: `first token`, `queue`."""
    return phase.replace("_", " ")


def listed(words: list[str], last: str = "or") -> str:
    """Words as `a`, `a or b`, `a, b or c`."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
