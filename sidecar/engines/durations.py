"""Durations as engines write them in JSON, turned into seconds, or into None if they are not valid.

It knows numbers in some unit, decimal strings of them (Triton's tensors, TGI's headers) and pairs of instants on one
clock. It refuses to repair: a value that is not finite, is negative, or ends before it begins counts as not stated.
Nothing here raises, whatever the value.
"""

import math
import re


MILLISECONDS = 1e3
NANOSECONDS = 1e9
"""Units, each as its number per second."""

LARGEST = 2**63 - 1
"""Engines count in signed 64 bits; a larger value is not a count."""
LATEST_SECONDS = 2.0**33
"""Latest accepted instant, in seconds on any clock (Unix time: the year 2242): above it, floats are over 2 us apart."""
_SECONDS_TEXT = re.compile(r"[0-9]{1,19}", re.ASCII)


def seconds_of(value: object, per_second: float = 1.0) -> float | None:
    """Seconds of a JSON number in units of 1 / `per_second` s; None if it is not finite or is negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value) / per_second
    except OverflowError:  # an int beyond what a float can hold
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def instant_of(value: object) -> float | None:
    """An instant in seconds; None if it is invalid, is 0 (it was never taken), or is too large for an exact difference."""
    seconds = seconds_of(value)
    return seconds if seconds is not None and 0 < seconds <= LATEST_SECONDS else None


def whole_number(value: object) -> int | None:
    """A count of units up to `LARGEST`, written as an integer, as a string of digits, or as a list of just one of these."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if (isinstance(value, str) and _SECONDS_TEXT.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return value if type(value) is int and 0 <= value <= LARGEST else None


def between_nanoseconds(start: int | None, end: int | None) -> float | None:
    """`between` in seconds, of nanoseconds: subtracted as integers, since a clock counts in more than a float holds exactly."""
    nanoseconds = between(start, end)
    return None if nanoseconds is None else nanoseconds / NANOSECONDS


def between(start: float | None, end: float | None) -> float | None:
    """Seconds between two instants of one clock; None if one is not stated, or the second is before the first."""
    return None if start is None or end is None or end < start else end - start
