"""Bounds name each figure that breaks one."""

from bench.incidents.bounds import BOUNDS, broken
from bench.incidents.world import Mode
from tests.incidents.made_up_cases import case_of, fired


RIGHT, WRONG, MISSED = case_of([fired(660.0, "queue")]), case_of([fired(660.0, "prefill")]), case_of([])


def test_each_bound_that_is_not_kept_is_named() -> None:
    cases = [RIGHT] * 8 + [WRONG, MISSED]

    assert broken(cases, [], BOUNDS[Mode.REPORTS], mode=Mode.REPORTS) == [
        "with reports: 80.0% right, not 90%",
        "with reports: 10.0% wrong, more than 8%",
    ]
