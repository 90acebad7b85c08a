"""The grading of made-up runs: right by three grades, wrong, missed and false pages, and the pod that a page names."""

import pytest

from bench.incidents.grade import graded
from bench.incidents.prometheus import Firing
from tests.incidents.made_up_cases import (
    BURNS,
    CALM,
    CHAT,
    CODE,
    FAULT_AT,
    HEALS_AT,
    WHO,
    case_of,
    fired,
    heard,
    lane,
    truth,
)


LATER = lane(must_page=True, burns_at=1000.0)
SLOW = lane(root=frozenset({"prefill"}), must_ticket=True)


def test_the_first_page_is_the_one_that_counts() -> None:
    case = case_of([fired(660.0, "queue"), fired(700.0, "decode")])

    assert (case.result, case.said, case.seconds) == ("right", "queue", 60.0)
    assert case.waited_right is True
    assert case_of([fired(660.0, "decode"), fired(700.0, "queue")]).result == "wrong"


def test_a_lane_that_begins_to_burn_late_is_timed_from_the_window_in_which_it_does() -> None:
    """The lane burns fast enough 400 s after the fault, so its burn began at most one window of 300 s earlier."""
    case = case_of([fired(1030.0, "queue")], LATER)

    assert (case.seconds, case.seconds_since_fault, case.late_seconds) == (330.0, 430.0, 30.0)


def test_no_page_is_missed_and_unattributed_is_neither_right_nor_wrong() -> None:
    assert case_of([]).result == "missed"
    assert case_of([fired(660.0, "unattributed")]).result == "unattributed"


def test_the_changes_of_a_lanes_phase_are_counted_until_the_heal() -> None:
    """Those of other lanes and of the engine are not its own, and a page that fires again in its phase is no change."""
    own = [
        fired(at, phase)
        for at, phase in ((660.0, "unattributed"), (700.0, "queue"), (800.0, "queue"), (900.0, "decode"))
    ]
    others = [fired(720.0, "prefill", "code"), fired(730.0, "engine", None), fired(740.0, "stream", severity="ticket")]

    assert case_of(own[:1]).changes == 0
    assert case_of([*reversed(own), *others]).changes == 2
    assert case_of([*own, fired(HEALS_AT + 1.0, "prefill")]).changes == 2


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


def test_a_lane_that_burns_and_is_owed_no_page_is_a_case_of_its_own_class() -> None:
    silent, paged = (case_of(during, lane(burns=True)) for during in ([], [fired(660.0, "queue")]))

    assert (silent.severity, silent.owed, silent.phase_result) == ("page", False, "missed")
    assert (paged.owed, paged.phase_result, paged.late_seconds) == (False, "right", None)
    assert case_of([]).owed is True


def test_a_page_about_the_engine_reaches_every_lane_that_it_serves() -> None:
    """If both fire at the same instant, the engine's page counts, because it inhibits the lane's own."""
    down = fired(660.0, "engine", None)

    assert case_of([fired(660.0, "queue"), down]).said == "engine"
    assert case_of([fired(645.0, "queue"), down]).said == "queue"


def test_a_ticket_or_the_sidecars_own_alert_is_no_page() -> None:
    assert case_of([fired(660.0, "queue", severity="ticket"), fired(660.0, "sidecar", None)]).result == "missed"


def test_the_sidecars_own_alert_is_a_page_where_the_sidecar_is_at_fault() -> None:
    late = lane(phases=frozenset({"sidecar"}), must_page=True, burns_at=620.0)

    assert case_of([fired(660.0, "sidecar", None)], late).phase_result == "right"
    assert case_of([fired(660.0, "sidecar")], late).phase_result == "right"


def test_a_slow_burn_wants_a_ticket_within_the_hour() -> None:
    at_once, too_late = (case_of([fired(at, "prefill", severity="ticket")], SLOW) for at in (2400.0, 4500.0))

    assert (at_once.severity, at_once.result, at_once.seconds) == ("ticket", "right", 1800.0)
    assert too_late.result == "missed"


# --- the pod -----------------------------------------------------------------------------------------------------------


def test_a_page_names_the_pod_in_its_label_or_else_in_its_words() -> None:
    in_words = case_of([fired(660.0, "queue", worst_pod="llm-0")], pods=4)
    by_label = case_of([fired(660.0, "engine", None, pod="llm-0", worst_pod="llm-2")], pods=4)

    assert (in_words.named_pod, in_words.pod_right) == ("llm-0", True)
    assert (by_label.named_pod, by_label.pod_right) == ("llm-0", True)
    assert not case_of([fired(660.0, "queue", worst_pod="llm-3")], pods=4).pod_right
    assert not case_of([fired(660.0, "queue")], pods=4).pod_right
    assert case_of([], pods=4).named_pod is None


def test_a_pod_that_is_named_more_than_two_minutes_late_is_not_right() -> None:
    """The page is due at 620 s."""
    in_time, late = (case_of([fired(at, "queue", worst_pod="llm-0")], pods=4) for at in (740.0, 755.0))

    assert (in_time.pod_right, late.pod_right) == (True, False)


# --- the confidence ----------------------------------------------------------------------------------------------------


def test_a_page_states_the_share_of_its_phase_and_its_cause() -> None:
    first = fired(660.0, "queue", confidence="0.85", cause="slots")
    case = case_of([first, fired(700.0, "queue", confidence="0.99", cause="load")])

    assert (case.confidence, case.cause) == (0.85, "slots")


def test_a_page_that_names_no_phase_or_states_no_share_claims_nothing() -> None:
    assert case_of([fired(660.0, "unattributed", confidence="0.40", cause="young")]).confidence is None
    assert case_of([fired(660.0, "engine", None)]).confidence is None
    assert case_of([]).confidence is None


# --- false pages -------------------------------------------------------------------------------------------------------


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


def test_a_page_about_the_engine_is_false_only_where_nothing_burns() -> None:
    down = heard([fired(660.0, "engine", None)])

    assert graded(WHO, truth(BURNS), down, FAULT_AT)[1] == []
    assert [each.why for each in graded(WHO, truth(CALM), down, FAULT_AT)[1]] == ["nothing burns"]


def test_after_recovery_a_phase_that_had_not_paged_is_told_from_one_that_had() -> None:
    found = heard([fired(700.0, "queue")], after=[fired(1400.0, "queue"), fired(1400.0, "prefill")])

    _, false = graded(WHO, truth(BURNS), found, FAULT_AT)

    assert [(each.why, each.phase) for each in false] == [
        ("after recovery", "queue"),
        ("a new phase after recovery", "prefill"),
    ]


@pytest.mark.parametrize(
    ("earlier", "later", "false"),
    [
        pytest.param([fired(700.0, "queue")], fired(1215.0, "prefill"), True, id="the lane's page changes its phase"),
        pytest.param([fired(700.0, "queue")], fired(1185.0, "prefill"), False, id="before the heal it may"),
        pytest.param([fired(700.0, "queue")], fired(1215.0, "queue"), False, id="the same phase again"),
        pytest.param([fired(700.0, "engine", None)], fired(1215.0, "engine"), False, id="its engine's page said so"),
        pytest.param([fired(700.0, "queue", "code")], fired(1215.0, "queue"), False, id="another lane's page said so"),
        pytest.param([fired(700.0, "queue", "code")], fired(1215.0, "prefill"), True, id="no page had said so"),
        pytest.param([], fired(1215.0, "prefill"), False, id="the first page of the run is late and no change"),
    ],
)
def test_a_page_of_another_phase_after_the_heal_is_false(earlier: list[Firing], later: Firing, *, false: bool) -> None:
    found = heard([*earlier, later])

    whys = [each.why for each in graded(WHO, truth(BURNS, BURNS), found, FAULT_AT)[1]]

    assert whys == (["another phase after the heal"] if false else [])
