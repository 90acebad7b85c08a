"""One promise: what is promised, its bound, what was measured, and how the table says it.

Knows that a measurement without the machine's own noise beside it says little: `floor` is the same measure without the
sidecar. Refuses to know how anything is measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """One row."""

    words: str
    bound: float
    measured: float
    unit: str
    spread: str
    """Of the repeats, in words."""
    floor: str
    """What the same measure is on this machine without the sidecar, in words."""

    @property
    def kept(self) -> bool:
        """At most the bound."""
        return self.measured <= self.bound


def milliseconds(seconds: float) -> str:
    """For a person."""
    return f"{seconds * 1e3:.3f}" if seconds < 0.01 else f"{seconds * 1e3:.1f}"


def spread(rounds: Iterable[float]) -> str:
    """The range of the rounds' own figures, given in milliseconds."""
    values = sorted(rounds)
    return f"{values[0]:.3f} to {values[-1]:.3f} in {len(values)} rounds"


def table(promises: Iterable[Promise]) -> str:
    """Markdown: promise, bound, measured, verdict, and what stands behind the figure."""
    lines = ["| promise | bound | measured | verdict | spread | without the sidecar |", "|---|---|---|---|---|---|"]
    for promise in promises:
        verdict = "kept" if promise.kept else "BROKEN"
        figures = f"{promise.bound:g} {promise.unit} | {promise.measured:.3f} {promise.unit}"
        lines.append(f"| {promise.words} | {figures} | {verdict} | {promise.spread} | {promise.floor} |")
    return "\n".join(lines)
