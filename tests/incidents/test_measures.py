"""Figures of made-up cases: each share over the lanes that it counts, with a bracket from resampled runs."""

from dataclasses import replace
from math import isnan

import pytest

from bench.incidents.grade import CHANGED, LANE_CALM, Case, FalsePage
from bench.incidents.measures import (
    FALSE_WHYS,
    Figure,
    Woken,
    bands,
    by_class,
    false_pages,
    figures,
    late,
    measured,
    modes_of,
    pages_of,
    right_pod,
    share,
)
from bench.incidents.world import Mode
from tests.incidents.made_up_cases import case_of, fired, lane


RIGHT = case_of([fired(660.0, "queue")])
WRONG = case_of([fired(660.0, "prefill")])
MISSED = case_of([])
UNKNOWN = case_of([fired(660.0, "unattributed")])
WELCOME = case_of([], lane(burns=True))


def of_seeds(*cases: Case) -> list[Case]:
    """The same cases, each of a run of its own."""
    return [replace(case, seed=seed) for seed, case in enumerate(cases)]


def test_a_bracket_is_as_wide_as_the_runs_differ_and_not_as_their_cases() -> None:
    """Ten cases of one run are one draw: four runs leave a wide bracket, however many cases each has."""
    wide = measured([(("burst", seed), float(seed % 2)) for seed in range(4) for _ in range(10)])
    narrow = measured([(("burst", seed), float(seed % 2)) for seed in range(40)])

    assert (wide.value, wide.size, wide.runs) == (0.5, 40, 4)
    assert (narrow.value, narrow.size, narrow.runs) == (0.5, 40, 40)
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert 0.3 < narrow.low < 0.5 < narrow.high < 0.7


def test_runs_of_one_seed_and_two_kinds_are_two_runs() -> None:
    assert measured([(("burst", 1), 1.0), (("hang", 1), 0.0)]).runs == 2


def test_a_page_may_change_its_phase_once() -> None:
    """From `unattributed` to the root, as a rule."""
    changed = [replace(RIGHT, changes=changes) for changes in (0, 1, 2, 3)]

    assert figures(of_seeds(*changed))[Figure.CHANGED_AGAIN].value == 0.5


def test_nothing_to_measure_is_no_number() -> None:
    found = measured([])

    assert (found.size, isnan(found.value), isnan(found.low)) == (0, True, True)
    assert figures([])[Figure.S2].size == 0


def test_the_strict_grades_count_every_lane_that_burns_and_the_lenient_one_those_that_are_owed_a_page() -> None:
    found = figures(of_seeds(RIGHT, RIGHT, WRONG, UNKNOWN, MISSED, WELCOME))

    assert (found[Figure.LENIENT].value, found[Figure.LENIENT].size) == (2 / 5, 5)
    assert (found[Figure.S1].value, found[Figure.S1].size) == (2 / 6, 6)
    assert (found[Figure.S2].value, found[Figure.S2].size) == (2 / 6, 6)
    assert [found[each].value for each in (Figure.WRONG, Figure.UNATTRIBUTED, Figure.MISSED)] == [1 / 6, 1 / 6, 2 / 6]
    assert (found[Figure.S2_OWED].value, found[Figure.S2_WELCOME].value) == (2 / 5, 0.0)
    assert found[Figure.MISSED_LENIENT].value == 1 / 5


def test_a_ticket_is_in_no_figure_of_pages() -> None:
    ticket = case_of([], lane(must_ticket=True))

    assert figures([ticket])[Figure.S2].size == 0
    assert pages_of([ticket, RIGHT], owed=True) == [RIGHT]


def test_each_objective_has_its_own_figure() -> None:
    tpot = replace(WRONG, key=("chat", "tpot"))
    found = figures(of_seeds(RIGHT, RIGHT, tpot))

    assert (found[Figure.S2_TTFT].value, found[Figure.S2_TPOT].value, found[Figure.S2_E2E].size) == (1.0, 0.0, 0)


def test_seconds_to_page_are_those_of_the_lanes_that_are_owed_a_page() -> None:
    slow = replace(RIGHT, seconds=400.0)
    early = case_of([fired(605.0, "queue")], lane(burns=True))
    found = figures(of_seeds(*[RIGHT] * 18, slow, slow, MISSED, early))

    assert (found[Figure.MEDIAN_SECONDS].value, found[Figure.MEDIAN_SECONDS].size) == (60.0, 20)
    assert found[Figure.P95_SECONDS].value == 400.0
    assert late([3.0, 1.0, 2.0]) == 3.0


def test_notifications_of_two_faults_are_counted_apart() -> None:
    one = [Woken("burst", seed, Mode.REPORTS, False, 1 + seed % 2, 4, 3, 0) for seed in range(4)]
    two = Woken("two-faults", 9, Mode.REPORTS, True, 3, 12, 8, 1)
    found = figures([], [*one, two])

    assert found[Figure.RECEIVERS].value == (1 + 2 + 1 + 2 + 3) / 5
    assert (found[Figure.NOTIFICATIONS].value, found[Figure.NOTIFICATIONS].size) == (4.0, 4)
    assert (found[Figure.PAGES_SENT].value, found[Figure.NOTIFICATIONS_OF_TWO].value) == (3.0, 12.0)
    assert found[Figure.WOKEN_AFTER_HEAL].value == 1 / 5


def test_the_right_pod_is_asked_of_the_first_page_of_each_run_with_one_bad_pod_of_several() -> None:
    page = fired(660.0, "queue", worst_pod="llm-0")
    right = case_of([page], pods=4)
    wrong = case_of([fired(675.0, "queue", worst_pod="llm-3")], pods=4)
    later_right = replace(right, key=("code", "ttft"), seconds_since_fault=90.0)

    assert right_pod([right]).value == 1.0
    assert right_pod([wrong, later_right]).value == 0.0
    assert right_pod([replace(MISSED, pods=4)]).value == 0.0
    assert right_pod([case_of([page], pods=1)]).size == 0
    assert right_pod([case_of([page], pods=4, at_fault=(0, 1))]).size == 0


def test_each_class_has_its_share_by_s2() -> None:
    found = by_class(of_seeds(RIGHT, WRONG, replace(RIGHT, engine="held-out")), lambda case: case.engine)

    assert {name: (each.value, each.runs) for name, each in found.items()} == {
        "chunks-2048": (0.5, 2),
        "held-out": (1.0, 1),
    }


def test_false_pages_are_counted_by_their_reason() -> None:
    made = FalsePage("burst", "chunks-2048", 12, Mode.REPORTS, LANE_CALM, "LLMQueueBurn", "queue", None, 60.0)
    found = false_pages([made, made, replace(made, why=CHANGED)])

    assert tuple(found) == FALSE_WHYS
    assert (found[LANE_CALM], found[CHANGED], sum(found.values())) == (2, 1, 3)


def test_no_page_that_states_no_confidence_is_in_a_band() -> None:
    assert bands([RIGHT, WRONG, MISSED]) == []


def test_a_band_of_fifty_pages_is_kept_if_it_states_within_ten_points_what_is_right() -> None:
    """48 of 60 pages that state 85 % are right; 50 state 65 %, and none is. An edge belongs to the upper band."""
    sure = [replace(each, confidence=0.85) for each in [RIGHT] * 48 + [WRONG] * 12]
    unsure = [replace(WRONG, confidence=0.65)] * 50
    low, high = bands(of_seeds(*sure, *unsure))

    assert (low.low, low.high, low.right.value, low.kept) == (0.6, 0.8, 0.0, False)
    assert low.stated == pytest.approx(0.65)
    assert (high.low, high.high, high.right.value, high.right.size, high.kept) == (0.8, 0.95, 0.8, 60, True)
    assert [each.kept for each in bands(of_seeds(*unsure[:49]))] == [None]
    assert [(each.low, each.high) for each in bands([replace(RIGHT, confidence=0.95)])] == [(0.95, 1.0)]
    assert [(each.low, each.high) for each in bands([replace(RIGHT, confidence=1.0)])] == [(0.95, 1.0)]


def test_a_lane_without_a_page_states_nothing() -> None:
    assert bands([replace(MISSED, confidence=0.9)]) == []


def test_shares_are_lenient_and_modes_come_in_their_order() -> None:
    blind = replace(RIGHT, mode=Mode.BLIND)

    assert (share([RIGHT, WRONG], "right"), share([], "right")) == (0.5, 1.0)
    assert modes_of([blind, RIGHT]) == (Mode.REPORTS, Mode.BLIND)


def test_an_incident_without_any_page_is_one_that_had_to_page() -> None:
    """A lane that burned and was owed no page leaves no incident without one; and one lane's page is the incident's."""
    found = figures([*of_seeds(RIGHT, MISSED, WELCOME), replace(MISSED, seed=0)])

    assert (found[Figure.UNPAGED].value, found[Figure.UNPAGED].size) == (1 / 2, 2)
