"""The score names each figure that breaks its floor, and only those."""

from dataclasses import replace

from bench.incidents.grade import Case
from bench.incidents.job import Job
from bench.incidents.run import Done
from bench.incidents.world import KIND_WORLD, Mode
from bench.score import FLOORS, below, scores
from tests.incidents.made_up_cases import BURNS, case_of, fired, truth


def run(number: int, *said: str) -> Done:
    """The run of a shape whose only lane is paged with these phases, one in each mode; an empty text is no page."""
    job = Job(f"shape-text-{number}", "drawn-text-0", number)
    cases = [of_mode(job, mode, phase) for mode, phase in zip(Mode, said, strict=True)]
    return Done(job, KIND_WORLD, 0.5, 0.9, cases, [], 1.0, truth(BURNS), 600.0, False)


def of_mode(job: Job, mode: Mode, phase: str) -> Case:
    case = case_of([fired(660.0, phase, confidence="0.97")] if phase else [])
    return replace(case, kind=job.kind, seed=job.seed, mode=mode)


def test_each_figure_that_breaks_its_floor_is_told() -> None:
    good, bad = [run(0, "queue", "queue", "queue")], [run(0, "queue", "prefill", "")]

    assert below(scores(good, [])) == []
    assert below(scores(bad, [])) == [
        f"estimator only: S2 is 0%, and at least {FLOORS[Mode.ESTIMATOR][0]:.0%} is the floor",
        f"estimator only: 100% of the lanes are wrong, and at most {FLOORS[Mode.ESTIMATOR][1]:.0%} may be",
        f"blind: S2 is 0%, and at least {FLOORS[Mode.BLIND][0]:.0%} is the floor",
    ]
