"""Plays one run in virtual time: a healthy engine, an incident, its end; and records every request.

It knows how to apply faults (`fault.py`) to the simulated replica and to the network around it. It refuses to judge:
`truth.py` says what should be paged, the product says what is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any

from bench.incidents.engines import BUCKETS, HIGHEST_LOAD, LOWEST_LOAD, EngineConfig
from bench.incidents.fault import NOTHING, Episode, Fault, Hop
from bench.incidents.request import Request, Run, State, TruePhases
from bench.incidents.traffic import Active, Asked, Day, arrivals
from bench.incidents.wire import through_hop, to_slow_client, together
from sidecar.simulator.simulated_request import SimulatedRequest
from sidecar.simulator.simulation import Simulation
from sidecar.timeline.outcome import Outcome, Stage


HEALTHY_SECONDS = 1200.0
INCIDENT_SECONDS = 720.0
SLOW_INCIDENT_SECONDS = 3600.0
"""Length of incidents that burn too slowly to page."""
RECOVERY_SECONDS = 480.0
STATE_EVERY_SECONDS = 5.0
GIVE_UP_SHARE = 0.20
"""Share of clients that give up when they wait past their threshold."""
LOST_REPORTS_SHARE = 0.05
LATE_RUNS_SHARE = 0.4
"""Share of runs with an engine that sends reports out-of-band, 5 to 15 s after the end."""
LATE_SECONDS = (5.0, 15.0)


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


def load_factor(seed: int) -> float:
    """The load factor that this seed draws."""
    return Random(f"{seed}/load").uniform(LOWEST_LOAD, HIGHEST_LOAD)


def play(engine: EngineConfig, seed: int, incident: Incident, *, factor: float | None = None) -> Run:
    """One run from its first arrival to its end. The same arguments give the same run, to the last bit."""
    recovers_at = HEALTHY_SECONDS + incident.seconds
    stage = _Stage(engine, seed, incident, Run([], [], HEALTHY_SECONDS, recovers_at, recovers_at + RECOVERY_SECONDS))
    return stage.run(load_factor(seed) if factor is None else factor)


def healthy(engine: EngineConfig, seed: int, ends_at: float, day: Day) -> Run:
    """A run without an incident, with rates that follow a daily curve up to the highest load."""
    stage = _Stage(engine, seed, NO_INCIDENT, Run([], [], ends_at, ends_at, ends_at), day)
    return stage.run(HIGHEST_LOAD)


def pair_of(incident: Incident) -> Incident:
    """The same incident without its fault."""
    return replace(incident, episodes=())


class _InEngine:
    """One request in the engine."""

    __slots__ = ("asked", "request", "simulated")

    def __init__(self, asked: Asked, request: Request, simulated: SimulatedRequest) -> None:
        self.asked = asked
        self.request = request
        self.simulated = simulated


class _Stage:
    """State of one run while it is played."""

    def __init__(self, engine: EngineConfig, seed: int, incident: Incident, run: Run, day: Day | None = None) -> None:
        self._engine = engine
        self._seed = seed
        self._run = run
        self._active = Active(incident.episodes, run, incident.setup)
        self._day = day
        self._objectives = engine.objectives()
        rng = Random(f"{seed}/engine")
        self._late = rng.random() < LATE_RUNS_SHARE
        self._simulation: Simulation | None = None
        self._born_at = 0.0
        self._process = -1
        self._admitted_requests: list[_InEngine] = []
        self._order = count()
        self._due: list[tuple[float, int, str, Any]] = []

    def run(self, factor: float) -> Run:
        run = self._run
        self._start(0.0)
        for edge in self._active.edges():
            self._expect(edge, "edge", None)
        self._expect(0.0, "state", None)
        for asked in arrivals(self._engine, factor, self._seed, self._active, self._day):
            self._happen(asked.at)
            self._arrive(asked)
        self._happen(run.ends_at)
        if self._simulation is not None:
            self._simulation.advance(run.ends_at - self._born_at)
        self._write_all()
        return run

    # --- events in time -----------------------------------------------------------------------------------------------

    def _expect(self, at: float, what: str, about: Any) -> None:
        heappush(self._due, (at, next(self._order), what, about))

    def _happen(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            at, _, what, about = heappop(self._due)
            if what == "state":
                self._state(at)
                self._expect(at + STATE_EVERY_SECONDS, "state", None)
            elif what == "edge":
                self._edge(at)
            else:
                self._give_up(at, about)

    def _arrive(self, asked: Asked) -> None:
        request = Request(
            len(self._run.requests), asked.lane, asked.prompt_tokens, asked.output_tokens, asked.streaming, asked.at
        )
        self._run.requests.append(request)
        simulation = self._simulation
        if simulation is None:
            request.ended_at = request.flushed_at = asked.at + 0.003
            request.outcome = Outcome.ENGINE_UNREACHABLE
            return
        simulation.advance(asked.at - self._born_at)  # tokens made until now are in the list of each request
        prompt = min(asked.prompt_tokens, self._engine.limits.max_model_len - asked.output_tokens)
        request.prompt_tokens = prompt
        size = self._engine.limits.block_size
        blocks = min(asked.shared_tokens, prompt) // size if asked.prefix else 0
        hashes = [f"{asked.prefix}/{block}".encode() for block in range(blocks)]
        simulated = simulation.arrive(asked.at - self._born_at, prompt, asked.output_tokens, hashes)
        admitted = _InEngine(asked, request, simulated)
        self._admitted_requests.append(admitted)
        if asked.luck < GIVE_UP_SHARE:
            aims = self._objectives.aims(asked.lane, BUCKETS.bucket_of(prompt))
            aim = aims.ttft if asked.streaming else aims.e2e
            if aim is not None:
                patience = 1.0 + 7.0 * asked.luck / GIVE_UP_SHARE
                self._expect(asked.at + aim.threshold_seconds + patience, "give up", admitted)

    def _give_up(self, at: float, admitted: _InEngine) -> None:
        """A client leaves if it has received nothing yet."""
        request, simulated = admitted.request, admitted.simulated
        if request.ended_at is not None or self._simulation is None:
            return
        self._simulation.advance(at - self._born_at)
        self._write(admitted)
        if (request.reads and request.reads[0] <= at) or (not request.streaming and simulated.finished):
            request.ended_at = None if not simulated.finished else request.ended_at
            return
        self._simulation.abort(at - self._born_at, simulated)
        request.reads, request.events, request.pauses, request.phases = [], [], [], None
        request.ended_at = request.flushed_at = at
        request.outcome, request.cancelled_in, request.report = Outcome.CLIENT_CANCELLED, Stage.WAITING, None

    def _edge(self, at: float) -> None:
        """An episode begins or ends."""
        faults = [episode.fault for episode in self._active.at(at)]
        began = [
            episode.fault for begins, _, episode in self._active.spans() if begins == at and episode.fault in faults
        ]
        if any(fault.down for fault in faults):
            self._crash(at)
            return
        if self._simulation is None or any(fault.fresh for fault in began):
            if self._simulation is not None:
                self._simulation.advance(inf)  # the old process finishes its requests: a rolling update
            self._start(at)
        assert self._simulation is not None
        self._simulation.adjust(at - self._born_at, **self._knobs(faults))

    def _knobs(self, faults: Sequence[Fault]) -> dict[str, Any]:
        knobs: dict[str, Any] = {
            "front_end_extra_seconds": 0.0,
            "front_end_factor": 1.0,
            "slots": self._engine.slots,
            "prefill_factor": 1.0,
            "decode_factor": 1.0,
            "kv_blocks": None,
            "hung": False,
        }
        for fault in faults:
            knobs.update(fault.knobs)
        return knobs

    def _start(self, at: float) -> None:
        self._write_all()
        self._process += 1
        self._born_at = at
        self._simulation = Simulation(self._engine.limits, self._engine.costs)
        faults = [episode.fault for episode in self._active.at(at)]
        self._simulation.adjust(0.0, **self._knobs(faults))

    def _crash(self, at: float) -> None:
        """The engine process dies: requests in flight are truncated or fail."""
        if self._simulation is None:
            return
        self._simulation.advance(at - self._born_at)
        self._write_all()
        for admitted in self._admitted_requests:
            request = admitted.request
            if request.ended_at is None or request.ended_at > at:
                said = bool(request.reads) and request.reads[0] <= at
                request.ended_at = request.flushed_at = at
                request.outcome = Outcome.ENGINE_TRUNCATED if said else Outcome.ENGINE_ERROR
                request.report = None
        self._admitted_requests.clear()
        self._simulation = None

    def _state(self, at: float) -> None:
        simulation = self._simulation
        if simulation is None:
            self._run.states.append(State(at, False, 0, 0, 0.0, 0, 0, 0, self._process))
            return
        simulation.advance(at - self._born_at)
        totals, pool = simulation.totals, simulation.pool
        self._run.states.append(
            State(
                at,
                True,
                len(simulation.waiting),
                len(simulation.running),
                min(1.0, pool.used / pool.blocks),
                totals.preemptions,
                totals.prefix_queries,
                totals.prefix_hits,
                self._process,
            )
        )

    # --- records ------------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        for admitted in self._admitted_requests:
            if admitted.request.outcome is Outcome.OK:
                self._write(admitted)
        self._admitted_requests = [
            admitted
            for admitted in self._admitted_requests
            if not admitted.simulated.finished and admitted.request.ended_at is None
        ]

    def _write(self, admitted: _InEngine) -> None:
        """Record a request as far as it has come."""
        request, simulated, born_at = admitted.request, admitted.simulated, self._born_at
        made = simulated.token_instants
        if not made:
            return
        sent = [born_at + at + simulated.delivery_seconds for at in made]
        hop, slow = self._ways(admitted)
        if not request.streaming:
            instants, counts = [sent[-1]], [len(sent)]
        elif hop is None:
            instants, counts = together(sent)
        else:
            instants, counts = through_hop(sent, hop, complete=simulated.finished)
        reads, pauses, flushed_at = instants, list[tuple[float, float]](), instants[-1] + 0.0005
        if slow is not None and request.streaming:
            reads, pauses, flushed_at = to_slow_client(instants, counts, slow)
            pauses = [pause for pause in pauses if pause[0] < reads[-1]]
        if request.streaming:
            request.reads, request.events, request.pauses = reads, counts, pauses
        request.cached_tokens = simulated.cached_tokens
        request.preemptions = simulated.preemptions
        assert simulated.scheduled_at is not None
        queue = simulated.scheduled_at - simulated.submitted_at
        prefill, decode = made[0] - simulated.scheduled_at, made[-1] - made[0]
        stream = flushed_at - sent[-1]
        front_end = simulated.submitted_at - simulated.arrived_at
        request.phases = TruePhases(front_end, queue, prefill, decode, stream, simulated.delivery_seconds)
        if not simulated.finished:
            return
        request.ended_at, request.flushed_at = max(reads[-1], sent[-1]), max(flushed_at, sent[-1])
        luck = Random(f"{self._seed}/{request.number}/report")
        if luck.random() >= LOST_REPORTS_SHARE:
            request.report = (queue, prefill, decode)
            request.report_late_seconds = luck.uniform(*LATE_SECONDS) if self._late else 0.0

    def _ways(self, admitted: _InEngine) -> tuple[Hop | None, float | None]:
        """The hop that a request passes, and its client's tokens per second; None without a hop or slow client."""
        hop, slow = None, None
        for episode in self._active.at(admitted.asked.at):
            hop = episode.fault.hop or hop
            clients = episode.fault.slow_clients.get(admitted.asked.lane)
            # Other digits of its luck than those that decide whether its client gives up.
            if clients is not None and (admitted.asked.luck * 7919) % 1.0 < clients.share:
                slow = clients.tokens_per_second
        return hop, slow
