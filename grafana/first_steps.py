"""The first fix of each root, and the runbook that goes on from there, by the keys of a table's cells. Refuses to know panels."""

from collections.abc import Mapping

from sidecar.diagnosis.first_steps import first_step
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.pod.causes import NO_CAUSE, ROOTS


ONE_POD, SEVERAL_PODS = "one", "several"
"""Last part of a key: one pod alone is hit; or several are, or that is not known."""


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
