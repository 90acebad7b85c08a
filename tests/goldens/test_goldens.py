"""Every text that people see is the recorded one: pages, `diagnose`, `doctor`, and manifests through `inject` and out again."""

import pytest

from tests.goldens.record import FILES, changed, recorded
from tests.goldens.surfaces import CASES


AT_ONCE = 2
"""Cases of one test: the collection of garbage after each test costs as much as a case."""
NAMES = [*CASES]
PARTS = [NAMES[place : place + AT_ONCE] for place in range(0, len(NAMES), AT_ONCE)]


def sample(place: int) -> bool:
    """Whether this part is played in `make test`: of the doctor's chains it is one part in twelve."""
    return place % 12 == 0 or any(not case.startswith("chain") for case in PARTS[place])


@pytest.mark.parametrize(
    "cases",
    [pytest.param(part, id=part[0], marks=() if sample(at) else pytest.mark.long) for at, part in enumerate(PARTS)],
)
def test_what_people_see_is_what_is_recorded(cases: list[str]) -> None:
    told = "\n".join(filter(None, (changed(case, CASES[case]()) for case in cases)))
    assert not told, told


def test_each_recorded_case_is_played() -> None:
    assert {case for file in FILES.glob("*.txt") for case in recorded(file.stem)} - {*CASES} == set()
