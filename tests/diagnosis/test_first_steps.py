"""The first step of each root: one that a fix of its runbook gives, in short plain text."""

import pytest

from sidecar.diagnosis.first_steps import first_step
from sidecar.diagnosis.interventions import CHAPTERS, chapters
from sidecar.pod.causes import ROOTS


@pytest.mark.parametrize("one_pod", [True, False])
@pytest.mark.parametrize(("phase", "cause"), ROOTS)
def test_a_root_has_a_step_of_its_runbook(phase: str, cause: str, *, one_pod: bool) -> None:
    step = first_step(phase, cause, one_pod=one_pod)

    assert step in [fix.title.replace("`", "") for fix in chapters()[CHAPTERS[phase]].fixes]
    assert [sign for sign in "`(:;" if sign in step] == []
    assert len(step) <= 80


def test_a_node_is_taken_out_only_where_one_pod_alone_is_hit() -> None:
    steps = {
        (phase, cause, one): first_step(phase, cause, one_pod=one) for phase, cause in ROOTS for one in (True, False)
    }

    assert {(phase, cause) for (phase, cause, one), step in steps.items() if "ordon" in step and not one} == set()
    assert ("decode", "decode_cost") in {
        (phase, cause) for (phase, cause, one), step in steps.items() if "ordon" in step and one
    }
