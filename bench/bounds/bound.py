"""One promise of the sidecar: its name, its bound, the measured value, and its row in the table.

Knows that a measurement says little without the machine's own noise: `floor` is the same measure without the sidecar.
Refuses to know how anything is measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """One row of the table."""

    words: str
    bound: float
    measured: float
    unit: str
    spread: str
    """Spread of the repeats, in words."""
    floor: str
    """The same measure on this machine without the sidecar, in words."""

    @property
    def kept(self) -> bool:
        """Whether the measured value is at most the bound."""
        return self.measured <= self.bound


def milliseconds(seconds: float) -> str:
    """`seconds` as milliseconds in text."""
    return f"{seconds * 1e3:.3f}" if seconds < 0.01 else f"{seconds * 1e3:.1f}"


def spread(rounds: Iterable[float]) -> str:
    """The range of the rounds' figures, as text; figures are in milliseconds."""
    values = sorted(rounds)
    return f"{values[0]:.3f} to {values[-1]:.3f} in {len(values)} rounds"


def table(promises: Iterable[Promise]) -> str:
    """Markdown table: promise, bound, measured value, verdict, spread and floor."""
    lines = ["| promise | bound | measured | verdict | spread | without the sidecar |", "|---|---|---|---|---|---|"]
    for promise in promises:
        verdict = "kept" if promise.kept else "BROKEN"
        figures = f"{promise.bound:g} {promise.unit} | {promise.measured:.3f} {promise.unit}"
        lines.append(f"| {promise.words} | {figures} | {verdict} | {promise.spread} | {promise.floor} |")
    return "\n".join(lines)
