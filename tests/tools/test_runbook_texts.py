"""A runbook has one first step for each cause of its phase."""

import pytest

from sidecar.diagnosis.interventions import CHAPTERS, chapters
from sidecar.pod.causes import ROOTS
from tools.runbook_texts import blocks


@pytest.mark.parametrize("phase", CHAPTERS)
def test_the_first_steps_of_a_phase_are_one_for_each_of_its_causes(phase: str) -> None:
    first, *_ = blocks(CHAPTERS[phase], chapters())

    assert [line.split(": ")[0] for line in first.text.splitlines()] == [
        f"- `{cause}`" for of, cause in ROOTS if of == phase
    ]
