"""The formulas agree with the simulated engine, which does not use them, within a stated error."""

from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest

from sidecar.commands.capacity.replicas import Slots, line_of
from sidecar.commands.capacity.service import Service
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import Simulation


pytestmark = pytest.mark.bench

BATCHES = 30
T_999 = 3.66
"""Student's t, 29 degrees of freedom, two-sided 99.9 %, as in tests/commands/simulator/test_simulation_queueing_theory.py. The
seeds are fixed."""


def mean_and_error(waits: list[float]) -> tuple[float, float]:
    """The mean wait, and half of its batch-means confidence interval."""
    size = len(waits) // BATCHES
    means = [fmean(waits[at : at + size]) for at in range(0, size * BATCHES, size)]
    return fmean(means), T_999 * stdev(means) / sqrt(BATCHES)


# One mechanism at a time.


@pytest.mark.parametrize("each_step", [0.0, 0.002], ids=["all steps alike", "steps grow with the batch"])
@pytest.mark.parametrize("busy", [0.5, 0.75])
def test_slots_are_waited_for_no_longer_than_the_formula_says(each_step: float, busy: float) -> None:
    """Four slots, outputs of geometric length: R(n) = n * stop / (0.01 + each_step * n).

    A step takes 10 ms + `each_step` per sequence. An arriving request also waits for the end of the current step: up to
    a step, which the formula does not include. The formula's wait is at most 5 % of a service among four too long.
    """
    stop, slots = 1 / 100, 4
    simulation = Simulation(
        Limits(max_num_seqs=slots, max_num_batched_tokens=10_000, max_model_len=8192, kv_blocks=10_000),
        Costs(step_seconds=0.01, per_sequence_seconds=each_step),
    )
    service = Service(0.01 / stop, each_step / stop, slots, 0.0)
    rate = busy * service.leaving(slots)
    rng, at, arrivals = Random(21), 0.0, []
    for _ in range(30_000):
        at += rng.expovariate(rate)
        tokens = 1
        while rng.random() > stop and tokens < 8000:
            tokens += 1
        arrivals.append((at, 1, tokens))

    waits = [life.phases.queue_seconds for life in simulation.run(arrivals)]

    lived, error = mean_and_error(waits[1000:])
    said = Slots(service, slots).wait_seconds(rate)
    step, whole = 0.01 + each_step * slots, slots / service.leaving(slots)
    assert error < 0.35 * said
    assert lived - error - step <= said <= lived + error + 0.05 * whole


def test_prompts_wait_for_each_other_as_long_as_the_line_says() -> None:
    """One prompt is computed at a time; nine in ten take 100 ms, one in ten 500 ms."""
    simulation = Simulation(
        Limits(max_num_seqs=1, max_num_batched_tokens=20_000, max_model_len=20_000, kv_blocks=2_000),
        Costs(step_seconds=0.0, per_prompt_token_seconds=1e-4),
    )
    rng, at, arrivals = Random(22), 0.0, []
    for _ in range(40_000):
        at += rng.expovariate(5.0)
        arrivals.append((at, 5000 if rng.random() < 0.1 else 1000, 1))

    waits = [life.phases.queue_seconds for life in simulation.run(arrivals)]

    lived, error = mean_and_error(waits[1000:])
    assert error < 0.35 * lived
    assert line_of([(0.9, 0.1), (0.1, 0.5)]).wait_seconds(5.0) == pytest.approx(lived, abs=error)
