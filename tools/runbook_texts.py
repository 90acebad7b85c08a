"""The two places of a runbook that `interventions/*.yml` fills: the table of fixes, and the list of what not to do.

Knows the runbooks' headings and columns. The rest of a runbook is written by hand.
"""

from sidecar.diagnosis.interventions import ENGINES, Chapter
from sidecar.engines.kinds import KINDS
from tools.markdown import Block, table


HEAD = ("fix", "targets", "cost", "works when", *(KINDS[engine].short_title for engine in ENGINES))


def blocks(chapter: Chapter) -> tuple[Block, Block]:
    """Both places of one runbook."""
    return Block("## Fixes", _fixes(chapter)), Block("## What not to do", _not_to_do(chapter))


def _fixes(chapter: Chapter) -> str:
    """A Markdown table; `-` where an engine has no flag."""
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
    """A Markdown list."""
    return "".join(f"- **{item.do}.** {item.why}\n" for item in chapter.not_to_do)
