"""Simulated requests go through the product's own modules, and the metrics agree with the simulation."""

import pytest

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.fault import Episode, Fault
from bench.incidents.play import Incident, play
from bench.incidents.product import Product
from bench.incidents.request import Run
from bench.incidents.samples import Samples
from bench.incidents.truth import verdicts
from bench.incidents.world import Mode
from sidecar.timeline.outcome import Outcome


pytestmark = pytest.mark.bench

NAMES = frozenset(
    {
        "llm_slo_requests_total",
        "llm_slo_misses_total",
        "llm_slo_blamed_misses_total",
        "llm_phase_attribution_total",
        "llm_engine_up",
        "llm_engine_restarts_total",
        "llm_engine_requests_waiting",
        "llm_sidecar_dropped_total",
    }
)


def run_of(fault: Fault, seed: int, ends: float | None = None) -> Run:
    return play(CHUNKS_2048, seed, Incident((Episode(fault, 0.0, ends),)), factor=0.7)


def total(samples: Samples, metric: str, **labels: str) -> float:
    """The last value, summed over all series of the metric with these labels."""
    return sum(
        column[-1] or 0.0
        for (name, each), column in samples.columns.items()
        if name == metric and labels.items() <= dict(each).items()
    )


@pytest.fixture(scope="module")
def loaded() -> Run:
    return run_of(Fault(load={"interactive": 4.0, "code": 4.0}), 2)


@pytest.mark.parametrize("mode", Mode)
def test_the_products_verdicts_are_those_of_the_requests(loaded: Run, mode: Mode) -> None:
    """Misses counted from the simulated requests equal those that the product counts from their events."""
    samples = Product(CHUNKS_2048, loaded, mode=mode).play(NAMES)

    told = verdicts(loaded, CHUNKS_2048.objectives())
    for (lane, objective), each in told.items():
        misses = total(samples, "llm_slo_misses_total", lane=lane, objective=objective)
        requests = total(samples, "llm_slo_requests_total", lane=lane, objective=objective)
        assert (misses, requests) == (sum(verdict.missed for verdict in each), len(each))
    assert total(samples, "llm_slo_misses_total") > 300
    assert total(samples, "llm_sidecar_dropped_total", reason="observer_error") == 0


def test_without_reports_nothing_says_that_the_engine_reported(loaded: Run) -> None:
    samples = Product(CHUNKS_2048, loaded, mode=Mode.ESTIMATOR).play(NAMES)

    assert total(samples, "llm_phase_attribution_total", source="engine") == 0
    assert total(samples, "llm_phase_attribution_total", source="estimated") > 1000


def test_late_reports_are_waited_for_and_lost_ones_are_not_made_up() -> None:
    """In a run whose reports come 5 to 15 s late, nearly all reports are joined; one in twenty never comes."""
    runs = (run_of(Fault(load={"code": 2.0}), seed) for seed in range(20))
    run = next(run for run in runs if any(request.report_late_seconds for request in run.requests))

    samples = Product(CHUNKS_2048, run, mode=Mode.REPORTS).play(NAMES)

    joined = total(samples, "llm_phase_attribution_total", reason="late_report")
    ended = sum(request.outcome is Outcome.OK and request.ended_at is not None for request in run.requests)
    assert 0.90 < joined / ended < 0.97


def test_a_crash_is_seen_as_an_engine_that_is_down_and_then_another() -> None:
    run = run_of(Fault(down=True), 3, 60.0)

    samples = Product(CHUNKS_2048, run, mode=Mode.REPORTS).play(NAMES)

    up = next(column for (name, _), column in samples.columns.items() if name == "llm_engine_up")
    waiting = next(column for (name, _), column in samples.columns.items() if name == "llm_engine_requests_waiting")
    assert up[int(run.fault_at / 15) + 2] == 0
    assert waiting[int(run.fault_at / 15) + 2] is None
    assert up[-1] == 1
    assert total(samples, "llm_engine_restarts_total") == 1
    assert total(samples, "llm_slo_blamed_misses_total", phase="engine") > 20
