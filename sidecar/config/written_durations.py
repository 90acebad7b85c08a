"""Durations as people write them, in flags and in configs: `500ms`, `2s`, `5m`, `1h`, `1m30s`.

Knows units and their order, and refuses to know which durations are right somewhere. A number without a unit is the caller's to judge:
a config means seconds by it, and a measured time without a unit could be a thousand times another one. Only 0 needs none. Durations
that other programs write (Go, Prometheus, spans) are read where they arrive.
"""

import re


DURATION_FORMS = "500ms, 2s, 5m, 1h or 1m30s"
"""Examples, for help and for errors."""
SECONDS_OF_UNIT = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_AMOUNT = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15})(?:\.[0-9]{1,9})?"
_AMOUNT_AND_UNIT = re.compile(rf"({_AMOUNT})\s*(d|h|min|ms|us|m|s)")
_ALL_PARTS = re.compile(rf"(?:{_AMOUNT_AND_UNIT.pattern}\s*)+")
_ZERO = re.compile(r"0+(?:\.0+)?")


def seconds_of_duration(text: str) -> float:
    """Seconds, from units that fall from the left to the right, each at most once. Raises ValueError, worded to follow the text."""
    text = text.strip().lower()
    if _ZERO.fullmatch(text):
        return 0.0
    parts = [(float(number.replace(",", "")), SECONDS_OF_UNIT[unit]) for number, unit in _AMOUNT_AND_UNIT.findall(text)]
    units = [unit for _, unit in parts]
    if not _ALL_PARTS.fullmatch(text) or units != sorted(set(units), reverse=True):
        raise ValueError(f"is no duration: write {DURATION_FORMS}")
    return sum(number * unit for number, unit in parts)


def seconds_of_flag(text: str) -> float:
    """The same for flags that mean seconds by a number without a unit."""
    return float(text) if re.fullmatch(_AMOUNT, text.strip()) and "," not in text else seconds_of_duration(text)


def as_seconds(value: object) -> object:
    """A duration with a unit becomes seconds; all else, also what only resembles one, stays for the key's type to judge."""
    if not isinstance(value, str):
        return value
    try:
        return seconds_of_duration(value)
    except ValueError:
        return value
