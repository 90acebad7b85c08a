"""The score: what it plays, and the page that it prints."""

from dataclasses import replace

from bench.incidents.grade import Case
from bench.incidents.job import Job
from bench.incidents.measures import Figure, Woken
from bench.incidents.run import Done
from bench.incidents.world import KIND_WORLD, Mode
from bench.score import FLOORS, SHAPES, below, page, recorded, scores, todo
from tests.incidents.made_up_cases import BURNS, case_of, fired, truth


def run(number: int, *said: str) -> Done:
    """The run of a shape whose only lane is paged with these phases, one in each mode; an empty text is no page."""
    job = Job(f"shape-text-{number}", "drawn-text-0", number)
    cases = [of_mode(job, mode, phase) for mode, phase in zip(Mode, said, strict=True)]
    return Done(job, KIND_WORLD, 0.5, 0.9, cases, [], 1.0, truth(BURNS), 600.0, False)


def of_mode(job: Job, mode: Mode, phase: str) -> Case:
    case = case_of([fired(660.0, phase, confidence="0.97")] if phase else [])
    return replace(case, kind=job.kind, seed=job.seed, mode=mode)


RUNS = [run(0, "queue", "queue", ""), run(1, "queue", "prefill", "unattributed")]
TOLD = [Woken("shape-text-0", 0, Mode.REPORTS, False, 1, 3, 2, 0, right_pages=1, wrong_pages=1)]


def test_sixty_mode_runs_each_on_a_shape_and_an_engine_of_its_own() -> None:
    jobs = todo("0a1b2c", SHAPES)

    assert sum(len(job.modes) for job in jobs) == 60
    assert len({job.kind for job in jobs}) == len({job.engine for job in jobs}) == SHAPES
    assert not {job.kind for job in jobs} & {job.kind for job in todo("3d4e5f", SHAPES)}


def test_each_mode_has_its_own_figures() -> None:
    reports, estimator, blind = scores(RUNS, TOLD)

    assert [each.figures[Figure.S2].value for each in (reports, estimator, blind)] == [1.0, 0.5, 0.0]
    assert (estimator.figures[Figure.WRONG].value, blind.figures[Figure.UNATTRIBUTED].value) == (0.5, 0.5)
    assert blind.figures[Figure.UNPAGED].value == 0.5
    assert (reports.figures[Figure.PAGES_RIGHT].value, reports.figures[Figure.PAGES_WRONG].value) == (0.5, 0.5)


def test_the_page_has_each_figure_beside_that_of_then_and_each_run() -> None:
    found = scores(RUNS, TOLD)
    past = recorded(found, "other") | {"tree": "tree 123"}

    text = page(RUNS, found, past)

    assert "| right first page, S2 | 100% [100%, 100%] of 2; then 100% | 50%" in text
    assert '*then*: tree 123, draws of "other".' in text
    assert "0.97 is 1.00 of 2" in text
    assert "with reports: queue; estimator only: queue; blind: no page" in text
    assert "then" not in page(RUNS, found, None)


def test_each_figure_that_breaks_its_floor_is_told() -> None:
    good, bad = [run(0, "queue", "queue", "queue")], [run(0, "queue", "prefill", "")]

    assert below(scores(good, [])) == []
    assert below(scores(bad, [])) == [
        f"estimator only: S2 is 0%, and at least {FLOORS[Mode.ESTIMATOR][0]:.0%} is the floor",
        f"estimator only: 100% of the lanes are wrong, and at most {FLOORS[Mode.ESTIMATOR][1]:.0%} may be",
        f"blind: S2 is 0%, and at least {FLOORS[Mode.BLIND][0]:.0%} is the floor",
    ]


def test_classes_that_the_decision_gets_wrong_are_named() -> None:
    wrong = [run(number, "engine", "queue", "queue") for number in range(2)]

    assert "0% of 1 lanes in 1 runs" in page(wrong, scores(wrong, []), None)
    assert "- nothing\n" in page(RUNS, scores(RUNS, []), None)
