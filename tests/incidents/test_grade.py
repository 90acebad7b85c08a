"""Made-up runs are graded by three sets of phases, pages that nothing burned for are false, and bounds name what breaks them."""

from bench.incidents.bounds import BOUNDS, broken
from bench.incidents.grade import graded
from bench.incidents.world import Mode
from tests.incidents.made_up_cases import (
    BURNS,
    CHAT,
    CODE,
    FAULT_AT,
    WHO,
    case_of,
    fired,
    heard,
    lane,
    truth,
)


def test_a_page_is_graded_by_three_sets_of_phases() -> None:
    """The lenient grade accepts queue and decode, S1 decode, and S2 only the phase of the injected cause, prefill."""
    burns = lane(
        root=frozenset({"queue", "decode", "prefill"}),
        strict=frozenset({"decode", "prefill"}),
        phases=frozenset({"prefill"}),
        must_page=True,
        burns_at=620.0,
    )
    results = {
        phase: (case.result, case.strict_result, case.phase_result)
        for phase in ("queue", "decode", "prefill", "stream", "unattributed")
        for case in [case_of([fired(660.0, phase)], burns)]
    }

    assert results == {
        "queue": ("right", "wrong", "wrong"),
        "decode": ("right", "right", "wrong"),
        "prefill": ("right", "right", "right"),
        "stream": ("wrong", "wrong", "wrong"),
        "unattributed": ("unattributed", "unattributed", "unattributed"),
    }


def test_pages_before_the_fault_after_recovery_and_in_lanes_that_do_not_burn_are_false() -> None:
    found = heard(
        [fired(700.0, "queue"), fired(700.0, "queue", "code")], [fired(90.0, "queue")], [fired(1900.0, "queue")]
    )

    _, false = graded(WHO, truth(BURNS), found, FAULT_AT)

    assert [(each.why, each.key) for each in false] == [
        ("before the fault", CHAT),
        ("after recovery", CHAT),
        ("this lane does not burn", CODE),
    ]


RIGHT, WRONG, MISSED = case_of([fired(660.0, "queue")]), case_of([fired(660.0, "prefill")]), case_of([])


def test_each_bound_that_is_not_kept_is_named() -> None:
    cases = [RIGHT] * 8 + [WRONG, MISSED]

    assert broken(cases, [], BOUNDS[Mode.REPORTS], mode=Mode.REPORTS) == [
        "with reports: 80.0% right, not 90%",
        "with reports: 10.0% wrong, more than 8%",
    ]
