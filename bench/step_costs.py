"""`python -m bench.step_costs`: how well the step costs on the metrics page tell decode and prefill that became dearer.

Plays engines in virtual time, in several worlds, with nothing broken, with an overload, and with decode or prefill made
dearer by a known factor. The product is blind: it gets no reports, no cached tokens, no metrics of the engine, and
estimates prompt lengths. Printed are, for each world, the error of the ratios, how often their interval holds the
truth, how often an interval above `DEARER` is right or wrong, and how often there is no ratio.

The simulator is both the truth and the model family: these figures are an upper limit for real engines. The scrapes of
one run depend on each other, so the number of runs stands beside them.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import Pool
from statistics import median
from typing import NamedTuple

from bench.incidents.drawn import drawn
from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.fault import Episode, Fault
from bench.incidents.play import Incident, play
from bench.incidents.product import Product
from bench.incidents.replica import of_world
from bench.incidents.samples import Samples
from bench.incidents.saturation import fair, saturates_at
from bench.incidents.world import Mode, Throttle, Topology, World
from sidecar.metrics import catalogue as c
from sidecar.pod.causes import DEARER
from sidecar.pod.costs.cost_names import Part


WORLDS = {
    "kind": World(),
    "step noise 0.2": World(step_noise=0.2),
    "30 % of events merged": World(coalesced=0.3),
    "sidecar with 0.6 of a core": World(throttle=Throttle(0.06)),
    "90 % load, noise, lognormal lengths": World(utilisation=0.9, step_noise=0.12, length_sigma=0.7, coalesced=0.1),
    "speculative decoding": World(tokens_a_step=2.2),
    "4 tokens an event": World(stream_interval=4),
    "two ranks": World(topology=Topology.RANKS),
    "prefill apart from decode": World(topology=Topology.DISAGGREGATED),
}
FAULTS: dict[str, tuple[Fault, float, float]] = {
    "nothing": (Fault(), 1.0, 1.0),
    "overload": (Fault(load=dict.fromkeys(("interactive", "batch", "code"), 2.5)), 1.0, 1.0),
    "decode x1.5": (Fault(knobs={"decode_factor": 1.5}), 1.5, 1.0),
    "decode x3": (Fault(knobs={"decode_factor": 3.0}), 3.0, 1.0),
    "prefill x1.5": (Fault(knobs={"prefill_factor": 1.5}), 1.0, 1.5),
    "prefill x3": (Fault(knobs={"prefill_factor": 3.0}), 1.0, 3.0),
}
"""Name to the fault, and the true ratios of decode and prefill while it lasts."""
UTILISATION = 0.5
FIRST_SCRAPE_SECONDS, LAST_SCRAPE_SECONDS = 120.0, 600.0
"""Scrapes count from when every window holds the fault alone."""
DRAWN_SEED = "step costs"
NAMES = frozenset({c.ENGINE_COST_RATIO.name, c.ENGINE_COST_RATIO_LOW.name, c.ENGINE_COST_RATIO_HIGH.name})


class Job(NamedTuple):
    world: str
    fault: str
    engine: int
    seed: int


class ScrapedRatio(NamedTuple):
    """One scrape's ratio of one part, with its interval; None if it was absent."""

    job: Job
    part: Part
    truth: float
    ratio: tuple[float, float, float] | None
    """Low, value, high."""


def engine_of(number: int) -> EngineConfig:
    """The named engines, then drawn ones."""
    return ENGINES[number] if number < len(ENGINES) else drawn(DRAWN_SEED, number)


def scraped(job: Job) -> list[ScrapedRatio]:
    """Play one run and read the product's page at each scrape."""
    world = WORLDS[job.world]
    engine = of_world(engine_of(job.engine), world)
    factor = (world.utilisation or UTILISATION) * saturates_at(engine, world)
    engine = fair(engine, world, factor)
    fault, decode, prefill = FAULTS[job.fault]
    lanes = {load.lane for load in engine.lanes}
    fault = replace(fault, load={lane: more for lane, more in fault.load.items() if lane in lanes})
    run = play(engine, job.seed, Incident((Episode(fault),)), world=replace(world, utilisation=None), factor=factor)
    samples = Product(engine, run, mode=Mode.BLIND, estimated_lengths=True).play(NAMES)
    found = []
    for part, truth in ((Part.DECODE, decode), (Part.PREFILL, prefill)):
        low, value, high = (_column(samples, metric.name, part, run.ends_at) for metric in _EDGES)
        for number in range(len(value)):
            at = number * samples.every_seconds - run.fault_at
            if FIRST_SCRAPE_SECONDS <= at <= LAST_SCRAPE_SECONDS:
                edges = (low[number], value[number], high[number])
                known = None if None in edges else (edges[0] or 0.0, edges[1] or 0.0, edges[2] or 0.0)
                found.append(ScrapedRatio(job, part, truth, known))
    return found


_EDGES = (c.ENGINE_COST_RATIO_LOW, c.ENGINE_COST_RATIO, c.ENGINE_COST_RATIO_HIGH)


def _column(samples: Samples, name: str, part: Part, ends_at: float) -> Sequence[float | None]:
    """The values of all scrapes; None where the series was absent, also if it never was there."""
    scrapes = int(ends_at / samples.every_seconds) + 1
    column = samples.columns.get((name, (("part", part.value),)), [])
    return [*column, *[None] * (scrapes - len(column))]


def table(found: Sequence[ScrapedRatio]) -> str:
    """One row per world and part."""
    groups: dict[tuple[str, Part], list[ScrapedRatio]] = defaultdict(list)
    for each in found:
        groups[each.job.world, each.part].append(each)
    rows = [
        "| world | part | runs | no ratio | error, median | interval holds the truth | named, dearer | named, not dearer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *(_row(*key, group) for key, group in groups.items())])


def _row(world: str, part: Part, group: Sequence[ScrapedRatio]) -> str:
    known = [(each.truth, *each.ratio) for each in group if each.ratio is not None]
    error = median(abs(value / truth - 1) for truth, _, value, _ in known) if known else None
    cells = [
        str(len({each.job for each in group})),
        f"{1 - len(known) / len(group):.0%}",
        "-" if error is None else f"{error:.1%}",
        _share(low <= truth <= high for truth, low, _, high in known),
        _share(low > DEARER for truth, low, _, _ in known if truth > 1.0),
        _share(low > DEARER for truth, low, _, _ in known if truth == 1.0),
    ]
    return f"| {world} | {part} | {' | '.join(cells)} |"


def _share(true: Iterator[bool]) -> str:
    values = list(true)
    return f"{sum(values) / len(values):.1%} of {len(values)}" if values else "-"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.step_costs", description=__doc__)
    parser.add_argument("--engines", type=int, default=8, help="engines: five named ones, then drawn ones (default: 8)")
    parser.add_argument("--worlds", nargs="*", choices=list(WORLDS), help="default: all")
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    arguments = parser.parse_args()
    todo = [
        Job(world, fault, engine, arguments.seed + engine)
        for world in arguments.worlds or WORLDS
        for fault in FAULTS
        for engine in range(arguments.engines)
    ]
    found: list[ScrapedRatio] = []
    with Pool(arguments.jobs) as pool:
        for number, more in enumerate(pool.imap(scraped, todo), 1):
            found += more
            print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
