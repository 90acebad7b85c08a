"""Numbers as people read them. Three digits at most: more would promise what no histogram keeps."""

from math import inf, isinf


def seconds(value: float | None) -> str:
    """`80 ms`, `3.2 s`, `12 min`; `-` where it is unknown, and what lies above every edge as such."""
    if value is None:
        return "-"
    if isinf(value):
        return "above the last bucket"
    for unit, factor, below in (("ms", 1000.0, 0.9995), ("s", 1.0, 119.5), ("min", 1 / 60, inf)):
        if value < below:
            return f"{digits(value * factor)} {unit}"
    raise ValueError(value)


def digits(value: float) -> str:
    """Three digits, without an exponent or trailing zeros."""
    if value >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if "e" in text else text


def percent(ratio: float) -> str:
    """`78 %`; what is little and not nothing is `below 1 %`."""
    return "below 1 %" if 0 < ratio < 0.005 else f"{ratio:.0%}".replace("%", " %")


def times(ratio: float) -> str:
    """`2.2 x`."""
    return f"{digits(round(ratio, 2 if ratio < 2 else 1))} x"


def phase_name(phase: str) -> str:
    """`first token`, `queue`."""
    return phase.replace("_", " ")


def listed(words: list[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""
