"""The first fix of each root, and the runbook that goes on from there: texts for the cells of a table.

Taken from the interventions that the runbooks are written from, in the order in which a diagnosis ranks them when it knows the root
and nothing else. Refuses to know panels.
"""

from collections.abc import Mapping

from sidecar.diagnosis.interventions import CHAPTERS, chapters, ranked
from sidecar.pod.causes import NO_CAUSE, PHASE_OF, ROOTS, Cause


def first_step(phase: str, cause: str) -> str:
    """The best fix of a root for an engine that is not named, in plain text."""
    causes = [one for one in Cause if one == cause and PHASE_OF[one] == phase]
    fixes = chapters()[CHAPTERS[phase]].fixes
    return ranked(fixes, phase, causes, regime=None, load=None, engine=None)[0].fix.replace("`", "")


def first_steps() -> Mapping[str, str]:
    """`phase/cause` to its first fix, for every root, and for phases whose cause is not known."""
    roots = (*ROOTS, *((phase, NO_CAUSE) for phase in CHAPTERS))
    return {f"{phase}/{cause}": first_step(phase, cause) for phase, cause in roots}


def runbooks() -> Mapping[str, str]:
    """Phase to the name of its runbook."""
    return {str(phase): name for phase, name in CHAPTERS.items()}
