"""Plays one run in virtual time: a healthy fleet, an incident on some of its pods, its end; all requests are recorded.

It knows the length of a run, and which pod meets the incident. It refuses to know how a pod lives (`pod.py`), and to
judge: `truth.py` says what should be paged, the product says what is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.incidents.engines import HIGHEST_LOAD, LOWEST_LOAD, EngineConfig
from bench.incidents.fault import NOTHING, Episode, Fault
from bench.incidents.pod import Pod
from bench.incidents.request import Run
from bench.incidents.traffic import Active, Day
from bench.incidents.world import KIND_WORLD, Throttle, World


HEALTHY_SECONDS = 1200.0
INCIDENT_SECONDS = 720.0
SLOW_INCIDENT_SECONDS = 3600.0
"""Length of incidents that burn too slowly to page."""
RECOVERY_SECONDS = 480.0
LATE_RUNS_SHARE = 0.4
"""Share of runs with an engine that sends reports out-of-band, 5 to 15 s after the end."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident, as a kind samples it for one seed."""

    episodes: tuple[Episode, ...]
    setup: Fault = NOTHING
    """Changes from the first to the last instant, in the run and in its pair; by themselves they leave it healthy."""
    seconds: float = INCIDENT_SECONDS
    made_of: tuple[str, ...] = ()
    """Names of its kinds, if it is several at once. A phase that is right for any of them is right."""


NO_INCIDENT = Incident(())
LUNCH_SECONDS = 1200.0
"""Time in which the load rises to its highest; a quarter of it is left when the fault begins."""
LUNCH_BEGINS_WITH = 0.45
"""Load before that, as a share of the highest."""
LUNCH_STEP_SECONDS = 60.0


def load_factor(seed: int) -> float:
    """The load factor that this seed draws."""
    return Random(f"{seed}/load").uniform(LOWEST_LOAD, HIGHEST_LOAD)


def play(
    engine: EngineConfig, seed: int, incident: Incident, *, world: World = KIND_WORLD, factor: float | None = None
) -> Run:
    """One run from its first arrival to its end. The same arguments give the same run, to the last bit.

    `factor`: load factor of each pod; None: the world's share of `engine.saturates_at`, or the seed's factor.
    """
    fleet = _Fleet(engine, seed, world, incident)
    factor = _factor(engine, seed, world) if factor is None else factor
    return fleet.merged([fleet.played(pod, factor) for pod in range(world.pods)])


def play_both(
    engine: EngineConfig, seed: int, incident: Incident, *, world: World = KIND_WORLD, factor: float | None = None
) -> tuple[Run, Run]:
    """The run and its pair, as `play` gives them. Pods that are not at fault are the same in both, and played once."""
    fleet, usual = (_Fleet(engine, seed, world, each) for each in (incident, pair_of(incident)))
    factor = _factor(engine, seed, world) if factor is None else factor
    run = [fleet.played(pod, factor) for pod in range(world.pods)]
    pair = [usual.played(pod, factor) for pod in range(world.at_fault)]
    # The runs number their requests differently.
    others = [replace(each, requests=[replace(request) for request in each.requests]) for each in run[world.at_fault :]]
    return fleet.merged(run), usual.merged([*pair, *others])


def healthy(
    engine: EngineConfig,
    seed: int,
    ends_at: float,
    day: Day,
    *,
    world: World = KIND_WORLD,
    factor: float = HIGHEST_LOAD,
) -> Run:
    """A run without an incident, with rates that follow a daily curve up to this load factor."""
    fleet = _Fleet(engine, seed, world, NO_INCIDENT, Run([], [], ends_at, ends_at, ends_at))
    return fleet.merged([fleet.played(pod, factor, day) for pod in range(world.pods)])


def pair_of(incident: Incident) -> Incident:
    """The same incident without its fault."""
    return replace(incident, episodes=())


def _factor(engine: EngineConfig, seed: int, world: World) -> float:
    return load_factor(seed) if world.utilisation is None else world.utilisation * engine.saturates_at


class _Fleet:
    """All pods of one run. The first ones meet the incident; its set-up holds for all."""

    def __init__(
        self, engine: EngineConfig, seed: int, world: World, incident: Incident, blank: Run | None = None
    ) -> None:
        """`blank`: a run without requests, with its instants; None: those of a run with this incident."""
        recovers_at = HEALTHY_SECONDS + incident.seconds
        self._blank = blank or Run([], [], HEALTHY_SECONDS, recovers_at, recovers_at + RECOVERY_SECONDS)
        self._engine = engine
        self._seed = seed
        self._world = world
        self._incident = incident
        # The engines of a fleet are of one kind, which reports to all sidecars in time, or to all late.
        self._late = Random(f"{seed}/engine").random() < LATE_RUNS_SHARE

    def played(self, number: int, factor: float, day: Day | None = None) -> Run:
        """The run of one pod. Each pod draws numbers of its own."""
        seed = str(self._seed) if number == 0 else f"{self._seed}/{number}"
        active = Active(self._episodes(number), self._blank, self._incident.setup)
        pod = Pod(self._engine, seed, self._world, number=number, active=active, blank=self._blank)
        return pod.run(factor, self._lunch() if self._world.lunch else day, late=self._late)

    def _lunch(self) -> Day:
        begins = self._blank.fault_at - 0.75 * LUNCH_SECONDS
        minutes = range(int(self._blank.ends_at / LUNCH_STEP_SECONDS) + 1)
        risen = (min(1.0, max(0.0, (LUNCH_STEP_SECONDS * minute - begins) / LUNCH_SECONDS)) for minute in minutes)
        return Day([LUNCH_BEGINS_WITH + (1.0 - LUNCH_BEGINS_WITH) * share for share in risen], LUNCH_STEP_SECONDS)

    def merged(self, runs: Sequence[Run]) -> Run:
        """The runs of all pods as one. Its requests are numbered in the order in which they were received."""
        requests = sorted((request for run in runs for request in run.requests), key=lambda each: each.received_at)
        for number, request in enumerate(requests):
            request.number = number
        at_fault = tuple(range(self._world.at_fault))
        after = self._world.sidecar_restarts_after_seconds
        return replace(
            self._blank,
            requests=requests,
            states=sorted((state for run in runs for state in run.states), key=lambda state: state.at),
            pods=self._world.pods,
            at_fault=at_fault,
            sidecar_restarts_at={} if after is None else dict.fromkeys(at_fault, self._blank.fault_at + after),
            throttled={pod: quota for pod in range(self._world.pods) if (quota := self._quota(pod)) is not None},
        )

    def _episodes(self, number: int) -> tuple[Episode, ...]:
        return self._incident.episodes if number < self._world.at_fault else ()

    def _quota(self, number: int) -> Throttle | None:
        """CPU quota of a pod's sidecar during the fault."""
        faults: Iterable[Fault] = (self._incident.setup, *(episode.fault for episode in self._episodes(number)))
        own = [fault.throttle for fault in faults if fault.throttle is not None]
        return own[-1] if own else self._world.throttle
