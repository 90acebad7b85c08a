"""One run from its seed to its grades: plays it and its pair, evaluates product and rules, compares with the truth.

It knows the order of these steps, and the engine and the world of each run. It refuses to know how any step works.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from bench.incidents.drawn import drawn
from bench.incidents.engines import BY_NAME as ENGINES_BY_NAME
from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.grade import Case, FalsePage, Who, graded
from bench.incidents.kinds import BY_NAME as KINDS_BY_NAME
from bench.incidents.kinds import KINDS, Kind
from bench.incidents.measures import Woken
from bench.incidents.notifications import counted, replay
from bench.incidents.play import SLOW_INCIDENT_SECONDS, load_factor, play_both
from bench.incidents.product import sampled
from bench.incidents.prometheus import Heard, Spell, hear, names_in
from bench.incidents.replica import of_world
from bench.incidents.request import Run
from bench.incidents.saturation import fair, saturates_at
from bench.incidents.truth import Truth, truth_of
from bench.incidents.world import KIND_WORLD, Mode, World, unkind_world


EVERY_MODE = tuple(Mode)
DRAWN_PREFIX = "drawn-"


@dataclass(frozen=True, slots=True)
class Job:
    """One run to do."""

    kind: str
    engine: str
    """Name of an engine of `engines.py`, or `drawn-SEED-NUMBER`."""
    seed: int
    modes: tuple[Mode, ...] = EVERY_MODE
    unkind: bool = True
    """Whether the run gets the unkind world of its seed and kind; otherwise `KIND_WORLD`."""


@dataclass(slots=True)
class Done:
    """One finished run with its grades."""

    job: Job
    world: World
    magnitude: float
    factor: float
    cases: list[Case]
    false: list[FalsePage]
    seconds: float
    """Wall-clock seconds that the run took."""
    truth: Truth
    fault_at: float
    two_faults: bool
    evidence: dict[Mode, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """Mode to the evidence of the rules, with its lowest and highest ratio since the fault."""
    alerts: dict[Mode, list[Spell]] = field(default_factory=dict)
    """Mode to every page and ticket that fired, from a minute before the fault on."""


def engine_of(name: str) -> EngineConfig:
    """The engine of this name. Raises KeyError for a name that is neither known nor drawn."""
    if not name.startswith(DRAWN_PREFIX):
        return ENGINES_BY_NAME[name]
    seed, _, number = name.removeprefix(DRAWN_PREFIX).rpartition("-")
    return drawn(seed, int(number))


def engine_for(kind: str, seed: int, names: Sequence[str] = tuple(ENGINES_BY_NAME)) -> str:
    """The engine of a seed, out of these: over the seeds, every kind meets every engine."""
    number = [each.name for each in KINDS].index(kind)
    return names[(number + seed) % len(names)]


def jobs(
    kinds: Sequence[str],
    engines: Sequence[str],
    seeds: Sequence[int],
    modes: tuple[Mode, ...] = EVERY_MODE,
    *,
    unkind: bool = True,
) -> list[Job]:
    """One run of each kind and seed, each with one of these engines. In a kind world, kinds that need another are left
    out."""
    return [
        Job(kind, engine_for(kind, seed, engines), seed, modes, unkind)
        for seed in seeds
        for kind in kinds
        if unkind or KINDS_BY_NAME[kind].topologies is None
    ]


def done(job: Job) -> Done:
    """Do one job."""
    began = time.perf_counter()
    kind = KINDS_BY_NAME[job.kind]
    rng = Random(f"{job.seed}/{job.kind}")
    magnitude = rng.random()
    world = _world(job, kind)
    engine, factor = _placed(engine_of(job.engine), world, job.seed)
    incident = kind.sample(engine, factor, magnitude, rng)
    kinds = [KINDS_BY_NAME[name] for name in incident.made_of or (job.kind,)]

    def played() -> tuple[Run, Truth]:
        run, pair = play_both(engine, job.seed, incident, world=world, factor=factor)
        return run, truth_of(engine, kinds, run, pair)

    run, truth = played()
    lanes = truth.lanes.values()
    if any(lane.must_ticket for lane in lanes) and not any(lane.must_page for lane in lanes):
        # It burns too slowly to page: play the hour within which a ticket must come.
        incident = replace(incident, seconds=SLOW_INCIDENT_SECONDS)
        run, truth = played()
    front_end = any(each.front_end for each in kinds)
    result = Done(job, world, magnitude, factor, [], [], 0.0, truth, run.fault_at, len(kinds) > 1)
    for mode in job.modes:
        heard = listened(engine, run, truth, mode, estimated_lengths=world.estimated_lengths)
        cases, false = graded(Who(job.kind, job.engine, job.seed, mode, front_end), truth, heard, run.fault_at)
        result.cases += cases
        result.false += false
        result.evidence[mode] = heard.evidence
        result.alerts[mode] = heard.firing
    result.seconds = time.perf_counter() - began
    return result


def woken(finished: Sequence[Done]) -> list[Woken]:
    """The notifications of all runs, from a real Alertmanager with the shipped file; it takes some minutes."""
    runs = {(number, mode): each.alerts[mode] for number, each in enumerate(finished) for mode in each.alerts}
    told = replay(runs).told
    found = []
    for (number, mode), notifications in told.items():
        of = finished[number]
        counts = counted(notifications, of.fault_at, of.truth.heals_at)
        found.append(
            Woken(of.job.kind, of.job.seed, mode, of.two_faults, counts.receivers, counts.new, counts.new_pages)
        )
    return found


def _world(job: Job, kind: Kind) -> World:
    if not job.unkind:
        return KIND_WORLD
    world = unkind_world(f"{job.seed}/{job.kind}")
    if kind.topologies is None or world.topology in kind.topologies:
        return world
    return replace(world, topology=min(kind.topologies), tokens_a_step=1.0)


def _placed(engine: EngineConfig, world: World, seed: int) -> tuple[EngineConfig, float]:
    """The engine with objectives that it keeps in this world, and its load factor."""
    if world == KIND_WORLD:
        factor = load_factor(seed)
        return (engine if engine in ENGINES else fair(engine, world, factor)), factor
    assert world.utilisation is not None
    engine = of_world(engine, world)
    factor = world.utilisation * saturates_at(engine, world)
    return fair(engine, world, factor), factor


def listened(engine: EngineConfig, run: Run, truth: Truth, mode: Mode, *, estimated_lengths: bool = False) -> Heard:
    """The alerts that the rules fire on a run."""
    samples = sampled(engine, run, mode, names_in(), estimated_lengths=estimated_lengths)
    step = samples[0].every_seconds
    quiet_at = min(run.ends_at, step * (truth.quiet_at // step + 1))
    return hear(samples, run.fault_at, quiet_at, run.ends_at)
