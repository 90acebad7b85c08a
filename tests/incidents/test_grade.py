"""The grading of made-up runs: right, wrong, missed and false pages, and the bounds."""

from dataclasses import replace

from bench.incidents.bounds import WITH_REPORTS, broken
from bench.incidents.grade import Case, Who, graded
from bench.incidents.prometheus import Firing, Heard
from bench.incidents.report import share, table
from bench.incidents.truth import LaneTruth, Truth


WHO = Who("burst", "chunks-2048", 12, reports=True, front_end=False)
BURNS = LaneTruth(frozenset({"queue"}), "queue", True, True, False, True, 620.0, 50, 100)
LATER = LaneTruth(frozenset({"queue"}), "queue", True, True, False, True, 1000.0, 50, 100)
CALM = LaneTruth(frozenset({"queue"}), None, False, False, False, False, None, 0, 100)
SLOW = LaneTruth(frozenset({"prefill"}), "queue", False, False, True, True, None, 30, 400)
FAULT_AT = 600.0


def fired(at: float, phase: str, lane: str | None = "chat", severity: str = "page") -> Firing:
    labels = {"alertname": f"LLM{phase.title()}Burn", "severity": severity, "phase": phase}
    return Firing(at, labels | ({} if lane is None else {"lane": lane, "objective": "ttft"}))


def heard(during: list[Firing], before: list[Firing] | None = None, after: list[Firing] | None = None) -> Heard:
    return Heard(before or [], during, after or [], {("chat", "ttft"): "queue"}, {("chat", "ttft"): "load"}, {}, {})


def truth(lane: LaneTruth, other: LaneTruth = CALM) -> Truth:
    return Truth({("chat", "ttft"): lane, ("code", "ttft"): other}, 1300.0)


def case_of(during: list[Firing], lane: LaneTruth = BURNS) -> Case:
    (case,), _ = graded(WHO, truth(lane), heard(during), FAULT_AT)
    return case


def test_the_first_page_is_the_one_that_counts() -> None:
    case = case_of([fired(660.0, "queue"), fired(700.0, "decode")])

    assert (case.result, case.said, case.seconds) == ("right", "queue", 60.0)
    assert case.waited_right is True
    assert case_of([fired(660.0, "decode"), fired(700.0, "queue")]).result == "wrong"


def test_a_lane_that_begins_to_burn_late_is_timed_from_the_window_in_which_it_does() -> None:
    """The lane burns fast enough 400 s after the fault, so its burn began at most one window of 300 s earlier."""
    case = case_of([fired(1030.0, "queue")], LATER)

    assert (case.seconds, case.seconds_since_fault) == (330.0, 430.0)


def test_no_page_is_missed_and_unattributed_is_neither_right_nor_wrong() -> None:
    assert case_of([]).result == "missed"
    assert case_of([fired(660.0, "unattributed")]).result == "unattributed"


def test_a_page_about_the_engine_reaches_every_lane_that_it_serves() -> None:
    """If both fire at the same instant, the engine's page counts, because it inhibits the lane's own."""
    down = fired(660.0, "engine", lane=None)

    assert case_of([fired(660.0, "queue"), down]).said == "engine"
    assert case_of([fired(645.0, "queue"), down]).said == "queue"


def test_a_ticket_or_the_sidecars_own_alert_is_no_page() -> None:
    assert case_of([fired(660.0, "queue", severity="ticket"), fired(660.0, "sidecar", lane=None)]).result == "missed"


def test_a_slow_burn_wants_a_ticket_within_the_hour() -> None:
    at_once, too_late = (case_of([fired(at, "prefill", severity="ticket")], SLOW) for at in (2400.0, 4500.0))

    assert (at_once.severity, at_once.result, at_once.seconds) == ("ticket", "right", 1800.0)
    assert too_late.result == "missed"


def test_pages_before_the_fault_after_recovery_and_in_lanes_that_do_not_burn_are_false() -> None:
    found = heard(
        [fired(700.0, "queue"), fired(700.0, "queue", "code")], [fired(90.0, "queue")], [fired(1900.0, "queue")]
    )

    _, false = graded(WHO, truth(BURNS), found, FAULT_AT)

    assert [(each.why, each.key) for each in false] == [
        ("before the fault", ("chat", "ttft")),
        ("after recovery", ("chat", "ttft")),
        ("this lane does not burn", ("code", "ttft")),
    ]


def test_a_page_about_the_engine_is_false_only_where_nothing_burns() -> None:
    down = heard([fired(660.0, "engine", lane=None)])

    assert graded(WHO, truth(BURNS), down, FAULT_AT)[1] == []
    assert [each.why for each in graded(WHO, truth(CALM), down, FAULT_AT)[1]] == ["nothing burns"]


def test_a_made_up_confusion_comes_out_as_it_was_made_up() -> None:
    """Eight right, one wrong, one missed: the table counts each in its cell; `broken` names each bound not kept."""
    right = case_of([fired(660.0, "queue")])
    cases = [right] * 8 + [case_of([fired(660.0, "prefill")]), case_of([])]

    text = table(cases, [], 10)

    assert "| queue | 8 | 1 |  |  |  |  |  | 1 |" in text
    assert "right 80.0%" in text
    assert (share(cases, "right"), share(cases, "missed")) == (0.8, 0.1)
    assert broken(cases, [], WITH_REPORTS, reports=True) == [
        "with reports: 80.0% right, not 95%",
        "with reports: 10.0% wrong, more than 3%",
        "with reports: queue: 80.0% of 10 right, not 90%",
        "with reports: chunks-2048: 80.0% of 10 right, not 90%",
    ]


def test_bounds_that_are_kept_say_nothing_and_nothing_to_judge_is_not_kept() -> None:
    right = case_of([fired(660.0, "queue")])
    slow = replace(right, seconds=400.0)

    assert broken([right] * 20, [], WITH_REPORTS, reports=True) == []
    assert broken([right] * 18 + [slow] * 2, [], WITH_REPORTS, reports=True) == [
        "with reports: 95 % are paged within 400 s, not 300"
    ]
    assert broken([], [], WITH_REPORTS, reports=True) == [
        "with reports: no lane had to page, so the bounds were not tested"
    ]
