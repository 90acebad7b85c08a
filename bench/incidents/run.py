"""One run from its seed to its grades: plays it and its pair, evaluates product and rules, compares with the truth.

It knows the order of these steps, and the engine of each seed. It refuses to know how any step works.
"""

import time
from dataclasses import dataclass, replace
from random import Random

from bench.incidents.engines import BY_NAME as ENGINES_BY_NAME
from bench.incidents.engines import ENGINES, EngineConfig
from bench.incidents.grade import Case, FalsePage, Who, graded
from bench.incidents.kinds import BY_NAME as KINDS_BY_NAME
from bench.incidents.kinds import KINDS
from bench.incidents.play import SLOW_INCIDENT_SECONDS, load_factor, pair_of, play
from bench.incidents.product import SCRAPE_SECONDS, Product
from bench.incidents.prometheus import Heard, hear, names_in
from bench.incidents.request import Run
from bench.incidents.samples import Samples
from bench.incidents.truth import Truth, truth_of
from bench.incidents.world import Mode


@dataclass(frozen=True, slots=True)
class Job:
    """One run to do."""

    kind: str
    engine: str
    seed: int
    modes: tuple[bool, ...] = (True, False)
    """Modes to run: True with the engine's reports, False without."""


@dataclass(slots=True)
class Done:
    """One finished run with its grades."""

    job: Job
    magnitude: float
    factor: float
    cases: list[Case]
    false: list[FalsePage]
    seconds: float
    """Wall-clock seconds that the run took."""
    truth: Truth
    heard: dict[bool, Heard]


def engine_for(kind: str, seed: int) -> EngineConfig:
    """The engine of a seed: over the seeds, every kind meets every engine."""
    number = [each.name for each in KINDS].index(kind)
    return ENGINES[(number + seed) % len(ENGINES)]


def jobs(kinds: list[str], engines: list[str], seeds: list[int], modes: tuple[bool, ...] = (True, False)) -> list[Job]:
    """The runs of these kinds and seeds that meet one of these engines."""
    found = [Job(kind, engine_for(kind, seed).name, seed, modes) for seed in seeds for kind in kinds]
    return [job for job in found if job.engine in engines]


def done(job: Job) -> Done:
    """Do one job."""
    began = time.perf_counter()
    kind, engine = KINDS_BY_NAME[job.kind], ENGINES_BY_NAME[job.engine]
    rng = Random(f"{job.seed}/{job.kind}")
    magnitude, factor = rng.random(), load_factor(job.seed)
    incident = kind.sample(engine, factor, magnitude, rng)
    kinds = [KINDS_BY_NAME[name] for name in incident.made_of or (job.kind,)]
    run, pair = play(engine, job.seed, incident), play(engine, job.seed, pair_of(incident))
    truth = truth_of(engine, kinds, run, pair)
    lanes = truth.lanes.values()
    if any(lane.must_ticket for lane in lanes) and not any(lane.must_page for lane in lanes):
        # It burns too slowly to page: play the hour within which a ticket must come.
        incident = replace(incident, seconds=SLOW_INCIDENT_SECONDS)
        run, pair = play(engine, job.seed, incident), play(engine, job.seed, pair_of(incident))
        truth = truth_of(engine, kinds, run, pair)
    result = Done(job, magnitude, factor, [], [], 0.0, truth, {})
    for reports in job.modes:
        heard = listened(engine, run, truth, reports=reports)
        who = Who(job.kind, job.engine, job.seed, reports, any(each.front_end for each in kinds))
        cases, false = graded(who, truth, heard, run.fault_at)
        result.cases += cases
        result.false += false
        result.heard[reports] = heard
    result.seconds = time.perf_counter() - began
    return result


def listened(engine: EngineConfig, run: Run, truth: Truth, *, reports: bool) -> Heard:
    """The alerts that the rules fire on a run."""
    samples = sampled(engine, run, reports=reports)
    step = samples[0].every_seconds
    quiet_at = min(run.ends_at, step * (truth.quiet_at // step + 1))
    return hear(samples, run.fault_at, quiet_at, run.ends_at)


def sampled(engine: EngineConfig, run: Run, *, reports: bool, every_seconds: float = SCRAPE_SECONDS) -> list[Samples]:
    """The samples that Prometheus would have scraped in a run, pod by pod."""
    mode, found = Mode.REPORTS if reports else Mode.ESTIMATOR, []
    for pod in range(run.pods):
        samples = Product(engine, run, mode=mode, pod=pod).play(names_in(), every_seconds)
        samples.without_idle()
        samples.add_target()
        found.append(samples)
    return found
