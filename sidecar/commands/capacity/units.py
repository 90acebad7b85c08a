"""Sizes, times and rates as people write them, and back: `140GB`, `90ms`, `3.35TB/s`, `60/s`.

Units are decimal: a GB is 10^9 bytes, as on data sheets and in the names of GPUs; GiB is accepted as input.
Each `read_` function raises ValueError. Its message says what is accepted, worded to follow the flag ("is not ...").
"""

import re

from sidecar.config.written_durations import DURATION_FORMS, SECONDS_OF_UNIT, seconds_of_duration


_SIZES = {
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KIB": 2.0**10,
    "MIB": 2.0**20,
    "GIB": 2.0**30,
    "TIB": 2.0**40,
}
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")


def read_bytes(text: str) -> float:
    """Bytes from `80GB`, `1.5 TB`, `512MiB`. Above 0."""
    value, unit = _split(text, "a size above 0 with a unit, such as 80GB or 74.5GiB")
    if unit.upper() not in _SIZES or not value:
        raise ValueError("is not a size above 0 with a unit, such as 80GB or 74.5GiB")
    return value * _SIZES[unit.upper()]


def read_bytes_per_second(text: str) -> float:
    """Bytes per second from `3.35TB/s`; the `/s` may be left out. Above 0."""
    try:
        return read_bytes(text.removesuffix("/s"))
    except ValueError:
        raise ValueError("is not a bandwidth above 0, such as 3.35TB/s or 300GB/s") from None


def read_seconds(text: str) -> float:
    """Seconds from `90ms`, `1.5s`, `1m30s`; 0 is accepted, without a unit too."""
    try:
        return seconds_of_duration(text)
    except ValueError:
        raise ValueError(f"is not a time with a unit, such as {DURATION_FORMS}") from None


def read_rate(text: str) -> float:
    """Requests per second from `60`, `60/s`, `3600/h`. Above 0."""
    words = "a rate above 0, such as 60, 60/s or 90/m"
    number, _, per = text.partition("/")
    value, unit = _split(number, words)
    if unit or not value or per not in ("", *SECONDS_OF_UNIT):
        raise ValueError(f"is not {words}")
    return value / SECONDS_OF_UNIT[per or "s"]


def read_count(text: str) -> int:
    """A whole number from 1; commas or underscores may separate digits."""
    digits = re.sub(r"(?<=[0-9])[,_](?=[0-9])", "", text)
    if not re.fullmatch(r"[0-9]{1,12}", digits) or not int(digits):
        raise ValueError("is not a whole number from 1")
    return int(digits)


def say_bytes(value: float) -> str:
    """Bytes as text with three or four digits: `1.34 GB`."""
    for unit in ("TB", "GB", "MB", "kB"):
        size = _SIZES[unit.upper()]
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}" if abs(value) >= 100 * size else f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"


def say_seconds(value: float) -> str:
    """Seconds as text: `90 ms`, `1.5 s`, `4.2 min`."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} us" if value else "0 s"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"


def say_rate(value: float) -> str:
    """Requests per second as text: `60/s`."""
    return f"{value:.3g}/s"


def _split(text: str, words: str) -> tuple[float, str]:
    found = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if not found:
        raise ValueError(f"is not {words}")
    return float(found[1]), found[2]
