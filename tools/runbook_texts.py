"""Writes the parts of a runbook that come from `interventions/*.yml`: the first steps, all fixes, and the list of what not to do.

Knows the runbooks' headings and columns. The rest of a runbook is written by hand.
"""

from collections.abc import Iterator, Mapping

from sidecar.diagnosis.first_steps import first_step
from sidecar.diagnosis.interventions import CHAPTERS, ENGINES, Chapter, Intervention
from sidecar.diagnosis.levers import QUALITY_FLOOR, LoadLevel, QualityRisk
from sidecar.engines.kinds import KINDS
from sidecar.pod.causes import ROOTS
from tools.markdown import Block, table


FIRST_STEPS = 3
"""Fixes at the head of a runbook that is of no phase."""
HEAD = ("fix", "targets", "cost", "works when", *(KINDS[engine].short_title for engine in ENGINES))
LOADS: Mapping[str, str] = {LoadLevel.LOW: ", while the batch is small", LoadLevel.HIGH: ", while the batch is full"}


def blocks(name: str, chapters: Mapping[str, Chapter]) -> tuple[Block, ...]:
    """The parts of the runbook `name`. Below the table of fixes stands a list of what they need, if any of them says so."""
    chapter = chapters[name]
    conditions = "".join(_conditions(chapter, _titles(name, chapters)))
    return (
        Block("## First steps", _first_steps(name, chapter)),
        Block("## Fixes", _fixes(chapter)),
        *([Block("## Fixes", conditions)] if conditions else []),
        Block("## What not to do", _not_to_do(chapter)),
    )


def _first_steps(name: str, chapter: Chapter) -> str:
    """The first fix of each cause of the phase, in Markdown; the first fixes, where the runbook is of no phase."""
    phase = next((phase for phase, runbook in CHAPTERS.items() if runbook == name), None)
    if phase is None:
        return "".join(f"- {fix.fix}\n" for fix in chapter.fixes[:FIRST_STEPS])
    return "".join(f"- `{cause}`: {first_step(phase, cause)}\n" for of, cause in ROOTS if of == phase)


def _fixes(chapter: Chapter) -> str:
    """The fixes as a Markdown table; `-` if an engine has no flag."""
    rows = (
        (
            fix.fix,
            ", ".join(fix.targets),
            fix.cost.value,
            fix.works_when,
            *(fix.flags.get(engine, "-") for engine in ENGINES),
        )
        for fix in chapter.fixes
    )
    return table(HEAD, rows)


def _conditions(chapter: Chapter, titles: Mapping[str, str]) -> Iterator[str]:
    """One line for each fix with a lever: what it needs, excludes, goes well with, and risks."""
    for fix in chapter.fixes:
        if fix.lever is not None:
            yield f"- **{fix.title}** (`{fix.lever}`{LOADS.get(fix.load, '')}): {_condition(fix, titles)}\n"
    if any(fix.quality_risk is QualityRisk.CHECK for fix in chapter.fixes):
        yield f"- **A quality floor** is {QUALITY_FLOOR}.\n"


def _condition(fix: Intervention, titles: Mapping[str, str]) -> str:
    parts = (
        ("needs ", "; ", fix.needs),
        ("not with ", ", ", fix.conflicts),
        ("goes well with ", ", ", fix.synergies),
    )
    said = [start + between.join(titles.get(item, item) for item in items) for start, between, items in parts if items]
    if fix.quality_risk is QualityRisk.CHECK:
        said.append("answers change: hold them against a quality floor")
    return ". ".join(part[:1].upper() + part[1:] for part in said or ["needs nothing else"]) + "."


def _titles(name: str, chapters: Mapping[str, Chapter]) -> Mapping[str, str]:
    """Fix to its title in quotes; a fix that this runbook lacks is followed by a link to one that has it, a phase's if possible."""
    titles = {fix.name: f'"{fix.title}"' for fix in chapters[name].fixes}
    for other in sorted(chapters, key=lambda other: (other not in CHAPTERS.values(), other)):
        for fix in chapters[other].fixes:
            titles.setdefault(fix.name, f'"{fix.title}" ([{other}]({other}.md))')
    return titles


def _not_to_do(chapter: Chapter) -> str:
    """The list of what not to do, in Markdown."""
    return "".join(f"- **{item.do}.** {item.why}\n" for item in chapter.not_to_do)
