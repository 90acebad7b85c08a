"""Draws the shape of a fault: what breaks, by how much, how it sets in, what comes with it in life, where, and under which traffic.

The kinds of the bench (`kinds.py`) break one thing in one step under steady traffic, and rules were made while they were looked at. In life
a change of settings comes with a restart, a slow machine merges its reads, a deploy brings a cold cache, and faults come and go. A shape is
drawn as an engine is, by a text (the commit's hash) and a number, so that no rule can have been tuned on it:

    shape = fault x size x onset x companion x place x traffic

*Fault*: a kind of `kinds.py`. *Onset*: in one step, over ten minutes, over one to three hours, or on and off by the
minute; `partly` gives a fault at a share of its size. *Companion*: what comes with it and breaks nothing by itself, or not for long: a new
process, an empty cache, merged reads, a late event loop. *Place*: one lane, or all; one pod of some, half of them, or all.
*Traffic*: steady at 30 to 90 % of what the engine can do, in herds, on the way to its highest at lunch, few long conversations, or a
request a minute in each lane.

What is right stays the phase of the injected fault. A companion is none: who pages a restart for slots that a restart cut is wrong.
It knows how parts are put together. It refuses to know what the product makes of a shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

from bench.incidents import sampling
from bench.incidents.engines import EngineConfig
from bench.incidents.fault import NOTHING, Episode, Fault
from bench.incidents.kinds import BY_NAME, Kind
from bench.incidents.play import Incident
from bench.incidents.world import Throttle, Topology, World, unkind_world


PREFIX = "shape-"


class Onset(StrEnum):
    """How a fault sets in."""

    STEP = "step"
    RAMP = "ramp"
    """Over ten minutes."""
    GROWTH = "growth"
    """Over one to three hours."""
    ON_AND_OFF = "on and off"
    """A minute each."""


class Companion(StrEnum):
    """Something that comes with a fault and is not its cause."""

    NOTHING = "nothing"
    RESTART = "restart"
    """A new process, which warms up for 5 to 60 s: a setting was changed."""
    COLD_CACHE = "cold cache"
    """A new process that is warm, with an empty cache: a deploy."""
    MERGED_READS = "merged reads"
    """A busy machine hands over 2 to 4 events at once."""
    LATE_LOOP = "late loop"
    """The sidecar runs two fifths of the time: reads are late, by less than any threshold."""


class Traffic(StrEnum):
    """The requests that arrive, with and without the fault."""

    STEADY = "steady"
    HERDS = "herds"
    LUNCH = "lunch"
    CONVERSATIONS = "few long conversations"
    """A quarter of the requests, with answers four times as long."""
    SPARSE = "a request a minute"


@dataclass(frozen=True, slots=True)
class Shape:
    """One drawn shape."""

    fault: str
    """Name of its kind; of two faults, the first."""
    other: str | None
    """Name of the second kind, if two faults come at once."""
    magnitude: float
    """0: the objectives are barely missed, or just met; 1: by far."""
    onset: Onset
    growth_seconds: float
    companion: Companion
    one_lane: bool
    """Whether lengths change in one lane alone."""
    traffic: Traffic
    fleet: tuple[int, int]
    """Numbers of pods, and of those that are hit."""

    @property
    def says(self) -> str:
        """The shape in words."""
        faults = self.fault if self.other is None else f"{self.fault} and {self.other}"
        onset = f"over {self.growth_seconds / 3600:.1f} h" if self.onset is Onset.GROWTH else self.onset
        parts = [faults, onset, *(f"with {each}" for each in [self.companion] if each is not Companion.NOTHING)]
        pods, at_fault = self.fleet
        return ", ".join([*parts, *(["one lane"] if self.one_lane else []), f"{at_fault} of {pods} pods", self.traffic])

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of its faults."""
        return tuple(BY_NAME[name] for name in (self.fault, self.other) if name is not None)


@dataclass(frozen=True, slots=True)
class _Row:
    """The onsets, companions and places that a fault may be drawn with."""

    onsets: tuple[Onset, ...] = tuple(Onset)
    companions: tuple[Companion, ...] = tuple(Companion)
    one_lane: bool = False
    """Whether one lane alone may have it, which otherwise all have."""


_STEP, _EVENT = (Onset.STEP,), (Companion.NOTHING, Companion.MERGED_READS, Companion.LATE_LOOP)
_SETTING = _Row(_STEP, (Companion.NOTHING, Companion.RESTART, Companion.RESTART, Companion.MERGED_READS))
"""vLLM reads its settings when it starts: who changes one starts it anew."""
_ARRIVALS = _Row(companions=_EVENT)
_LENGTHS = _Row(companions=_EVENT, one_lane=True)
_FAULTS: Mapping[str, _Row] = {
    "overload": _ARRIVALS,
    "noisy-tenant": _ARRIVALS,
    "long-outputs": _LENGTHS,
    "prompts-grow": _LENGTHS,
    "long-tail": _ARRIVALS,
    "lane-of-long-prompts": _ARRIVALS,
    "few-slots": _SETTING,
    "prompts-beyond-kv": _Row(companions=_EVENT),
    "preemption": _Row((Onset.STEP, Onset.ON_AND_OFF), _EVENT),
    "prefill-slow": _Row(),
    "cache-lost": _Row((Onset.STEP, Onset.RAMP, Onset.ON_AND_OFF)),
    "decode-slow": _Row(),
    "acceptance-falls": _Row(companions=_EVENT),
    "gpu-neighbour": _Row(companions=_EVENT),
    "tokeniser": _Row(companions=_EVENT),
    "kv-transfer": _Row(companions=_EVENT),
    "hop": _Row((Onset.STEP, Onset.ON_AND_OFF), (Companion.NOTHING, Companion.RESTART)),
    "slow-clients": _Row((Onset.STEP, Onset.RAMP, Onset.ON_AND_OFF), (Companion.NOTHING,)),
    "slow-network": _Row((Onset.STEP, Onset.RAMP, Onset.ON_AND_OFF), (Companion.NOTHING,)),
    "crash": _Row(_STEP, _EVENT),
    "hang": _Row(_STEP, _EVENT),
    "short-stalls": _Row(_STEP, _EVENT),
    "cold-start": _Row(_STEP, (Companion.NOTHING, Companion.MERGED_READS)),
    "scale-in": _Row(_STEP, _EVENT),
    "scale-out": _Row(_STEP, (Companion.NOTHING, Companion.MERGED_READS)),
    "errors": _Row((Onset.STEP, Onset.RAMP, Onset.ON_AND_OFF), (Companion.NOTHING,)),
    "rejections": _Row((Onset.STEP, Onset.RAMP, Onset.ON_AND_OFF), (Companion.NOTHING,)),
    "throttled-sidecar": _Row((Onset.STEP, Onset.ON_AND_OFF), (Companion.NOTHING,)),
}
FAULTS = tuple(_FAULTS)
"""Names of all kinds that a shape may have. Kinds that are a shape by themselves (a ramp, a burst) are none of them."""
PAIRS = (
    *(("prefill-slow", "overload"), ("decode-slow", "few-slots"), ("cache-lost", "noisy-tenant")),
    *(("hop", "prefill-slow"), ("errors", "overload"), ("slow-network", "decode-slow")),
)
TWO_SHARE = 0.08
FLEETS = ((1, 1), (1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4))
"""One pod, one of some, half of them, all."""
ONSET_WEIGHTS = {Onset.STEP: 9, Onset.RAMP: 4, Onset.ON_AND_OFF: 4, Onset.GROWTH: 2}
TRAFFIC_WEIGHTS = {
    Traffic.STEADY: 11,
    Traffic.HERDS: 3,
    Traffic.LUNCH: 3,
    Traffic.CONVERSATIONS: 2,
    Traffic.SPARSE: 1,
}
GROWTH_SECONDS = (3600.0, 10_800.0)
GROWTH_STEPS = 36
MINUTE = 60.0
HERD = 6
LONGEST_PROMPT = 32_768
"""max_model_len of an engine with prompts of 30,000 tokens."""
SPECULATES = (2.2, 2.8)
"""Mean tokens of a step before acceptance falls."""
LATE = Throttle(0.04)


def drawn(text: str, number: int) -> Shape:
    """The shape that a text and a number draw. Over the numbers, each fault is met once before any is met again."""
    order, rng = list(FAULTS), Random(f"{text}/{number}/shape")
    Random(f"{text}/{number // len(order)}/faults").shuffle(order)
    fault, other = order[number % len(order)], None
    if rng.random() < TWO_SHARE:
        fault, other = rng.choice(PAIRS)
    row = _FAULTS[fault]
    onset = rng.choices(row.onsets, [ONSET_WEIGHTS[each] for each in row.onsets])[0]
    fleet = rng.choice(FLEETS)
    if fault in ("scale-in", "scale-out"):
        fleet = (2, 2) if fault == "scale-in" else (4, 1)
    return Shape(
        fault,
        other,
        rng.random(),
        onset if other is None else Onset.STEP,
        rng.uniform(*GROWTH_SECONDS),
        rng.choice(row.companions),
        row.one_lane and rng.random() < 0.5,
        rng.choices(list(TRAFFIC_WEIGHTS), list(TRAFFIC_WEIGHTS.values()))[0],
        fleet,
    )


def named(name: str) -> Shape:
    """The shape of a name, `shape-TEXT-NUMBER`. Raises KeyError for another name."""
    text, _, number = name.removeprefix(PREFIX).rpartition("-")
    if not (name.startswith(PREFIX) and text and number.isdecimal()):
        raise KeyError(name)
    return drawn(text, int(number))


# --- world and engine --------------------------------------------------------------------------------------------------


def world_of(shape: Shape, seed: str) -> World:
    """The unkind world of a seed, with the shape's fleet and traffic."""
    world = unkind_world(seed)
    pods, at_fault = shape.fleet
    world = replace(world, pods=pods, at_fault=at_fault, herd=HERD if shape.traffic is Traffic.HERDS else 1)
    world = replace(world, lunch=shape.traffic is Traffic.LUNCH)
    if shape.fault == "kv-transfer":
        return replace(world, topology=Topology.DISAGGREGATED, tokens_a_step=1.0)
    if shape.fault == "acceptance-falls":
        return replace(world, topology=Topology.ONE, tokens_a_step=Random(f"{seed}/speculates").uniform(*SPECULATES))
    return world


def engine_of(shape: Shape, engine: EngineConfig) -> EngineConfig:
    """The engine, with room for prompts of 30,000 tokens where the shape has them."""
    if shape.fault != "lane-of-long-prompts":
        return engine
    limits = engine.limits
    blocks = limits.kv_blocks + 2 * limits.blocks_for(LONGEST_PROMPT)
    budget = limits.max_num_batched_tokens if limits.chunked_prefill else LONGEST_PROMPT
    wide = replace(limits, max_model_len=LONGEST_PROMPT, kv_blocks=blocks, max_num_batched_tokens=budget)
    return replace(engine, limits=wide)


# --- incident ----------------------------------------------------------------------------------------------------------


def incident_of(shape: Shape, engine: EngineConfig, factor: float, rng: Random, world: World) -> Incident:
    """The incident of a shape on an engine at this load."""
    samples = [kind.sample(engine, factor, shape.magnitude, rng) for kind in shape.kinds]
    first, *others = samples
    episodes = tuple(_in_one_lane(each, rng) for each in first.episodes) if shape.one_lane else first.episodes
    seconds = first.seconds
    if shape.onset is not Onset.STEP:
        seconds, episodes = _setting_in(shape, episodes, first, engine, world)
    episodes += tuple(each for other in others for each in other.episodes)
    # As in `sampling.two`: of two faults, the set-up of the first that needs one.
    needed = next((each.setup for each in samples if each.setup != NOTHING), NOTHING)
    setup = replace(needed, **_traffic(shape, engine, factor, needed))
    made_of = tuple(
        name for kind, each in zip(shape.kinds, samples, strict=True) for name in each.made_of or (kind.name,)
    )
    return Incident((*_companions(shape, rng), *episodes), setup, seconds, made_of)


def _in_one_lane(episode: Episode, rng: Random) -> Episode:
    """The episode with its changes of lengths in one of their lanes."""
    fault = episode.fault
    lane = rng.choice(sorted({*fault.prompts, *fault.outputs}))
    prompts, outputs = ({lane: of[lane]} if lane in of else {} for of in (fault.prompts, fault.outputs))
    return replace(episode, fault=replace(fault, prompts=prompts, outputs=outputs))


def _setting_in(
    shape: Shape, episodes: tuple[Episode, ...], first: Incident, engine: EngineConfig, world: World
) -> tuple[float, tuple[Episode, ...]]:
    """Length of the incident, and its episodes at parts of their size, or on and off."""
    seconds = first.seconds
    if shape.onset is Onset.ON_AND_OFF:
        begins = range(0, int(seconds), int(2 * MINUTE))
        return seconds, tuple(replace(each, begins=at, ends=at + MINUTE) for at in begins for each in episodes)
    steps, lasts = (sampling.RAMP_STEPS, sampling.STEP_SECONDS)
    if shape.onset is Onset.GROWTH:
        seconds, steps, lasts = shape.growth_seconds, GROWTH_STEPS, shape.growth_seconds / GROWTH_STEPS
    usual = {"slots": engine.slots, "kv_blocks": engine.limits.kv_blocks, **first.setup.knobs}
    return seconds, tuple(
        Episode(
            partly(each.fault, step / steps, usual, world.tokens_a_step),
            (step - 1) * lasts,
            step * lasts if step < steps else None,
        )
        for step in range(1, steps + 1)
        for each in episodes
    )


def _companions(shape: Shape, rng: Random) -> tuple[Episode, ...]:
    """They come before the fault's own episodes, whose knobs hold where both change one."""
    lasts, merged = rng.uniform(5.0, 60.0), rng.uniform(0.5, 0.75)
    fresh = Episode(Fault(fresh=True))
    return {
        Companion.NOTHING: (),
        Companion.RESTART: (fresh, Episode(Fault(knobs={"prefill_factor": 2.0, "decode_factor": 1.3}), 0.0, lasts)),
        Companion.COLD_CACHE: (fresh,),
        Companion.MERGED_READS: (Episode(Fault(merged=merged)),),
        Companion.LATE_LOOP: (Episode(Fault(throttle=LATE)),),
    }[shape.companion]


def _traffic(shape: Shape, engine: EngineConfig, factor: float, setup: Fault) -> dict[str, Any]:
    """The changes of the shape's traffic, from the first instant on."""
    if shape.traffic is Traffic.SPARSE:
        return {"load": {load.lane: min(1.0, 1 / 60 / (load.per_second * factor)) for load in engine.lanes}}
    if shape.traffic is Traffic.CONVERSATIONS:
        load = {each.lane: 0.25 * setup.load.get(each.lane, 1.0) for each in engine.lanes}
        # An answer that is not streamed would miss its latency if it were longer.
        longer = {each.lane: _longer(engine, each.lane) for each in engine.lanes if not each.unstreamed}
        return {"load": load, "outputs": {**setup.outputs, **longer}}
    return {}


def _longer(engine: EngineConfig, lane: str) -> float:
    load = engine.lane(lane)
    room = engine.limits.max_model_len - 1.6 * load.prompt_tokens
    return max(1.0, min(4.0, room / (2.0 * load.output_tokens)))


# --- a fault at a part of its size ---------------------------------------------------------------------------------------


def partly(fault: Fault, share: float, usual: Mapping[str, Any], tokens_a_step: float) -> Fault:
    """The fault at this share of its size, above 0 to 1: factors and limits on a scale of ratios, shares and rates in proportion.

    `usual`: the values of `slots` and `kv_blocks` without it. `tokens_a_step`: the world's. What is on or off stays on.
    """

    def factors(of: Mapping[str, float]) -> dict[str, float]:
        return {lane: value**share for lane, value in of.items()}

    hop, throttle = fault.hop, fault.throttle
    return replace(
        fault,
        load=factors(fault.load),
        prompts=factors(fault.prompts),
        outputs=factors(fault.outputs),
        strangers=tuple(replace(each, per_second=each.per_second * share) for each in fault.strangers),
        uncached={lane: value * share for lane, value in fault.uncached.items()},
        knobs={name: _knob(name, value, share, usual) for name, value in fault.knobs.items()},
        hop=None if hop is None else replace(hop, events=max(1, round(hop.events * share))),
        slow_clients={
            lane: replace(clients, share=clients.share * share) for lane, clients in fault.slow_clients.items()
        },
        errors=fault.errors * share,
        rejected=fault.rejected * share,
        transfer_seconds=fault.transfer_seconds * share,
        throttle=None if throttle is None else _less(throttle, share),
        tokens_a_step=None if fault.tokens_a_step is None else _between(tokens_a_step, fault.tokens_a_step, share),
    )


def _knob(name: str, value: Any, share: float, usual: Mapping[str, Any]) -> Any:
    if name in usual:
        return round(_between(usual[name], value, share))
    return value**share if name.endswith("_factor") else value


def _between(usual: float, value: float, share: float) -> float:
    return float(usual * (value / usual) ** share)


def _less(throttle: Throttle, share: float) -> Throttle:
    stands_still = throttle.period_seconds - throttle.run_seconds
    return replace(throttle, run_seconds=throttle.run_seconds + stands_still * (1.0 - share))
