"""Writes the two parts of a runbook that come from `interventions/*.yml`: the fixes, and the list of what not to do.

Knows the runbooks' headings and columns. The rest of a runbook is written by hand.
"""

from sidecar.diagnosis.interventions import ENGINES, Chapter
from sidecar.engines.kinds import KINDS
from tools.markdown import Block, table


HEAD = ("fix", "targets", "cost", "works when", *(KINDS[engine].short_title for engine in ENGINES))


def blocks(chapter: Chapter) -> tuple[Block, Block]:
    """Both parts of one runbook."""
    return Block("## Fixes", _fixes(chapter)), Block("## What not to do", _not_to_do(chapter))


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


def _not_to_do(chapter: Chapter) -> str:
    """The list of what not to do, in Markdown."""
    return "".join(f"- **{item.do}.** {item.why}\n" for item in chapter.not_to_do)
