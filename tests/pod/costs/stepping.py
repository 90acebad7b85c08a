"""A simulated engine whose tokens are read as a sidecar reads them, and a step model that listens."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from sidecar import IS_COMPILED
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.simulation import SimulatedRequest, Simulation
from sidecar.pod.costs.cost_names import Part
from sidecar.pod.costs.step_model import StepModel
from sidecar.pod.costs.steps import KEPT_ENDED_STEPS, Prompt, Step, Steps, Stream
from sidecar.pod.factor import Factor


LIMITS = Limits(max_num_seqs=16, max_num_batched_tokens=1024, max_model_len=8192, kv_blocks=4096, prefix_caching=False)
COSTS = Costs(
    step_seconds=8e-3,
    per_sequence_seconds=2e-4,
    per_kv_token_seconds=4e-8,
    per_prompt_token_seconds=1e-4,
    per_prompt_token_context_seconds=1e-8,
)
CALM_SECONDS = 240.0
FAULT_AT = CALM_SECONDS
MATURE_SECONDS = 600.0
"""By then enough was learned that a fault is told from the usual."""
LATER = FAULT_AT + 110.0
"""By then every window holds the fault alone."""


_CALM: dict[int, bytes] = {}
"""State of models after the last calm times, by a hash of all that happened in them; a megabyte each."""
MOST_CALM = 8


class Arrival(NamedTuple):
    at: float
    prompt_tokens: int
    output_tokens: int
    seen: bool = True
    held: bool = False
    """Its whole answer comes in one event, when it is complete."""
    counted: bool = True
    """The length of its prompt is known when it arrives."""


def traffic(
    seconds: float, per_second: float = 1.5, *, seed: int = 1, unseen: float = 0.0, held: float = 0.0
) -> list[Arrival]:
    """Poisson arrivals of prompts of 200 to 2,000 tokens with answers of 20 to 200."""
    rng, at, found = Random(seed), 0.0, list[Arrival]()
    while (at := at + rng.expovariate(per_second)) < seconds:
        found.append(Arrival(at, rng.randrange(200, 2000), rng.randrange(20, 200), rng.random() >= unseen))
    if held:
        return [arrival._replace(held=rng.random() < held) for arrival in found]
    return found


class SteppedEngine:
    """One engine and one sidecar, from the first request to the last."""

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        *,
        adjust: Sequence[tuple[float, dict[str, Any]]] = (),
        noise: Callable[[], float] | None = None,
        deliver: Callable[[list[tuple[float, int, int]]], list[tuple[float, int, int]]] = lambda reads: reads,
        learns_until: float = CALM_SECONDS,
        costs: Costs = COSTS,
        limits: Limits = LIMITS,
        front_seconds: float = 0.0,
    ) -> None:
        """`adjust`: instants with changes of the simulation's knobs. `deliver`: changes reads (instant, key, events).
        `front_seconds`: from the end of the calm time on, requests come so much before they reach the engine.
        """
        simulation = Simulation(limits, costs, noise)
        requests = self._played(simulation, arrivals, adjust)
        reads = [
            (at, key, 1)
            for key, one in enumerate(requests)
            if arrivals[key].seen
            for at in (one.token_instants[-1:] if arrivals[key].held else one.token_instants)
        ]
        self.model = StepModel()
        self.steps = Steps()
        self.seen: list[Step] = []
        self._learns_until = learns_until
        self._streams: dict[int, Stream | None] = {}
        events: list[tuple[float, int, int, int]] = [(at, 1, key, count) for at, key, count in deliver(sorted(reads))]
        events += [
            (arrival.at - front_seconds * (arrival.at > CALM_SECONDS), 0, key, 0)
            for key, arrival in enumerate(arrivals)
        ]
        events += [(one.token_instants[-1], 2, key, 0) for key, one in enumerate(requests) if one.finished]
        self._events = sorted(events)
        self._arrivals = arrivals
        self._at = 0

    @staticmethod
    def _played(
        simulation: Simulation, arrivals: Sequence[Arrival], adjust: Sequence[tuple[float, dict[str, Any]]]
    ) -> list[SimulatedRequest]:
        changes, found = list(adjust), []
        for arrival in arrivals:
            while changes and changes[0][0] <= arrival.at:
                at, knobs = changes.pop(0)
                simulation.adjust(at, **knobs)
            found.append(simulation.arrive(arrival.at, arrival.prompt_tokens, arrival.output_tokens))
        simulation.advance(float("inf"))
        return found

    def until(self, instant: float) -> StepModel:
        """Let time pass; returns the model at that instant."""
        # Objects of compiled classes cannot be pickled.
        if self._at == 0 and instant > CALM_SECONDS and not IS_COMPILED:
            self._learn_calm()
        self._play(instant)
        return self.model

    def _learn_calm(self) -> None:
        """Play the calm time, or take what came of the same events before: many stories differ only in what breaks after it."""
        calm = [event for event in self._events if event[0] <= CALM_SECONDS]
        same = [tuple(self._arrivals[key]) for _, _, key, _ in calm]
        played = hash((tuple(calm), tuple(same), self._learns_until))
        if played not in _CALM:
            self._play(CALM_SECONDS)
            if len(_CALM) == MOST_CALM:
                _CALM.pop(next(iter(_CALM)))
            _CALM[played] = pickle.dumps((self.model, self.steps, self.seen, self._streams))
        else:
            self.model, self.steps, self.seen, self._streams = pickle.loads(_CALM[played])
            self._at = len(calm)

    def _play(self, instant: float) -> None:
        while self._at < len(self._events) and self._events[self._at][0] <= instant:
            at, what, key, count = self._events[self._at]
            self._at += 1
            if what == 0:
                arrival = self._arrivals[key]
                tokens = arrival.prompt_tokens if arrival.counted else 1
                self.steps.arrived(key, Prompt(tokens, tokens), seen=arrival.seen, length_known=arrival.counted)
            elif what == 2:
                self.steps.left(key)
                if self._arrivals[key].held:
                    self.steps.held_back(self._arrivals[key].output_tokens)
            elif key in self._streams:
                stream = self._streams[key]
                assert stream is not None
                stream.spoke(at, count)
            else:
                self._streams[key] = self.steps.began(key, at, count)
            self._price(at)

    def _price(self, at: float) -> None:
        self.model.learning = at < self._learns_until
        for step in self.steps.take(KEPT_ENDED_STEPS):
            self.seen.append(step)
            self.model.step(step)


def lognormal(sigma: float, seed: int = 7) -> Callable[[], float]:
    """Noise with mean 1."""
    rng = Random(seed)
    return lambda: rng.lognormvariate(-sigma * sigma / 2, sigma)


def dearer(costs: Costs, *, decode: float) -> Costs:
    """Costs of an engine whose decode steps are so many times dearer."""
    return replace(
        costs,
        step_seconds=costs.step_seconds * decode,
        per_sequence_seconds=costs.per_sequence_seconds * decode,
        per_kv_token_seconds=costs.per_kv_token_seconds * decode,
    )


def broken(**knobs: Any) -> list[tuple[float, dict[str, Any]]]:
    return [(FAULT_AT, knobs)]


def factors(model: StepModel, at: float) -> dict[Part, Factor]:
    found = {Part.DECODE: model.decode(at), Part.PREFILL: model.prefill(at)}
    assert all(isinstance(each, Factor) for each in found.values()), found
    return {part: each for part, each in found.items() if isinstance(each, Factor)}


def holds(factor: Factor, value: float) -> bool:
    """Whether the interval holds this value and is narrow enough to be of use."""
    return factor.low <= value * 1.03 and value * 0.97 <= factor.high and factor.high - factor.low < 0.5 * value
