"""The runs to do, and the playing of one: its engine, its world, its incident and its truth.

It knows how a seed and a kind become a run. It refuses to know the product, the rules and grades: the same job plays
the same run, whatever they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.incidents import shapes
from bench.incidents.drawn import drawn
from bench.incidents.engines import BY_NAME as ENGINES_BY_NAME
from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.kinds import BY_NAME as KINDS_BY_NAME
from bench.incidents.kinds import KINDS, Kind
from bench.incidents.play import SLOW_INCIDENT_SECONDS, Incident, load_factor, play, play_both
from bench.incidents.replica import of_world
from bench.incidents.request import Run
from bench.incidents.saturation import fair, saturates_at
from bench.incidents.truth import Truth, truth_of
from bench.incidents.world import KIND_WORLD, Mode, World, unkind_world
from sidecar.metrics.declaration import Profile


EVERY_MODE = tuple(Mode)
DRAWN_PREFIX = "drawn-"


@dataclass(frozen=True, slots=True)
class Job:
    """One run to do."""

    kind: str
    """Name of a kind of `kinds.py`, or `shape-TEXT-NUMBER`."""
    engine: str
    """Name of an engine of `engines.py`, or `drawn-SEED-NUMBER`."""
    seed: int
    modes: tuple[Mode, ...] = EVERY_MODE
    unkind: bool = True
    """Whether the run gets the unkind world of its seed and kind; otherwise `KIND_WORLD`."""
    profiles: tuple[Profile, ...] = ("full",)
    """The pods' `metrics.profile`: the first one's pages are graded, and those of others are compared with them."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run that was played, with its truth."""

    engine: EngineConfig
    """With objectives that it keeps in this world."""
    world: World
    factor: float
    """Load factor of each pod."""
    magnitude: float
    incident: Incident
    run: Run
    truth: Truth
    front_end: bool
    """Whether a kind of the incident slows the front end."""
    two_faults: bool


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


def played(job: Job, *, alone: bool = False) -> Played:
    """Play the run of a job, and find its truth. The same job gives the same run.

    `alone`: in half of the time, without its pair and without the hour of a ticket: all is known but the `proximate` phases.
    """
    world, engine, factor, magnitude, incident = _prepared(job)
    kinds = [KINDS_BY_NAME[name] for name in incident.made_of or (job.kind,)]

    def with_truth() -> tuple[Run, Truth]:
        if alone:
            run = pair = play(engine, job.seed, incident, world=world, factor=factor)
        else:
            run, pair = play_both(engine, job.seed, incident, world=world, factor=factor)
        return run, truth_of(engine, kinds, run, pair)

    run, truth = with_truth()
    lanes = truth.lanes.values()
    lasts = incident.seconds < SLOW_INCIDENT_SECONDS and any(each.ends is None for each in incident.episodes)
    if not alone and lasts and any(lane.must_ticket for lane in lanes) and not any(lane.must_page for lane in lanes):
        # It burns too slowly to page: play the hour within which a ticket must come.
        incident = replace(incident, seconds=SLOW_INCIDENT_SECONDS)
        run, truth = with_truth()
    front_end = any(each.front_end for each in kinds)
    return Played(engine, world, factor, magnitude, incident, run, truth, front_end, two_faults(job, len(kinds)))


def two_faults(job: Job, kinds: int) -> bool:
    """Whether two things broke. A shape says so itself: one fault of it may have the causes of two kinds."""
    return shapes.named(job.kind).other is not None if job.kind.startswith(shapes.PREFIX) else kinds > 1


def _prepared(job: Job) -> tuple[World, EngineConfig, float, float, Incident]:
    """World, engine with objectives, load factor, magnitude and incident of a job."""
    rng, engine = Random(f"{job.seed}/{job.kind}"), engine_of(job.engine)
    if job.kind.startswith(shapes.PREFIX):
        shape = shapes.named(job.kind)
        world = shapes.world_of(shape, f"{job.seed}/{job.kind}")
        engine, factor = _placed(shapes.engine_of(shape, engine), world, job.seed)
        return world, engine, factor, shape.magnitude, shapes.incident_of(shape, engine, factor, rng, world)
    kind = KINDS_BY_NAME[job.kind]
    magnitude = rng.random()
    world = _world(job, kind)
    engine, factor = _placed(engine, world, job.seed)
    return world, engine, factor, magnitude, kind.sample(engine, factor, magnitude, rng)


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
