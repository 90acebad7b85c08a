"""Accuracy of the estimator against a simulation that knows the truth, by load, scheduler and prefix-cache hits.

For each row a replica of the demo serves 1,000 requests of lognormal lengths; the estimator starts without samples, so
learning is included. It gets the facts that a sidecar sees: arrivals, tokens (each some milliseconds late), ends,
usage; with --reports also the engine's report on every third request, whose estimate then is judged and not used. The verdict is
"queue > prefill?", on all requests whose two phases differ by more than 20 % or 20 ms, and on the slowest tenth. Beside it stands how often
the interval of 80 % holds the true prefill, and how wide it is. For comparison the table shows the best constant answer;
the lower envelope (the 5th percentile of TTFT per class of length, over all requests, in hindsight); and the estimator
without the engine's steps, from the cost alone. The seeds were not used for tuning. Run: `.venv/bin/python -m
bench.estimator`.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean

from sidecar.commands.simulator.physics import Limits
from sidecar.commands.simulator.replica_presets import PRESETS, Preset
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation
from sidecar.engines.estimator import Estimator
from sidecar.ledger.account import Estimate
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


@dataclass
class Told:
    """The estimator's answers of one run."""

    estimates: dict[int, Estimate] = field(default_factory=dict)
    cost_alone: Prefill = field(default_factory=dict)
    """Without the engine's steps."""
    ready_after: int | None = None
    """Requests until it was ready."""
    microseconds: float = math.nan
    """A request."""

    @property
    def prefill(self) -> Prefill:
        return {number: each.prefill_seconds for number, each in self.estimates.items()}

    @property
    def behind(self) -> Prefill:
        return {number: each.behind_seconds for number, each in self.estimates.items()}


def estimated(requests: list[SimulatedRequest], seed: int, *, reports: bool = False) -> Told:
    """Play the facts that a sidecar sees. `reports`: the engine reports on every third request."""
    rng, events = Random(seed), list[tuple[float, int, int]]()
    for number, request in enumerate(requests):
        heard = request.arrived_at
        events.append((heard, 0, number))
        for instant in request.token_instants:
            heard = max(heard, instant + request.delivery_seconds + rng.expovariate(1 / LATE_SECONDS))
            events.append((heard, 1, number))
        events.append((heard, 2, number))
    estimator, told, ended = Estimator(), Told(), 0
    began = time.perf_counter()
    for at, kind, number in sorted(events):
        if kind == 0:
            estimator.arrived(number, at, streaming=True)
        elif kind == 1:
            estimator.spoke(number, at)
        else:
            request, visit = requests[number], estimator.left(number)
            assert visit is not None
            lengths, ended = lengths_of(request.prompt_tokens, request.cached_tokens, None), ended + 1
            found = estimator.prefill("m", lengths, visit)
            alone = estimator.prefill("m", lengths, replace(visit, steps=(), idle=False))
            if not isinstance(found, Refusal):
                told.estimates[number] = found
            if not isinstance(alone, Refusal):
                told.cost_alone[number] = alone.prefill_seconds
            estimator.learn("m", lengths, visit)
            if reports and number % 3 == 0:
                stated, judged = request.phases.prefill_seconds, None if isinstance(found, Refusal) else found
                behind = max(0.0, ttft_of(request) - request.phases.queue_seconds - stated)
                estimator.reported("m", lengths, stated, request.arrived_at, judged, behind_seconds=behind)
            if told.ready_after is None and estimator.costs.ready("m"):
                told.ready_after = ended
    told.microseconds = (time.perf_counter() - began) / len(requests) * 1e6
    return told


def envelope(requests: list[SimulatedRequest]) -> Prefill:
    """The 5th percentile of TTFT in the half octave of each request's uncached length."""

    def length_class(request: SimulatedRequest) -> int:
        return int(2 * math.log2(max(1, request.prompt_tokens - request.cached_tokens)))

    classes: dict[int, list[float]] = {}
    for request in requests:
        classes.setdefault(length_class(request), []).append(ttft_of(request))
    low = {number: sorted(seconds)[len(seconds) // 20] for number, seconds in classes.items()}
    return {number: low[length_class(request)] for number, request in enumerate(requests)}


def right(
    requests: list[SimulatedRequest], prefill: Prefill, slowest: Iterable[int], behind: Prefill | None = None
) -> float:
    """Share of right verdicts among the slowest requests that have an estimate; NaN without any. `behind`: what is neither queue nor prefill."""
    apart = {} if behind is None else behind
    judged = [
        (ttft_of(requests[number]) - apart.get(number, 0.0) > 2 * prefill[number]) == waited(requests[number])
        for number in slowest
        if number in prefill
    ]
    return fmean(judged) if judged else math.nan


def clear(request: SimulatedRequest) -> bool:
    """Its queue and its prefill differ by more than 20 % or 20 ms."""
    queue, prefill = request.phases.queue_seconds, request.phases.prefill_seconds
    return abs(queue - prefill) > min(0.02, 0.2 * max(queue, prefill))


def holds(requests: list[SimulatedRequest], told: Told) -> float:
    """Share of intervals that hold the true prefill; NaN without any."""
    found = [
        each.low_seconds <= requests[number].phases.prefill_seconds <= each.high_seconds
        for number, each in told.estimates.items()
    ]
    return fmean(found) if found else math.nan


def width(requests: list[SimulatedRequest], told: Told) -> float:
    """Mean width of an interval as a share of the TTFT; NaN without any."""
    found = [
        (each.high_seconds - each.low_seconds) / ttft_of(requests[number]) for number, each in told.estimates.items()
    ]
    return fmean(found) if found else math.nan


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
LOADS = {"a request a minute": 0.0, "low": 0.2, "medium": 0.5, "high": 0.9, "saturated": 1.2}
"""Shares of the capacity."""
LEAST_RATE = 1 / 60
"""Requests a second."""
A_FEW = 40
"""Requests at this rate: more than half an hour."""


def row(
    preset: Preset, limits: Limits, rate: float, requests: int, *, seeds: list[int], hits: float, reports: bool
) -> str:
    columns: dict[str, list[float]] = {}
    ready: list[int | None] = []
    for seed in seeds:
        played = simulated(preset, limits, rate, requests, seed=seed, hits=hits)
        told = estimated(played, seed, reports=reports)
        slowest = sorted(range(len(played)), key=lambda number: ttft_of(played[number]))[-len(played) // 10 :]
        share = fmean(waited(played[number]) for number in slowest)
        ready.append(told.ready_after)
        low, plain = envelope(played), [number for number in range(len(played)) if clear(played[number])]
        for name, value in (
            ("answered", len(told.estimates) / len(played)),
            ("right", right(played, told.prefill, plain, told.behind)),
            ("slowest", right(played, told.prefill, slowest, told.behind)),
            ("cost", right(played, told.cost_alone, slowest)),
            ("envelope", right(played, low, slowest)),
            ("constant", max(share, 1 - share)),
            ("holds", holds(played, told)),
            ("width", width(played, told)),
            ("bias", bias(played, told.prefill)),
            ("us", told.microseconds),
        ):
            columns.setdefault(name, []).append(value)
    mean = {name: mean_of_known(values) for name, values in columns.items()}
    after = "/".join("-" if number is None else str(number) for number in ready)
    return (
        f"| {after} | {mean['answered']:.2f} | {mean['right']:.2f} | {mean['slowest']:.2f} | {mean['cost']:.2f}"
        f" | {mean['envelope']:.2f} | {mean['constant']:.2f} | {mean['holds']:.2f} | {mean['width']:.2f}"
        f" | {mean['bias']:+.0f} | {mean['us']:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", choices=[*PRESETS], nargs="*", default=["13b"])
    parser.add_argument("--seeds", type=int, nargs="*", default=[101, 102, 103])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--reports", action="store_true", help="the engine reports on every third request")
    arguments = parser.parse_args()
    print(
        "| replica | scheduler | hits | load | ready after | answered | right | slowest tenth | cost alone | envelope | constant",
        end="",
    )
    print(" | interval holds | width | queue bias, ms | us a request |\n" + "|---" * 15 + "|")
    for name in arguments.preset:
        preset = PRESETS[name]
        for scheduler, changed in SCHEDULERS.items():
            limits = changed(preset.limits)
            for hits in (0.0, 0.5):
                most = capacity(preset, limits, hits)
                for load, share in LOADS.items():
                    rate, requests = max(LEAST_RATE, most * share), arguments.requests
                    if rate == LEAST_RATE:
                        requests = min(requests, A_FEW)
                    found = row(
                        preset, limits, rate, requests, seeds=arguments.seeds, hits=hits, reports=arguments.reports
                    )
                    print(f"| {name} | {scheduler} | {hits:.0%} | {load} {found}", flush=True)


if __name__ == "__main__":
    main()
