"""The least that prompts can cost, by the data sheet: a lower bound, and none if a number is missing."""

from dataclasses import replace

import pytest

from sidecar.diagnosis.bound import PEAK_FLOPS, ceiling, load, prefill_seconds
from sidecar.diagnosis.measured import Load, Machine, Measured


MEASURED = Measured(
    source="hand",
    machine=Machine(parameters=13e9, gpus=2, gpu="a100"),
    load=Load(arrivals_per_second=60.0, prompt_mean_tokens=2200.0),
)


def test_a_prompt_costs_two_operations_per_parameter_and_token() -> None:
    """13 billion parameters, 2,200 tokens, two GPUs of 312 TFLOPS: 92 ms, so 60 of them a second cannot be served."""
    assert prefill_seconds(MEASURED) == pytest.approx(0.0917, abs=0.0001)
    assert load(MEASURED) == pytest.approx(5.5, abs=0.01)


def test_cached_tokens_are_not_computed() -> None:
    cached = replace(MEASURED, load=replace(MEASURED.load, cached=0.75))

    assert load(cached) == pytest.approx(5.5 / 4, abs=0.01)


@pytest.mark.parametrize("lacking", ["parameters", "gpus", "gpu"])
def test_without_the_machine_there_is_no_bound(lacking: str) -> None:
    unknown = replace(MEASURED, machine=replace(MEASURED.machine, **{lacking: None}))

    assert (prefill_seconds(unknown), load(unknown)) == (None, None)


def test_every_gpu_of_the_table_has_the_peak_of_a_data_sheet() -> None:
    """Between a T4 and a B200: a wrong power of ten would make every load look impossible, or none."""
    assert (min(PEAK_FLOPS.values()), max(PEAK_FLOPS.values())) == (65e12, 2250e12)


def test_a_load_above_the_ceiling_says_what_would_bring_it_below() -> None:
    """5.5 times what two GPUs compute: six replicas; or 82 % cached, because what is left to compute is then what they can."""
    assert ceiling(MEASURED) == (
        "It is 5.5 x what these GPUs can compute of prompts at their peak: it takes at least 6 such replicas, or 82 % of the prompt"
        " tokens from the cache"
    )


def test_a_load_below_the_ceiling_or_without_a_machine_says_nothing() -> None:
    served = replace(MEASURED, load=replace(MEASURED.load, cached=0.9))

    assert (ceiling(served), ceiling(replace(MEASURED, machine=Machine()))) == (None, None)
