"""Accuracy of the estimator against a simulation that knows the truth, by load, scheduler and prefix-cache hits.

For each row a replica of the demo serves 1,000 requests of lognormal lengths; the estimator starts without samples, so
learning is included. It gets the facts that a sidecar sees: arrivals, tokens (each some milliseconds late), ends,
usage. The verdict is "queue > prefill?" on the slowest tenth. For comparison the table shows the best constant answer;
the lower envelope (the 5th percentile of TTFT per class of length, over all requests, in hindsight); and the estimator
without the engine's steps, from the cost alone. The seeds were not used for tuning. Run: `.venv/bin/python -m
bench.estimator`.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from statistics import fmean

from sidecar.commands.simulator.physics import Limits
from sidecar.commands.simulator.replica_presets import PRESETS, Preset
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation
from sidecar.engines.estimator import Estimator
from sidecar.pod.costs.prefill_cost import Refusal, lengths_of


LATE_SECONDS = 0.002
"""Mean delay of a token on its way to the sidecar: the API server writes one stream after the other."""
SHORTEST, LONGEST = 16, 12_000
OUTPUT_TOKENS = 150


def simulated(
    preset: Preset, limits: Limits, rate: float, requests: int, *, seed: int, hits: float
) -> list[SimulatedRequest]:
    """Requests with Poisson arrivals; a share of `hits` starts with one of 20 prefixes, perhaps still cached."""
    rng, simulation, at, found = Random(seed), Simulation(limits, preset.costs), 0.0, []
    beginnings = [_tokens(rng) for _ in range(20)]
    for number in range(requests):
        at += rng.expovariate(rate)
        if rng.random() < hits:
            which = rng.randrange(20)
            shared = beginnings[which]
            tokens = min(LONGEST, shared + max(SHORTEST, _tokens(rng) // 4))
            hashes = [f"{which}/{block}".encode() for block in range(min(shared, tokens) // limits.block_size)]
        else:
            tokens = _tokens(rng)
            hashes = [f"new {number}/{block}".encode() for block in range(tokens // limits.block_size)]
        output = min(2 + int(rng.expovariate(1 / OUTPUT_TOKENS)), limits.max_model_len - tokens)
        found.append(simulation.arrive(at, tokens, output, hashes))
    simulation.advance(math.inf)
    return found


def _tokens(rng: Random) -> int:
    return max(SHORTEST, min(LONGEST, int(rng.lognormvariate(math.log(900), 1.0))))


def capacity(preset: Preset, limits: Limits, hits: float) -> float:
    """Requests per second that the engine completes when all arrive at once."""
    requests = simulated(preset, limits, 1e6, 500, seed=7, hits=hits)
    return len(requests) / max(request.token_instants[-1] for request in requests)


def ttft_of(request: SimulatedRequest) -> float:
    return request.token_instants[0] + request.delivery_seconds - request.arrived_at


Prefill = dict[int, float]
"""Number of a request to its estimated prefill in seconds; requests without an estimate are absent."""


def estimated(requests: list[SimulatedRequest], seed: int) -> tuple[Prefill, Prefill, int | None, float]:
    """Prefill with and without the engine's steps, idle arrivals until it was ready, microseconds per request."""
    rng, events = Random(seed), list[tuple[float, int, int]]()
    for number, request in enumerate(requests):
        heard = request.arrived_at
        events.append((heard, 0, number))
        for instant in request.token_instants:
            heard = max(heard, instant + request.delivery_seconds + rng.expovariate(1 / LATE_SECONDS))
            events.append((heard, 1, number))
        events.append((heard, 2, number))
    estimator, full, cost = Estimator(), Prefill(), Prefill()
    taught, ready_after, began = 0, None, time.perf_counter()
    for at, kind, number in sorted(events):
        if kind == 0:
            estimator.arrived(number, at)
        elif kind == 1:
            estimator.spoke(number, at)
        else:
            request, visit = requests[number], estimator.left(number)
            assert visit is not None
            lengths = lengths_of(request.prompt_tokens, request.cached_tokens, None)
            for visited, into in ((visit, full), (replace(visit, steps=(), idle=False), cost)):
                found = estimator.prefill_seconds("m", lengths, visited)
                if not isinstance(found, Refusal):
                    into[number] = found
            taught += estimator.learn("m", lengths, visit)
            if ready_after is None and estimator.ready("m"):
                ready_after = taught
    return full, cost, ready_after, (time.perf_counter() - began) / len(requests) * 1e6


def envelope(requests: list[SimulatedRequest]) -> Prefill:
    """The 5th percentile of TTFT in the half octave of each request's uncached length."""

    def length_class(request: SimulatedRequest) -> int:
        return int(2 * math.log2(max(1, request.prompt_tokens - request.cached_tokens)))

    classes: dict[int, list[float]] = {}
    for request in requests:
        classes.setdefault(length_class(request), []).append(ttft_of(request))
    low = {number: sorted(seconds)[len(seconds) // 20] for number, seconds in classes.items()}
    return {number: low[length_class(request)] for number, request in enumerate(requests)}


def right(requests: list[SimulatedRequest], prefill: Prefill, slowest: Iterable[int]) -> float:
    """Share of right verdicts among the slowest requests that have an estimate; NaN without any."""
    judged = [
        (ttft_of(requests[number]) > 2 * prefill[number]) == waited(requests[number])
        for number in slowest
        if number in prefill
    ]
    return fmean(judged) if judged else math.nan


def waited(request: SimulatedRequest) -> bool:
    return request.phases.queue_seconds > request.phases.prefill_seconds


def bias(requests: list[SimulatedRequest], prefill: Prefill) -> float:
    """Milliseconds by which the mean queue is overestimated; NaN without estimates."""
    errors = [
        max(0.0, ttft_of(requests[number]) - seconds) - requests[number].phases.queue_seconds
        for number, seconds in prefill.items()
    ]
    return fmean(errors) * 1e3 if errors else math.nan


def mean_of_known(values: list[float]) -> float:
    """Mean over the runs that have a value; NaN if no run has one."""
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else math.nan


SCHEDULERS: dict[str, Callable[[Limits], Limits]] = {
    "steps of 2k": lambda limits: limits,
    "steps of 8k": lambda limits: replace(limits, max_num_batched_tokens=8192),
    "8 slots": lambda limits: replace(limits, max_num_seqs=8),
    "unchunked": lambda limits: replace(limits, chunked_prefill=False, max_num_batched_tokens=16_384),
}
LOADS = {"low": 0.2, "medium": 0.5, "high": 0.8, "saturated": 1.2}


def row(preset: Preset, limits: Limits, rate: float, requests: int, *, seeds: list[int], hits: float) -> str:
    columns: dict[str, list[float]] = {}
    ready: list[int | None] = []
    for seed in seeds:
        played = simulated(preset, limits, rate, requests, seed=seed, hits=hits)
        full, cost, ready_after, microseconds = estimated(played, seed)
        slowest = sorted(range(len(played)), key=lambda number: ttft_of(played[number]))[-len(played) // 10 :]
        share = fmean(waited(played[number]) for number in slowest)
        ready.append(ready_after)
        low = envelope(played)
        for name, value in (
            ("answered", len(full) / len(played)),
            ("right", right(played, full, slowest)),
            ("cost", right(played, cost, slowest)),
            ("envelope", right(played, low, slowest)),
            ("constant", max(share, 1 - share)),
            ("bias", bias(played, full)),
            ("envelope bias", bias(played, low)),
            ("us", microseconds),
        ):
            columns.setdefault(name, []).append(value)
    mean = {name: mean_of_known(values) for name, values in columns.items()}
    after = "/".join("-" if number is None else str(number) for number in ready)
    return (
        f"| {after} | {mean['answered']:.2f} | {mean['right']:.2f} | {mean['cost']:.2f} | {mean['envelope']:.2f}"
        f" | {mean['constant']:.2f} | {mean['bias']:+.0f} | {mean['envelope bias']:+.0f} | {mean['us']:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=[*PRESETS], nargs="*", default=["13b"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103])
    parser.add_argument("--requests", type=int, default=1000)
    arguments = parser.parse_args()
    print(
        "| replica | scheduler | hits | load | ready after | answered | right | cost alone | envelope | constant",
        end="",
    )
    print(" | queue bias, ms | envelope's | us a request |\n" + "|---" * 13 + "|")
    for name in arguments.preset:
        preset = PRESETS[name]
        for scheduler, changed in SCHEDULERS.items():
            limits = changed(preset.limits)
            for hits in (0.0, 0.5):
                most = capacity(preset, limits, hits)
                for load, share in LOADS.items():
                    found = row(preset, limits, most * share, arguments.requests, seeds=arguments.seeds, hits=hits)
                    print(f"| {name} | {scheduler} | {hits:.0%} | {load} {found}", flush=True)


if __name__ == "__main__":
    main()
