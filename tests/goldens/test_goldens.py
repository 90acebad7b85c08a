"""Every text that people see is the recorded one: pages, `diagnose`, `doctor`, and manifests through `inject` and out again."""

import pytest

from tests.goldens.record import FILES, changed, recorded
from tests.goldens.surfaces import CASES


@pytest.mark.parametrize("case", CASES)
def test_what_people_see_is_what_is_recorded(case: str) -> None:
    assert not (told := changed(case, CASES[case]())), told


def test_each_recorded_case_is_played() -> None:
    assert {case for file in FILES.glob("*.txt") for case in recorded(file.stem)} - {*CASES} == set()
