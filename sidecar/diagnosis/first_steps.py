"""The first fix of each root, as short plain text: what a page, a table or a runbook can say where nothing is known but the root.

Taken from the interventions that the runbooks are written from, in the order in which a diagnosis ranks them when it knows the root,
whether one pod alone is hit, and nothing else. Refuses to know who shows it.
"""

from sidecar.diagnosis.interventions import CHAPTERS, chapters, ranked
from sidecar.diagnosis.levers import Sign
from sidecar.pod.causes import PHASE_OF, Cause


def first_step(phase: str, cause: str, *, one_pod: bool = False) -> str:
    """The best fix of a root for an engine that is not named. `one_pod`: one pod of several is hit, and the others are not."""
    causes = [one for one in Cause if one == cause and PHASE_OF[one] == phase]
    shown = {*map(str, causes), *([Sign.ODD_POD] if one_pod else [])}
    fixes = chapters()[CHAPTERS[phase]].fixes
    return ranked(fixes, phase, causes, regime=None, load=None, engine=None, shown=shown)[0].title.replace("`", "")
