"""One bound that the sidecar keeps: its name, its limit, the measured value, and its row in the table.

Knows that a measurement says little without the machine's own noise: `floor` is the same measure without the sidecar.
Refuses to know how anything is measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """One row of the table."""

    name: str
    limit: float
    measured: float
    unit: str
    spread: str
    """Spread of the repeats, in words."""
    floor: str
    """The same measure on this machine without the sidecar, in words."""

    @property
    def kept(self) -> bool:
        """Whether the measured value is at most the limit."""
        return self.measured <= self.limit


def milliseconds(seconds: float) -> str:
    """`seconds` as milliseconds in text."""
    return f"{seconds * 1e3:.3f}" if seconds < 0.01 else f"{seconds * 1e3:.1f}"


def spread(rounds: Iterable[float]) -> str:
    """The range of the rounds' figures, as text; figures are in milliseconds."""
    values = sorted(rounds)
    return f"{values[0]:.3f} to {values[-1]:.3f} in {len(values)} rounds"


def longest_step(rounds: Sequence[Sequence[float]]) -> float:
    """The longest step of a work that was done several times. Each step counts at its quickest. 0 if there are no steps.

    The work is the same each time, and so are its steps. Other virtual machines on the processor delay now one step, now
    another: that is not in the figure, and neither is anything else that moves from round to round. The spread of the
    rounds has it. Raises ValueError if the rounds differ in their steps.
    """
    return max((min(step) for step in zip(*rounds, strict=True)), default=0.0)


def table(bounds: Iterable[Bound]) -> str:
    """Markdown table: bound, limit, measured value, verdict, spread and floor."""
    lines = [
        "| bound | limit | measured | verdict | spread | without the sidecar |",
        "|---|---|---|---|---|---|",
    ]
    for bound in bounds:
        verdict = "kept" if bound.kept else "BROKEN"
        figures = f"{bound.limit:.4g} {bound.unit} | {bound.measured:.3f} {bound.unit}"
        lines.append(f"| {bound.name} | {figures} | {verdict} | {bound.spread} | {bound.floor} |")
    return "\n".join(lines)
