"""The effect that a lever was expected to have on each phase, and what became of the phases, by lane and by length of prompt.

The expectation is that of `diagnosis/interventions`: shares of what a fault adds to a phase's time. A comparison measures shares of the
phase's whole mean, with an interval; so the two stand beside each other, and neither is judged by the other.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sidecar.commands.compare.measures import PHASE_MEASURES
from sidecar.commands.compare.two_sides import Compared, Moved
from sidecar.config.folding import folded
from sidecar.diagnosis.interventions import CHAPTERS, Intervention, chapters
from sidecar.diagnosis.wording import expected, percent


ALL_LENGTHS = "all"
"""In place of a prompt bucket."""


class ExpectedEffect(NamedTuple):
    """The least and the largest share, 0 to 1, of what a fault adds to a phase's time that the lever takes away."""

    phase: str
    low: float
    high: float
    sources: tuple[str, ...]


def lever_names() -> list[str]:
    """Names of levers that some fix of a phase pulls, then those of the fixes. Reads files."""
    fixes = [fix for name in CHAPTERS.values() for fix in chapters()[name].fixes]
    levers = sorted({str(fix.lever) for fix in fixes if fix.lever is not None})
    return [*levers, *dict.fromkeys(fix.name for fix in fixes)]


def expected_effects(name: str) -> tuple[ExpectedEffect, ...]:
    """The expected effect of a lever, or of one fix, on each phase whose runbook has it. Reads files."""
    found = []
    for phase, chapter in CHAPTERS.items():
        fixes = [fix for fix in chapters()[chapter].fixes if name in (fix.name, fix.lever)]
        if fixes:
            found.append(_together(str(phase), fixes))
    return tuple(found)


def _together(phase: str, fixes: Sequence[Intervention]) -> ExpectedEffect:
    gains = [fix.gain(()) for fix in fixes]
    sources = dict.fromkeys(fix.source for fix in fixes)
    return ExpectedEffect(phase, min(one.low for one in gains), max(one.high for one in gains), tuple(sources))


def lever_text(name: str, effects: Sequence[ExpectedEffect], columns: int) -> Iterator[str]:
    """The expectation in words, phase by phase."""
    yield from folded(f"lever {name}: expected of the time that a fault adds to", columns)
    for one in effects:
        yield from folded(f"  {one.phase}: {expected(one._asdict())} ({'; '.join(one.sources)})", columns, rest="    ")


def effect_rows(lane: Compared, effects: Sequence[ExpectedEffect]) -> Iterator[str]:
    """A row for each phase and length of prompt, those of the lever first and marked with `*`."""
    phases = [one.phase for one in effects]
    names = [*phases, *(measure.name for measure in PHASE_MEASURES if measure.name not in phases)]
    yield f" {'mean of phase':<14} {'prompts':<12} {'of old':>8}  {'95% interval':<20} effect"
    for name in names:
        for length, rows in ((ALL_LENGTHS, lane.rows), *lane.lengths):
            row = next((row for row in rows if row.measure.name == name), None)
            if row is not None:
                mark = "*" if name in phases else " "
                cells = " ".join(_cells(row))
                yield f"{mark}{name:<14} {length:<12} {cells}".rstrip()


def _cells(row: Moved) -> Iterator[str]:
    """The change as a share of the old mean, its interval, and the effect in a word."""
    old, change = row.old.value, row.change
    told = change.low is not None and change.high is not None
    yield f"{_share(change.value / old) if old else '-':>8} "
    between = f"{_share(change.low / old)} to {_share(change.high / old)}" if told and old else ""  # type: ignore[operator]
    yield f"{between:<20}"
    if not told:
        yield "too few blocks"
    elif not change.sure:
        yield "no effect shown"
    else:
        yield "longer" if change.value > 0 else "shorter"


def _share(ratio: float) -> str:
    return ("+" if ratio > 0 else "-" if ratio < 0 else "") + percent(abs(ratio)).replace("below ", "<")


def lever_document(name: str | None) -> dict[str, Any] | None:
    """The expectation for the JSON document; None without a lever."""
    if name is None:
        return None
    return {"name": name, "expected": [{**one._asdict(), "sources": [*one.sources]} for one in expected_effects(name)]}
