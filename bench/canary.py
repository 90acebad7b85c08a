"""`python -m bench.canary`: how often the canary's gate fails an innocent version, and how often it finds a worse one.

Each rollout has sixty looks, one a minute, and is failed if one of them is below `FAILS_BELOW`. Two worlds:

- independent draws: each request misses by a coin of its own; all shares of the traffic, with and without a doubled
  miss rate;
- the simulator: every pod is an engine of its own with a queue, so that misses come in clumps. Pods play an hour in
  virtual time, with a noon in it or near saturation all along. One pod is the canary beside 3, 19 or 99 others, so
  that each pod carries the same load and the canary has 25, 5 or 1 % of the traffic. A worse canary's prefills take
  longer. The last table asks four of the gate's questions at once: misses of each objective, and goodput.

Exit status 1 if a bound is missed: each innocent row of the draws, and each row of the last table, and the power of the first two
worse rows. Printed are tables for docs/evidence/canary.md. Rollouts of the simulator share pods between baselines, and each pod is
the canary once: their number stands above the table. A rate that showed no alarm stands with its 95 % upper bound.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log, pi, sin
from multiprocessing import Pool
from random import Random
from statistics import fmean, pvariance
from time import monotonic
from typing import NamedTuple

from grafana.gate_arithmetic import LOOKS, Block, Evidence, Side, blocks, part_of
from grafana.gate_query import FAILED_OF_INNOCENT, FAILS_BELOW
from sidecar.commands.compare.gate_questions import BLOCK_MINUTES, GATE_QUESTIONS
from sidecar.commands.simulator.replica_presets import LLAMA_70B
from sidecar.commands.simulator.simulation import Simulation


LENGTHS = (1, 2, 3, 5)
"""Minutes of a block; the gate's own is `BLOCK_MINUTES`, the others show what it buys."""
WARM_UP_SECONDS = 600.0
QUESTIONS_A_ROLLOUT = len(GATE_QUESTIONS)


@dataclass(frozen=True, slots=True)
class Draws:
    """Independent draws: requests of each side in the whole rollout, and the chances of a miss."""

    canary: int
    baseline: int
    chance: float
    times: float = 1.0
    """Factor of the canary's chance."""


INNOCENT = [
    Draws(2500, 2500, 0.05),
    Draws(12_000, 12_000, 0.01),
    Draws(2500, 7500, 0.05),
    Draws(2500, 47_500, 0.05),
    Draws(300, 29_700, 0.05),
    Draws(300, 29_700, 0.01),
    Draws(300, 300, 0.3),
    Draws(2500, 2500, 0.004),
    Draws(2500, 2500, 0.002),
    Draws(3000, 2000, 0.002),
    Draws(3750, 1250, 0.005),
    Draws(4500, 500, 0.005),
    Draws(4750, 250, 0.01),
]
FOUND = [Draws(2500, 2500, 0.05, 2), Draws(12_000, 12_000, 0.01, 2)]
WORSE = [*FOUND, Draws(600, 59_400, 0.05, 2)]
LEAST_POWER = 0.9
"""The share of `FOUND` that fails, at least."""
FAILED_OF_SIMULATED = 0.02
"""The share of the simulator's innocent rollouts that is failed by any question: below this."""


class Day(NamedTuple):
    """The arrivals of one hour on a pod: requests per second at its beginning, and how much more at its middle."""

    rate: float
    noon: float

    def share(self, at: float) -> float:
        """The rate at an instant of the hour, as a share of its highest."""
        return (1 + self.noon * sin(pi * min(1.0, max(0.0, at / 3600)))) / (1 + self.noon)


DAYS = {"a noon of 1.8 times the morning": Day(1.3, 0.8), "near saturation all along": Day(2.0, 0.0)}
BESIDE = {0.25: 3, 0.05: 19, 0.01: 99}
"""The canary's share of the traffic to the number of other pods."""
MISS_RATES = (0.05, 0.01)
"""Thresholds are set so that this share of all requests misses, as a lane's objective would."""
SLOWER, SLOWER_ONE_IN = 1.15, 3
"""Factor on the worse canary's prefills, and to how many innocent pods there is one such."""


class Latencies(NamedTuple):
    """The latencies of one request, in seconds; TPOT of a single token is 0."""

    ttft: float
    tpot: float
    e2e: float


class Hour(NamedTuple):
    """One pod's hour: minute of arrival and latencies of each request."""

    requests: list[tuple[int, Latencies]]

    def minutes(self, limits: Latencies) -> list[Side]:
        """Bad is a request with any latency above its limit."""
        bad, requests = [0] * LOOKS, [0] * LOOKS
        for minute, latencies in self.requests:
            requests[minute] += 1
            bad[minute] += any(seconds > limit for seconds, limit in zip(latencies, limits, strict=True))
        return [Side(*side) for side in zip(bad, requests, strict=True)]


def lived(day: Day, factor: float, seed: int) -> Hour:
    """A pod's hour in virtual time, after a warm-up at the morning's rate."""
    rng, simulation = Random(seed), Simulation(LLAMA_70B.limits, LLAMA_70B.costs)
    simulation.adjust(0.0, prefill_factor=factor)
    arrivals = []
    for one in LLAMA_70B.reference_load.arrivals(day.rate * (1 + day.noon), rng):
        if one.at >= WARM_UP_SECONDS + 60 * LOOKS:
            break
        if rng.random() < day.share(one.at - WARM_UP_SECONDS):
            arrivals.append((one.at, one.prompt_tokens, one.output_tokens))
    lives = simulation.run(arrivals)
    return Hour(
        [
            (int((one.arrived_at - WARM_UP_SECONDS) // 60), latencies_of(one.arrived_at, one.token_instants))
            for one in lives
            if one.arrived_at >= WARM_UP_SECONDS
        ]
    )


def latencies_of(arrived_at: float, token_instants: Sequence[float]) -> Latencies:
    """The latencies of a request that got at least one token."""
    first, last = token_instants[0], token_instants[-1]
    return Latencies(first - arrived_at, (last - first) / max(1, len(token_instants) - 1), last - arrived_at)


def limits_of(hours: Sequence[Hour], missing: float) -> Latencies:
    """Limits of which each is missed by this share of the requests, or by one request less."""
    columns = zip(*(latencies for hour in hours for _, latencies in hour.requests), strict=True)
    return Latencies(*(sorted(column)[int(len(column) * (1 - missing))] for column in columns))


def questions(limits: Latencies) -> list[Latencies]:
    """The limits of each of the gate's questions that the simulator can answer: misses of one objective, then goodput."""
    alone = [Latencies(inf, inf, inf)._replace(**{name: limit}) for name, limit in limits._asdict().items()]
    return [*alone, limits]


def looks(minutes: Sequence[Block], length: int = BLOCK_MINUTES) -> Iterator[float]:
    """The gate's p value at the end of each block; looks between them show the last one again."""
    evidence = Evidence()
    for block in blocks(minutes, length):
        if (part := part_of(block)) is not None:
            evidence = evidence.and_of(part)
            yield evidence.p


def failed(rollouts: Sequence[Sequence[Block]], length: int = BLOCK_MINUTES) -> int:
    """How many rollouts are failed at one of their looks."""
    return sum(min(looks(minutes, length), default=1.0) < FAILS_BELOW for minutes in rollouts)


def failed_by_any(asked: Sequence[Sequence[Sequence[Block]]]) -> int:
    """How many rollouts one question or more fails. `asked`: for each question, the same rollouts in the same order."""
    return sum(any(failed([minutes]) for minutes in same) for same in zip(*asked, strict=True))


def drawn(draws: Draws, rng: Random) -> list[Block]:
    """A rollout of independent draws: arrivals at random minutes, each with a coin of its own."""
    sides = []
    for requests, chance in ((draws.canary, draws.chance * draws.times), (draws.baseline, draws.chance)):
        counts = _scattered(requests, rng)
        sides.append([Side(_hits(count, chance, rng), count) for count in counts])
    return [Block(*pair) for pair in zip(*sides, strict=True)]


def _scattered(requests: int, rng: Random) -> list[int]:
    """So many requests over the minutes, by exponential gaps."""
    marks = [0.0]
    for _ in range(LOOKS):
        marks.append(marks[-1] + rng.gammavariate(requests / LOOKS, 1.0))
    places = [round(requests * mark / marks[-1]) for mark in marks]
    return [later - earlier for earlier, later in pairwise(places)]


def _hits(count: int, chance: float, rng: Random) -> int:
    """Binomial, by the gaps between hits."""
    hits, at = 0, 0
    while True:
        at += int(log(1 - rng.random()) / log(1 - chance)) + 1
        if at > count:
            return hits
        hits += 1


def rollouts_of(
    hours: Sequence[list[Side]], canaries: Sequence[list[Side]], beside: int, seed: int
) -> list[list[Block]]:
    """Each of `canaries` once, beside as many other pods. An innocent canary is one of `hours` itself, and not beside itself."""
    rng, made = Random(seed), []
    for own in canaries:
        others = rng.sample([one for one in hours if one is not own], beside)
        together = [Side(*map(sum, zip(*sides, strict=True))) for sides in zip(*others, strict=True)]
        made.append([Block(*pair) for pair in zip(own, together, strict=True)])
    return made


def rate(count: int, of: int) -> str:
    """A share in per cent; for none, its upper 95 % bound (the rule of three)."""
    return f"{100 * count / of:.2f}" if count else f"0 (< {300 / of:.2f})"


def counted(draws: Draws, rollouts: int) -> list[int]:
    """How many of so many rollouts are failed, for each length of a block."""
    rng = Random(f"{draws}")
    made = [drawn(draws, rng) for _ in range(rollouts)]
    return [failed(made, length) for length in LENGTHS]


def independent(
    rollouts: int, counts: Callable[[Sequence[Draws], int], Iterable[list[int]]], missed: list[str]
) -> Iterator[str]:
    """The table's lines. Bounds that are missed are appended to `missed`."""
    head = " | ".join(f"{length} min" for length in LENGTHS)
    yield f"| requests, canary + baseline | miss rate | {head} |"
    yield "|---:|---:|" + "---:|" * len(LENGTHS)
    rows = (*INNOCENT, *WORSE)
    for draws, found in zip(rows, counts(rows, rollouts), strict=True):
        cells = " | ".join(rate(count, rollouts) for count in found)
        chance = f"{100 * draws.chance:g} %" + (
            f", canary {100 * draws.chance * draws.times:g} %" if draws.times > 1 else ""
        )
        row = f"| {draws.canary:,} + {draws.baseline:,} | {chance} | {cells} |"
        share = found[LENGTHS.index(BLOCK_MINUTES)] / rollouts
        if (draws in INNOCENT and share >= FAILED_OF_INNOCENT) or (draws in FOUND and share < LEAST_POWER):
            missed.append(row)
        yield row


Worlds = Mapping[str, tuple[list[Hour], list[Hour]]]
"""Each of `DAYS` to the hours of innocent pods, and of those whose prefills take longer."""


def simulated(worlds: Worlds) -> Iterator[str]:
    head = " | ".join(f"{length} min" for length in LENGTHS)
    yield f"| hour | share | misses, canary against baseline | spread of a pod's misses | {head} |"
    yield "|---|---:|---:|---:|" + "---:|" * len(LENGTHS)
    for name, (alike, slower) in worlds.items():
        for missing in MISS_RATES:
            ttft, *_ = questions(limits_of(alike, missing))
            hours, worse = ([one.minutes(ttft) for one in each] for each in (alike, slower))
            totals = [sum(side.bad for side in hour) for hour in hours]
            spread = pvariance(totals) / fmean(totals)
            for canaries, at in ((hours, missing), (worse, _rate_of(worse))):
                for share, beside in BESIDE.items():
                    made = rollouts_of(hours, canaries, beside, seed=beside)
                    cells = " | ".join(rate(failed(made, length), len(made)) for length in LENGTHS)
                    shown = f"{100 * at:.1f} % against {100 * missing:g} %"
                    yield f"| {name} | {100 * share:g} % | {shown} | {spread:.1f} | {cells} |"


def together(worlds: Worlds, missed: list[str]) -> Iterator[str]:
    """The table of innocent pods of which several questions are asked. Bounds that are missed are appended to `missed`."""
    yield "| hour | share | missed of each objective | missed of any | failed by any question |"
    yield "|---|---:|---:|---:|---:|"
    for name, (alike, _) in worlds.items():
        for missing in MISS_RATES:
            asked = [[one.minutes(limits) for one in alike] for limits in questions(limits_of(alike, missing))]
            for share, beside in BESIDE.items():
                count = failed_by_any([rollouts_of(hours, hours, beside, seed=beside) for hours in asked])
                bad = 100 * _rate_of(asked[-1])
                row = f"| {name} | {100 * share:g} % | {100 * missing:g} % | {bad:.1f} % | {rate(count, len(alike))} |"
                if count / len(alike) >= FAILED_OF_SIMULATED:
                    missed.append(row)
                yield row


def _rate_of(hours: Sequence[list[Side]]) -> float:
    sides = [side for hour in hours for side in hour]
    return sum(side.bad for side in sides) / sum(side.requests for side in sides)


def write(line: str) -> None:
    print(line, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables. The exit status: 1 if a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.canary", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--rollouts", type=int, default=2000, help="of each row of independent draws (default %(default)s)"
    )
    parser.add_argument("--pods", type=int, default=200, help="hours of a pod, at least 100 (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="default %(default)s")
    given = parser.parse_args(argv)
    began = monotonic()
    write(
        f"failed rollouts in per cent, {LOOKS} looks, p below {FAILS_BELOW:g}, one of {QUESTIONS_A_ROLLOUT} questions;"
    )
    write(f"the gate's blocks have {BLOCK_MINUTES} minutes\n")
    with Pool(given.processes) as pool:

        def counts(rows: Sequence[Draws], rollouts: int) -> Iterable[list[int]]:
            return pool.starmap(counted, [(draws, rollouts) for draws in rows], chunksize=1)

        def play(day: Day, factor: float, pods: int) -> list[Hour]:
            first = 0 if factor == 1 else 10 * pods
            return pool.starmap(lived, [(day, factor, seed) for seed in range(first, first + pods)], chunksize=1)

        write(f"independent draws, {given.rollouts} rollouts a row\n")
        missed: list[str] = []
        for line in independent(given.rollouts, counts, missed):
            write(line)
        write(
            f"\nthe simulator, {given.pods} innocent pods, {given.pods // SLOWER_ONE_IN} whose prefills take {SLOWER:g} times as long\n"
        )
        worlds = {
            name: (play(day, 1.0, given.pods), play(day, SLOWER, given.pods // SLOWER_ONE_IN))
            for name, day in DAYS.items()
        }
        for line in simulated(worlds):
            write(line)
    write("\nthe same innocent pods, of which misses of each objective and goodput are asked together\n")
    for line in together(worlds, missed):
        write(line)
    write(f"\n{monotonic() - began:.0f} s")
    for row in missed:
        write(f"a bound is missed: {row}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
