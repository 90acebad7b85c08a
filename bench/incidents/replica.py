"""The engine behind one port, in each topology: one simulated scheduler or two behind the calls of one.

It knows how the schedulers divide requests, slots and KV blocks, and how a KV cache goes from one to the other. It
refuses to know faults: they come as knobs. All instants are in seconds since its process began.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from heapq import heappop, heappush
from itertools import accumulate, count
from math import comb
from random import Random
from typing import Any, NamedTuple

from bench.incidents.engines import MODEL, EngineConfig
from bench.incidents.world import Topology, World
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation


SECOND_MODEL = "qwen"
SECOND_MODEL_LANE = "batch"
"""The lane that asks the second model, if the engine has two."""
SECOND_MODEL_COST = 0.7
"""Length of the second model's steps, as a share of the first one's."""
TRANSFER_TOKEN_SECONDS = 1e-5
"""Transfer of a prompt token's KV cache: 128 KiB over 13 GB/s, which is a good network card."""
DRAFTED = 4
"""Tokens that a speculating engine drafts for each sequence and step."""


def model_of(engine: EngineConfig, topology: Topology, lane: str) -> str:
    """The model that a lane asks."""
    model = engine.lane(lane).model
    return SECOND_MODEL if topology is Topology.MODELS and lane == SECOND_MODEL_LANE and model == MODEL else model


def of_world(engine: EngineConfig, world: World) -> EngineConfig:
    """The same engine with the model of each lane in this world, for those who read models from lanes."""
    lanes = tuple(replace(load, model=model_of(engine, world.topology, load.lane)) for load in engine.lanes)
    return replace(engine, lanes=lanes)


class Reading(NamedTuple):
    """The engine's state, summed over its schedulers; KV usage is that of the fullest one."""

    waiting: int
    running: int
    kv_usage: float
    """0 to 1."""
    preemptions: int
    prefix_queries: int
    prefix_hits: int


class Served:
    """One request in the engine: what one scheduler did of it, or two schedulers one after the other."""

    __slots__ = ("aborted", "first", "output_tokens", "second", "simulation")

    def __init__(self, simulation: Simulation, first: SimulatedRequest, output_tokens: int) -> None:
        self.simulation = simulation
        """The scheduler that has `first`."""
        self.first = first
        self.second: SimulatedRequest | None = None
        """The part of the decode scheduler, from the second token on."""
        self.output_tokens = output_tokens
        self.aborted = False

    @property
    def token_instants(self) -> list[float]:
        """Instants of all tokens so far."""
        instants = self.first.token_instants
        return instants if self.second is None else instants + self.second.token_instants

    @property
    def finished(self) -> bool:
        return len(self.token_instants) == self.output_tokens

    @property
    def arrived_at(self) -> float:
        return self.first.arrived_at

    @property
    def submitted_at(self) -> float:
        return self.first.submitted_at

    @property
    def scheduled_at(self) -> float | None:
        return self.first.scheduled_at

    @property
    def delivery_seconds(self) -> float:
        return self.first.delivery_seconds

    @property
    def cached_tokens(self) -> int:
        return self.first.cached_tokens

    @property
    def preemptions(self) -> int:
        return self.first.preemptions + (0 if self.second is None else self.second.preemptions)


class Replica:
    """One engine process. Each call passes its instant, never before an earlier one."""

    def __init__(self, engine: EngineConfig, world: World, seed: str) -> None:
        """`seed`: of the noise of its steps and of its speculation."""
        self._engine = engine
        self._topology = world.topology
        self._tokens_a_step = world.tokens_a_step
        schedulers = _schedulers(engine, world.topology)
        self._accepted = [
            Accepted(world.tokens_a_step, Random(f"{seed}/{number}/accepted")) for number in range(len(schedulers))
        ]
        self._simulations = [
            Simulation(
                limits,
                costs,
                noise_of(world.step_noise, Random(f"{seed}/{number}/steps")),
                self._accepted[number] if world.tokens_a_step > 1.0 else None,
            )
            for number, (limits, costs) in enumerate(schedulers)
        ]
        self._order = count()
        self._prefilling: dict[SimulatedRequest, Served] = {}
        self._transfers: list[tuple[float, int, Served]] = []
        self._transfer_seconds = 0.0

    def arrive(
        self, at: float, lane: str, prompt_tokens: int, output_tokens: int, hashes: Sequence[bytes] = ()
    ) -> Served:
        """A request comes. Raises ValueError if it is empty or longer than max_model_len."""
        self.advance(at)
        simulation = self._simulations[self._scheduler_of(lane)]
        if self._topology is not Topology.DISAGGREGATED:
            return Served(simulation, simulation.arrive(at, prompt_tokens, output_tokens, hashes), output_tokens)
        if prompt_tokens + output_tokens > self._engine.limits.max_model_len:
            raise ValueError("longer than max_model_len")
        served = Served(simulation, simulation.arrive(at, prompt_tokens, 1, hashes), output_tokens)
        if output_tokens > 1:
            self._prefilling[served.first] = served
        return served

    def advance(self, until: float) -> None:
        """Simulate up to and including `until`."""
        if self._topology is not Topology.DISAGGREGATED:
            for simulation in self._simulations:
                simulation.advance(until)
            return
        prefill, decode = self._simulations
        for made in prefill.advance(until):
            served = self._prefilling.pop(made.request, None)
            if served is not None:
                seconds = TRANSFER_TOKEN_SECONDS * made.request.prompt_tokens + self._transfer_seconds
                heappush(self._transfers, (made.instants[0] + seconds, next(self._order), served))
        while self._transfers and self._transfers[0][0] <= until:
            at, _, served = heappop(self._transfers)
            if not served.aborted:
                served.second = decode.arrive(at, served.first.prompt_tokens + 1, served.output_tokens - 1)
        decode.advance(until)

    def abort(self, at: float, served: Served) -> None:
        """The client of a request has left."""
        self.advance(at)
        served.aborted = True
        self._prefilling.pop(served.first, None)
        served.simulation.abort(at, served.first)
        if served.second is not None:
            self._simulations[1].abort(at, served.second)

    def adjust(
        self, at: float, knobs: dict[str, Any], transfer_seconds: float = 0.0, tokens_a_step: float | None = None
    ) -> None:
        """Change knobs of all schedulers. `transfer_seconds`: added to each transfer of a KV cache from now on.
        `tokens_a_step`: of an engine that speculates, from now on; None: the world's.
        """
        self.advance(at)
        self._transfer_seconds = transfer_seconds
        for accepted in self._accepted:
            accepted.mean = self._tokens_a_step if tokens_a_step is None else tokens_a_step
        for number, simulation in enumerate(self._simulations):
            simulation.adjust(at, **self._own(number, knobs))

    def reading(self) -> Reading:
        """The state now. A request whose KV cache is being transferred is waiting, as in vLLM."""
        simulations = self._simulations
        prompts = simulations[:1] if self._topology is Topology.DISAGGREGATED else simulations
        return Reading(
            sum(len(each.waiting) for each in simulations) + sum(not served.aborted for *_, served in self._transfers),
            sum(len(each.running) for each in simulations),
            max(min(1.0, each.pool.used / each.pool.blocks) for each in simulations),
            sum(each.totals.preemptions for each in simulations),
            sum(each.totals.prefix_queries for each in prompts),
            sum(each.totals.prefix_hits for each in prompts),
        )

    def _scheduler_of(self, lane: str) -> int:
        """Number of the scheduler that gets the next request."""
        if self._topology in (Topology.RANKS, Topology.PIPELINE):
            return next(self._order) % len(self._simulations)
        if self._topology is Topology.MODELS:
            return int(model_of(self._engine, self._topology, lane) != self._engine.lanes[0].model)
        return 0

    def _own(self, number: int, knobs: dict[str, Any]) -> dict[str, Any]:
        """The knobs of one scheduler: its share of slots and blocks, or what applies to its part of a request."""
        own = dict(knobs)
        if self._topology is Topology.PIPELINE:
            if own.get("slots") is not None:
                own["slots"] = _half(own["slots"], number)
            if own.get("kv_blocks") is not None:
                own["kv_blocks"] = _half_of_blocks(own["kv_blocks"], self._engine.limits)
        if self._topology is Topology.DISAGGREGATED:
            others = ("decode_factor",) if number == 0 else ("front_end_factor", "front_end_extra_seconds")
            own = {name: value for name, value in own.items() if name not in others}
        return own


def _schedulers(engine: EngineConfig, topology: Topology) -> list[tuple[Limits, Costs]]:
    """Limits and costs of each scheduler."""
    limits, costs = engine.limits, engine.costs
    if topology is Topology.ONE:
        return [(limits, costs)]
    if topology is Topology.RANKS:
        return [(limits, costs)] * 2
    if topology is Topology.MODELS:
        return [(limits, costs), (limits, _cheaper(costs, SECOND_MODEL_COST))]
    if topology is Topology.PIPELINE:
        blocks = _half_of_blocks(limits.kv_blocks, limits)
        return [
            (replace(limits, kv_blocks=blocks, max_num_seqs=_half(limits.max_num_seqs, number)), costs)
            for number in range(2)
        ]
    # The whole KV cache of a prompt comes at once, so the decode scheduler's budget holds any number of prompts.
    decode = replace(
        limits,
        prefix_caching=False,
        chunked_prefill=True,
        max_num_batched_tokens=limits.max_num_seqs * limits.max_model_len,
    )
    free = replace(
        costs,
        per_prompt_token_seconds=0.0,
        per_prompt_token_context_seconds=0.0,
        front_end_request_seconds=0.0,
        front_end_token_seconds=0.0,
    )
    return [(limits, costs), (decode, free)]


def _half(whole: int, number: int) -> int:
    """Half of the slots, at least 1 of 1; the first scheduler gets the odd one."""
    return min(whole, max(1, (whole + 1 - number) // 2))


def _half_of_blocks(blocks: int, limits: Limits) -> int:
    """Half of the KV blocks, and at least enough for one request of max_model_len."""
    return max(blocks // 2, limits.blocks_for(limits.max_model_len))


def _cheaper(costs: Costs, share: float) -> Costs:
    """Costs of which every part of a step takes this share of its time; front end and delivery stay."""
    of_steps = [each.name for each in fields(costs) if not each.name.startswith(("front_end", "delivery"))]
    return replace(costs, **{name: getattr(costs, name) * share for name in of_steps})


def noise_of(sigma: float, rng: Random) -> Callable[[], float] | None:
    """Draws the factor of a step's length: lognormal with mean 1. None without noise."""
    return None if sigma <= 0.0 else lambda: rng.lognormvariate(-sigma * sigma / 2, sigma)


class Accepted:
    """Draws the tokens of a decode step: 1 and a binomial number of the drafted ones."""

    def __init__(self, mean: float, rng: Random) -> None:
        self._rng = rng
        self.mean = mean

    @property
    def mean(self) -> float:
        """Mean tokens of a step, 1 to 1 + DRAFTED."""
        return self._mean

    @mean.setter
    def mean(self, mean: float) -> None:
        self._mean = mean
        share = (mean - 1.0) / DRAFTED
        odds = (comb(DRAFTED, hits) * share**hits * (1 - share) ** (DRAFTED - hits) for hits in range(DRAFTED))
        self._below = list(accumulate(odds))

    def __call__(self) -> int:
        return 1 + bisect_right(self._below, self._rng.random())
