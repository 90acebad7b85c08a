"""The simulation agrees with queueing theory where theory is exact: one slot, Poisson arrivals, and a known mean
wait."""

from itertools import pairwise
from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import Simulation


pytestmark = pytest.mark.bench

ONE_SLOT = Limits(max_num_seqs=1, max_num_batched_tokens=200_000, max_model_len=200_000, kv_blocks=12_500)
SECONDS_A_TOKEN = 1e-4
MEAN_PROMPT = 1000
BATCHES = 30
T_999 = 3.66
"""Student's t, 29 degrees of freedom, two-sided 99.9 %: one run in a thousand may fall outside. The seeds are fixed."""


def prefill_only() -> Simulation:
    """A replica whose service time depends on the prompt's length only: requests ask for one token."""
    return Simulation(ONE_SLOT, Costs(step_seconds=0.0, per_prompt_token_seconds=SECONDS_A_TOKEN))


def assert_mean_wait(expected: float, waits: list[float]) -> None:
    """The batch-means confidence interval contains the theoretical wait, and is narrow enough to be a test."""
    size = len(waits) // BATCHES
    means = [fmean(waits[at : at + size]) for at in range(0, size * BATCHES, size)]
    error = T_999 * stdev(means) / sqrt(BATCHES)

    assert error < 0.3 * expected
    assert expected == pytest.approx(fmean(means), abs=error)


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_constant_service_waits_as_long_as_m_d_1_says(utilisation: float) -> None:
    rng = Random(11)
    service = MEAN_PROMPT * SECONDS_A_TOKEN
    rate = utilisation / service
    at = 0.0
    arrivals = []
    for _ in range(30_000):
        at += rng.expovariate(rate)
        arrivals.append((at, MEAN_PROMPT, 1))

    waits = [request.phases.queue_seconds for request in prefill_only().run(arrivals)]

    assert_mean_wait(utilisation * service / (2 * (1 - utilisation)), waits[1000:])


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.8])
def test_exponential_service_waits_as_long_as_m_m_1_says(utilisation: float) -> None:
    rng = Random(12)
    service = MEAN_PROMPT * SECONDS_A_TOKEN
    rate = utilisation / service
    at = 0.0
    arrivals = []
    for _ in range(60_000):
        at += rng.expovariate(rate)
        # Lengths are whole tokens: the rounding is a thousandth of the mean, and moves the second moment by a
        # millionth.
        arrivals.append((at, max(1, min(199_999, round(rng.expovariate(1 / MEAN_PROMPT)))), 1))

    waits = [request.phases.queue_seconds for request in prefill_only().run(arrivals)]

    assert_mean_wait(utilisation * service / (1 - utilisation), waits[1000:])


def test_geometric_outputs_wait_as_long_as_pollaczek_and_khinchine_say() -> None:
    """The service time consists of decode steps, so that the simulation's many-steps-at-once path is tested."""
    rng = Random(13)
    simulation = Simulation(ONE_SLOT, Costs(step_seconds=0.01))
    stop = 1 / 20
    rate = 0.6 * stop / 0.01
    at = 0.0
    arrivals = []
    for _ in range(30_000):
        at += rng.expovariate(rate)
        tokens = 1
        while rng.random() > stop:
            tokens += 1
        arrivals.append((at, 1, tokens))

    waits = [request.phases.queue_seconds for request in simulation.run(arrivals)]

    second_moment = (2 - stop) / stop**2 * 0.01**2
    assert_mean_wait(rate * second_moment / (2 * (1 - 0.6)), waits[1000:])


def test_every_single_wait_is_lindleys() -> None:
    """With one slot each single wait follows from the one before: W' = max(0, W + S - A)."""
    rng = Random(14)
    at = 0.0
    arrivals = []
    for _ in range(3000):
        at += rng.expovariate(7.0)
        arrivals.append((at, rng.randint(1, 2 * MEAN_PROMPT), 1))

    played = prefill_only().run(arrivals)

    expected = [0.0]
    for (came, prompt_tokens, _), (comes, _, _) in pairwise(arrivals):
        expected.append(max(0.0, expected[-1] + prompt_tokens * SECONDS_A_TOKEN - (comes - came)))
    assert expected == pytest.approx([request.phases.queue_seconds for request in played], abs=1e-9)
