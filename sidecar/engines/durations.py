"""Durations as engines write them in JSON, made into seconds or into nothing.

It knows numbers in some unit, decimal strings of them (Triton's tensors, TGI's headers) and pairs of instants on one
clock. It refuses to repair: what is no finite, non-negative number, or ends before it begins, is not stated. Nothing
here raises, whatever the value.
"""

import math
import re


MILLISECONDS = 1e3
NANOSECONDS = 1e9
"""Units, as how many of them a second has."""

_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)


def seconds_of(value: object, per_second: float = 1.0) -> float | None:
    """A JSON number in units of which a second has `per_second`; None where it is no finite, non-negative number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value) / per_second
    except OverflowError:  # an int beyond what a float can hold
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def whole_number(value: object) -> int | None:
    """A count of units, written as an integer, as a string of digits, or as a list of just one of these."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        return int(value) if _DIGITS.fullmatch(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and value >= 0 else None
    return value if type(value) is int and value >= 0 else None


def between(start: float | None, end: float | None) -> float | None:
    """From one instant to a later one of the same clock; None where either is not stated, or they are the wrong way round."""
    return None if start is None or end is None or end < start else end - start
