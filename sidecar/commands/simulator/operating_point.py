"""Finds the arrival rate at which a replica's mean queue reaches 90 ms, by simulation in virtual time.

It uses bisection and sampling, and no formula. Every rate is tried on the same seeds, so the same requests with the
same lengths arrive, only closer together. The mean queue therefore grows with the rate and does not jump with the draw.
The result has a sampling error: over six sets of other seeds the 70B's rate varied by 3 to 7 % (standard deviation),
and the mean queue at that rate by about 10 %.
"""

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from functools import cache
from itertools import islice
from random import Random
from statistics import fmean

from sidecar.commands.simulator.replica_presets import Preset
from sidecar.commands.simulator.simulation import Phases, SimulatedRequest, Simulation
from sidecar.commands.simulator.workload import Workload


QUEUE_TARGET_SECONDS = 0.09
SEEDS = (1, 2, 3)
WARM_UP = 100
"""First requests of each run that are left out, because the replica is still empty."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A rate (requests per second) and the mean phases at that rate."""

    rate: float
    mean: Phases
    prefill_by_length: dict[int, float]
    """Mean prefill seconds for each prompt length of the load."""


def play(preset: Preset, workload: Workload, rate: float, requests: int, seed: int) -> Iterator[SimulatedRequest]:
    """Run `requests` arrivals at `rate` through a fresh replica; yields all requests after the warm-up."""
    arrivals = islice(workload.arrivals(rate, Random(seed)), requests)
    simulation = Simulation(preset.limits, preset.costs)
    lives = simulation.run((arrival.at, arrival.prompt_tokens, arrival.output_tokens) for arrival in arrivals)
    return islice(lives, WARM_UP, None)


def mean_queue_seconds(preset: Preset, workload: Workload, rate: float, requests: int) -> float:
    """Mean queue in seconds over the runs of all seeds, without their warm-up."""
    lives = (life for seed in SEEDS for life in play(preset, workload, rate, requests, seed))
    return fmean(life.phases.queue_seconds for life in lives)


def rate_for_mean_queue(preset: Preset, workload: Workload | None = None, requests: int = 2000) -> float:
    """Requests per second at which the mean queue is 90 ms, to 1 %. Takes a few seconds; the process caches the result.

    `requests` is the sample size for each seed. A rough search on an eighth of it comes first.
    """
    return _found_rate(preset, workload or preset.reference_load, requests)


@cache
def _found_rate(preset: Preset, workload: Workload, requests: int) -> float:
    def sampled(sample: int) -> Callable[[float], float]:
        return lambda rate: mean_queue_seconds(preset, workload, rate, sample)

    rough = sampled(max(WARM_UP * 4, requests // 8))
    high = 1.0
    while rough(high) < QUEUE_TARGET_SECONDS:
        high *= 2
    low = high / 2
    while rough(low) > QUEUE_TARGET_SECONDS:
        high, low = low, low / 2
    low, high = _bisect(rough, low, high, 0.1)
    return sum(_bisect(sampled(requests), low / 1.25, high * 1.25, 0.01)) / 2


def operating_point(preset: Preset, workload: Workload | None = None, requests: int = 2000) -> OperatingPoint:
    """The rate at which the replica's mean queue is 90 ms, and its phases at that rate."""
    workload = workload or preset.reference_load
    rate = rate_for_mean_queue(preset, workload, requests)
    lives = [life for seed in SEEDS for life in play(preset, workload, rate, requests, seed)]
    return OperatingPoint(rate, mean_phases(lives), prefill_by_length(lives))


def mean_phases(lives: list[SimulatedRequest]) -> Phases:
    """The mean of each phase. Means add up to the mean of the whole; quantiles would not."""
    return Phases(*map(fmean, zip(*(astuple(life.phases) for life in lives), strict=True)))


def prefill_by_length(lives: list[SimulatedRequest]) -> dict[int, float]:
    lengths = sorted({life.prompt_tokens for life in lives})
    return {
        length: fmean(life.phases.prefill_seconds for life in lives if life.prompt_tokens == length)
        for length in lengths
    }


def describe(preset: Preset, point: OperatingPoint) -> str:
    """The lines that the demo prints about a preset and its operating point; at most 80 columns."""
    mean = point.mean
    lengths = point.prefill_by_length.items()
    prefill = ", ".join(f"{seconds * 1e3:,.0f} ms at {length:,}" for length, seconds in lengths)
    return (
        f"{preset.name}: {preset.model} on {preset.gpu_type}, {preset.limits.max_num_seqs} slots.\n"
        f"  Its mean queue is 90 ms at {point.rate:.2f} requests per second (simulated).\n"
        f"  There: queue {mean.queue_seconds * 1e3:.0f} ms,"
        f" front end and delivery {(mean.front_end_seconds + mean.delivery_seconds) * 1e3:.0f} ms,\n"
        f"  prefill {prefill} tokens,\n"
        f"  decode {mean.decode_seconds * 1e3:,.0f} ms for 150 tokens."
    )


def _bisect(grows_with: Callable[[float], float], low: float, high: float, tolerance: float) -> tuple[float, float]:
    """Narrow the bracket around the target until its relative width is at most `tolerance`."""
    while high - low > tolerance * low:
        middle = (low + high) / 2
        if grows_with(middle) < QUEUE_TARGET_SECONDS:
            low = middle
        else:
            high = middle
    return low, high
