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
