"""One process of a sidecar knows of a run only what its mode allows."""

import pytest

from bench.incidents.engines import CHUNKS_2048
from bench.incidents.product import Product
from bench.incidents.request import Run
from bench.incidents.samples import Samples
from bench.incidents.world import Mode
from tests.incidents.made_up_runs import answered, run_of


NAMES = frozenset(
    {
        "llm_requests_received_total",
        "llm_received_measured_requests_total",
        "llm_received_prompt_tokens_total",
        "llm_requests_total",
        "llm_slo_requests_total",
        "llm_prompt_tokens_count",
        "llm_cached_prompt_tokens_total",
        "llm_phase_attribution_total",
        "llm_engine_up",
        "llm_engine_requests_waiting",
        "llm_engine_prefix_cache_queries_total",
        "llm_sidecar_dropped_total",
    }
)


def total(samples: Samples, metric: str, **labels: str) -> float:
    """The last value, summed over all series of the metric with these labels."""
    found = [
        column
        for (name, each), column in samples.columns.items()
        if name == metric and labels.items() <= dict(each).items()
    ]
    return sum(column[-1] or 0.0 for column in found)


def steady(count: int, **about: str | int) -> Run:
    """One request a second; `about`: fields of all of them."""
    return run_of([answered(number, number + 0.5, **about) for number in range(count)])  # type: ignore[arg-type]  # its own keywords


@pytest.mark.parametrize(
    ("mode", "reported", "cached", "waiting"),
    [(Mode.REPORTS, 60, 60 * 1200, 2), (Mode.ESTIMATOR, 0, 60 * 1200, 2), (Mode.BLIND, 0, 0, None)],
)
def test_each_mode_tells_the_product_less(mode: Mode, reported: int, cached: int, waiting: int | None) -> None:
    """The estimator has no reports. A blind sidecar has no cached tokens and no metrics either, but the health check."""
    samples = Product(CHUNKS_2048, steady(60), mode=mode).play(NAMES)

    assert total(samples, "llm_phase_attribution_total", source="engine") == reported
    assert total(samples, "llm_cached_prompt_tokens_total") == cached
    gauge = samples.columns.get(("llm_engine_requests_waiting", ()))
    assert (None if gauge is None else gauge[-1]) == waiting
    assert total(samples, "llm_engine_up") == 1
    assert total(samples, "llm_requests_total", outcome="ok") == 60
