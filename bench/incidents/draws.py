"""How each kind of incident is drawn: from an engine, a load and a magnitude to what changes and when.

It knows arithmetic on costs, so that a magnitude means the same on every engine: 0 is barely over the objectives, or just not, and 1 is
far over them. It refuses to know what is true of the result (`kinds.py`).
"""

import math
from collections.abc import Callable
from random import Random
from typing import Any

from bench.incidents.effects import NOTHING, Effect, Episode, Hop, SlowClients, Stranger
from bench.incidents.engines import HIGHEST_LOAD, PREFIXES, EngineConfig
from bench.incidents.play import INCIDENT_SECONDS, Incident


Draw = Callable[[EngineConfig, float, float, Random], Incident]
"""From an engine, the seed's load factor, a magnitude from 0 (barely) to 1, and what else is drawn."""


def _between(low: float, high: float, magnitude: float) -> float:
    """Log-uniform: magnitude 0 is `low`, 1 is `high`."""
    return low * math.exp(magnitude * math.log(high / low))


def _always(effect: Effect, setup: Effect | None = None) -> Incident:
    return Incident((Episode(effect),), NOTHING if setup is None else setup)


def _everywhere(engine: EngineConfig, value: Any) -> dict[str, Any]:
    return {load.lane: value for load in engine.lanes}


def _to_load(engine: EngineConfig, factor: float, share: float) -> dict[str, float]:
    """The factor of every lane's arrivals that loads the engine to this share of what saturates it."""
    return _everywhere(engine, max(1.0, share * engine.saturates_at / factor))


def _work_seconds(engine: EngineConfig, lane: str) -> float:
    """What one request of a lane costs in prompt chunks alone."""
    load = engine.lane(lane)
    return engine.costs.chunk(load.prompt_tokens - load.shared_tokens, load.shared_tokens)


def burst(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    share = _between(0.95, 3.0, magnitude)
    lasts = rng.uniform(120.0, 300.0)
    effect = Effect(load=_to_load(engine, factor, share))
    return Incident((Episode(effect, 0.0, lasts),), seconds=INCIDENT_SECONDS)


def overload(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Effect(load=_to_load(engine, factor, _between(0.9, 1.5, magnitude))))


def long_outputs(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """Answers grow until slots times their length are more than there are."""
    lanes = rng.choice((("interactive", "batch"), ("batch", "interactive", "code"), ("interactive",)))
    longest = max(engine.lane(lane).output_tokens * 1.4 for lane in lanes)
    most = (engine.limits.max_model_len - 5000) / longest
    # Lighter loads need longer answers to fill the same slots.
    growth = min(most, _between(4.0, 16.0, magnitude) / factor)
    return _always(Effect(outputs=dict.fromkeys(lanes, growth)))


def _tight_pool(engine: EngineConfig, factor: float, spare: float) -> int:
    """Blocks for the longest request, and `spare` times what lives there on an ordinary day at this load."""
    usual = sum(
        load.per_second
        * factor
        * (2.0 + load.output_tokens * engine.costs.decode(8, 12_000))
        * engine.limits.blocks_for(load.prompt_tokens - load.shared_tokens + load.output_tokens)
        for load in engine.lanes
    )
    shared = sum(PREFIXES * engine.limits.blocks_for(load.shared_tokens) for load in engine.lanes)
    longest = engine.limits.blocks_for(engine.limits.max_model_len)
    return min(engine.limits.kv_blocks, round(longest + shared + spare * usual))


def prompts_beyond_kv(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """The pool was sized for the prompts of last month; each of them holds its blocks for as long as its answer takes."""
    setup = Effect(knobs={"slots": engine.limits.max_num_seqs, "kv_blocks": _tight_pool(engine, factor, 0.7)})
    growth = _between(1.5, 5.0, magnitude)
    effect = Effect(prompts={"interactive": growth, "code": growth}, outputs={"interactive": 2.0})
    return Incident((Episode(effect),), setup)


def few_slots(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Somebody lowered the batch size on a day with many streams: below how many there are at a time."""
    setup = Effect(load=_to_load(engine, factor, 0.55))
    at_a_time = (
        0.55
        * engine.saturates_at
        * sum(
            load.per_second
            * (_work_seconds(engine, load.lane) + load.output_tokens * 1.2 * engine.costs.decode(8, 12_000))
            for load in engine.lanes
        )
    )
    return _always(Effect(knobs={"slots": max(1, round(at_a_time * _between(1.1, 0.5, magnitude)))}), setup)


def long_tail(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """A few very long prompts in one lane: together this share of the prefill that the engine has left."""
    longest = engine.limits.max_model_len - 600
    low = round(0.55 * longest)
    cost = engine.costs.chunk(round(0.75 * longest), 0)
    left = 1.0 - factor / engine.saturates_at
    share = left * _between(0.3, 0.9, magnitude)
    return _always(Effect(strangers=(Stranger("batch", share / cost, (low, longest), (100, 300)),)))


def cache_lost(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """On a day as busy as it takes for the lost cache to be felt, as far as that day is a healthy one."""
    lost = sum(
        load.per_second * engine.costs.chunk(load.prompt_tokens, 0) * 1.1 for load in engine.lanes if load.shared_tokens
    )
    busy = min(HIGHEST_LOAD, max(factor, 0.9 / lost))
    share = _between(0.4, 1.0, magnitude)
    setup = Effect(load=_everywhere(engine, busy / factor))
    return _always(Effect(uncached={"interactive": share, "code": share}), setup)


def prefill_slow(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Until prompts alone take this share of the time."""
    work = sum(load.per_second * factor * _work_seconds(engine, load.lane) for load in engine.lanes)
    return _always(Effect(knobs={"prefill_factor": max(1.4, _between(0.5, 1.4, magnitude) / work)}))


def interference(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Many prompts of the batch lane's usual length that hardly ask for an answer: steps are full of them."""
    load = engine.lane("batch")
    cost = engine.costs.chunk(load.prompt_tokens, 0)
    left = 1.0 - factor / engine.saturates_at
    lengths = (round(0.8 * load.prompt_tokens), round(1.2 * load.prompt_tokens))
    return _always(
        Effect(strangers=(Stranger("batch", left * _between(0.5, 1.0, magnitude) / cost, lengths, (8, 24)),))
    )


def decode_slow(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Effect(knobs={"decode_factor": _between(1.8, 7.0, magnitude)}))


def preemption(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Answers run on, and the pool (another process took some of it) has no room for what they grow to: the batch is not limited by
    slots, so that whoever was let in is thrown out again.
    """
    busy = _to_load(engine, factor, 0.5)
    pool = _tight_pool(engine, max(factor, 0.5 * engine.saturates_at), _between(0.5, 0.05, magnitude))
    effect = Effect(knobs={"kv_blocks": pool}, outputs=_everywhere(engine, _between(2.5, 6.0, magnitude)))
    return Incident((Episode(effect),), Effect(knobs={"slots": engine.limits.max_num_seqs}, load=busy))


def crash(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return Incident((Episode(Effect(down=True), 0.0, _between(30.0, 240.0, magnitude)),))


def hang(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return Incident((Episode(Effect(knobs={"hung": True}), 0.0, _between(20.0, 240.0, magnitude)),))


def cold_start(_engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    """A new process takes over at full traffic: an empty cache, and graphs and kernels still being compiled."""
    warm_up = rng.uniform(90.0, 300.0)
    slow = {"prefill_factor": _between(2.0, 8.0, magnitude), "decode_factor": _between(1.3, 3.0, magnitude)}
    return Incident((Episode(Effect(fresh=True)), Episode(Effect(knobs=slow), 0.0, warm_up)))


def slow_clients(engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    lane = rng.choice(("interactive", "batch"))
    tpot = engine.lane(lane).aims.tpot
    assert tpot is not None
    pace = _between(0.75, 0.25, magnitude) / tpot.threshold_seconds
    return _always(Effect(slow_clients={lane: SlowClients(_between(0.3, 1.0, magnitude), pace)}))


def hop(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """A hop that begins to collect this share of an answer before it passes it on, where answers are long enough to be felt."""
    load = engine.lane("interactive")
    aim = load.aims.ttft
    assert aim is not None
    pace = engine.costs.decode(6, 10_000) * 1.4
    longer = max(1.0, min(1.5 * aim.threshold_seconds / (load.output_tokens * pace), 3.0 / factor))
    events = _between(0.8, 2.5, magnitude) * aim.threshold_seconds / pace
    setup = Effect(outputs={"interactive": longer})
    return _always(Effect(hop=Hop(round(events), 60.0)), setup)


def tokeniser(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """The serial front end's work grows until it is nearly, or more than, one core's."""
    work = sum(load.per_second * factor * engine.costs.front_end(load.prompt_tokens) for load in engine.lanes)
    return _always(Effect(knobs={"front_end_factor": _between(0.85, 1.3, magnitude) / work}))


def noisy_tenant(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """One lane's arrivals alone bring the engine to this share of what it can do."""
    lane = rng.choice(("code", "interactive", "batch"))
    work = {load.lane: load.per_second * _whole_work(engine, load.lane) for load in engine.lanes}
    share = work[lane] / sum(work.values())
    missing = _between(0.95, 1.6, magnitude) * engine.saturates_at / factor - 1.0
    return _always(Effect(load={lane: 1.0 + max(0.2, missing / share)}))


def _whole_work(engine: EngineConfig, lane: str) -> float:
    """What one request of a lane costs: its prompt, and its share of the steps that decode it."""
    load = engine.lane(lane)
    return _work_seconds(engine, lane) + load.output_tokens * engine.costs.decode(8, 12_000) / 8


def two(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    first, second = PAIRS[rng.randrange(len(PAIRS))]
    one, other = first(engine, factor, magnitude, rng), second(engine, factor, magnitude, rng)
    return Incident(
        one.episodes + other.episodes,
        one.setup if one.setup != NOTHING else other.setup,
        made_of=(_kind(first), _kind(second)),
    )


def _kind(draw: Draw) -> str:
    """A kind is named after what draws it."""
    return draw.__name__.replace("_", "-")


PAIRS: tuple[tuple[Draw, Draw], ...] = (
    (prefill_slow, tokeniser),
    (overload, decode_slow),
    (cache_lost, long_outputs),
)
"""What two faults are drawn from."""
