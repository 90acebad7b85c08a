"""One process of a sidecar knows of a run only as much as the mode, the body and its own age allow."""

from dataclasses import replace
from math import log
from statistics import mean, stdev

import pytest

from bench.incidents.engines import BUCKETS, CHUNKS_2048
from bench.incidents.process import JSON_BYTES, text_bytes
from bench.incidents.product import Product
from bench.incidents.request import Run
from bench.incidents.samples import Samples
from bench.incidents.world import Mode
from sidecar.pod.costs.tokens_per_byte import COUNTED_PROMPTS
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


def test_a_request_is_counted_under_its_model() -> None:
    """Two models behind one port: their lanes differ, and so do their series."""
    lanes = tuple(replace(load, model="second") if load.lane == "batch" else load for load in CHUNKS_2048.lanes)
    requests = [answered(0, 1.0), answered(1, 2.0, lane="batch", model="second"), answered(2, 3.0)]

    samples = Product(replace(CHUNKS_2048, lanes=lanes), run_of(requests), mode=Mode.REPORTS).play(NAMES)

    counted = {
        (model, lane): total(samples, "llm_requests_received_total", model=model, lane=lane)
        for model in ("llama", "second", "other")
        for lane in ("code", "batch")
    }
    assert {who: count for who, count in counted.items() if count} == {("llama", "code"): 2, ("second", "batch"): 1}


def test_bytes_of_text_are_about_four_a_token_and_the_same_each_time() -> None:
    requests = [answered(number, float(number), prompt_tokens=3000) for number in range(500)]

    ratios = [(text_bytes(request) - JSON_BYTES) / 3000 for request in requests]

    assert mean(ratios) == pytest.approx(4.2, rel=0.05)
    assert stdev(map(log, ratios)) == pytest.approx(0.25, rel=0.1)
    assert [text_bytes(request) for request in requests] == [text_bytes(request) for request in requests]


def test_before_enough_prompts_were_counted_an_arrival_has_no_length() -> None:
    """At arrival the bucket is `unknown`, then the estimate's; at the end it is that of usage. Usage corrects no label
    under which a request was judged."""
    run = steady(100, prompt_tokens=600)

    samples = Product(CHUNKS_2048, run, mode=Mode.REPORTS, estimated_lengths=True).play(NAMES)

    own = BUCKETS.bucket_of(600)
    assert total(samples, "llm_requests_total", prompt_bucket=own) == 100
    # A prompt takes longer than the second to the next, so one more arrives before the last of the counted ones ends.
    unknown = total(samples, "llm_slo_requests_total", objective="ttft", prompt_bucket="unknown")
    assert COUNTED_PROMPTS <= unknown <= COUNTED_PROMPTS + 1
    assert total(samples, "llm_received_measured_requests_total") == 100 - unknown
    guessed = {
        each: total(samples, "llm_slo_requests_total", objective="ttft", prompt_bucket=each) for each in BUCKETS.labels
    }
    assert 0 < guessed["0-512"] < guessed[own]
    tokens = total(samples, "llm_received_prompt_tokens_total") / total(samples, "llm_received_measured_requests_total")
    assert tokens == pytest.approx(600, rel=0.1)


def test_a_body_that_states_token_ids_needs_no_estimate() -> None:
    samples = Product(CHUNKS_2048, steady(30), mode=Mode.REPORTS).play(NAMES)

    assert total(samples, "llm_received_prompt_tokens_total") == 30 * 1500
    assert total(samples, "llm_slo_requests_total", prompt_bucket="unknown") == 0
