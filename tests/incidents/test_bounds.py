"""Bounds say nothing while they are kept, and name each figure and class that breaks one."""

from dataclasses import replace

from bench.incidents.bounds import (
    BOUNDS,
    ISSUE_10,
    SAMPLE_BOUNDS,
    TODAY,
    WITH_REPORTS,
    Limit,
    Limits,
    Past,
    agrees,
    broken,
    low_classes,
    not_as_before,
    not_kept,
)
from bench.incidents.grade import CHANGED, LANE_CALM, FalsePage
from bench.incidents.measures import Figure, Measure, figures
from bench.incidents.world import Mode
from tests.incidents.made_up_cases import case_of, fired, lane


RIGHT, WRONG, MISSED = case_of([fired(660.0, "queue")]), case_of([fired(660.0, "prefill")]), case_of([])
FALSE = FalsePage("burst", "chunks-2048", 12, Mode.REPORTS, LANE_CALM, "LLMQueueBurn", "queue", None, 60.0)


def test_each_bound_that_is_not_kept_is_named() -> None:
    cases = [RIGHT] * 8 + [WRONG, MISSED]

    assert broken(cases, [], WITH_REPORTS, mode=Mode.REPORTS) == [
        "with reports: 80.0% right, not 95%",
        "with reports: 10.0% wrong, more than 3%",
        "with reports: queue: 80.0% of 10 right, not 90%",
        "with reports: chunks-2048: 80.0% of 10 right, not 90%",
    ]


def test_bounds_that_are_kept_say_nothing_and_nothing_to_judge_is_not_kept() -> None:
    slow = replace(RIGHT, seconds=400.0)

    assert broken([RIGHT] * 20, [], WITH_REPORTS, mode=Mode.REPORTS) == []
    assert broken([RIGHT] * 18 + [slow] * 2, [], WITH_REPORTS, mode=Mode.REPORTS) == [
        "with reports: 95 % are paged within 400 s, not 300"
    ]
    assert broken([], [], WITH_REPORTS, mode=Mode.REPORTS) == [
        "with reports: no lane had to page, so the bounds were not tested"
    ]


def test_a_lane_that_is_owed_no_page_breaks_no_bound() -> None:
    assert broken([RIGHT] * 20 + [case_of([], lane(burns=True))] * 5, [], WITH_REPORTS, mode=Mode.REPORTS) == []


def test_false_pages_are_those_of_the_mode_and_a_change_of_phase_is_not_among_them() -> None:
    estimated = replace(FALSE, mode=Mode.ESTIMATOR)
    changed = replace(FALSE, why=CHANGED)

    assert broken([RIGHT] * 20, [estimated, changed], WITH_REPORTS, mode=Mode.REPORTS) == []
    assert broken([RIGHT] * 20, [FALSE], WITH_REPORTS, mode=Mode.REPORTS) == ["with reports: 1 false pages, not 0"]


def test_front_end_incidents_are_judged_only_with_reports() -> None:
    front = replace(WRONG, front_end=True)
    cases = [replace(case, mode=Mode.ESTIMATOR) for case in [RIGHT] * 20 + [replace(front)] * 20]

    assert broken(cases, [], BOUNDS[Mode.ESTIMATOR], mode=Mode.ESTIMATOR) == []
    assert broken([RIGHT] * 20 + [front] * 20, [], SAMPLE_BOUNDS[Mode.REPORTS], mode=Mode.REPORTS)[0] == (
        "with reports: 50.0% right, not 90%"
    )


def test_a_result_agrees_with_an_earlier_one_within_its_bracket() -> None:
    past = TODAY[Mode.REPORTS, Figure.S2]

    assert agrees(Measure(0.75, 0.7, 0.8, 900, 300), past) is True
    assert agrees(Measure(0.87, 0.78, 0.9, 900, 300), past) is False


def test_where_no_bracket_was_published_the_results_own_decides() -> None:
    past = Past(0.53)

    assert agrees(Measure(0.60, 0.52, 0.68, 300, 100), past) is True
    assert agrees(Measure(0.62, 0.56, 0.68, 300, 100), past) is False
    assert agrees(Measure(0.0, 0.0, 0.0, 0, 0), past) is None


def test_each_figure_that_is_not_as_it_was_is_named() -> None:
    """All cases are right within a minute, which the bench of November 2026 was not; nothing was replayed."""
    found = figures([replace(RIGHT, seed=seed) for seed in range(10)])

    assert not_as_before(found, Mode.REPORTS) == [
        "right first page, lenient: 1 [1, 1], and 0.946 [0.91, 0.98] in November 2026",
        "right first page, S1: 1 [1, 1], and 0.914 [0.86, 0.95] in November 2026",
        "right first page, S2: 1 [1, 1], and 0.784 [0.72, 0.85] in November 2026",
        "median seconds to page: 60 [60, 60], and 90 in November 2026",
        "95th percentile of seconds to page: 60 [60, 60], and 315 in November 2026",
    ]


def test_every_engine_and_every_kind_of_ten_runs_that_is_seldom_right_is_named() -> None:
    cases = [replace(RIGHT, seed=seed) for seed in range(6)] + [replace(WRONG, seed=seed) for seed in range(6, 10)]
    few = [replace(WRONG, seed=seed, kind="hang", engine="held-out") for seed in range(9)]

    engine, held_out, kind = low_classes(cases + few, ISSUE_10)

    assert engine.startswith("engine chunks-2048: S2 60.0% [")
    assert engine.endswith("of 10 lanes in 10 runs, not 80%")
    assert held_out.startswith("engine held-out: S2 0.0%")
    assert kind.startswith("kind burst: S2 60.0%")
    assert low_classes([replace(RIGHT, seed=seed) for seed in range(10)], ISSUE_10) == []


def test_a_figure_beyond_its_limit_is_named_and_so_is_one_without_cases() -> None:
    limits = Limits(
        0.8,
        0.7,
        figures={
            (Mode.REPORTS, Figure.S2): Limit(at_least=0.9),
            (Mode.REPORTS, Figure.MEDIAN_SECONDS): Limit(at_most=60.0),
            (Mode.REPORTS, Figure.RECEIVERS): Limit(at_most=1.2),
            (Mode.BLIND, Figure.S2): Limit(at_least=0.5),
        },
    )
    found = figures([RIGHT, replace(WRONG, seed=13)])

    assert not_kept(found, Mode.REPORTS, limits) == [
        "right first page, S2: 0.5, at least 0.9 wanted",
        "receivers woken per incident: no cases, at most 1.2 wanted",
    ]
    assert not_kept(found, Mode.ESTIMATOR, limits) == []
