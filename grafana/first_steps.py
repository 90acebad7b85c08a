"""The first fix of each root, and the runbook that goes on from there: texts for the cells of a table.

Taken from the interventions that the runbooks are written from, in the order in which a diagnosis ranks them when it knows the root
and nothing else. A machine is taken out only where one pod is slow and the others are not. Refuses to know panels.
"""

import re
from collections.abc import Mapping

from sidecar.diagnosis.interventions import CHAPTERS, chapters, ranked
from sidecar.pod.causes import NO_CAUSE, PHASE_OF, ROOTS, Cause


ONE_POD, SEVERAL_PODS = "one", "several"
"""Last part of a key: one pod alone is hit; or several are, or that is not known."""
_TAKES_ONE_NODE_OUT = "cordon"
"""In the name of an intervention that takes a machine out: of use only where one pod is slow."""


def first_step(phase: str, cause: str, *, one_pod: bool = False) -> str:
    """The best fix of a root for an engine that is not named, in plain text and as short as `titled` makes it."""
    causes = [one for one in Cause if one == cause and PHASE_OF[one] == phase]
    fixes = ranked(chapters()[CHAPTERS[phase]].fixes, phase, causes, regime=None, load=None, engine=None)
    best = next(fix for fix in fixes if one_pod or _TAKES_ONE_NODE_OUT not in fix.name)
    return titled(best.fix)


def titled(fix: str) -> str:
    """A fix as a cell has room for it: up to its first bracket, colon or semicolon."""
    return re.split(r"[(:;]", fix.replace("`", ""))[0].strip()


def first_steps() -> Mapping[str, str]:
    """`phase/cause/reach` to its first fix, for every root, and for phases whose cause is not known."""
    roots = (*ROOTS, *((phase, NO_CAUSE) for phase in CHAPTERS))
    return {
        f"{phase}/{cause}/{reach}": first_step(phase, cause, one_pod=reach == ONE_POD)
        for phase, cause in roots
        for reach in (ONE_POD, SEVERAL_PODS)
    }


def runbooks() -> Mapping[str, str]:
    """Phase to the name of its runbook."""
    return {str(phase): name for phase, name in CHAPTERS.items()}
