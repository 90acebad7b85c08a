"""Plays one pod of a run: clients come and leave, the engine is healthy or has a fault, and every request is recorded.

It knows how to apply faults (`fault.py`) to the engine of a pod (`replica.py`), and when clients come and leave. It
refuses to know the way from engine to client (`deliver.py`) and the other pods (`play.py`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any

from bench.incidents.deliver import Delivery
from bench.incidents.engines import BUCKETS, EngineConfig
from bench.incidents.fault import Fault
from bench.incidents.replica import Replica, Served, model_of
from bench.incidents.request import Request, Run, State, TruePhases
from bench.incidents.traffic import Active, Asked, Day, arrivals
from bench.incidents.world import World
from sidecar.timeline.outcome import Outcome, Stage


STATE_EVERY_SECONDS = 5.0
GIVE_UP_SHARE = 0.20
"""Share of clients that give up when they wait past their threshold."""
LOST_REPORTS_SHARE = 0.05
LATE_SECONDS = (5.0, 15.0)
"""Time from an answer's end to its report, if the engine sends reports out-of-band."""
REFUSED_SECONDS = 0.003
"""From a request to the refusal of its connection."""
ERROR_SECONDS = 0.005
"""From a request to the engine's answer, if that is an error."""


class _InEngine:
    """One request in the engine."""

    __slots__ = ("asked", "born_at", "request", "served")

    def __init__(self, asked: Asked, request: Request, served: Served, born_at: float) -> None:
        self.asked = asked
        self.request = request
        self.served = served
        self.born_at = born_at
        """Instant at which the engine's process began: its own instants count from there."""


class Pod:
    """One pod: its engine, its sidecar and their clients, for one run."""

    def __init__(
        self, engine: EngineConfig, seed: str, world: World, *, number: int, active: Active, blank: Run
    ) -> None:
        """`active`: episodes that this pod meets. `blank`: a run without requests."""
        self._engine = engine
        self._seed = seed
        self._world = world
        self._number = number
        self._run = replace(blank, requests=[], states=[])
        self._active = active
        self._objectives = engine.objectives()
        self._models = {load.lane: model_of(engine, world.topology, load.lane) for load in engine.lanes}
        self._delivery = Delivery(world, self._active, seed)
        self._quota = self._delivery.quota
        self._late = False
        self._replica: Replica | None = None
        self._born_at = 0.0
        self._process = -1
        self._received_at = 0.0
        self._admitted_requests: list[_InEngine] = []
        self._order = count()
        self._due: list[tuple[float, int, str, Any]] = []

    def run(self, factor: float, day: Day | None, *, late: bool) -> Run:
        """Play it. `late`: reports come some time after the answers."""
        run = self._run
        self._late = late
        self._start(0.0)
        for edge in self._active.edges():
            self._expect(edge, "edge", None)
        self._expect(0.0, "state", None)
        world = self._world
        asked_for = arrivals(
            self._engine, factor, self._seed, self._active, day, length_sigma=world.length_sigma, herd=world.herd
        )
        for asked in asked_for:
            # A sidecar with a quota takes requests when it runs, in the order in which they came.
            self._received_at = max(self._received_at, self._quota.runs_at(asked.at))
            if self._received_at < run.ends_at:
                self._happen(self._received_at)
                self._arrive(asked, self._received_at)
        self._happen(run.ends_at)
        if self._replica is not None:
            self._replica.advance(run.ends_at - self._born_at)
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

    def _arrive(self, asked: Asked, at: float) -> None:
        run, replica = self._run, self._replica
        request = Request(
            len(run.requests), asked.lane, asked.prompt_tokens, asked.output_tokens, asked.streaming, at, self._number
        )
        request.model = self._models[asked.lane]
        run.requests.append(request)
        if replica is None:
            self._fails(request, at + REFUSED_SECONDS, Outcome.ENGINE_UNREACHABLE)
            return
        replica.advance(at - self._born_at)  # tokens made until now are in the list of each request
        prompt = min(asked.prompt_tokens, self._engine.limits.max_model_len - asked.output_tokens)
        request.prompt_tokens = prompt
        refused = self._refused(asked.luck, at)
        if refused is not None:
            self._fails(request, at + ERROR_SECONDS, refused)
            return
        size = self._engine.limits.block_size
        blocks = min(asked.shared_tokens, prompt) // size if asked.prefix else 0
        hashes = [f"{asked.prefix}/{block}".encode() for block in range(blocks)]
        served = replica.arrive(at - self._born_at, asked.lane, prompt, asked.output_tokens, hashes)
        admitted = _InEngine(asked, request, served, self._born_at)
        self._admitted_requests.append(admitted)
        if asked.luck < GIVE_UP_SHARE:
            aims = self._objectives.aims(asked.lane, BUCKETS.bucket_of(prompt))
            aim = aims.ttft if asked.streaming else aims.e2e
            if aim is not None:
                patience = 1.0 + 7.0 * asked.luck / GIVE_UP_SHARE
                # A sidecar that stood still for longer than that hears at once that its client has left.
                self._expect(max(at, asked.at + aim.threshold_seconds + patience), "give up", admitted)

    def _refused(self, luck: float, at: float) -> Outcome | None:
        """The outcome of a request that the engine does not serve; None if it does."""
        faults = [episode.fault for episode in self._active.at(at)]
        errors, rejected = (max(getattr(fault, name) for fault in faults) for name in ("errors", "rejected"))
        # Other digits of its luck than those that decide whether its client gives up.
        drawn = (luck * 15_485_863) % 1.0
        if drawn < errors:
            return Outcome.ENGINE_ERROR
        return Outcome.REJECTED if drawn < errors + (1.0 - errors) * rejected else None

    def _fails(self, request: Request, at: float, outcome: Outcome) -> None:
        request.ended_at = request.flushed_at = self._quota.runs_at(at)
        request.outcome = outcome

    def _give_up(self, at: float, admitted: _InEngine) -> None:
        """A client leaves if it has received nothing yet."""
        request, served = admitted.request, admitted.served
        if request.ended_at is not None or self._replica is None:
            return
        self._replica.advance(at - self._born_at)
        self._write(admitted)
        if (request.reads and request.reads[0] <= at) or (not request.streaming and served.finished):
            request.ended_at = None if not served.finished else request.ended_at
            return
        self._replica.abort(at - self._born_at, served)
        request.reads, request.events, request.pauses, request.phases = [], [], [], None
        self._fails(request, at, Outcome.CLIENT_CANCELLED)
        request.cancelled_in, request.report = Stage.WAITING, None

    def _edge(self, at: float) -> None:
        """An episode begins or ends."""
        faults = [episode.fault for episode in self._active.at(at)]
        began = [
            episode.fault for begins, _, episode in self._active.spans() if begins == at and episode.fault in faults
        ]
        if any(fault.down for fault in faults):
            self._crash(at)
            return
        if self._replica is None or any(fault.fresh for fault in began):
            if self._replica is not None:
                self._replica.advance(inf)  # the old process finishes its requests: a rolling update
            self._start(at)
        assert self._replica is not None
        self._adjust(at, faults)

    def _adjust(self, at: float, faults: Sequence[Fault]) -> None:
        assert self._replica is not None
        transfer_seconds = sum(fault.transfer_seconds for fault in faults)
        own = [fault.tokens_a_step for fault in faults if fault.tokens_a_step is not None]
        self._replica.adjust(at - self._born_at, self._knobs(faults), transfer_seconds, own[-1] if own else None)

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
        self._replica = Replica(self._engine, self._world, f"{self._seed}/{self._process}")
        self._adjust(at, [episode.fault for episode in self._active.at(at)])

    def _crash(self, at: float) -> None:
        """The engine process dies: requests in flight are truncated or fail."""
        if self._replica is None:
            return
        self._replica.advance(at - self._born_at)
        self._write_all()
        for admitted in self._admitted_requests:
            request = admitted.request
            if request.ended_at is None or request.ended_at > at:
                said = bool(request.reads) and request.reads[0] <= at
                self._fails(request, at, Outcome.ENGINE_TRUNCATED if said else Outcome.ENGINE_ERROR)
                request.report = None
                self._lose_unread(admitted)
        self._admitted_requests.clear()
        self._replica = None

    def _lose_unread(self, admitted: _InEngine) -> None:
        """Drop reads that would have come after the connection broke, apart from tokens that were on their way."""
        request = admitted.request
        assert request.ended_at is not None
        last_at = request.ended_at + admitted.served.delivery_seconds + 1e-6
        kept = bisect_right(request.reads, last_at)
        request.reads, request.events = request.reads[:kept], request.events[:kept]
        request.pauses = [pause for pause in request.pauses if kept and pause[0] < request.reads[-1]]

    def _state(self, at: float) -> None:
        replica = self._replica
        if replica is None:
            self._run.states.append(State(at, False, 0, 0, 0.0, 0, 0, 0, self._process, self._number))
            return
        replica.advance(at - self._born_at)
        self._run.states.append(State(at, True, *replica.reading(), self._process, self._number))

    # --- records ------------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        for admitted in self._admitted_requests:
            if admitted.request.outcome is Outcome.OK:
                self._write(admitted)
        self._admitted_requests = [
            admitted
            for admitted in self._admitted_requests
            if not admitted.served.finished and admitted.request.ended_at is None
        ]

    def _write(self, admitted: _InEngine) -> None:
        """Record a request as far as it has come."""
        request, served = admitted.request, admitted.served
        made, complete = served.token_instants, served.finished
        if not made:
            return
        sent = [admitted.born_at + at + served.delivery_seconds for at in made]
        answer = self._delivery.delivered(request.number, admitted.asked, sent, complete=complete)
        request.reads, request.events, request.pauses = answer.reads, answer.events, answer.pauses
        request.cached_tokens = served.cached_tokens
        request.preemptions = served.preemptions
        assert served.scheduled_at is not None
        queue = served.scheduled_at - served.submitted_at
        prefill, decode = made[0] - served.scheduled_at, made[-1] - made[0]
        stream = max(0.0, answer.flushed_at - sent[-1])  # an engine holds the last tokens of an unfinished event
        front_end = served.submitted_at - served.arrived_at
        request.phases = TruePhases(front_end, queue, prefill, decode, stream, served.delivery_seconds)
        if not complete:
            return
        request.ended_at, request.flushed_at = max(answer.last_read_at, sent[-1]), max(answer.flushed_at, sent[-1])
        luck = Random(f"{self._seed}/{request.number}/report")
        if luck.random() >= LOST_REPORTS_SHARE:
            request.report = (queue, prefill, decode)
            request.report_late_seconds = luck.uniform(*LATE_SECONDS) if self._late else 0.0
