"""One run from its seed to its grades: plays it and its pair, evaluates product and rules, compares with the truth.

It knows the order of these steps. It refuses to know how any step works.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bench.incidents.engines import EngineConfig
from bench.incidents.grade import Case, FalsePage, Who, graded
from bench.incidents.job import Job, played
from bench.incidents.measures import Woken
from bench.incidents.notifications import COUNTED_SECONDS, PAGE_SUFFIX, Told, counted, new_of, replay
from bench.incidents.product import sampled
from bench.incidents.prometheus import Firing, Heard, Spell, hear, names_in
from bench.incidents.request import Run
from bench.incidents.truth import Truth
from bench.incidents.world import Mode, World
from sidecar.metrics.declaration import Profile
from sidecar.objectives.attribution import Blame


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
    differing: list[tuple[Mode, Profile]] = field(default_factory=list)
    """Modes in which a profile was heard otherwise than the first one: another alert, instant, word or verdict. No latency is compared."""


_LATENCY = re.compile(r"( p[0-9.]+ [0-9.]+ m?s,)? threshold [0-9.]+ m?s \(prompts of \S+ tokens\);")


def done(job: Job) -> Done:
    """Do one job."""
    began = time.perf_counter()
    play = played(job)
    run, truth = play.run, play.truth
    result = Done(job, play.world, play.magnitude, play.factor, [], [], 0.0, truth, run.fault_at, play.two_faults)
    for mode in job.modes:
        heard, *others = (
            listened(play.engine, run, truth, mode, estimated_lengths=play.world.estimated_lengths, profile=profile)
            for profile in job.profiles
        )
        result.differing += [
            (mode, name)
            for name, other in zip(job.profiles[1:], others, strict=True)
            if without_latency(other) != without_latency(heard)
        ]
        cases, false = graded(Who(job.kind, job.engine, job.seed, mode, play.front_end), truth, heard, run.fault_at)
        result.cases += cases
        result.false += false
        result.evidence[mode] = heard.evidence
        result.alerts[mode] = heard.firing
    result.seconds = time.perf_counter() - began
    return result


def without_latency(heard: Heard) -> Heard:
    """The same without the latency and the threshold that pages tell: a lean page has neither, by prompt lengths (docs/sizing.md)."""

    def told(firings: Sequence[Firing]) -> list[Firing]:
        return [
            replace(each, annotations={name: _LATENCY.sub("", text) for name, text in each.annotations.items()})
            for each in firings
        ]

    return replace(heard, before=told(heard.before), during=told(heard.during), after=told(heard.after))


def woken(finished: Sequence[Done]) -> list[Woken]:
    """The notifications of all runs, from a real Alertmanager with the shipped file; it takes some minutes."""
    runs = {(number, mode): each.alerts[mode] for number, each in enumerate(finished) for mode in each.alerts}
    told = replay(runs).told
    found = []
    for (number, mode), notifications in told.items():
        of = finished[number]
        counts = counted(notifications, of.fault_at, of.truth.heals_at)
        phases = frozenset[str]().union(*(lane.phases for lane in of.truth.lanes.values()))
        pages = judged(notifications, of.fault_at, of.truth.heals_at, phases)
        found.append(Woken(of.job.kind, of.job.seed, mode, of.two_faults, *counts, *pages))
    return found


def judged(told: Sequence[Told], fault_at: float, heals_at: float, phases: frozenset[str]) -> tuple[int, int]:
    """The new notifications of pages at a receiver of these phases, and those at another one; `unattributed` is neither."""
    said = [
        each.receiver.removesuffix(PAGE_SUFFIX)
        for each in new_of(told)
        if fault_at <= each.at <= heals_at + COUNTED_SECONDS and each.receiver.endswith(PAGE_SUFFIX)
    ]
    right = sum(phase in phases for phase in said)
    return right, len(said) - right - said.count(Blame.UNATTRIBUTED.value)


def listened(
    engine: EngineConfig,
    run: Run,
    truth: Truth,
    mode: Mode,
    *,
    estimated_lengths: bool = False,
    profile: Profile = "full",
) -> Heard:
    """The alerts that the rules fire on a run. `profile`: the pods' `metrics.profile`."""
    samples = sampled(engine, run, mode, names_in(), estimated_lengths=estimated_lengths, profile=profile)
    step = samples[0].every_seconds
    quiet_at = min(run.ends_at, step * (truth.quiet_at // step + 1))
    return hear(samples, run.fault_at, quiet_at, run.ends_at)
