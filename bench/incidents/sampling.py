"""Samples incidents: each function turns an engine, a load and a magnitude into an incident of its kind.

It knows arithmetic on costs, so that a magnitude means the same on every engine: at 0 the objectives are barely missed,
or just met; at 1 they are missed by far. It refuses to know the truth of the result (`kinds.py`).
"""

import math
from collections.abc import Callable
from random import Random
from typing import Any

from bench.incidents.engines import HIGHEST_LOAD, PREFIXES, EngineConfig
from bench.incidents.fault import NOTHING, Episode, Fault, Hop, SlowClients, Stranger
from bench.incidents.play import INCIDENT_SECONDS, Incident


Sampler = Callable[[EngineConfig, float, float, Random], Incident]
"""Function of an engine, the seed's load factor, a magnitude from 0 (barely) to 1, and a random generator."""


def _between(low: float, high: float, magnitude: float) -> float:
    """Log-linear in the magnitude: 0 gives `low`, 1 gives `high`."""
    return low * math.exp(magnitude * math.log(high / low))


def _always(fault: Fault, setup: Fault | None = None) -> Incident:
    return Incident((Episode(fault),), NOTHING if setup is None else setup)


def _everywhere(engine: EngineConfig, value: Any) -> dict[str, Any]:
    return {load.lane: value for load in engine.lanes}


def _to_load(engine: EngineConfig, factor: float, share: float) -> dict[str, float]:
    """Lane to the factor of its arrivals at which the engine is loaded to this share of its saturation."""
    return _everywhere(engine, max(1.0, share * engine.saturates_at / factor))


def _work_seconds(engine: EngineConfig, lane: str) -> float:
    """Seconds of prefill chunks for one request of a lane."""
    load = engine.lane(lane)
    return engine.costs.chunk(load.prompt_tokens - load.shared_tokens, load.shared_tokens)


def burst(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    share = _between(0.95, 3.0, magnitude)
    lasts = rng.uniform(120.0, 300.0)
    fault = Fault(load=_to_load(engine, factor, share))
    return Incident((Episode(fault, 0.0, lasts),), seconds=INCIDENT_SECONDS)


def overload(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Fault(load=_to_load(engine, factor, _between(0.9, 1.5, magnitude))))


def long_outputs(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """Answers grow longer, until the streams at a time need more slots than the engine has."""
    lanes = rng.choice((("interactive", "batch"), ("batch", "interactive", "code"), ("interactive",)))
    longest = max(engine.lane(lane).output_tokens * 1.4 for lane in lanes)
    most = (engine.limits.max_model_len - 5000) / longest
    # Lighter loads need longer answers to fill the same slots.
    growth = min(most, _between(4.0, 16.0, magnitude) / factor)
    return _always(Fault(outputs=dict.fromkeys(lanes, growth)))


def _tight_pool(engine: EngineConfig, factor: float, spare: float) -> int:
    """KV blocks for the longest request, the shared prefixes, and `spare` times the usual use at this load."""
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
    """Prompts outgrow the KV pool, and answers double: each request holds its blocks until its answer ends."""
    setup = Fault(knobs={"slots": engine.limits.max_num_seqs, "kv_blocks": _tight_pool(engine, factor, 0.7)})
    growth = _between(1.5, 5.0, magnitude)
    fault = Fault(prompts={"interactive": growth, "code": growth}, outputs={"interactive": 2.0})
    return Incident((Episode(fault),), setup)


def few_slots(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """On a day with many streams the batch size is lowered to about the number of streams at a time, or below it."""
    setup = Fault(load=_to_load(engine, factor, 0.55))
    at_a_time = (
        0.55
        * engine.saturates_at
        * sum(
            load.per_second
            * (_work_seconds(engine, load.lane) + load.output_tokens * 1.2 * engine.costs.decode(8, 12_000))
            for load in engine.lanes
        )
    )
    return _always(Fault(knobs={"slots": max(1, round(at_a_time * _between(1.1, 0.5, magnitude)))}), setup)


def long_tail(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """A few very long prompts in one lane: together they take 0.3 to 0.9 of the engine's spare capacity."""
    longest = engine.limits.max_model_len - 600
    low = round(0.55 * longest)
    cost = engine.costs.chunk(round(0.75 * longest), 0)
    left = 1.0 - factor / engine.saturates_at
    share = left * _between(0.3, 0.9, magnitude)
    return _always(Fault(strangers=(Stranger("batch", share / cost, (low, longest), (100, 300)),)))


def cache_lost(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prompts no longer hit the prefix cache, on a day busy enough for that to matter, but not overloaded."""
    lost = sum(
        load.per_second * engine.costs.chunk(load.prompt_tokens, 0) * 1.1 for load in engine.lanes if load.shared_tokens
    )
    busy = min(HIGHEST_LOAD, max(factor, 0.9 / lost))
    share = _between(0.4, 1.0, magnitude)
    setup = Fault(load=_everywhere(engine, busy / factor))
    return _always(Fault(uncached={"interactive": share, "code": share}), setup)


def prefill_slow(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prefill slows until prompts alone take 0.5 to 1.4 of the engine's time, and by a factor of at least 1.4."""
    work = sum(load.per_second * factor * _work_seconds(engine, load.lane) for load in engine.lanes)
    return _always(Fault(knobs={"prefill_factor": max(1.4, _between(0.5, 1.4, magnitude) / work)}))


def interference(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Many prompts of the batch lane's usual length with short answers, so that steps are full of prefill."""
    load = engine.lane("batch")
    cost = engine.costs.chunk(load.prompt_tokens, 0)
    left = 1.0 - factor / engine.saturates_at
    lengths = (round(0.8 * load.prompt_tokens), round(1.2 * load.prompt_tokens))
    return _always(Fault(strangers=(Stranger("batch", left * _between(0.5, 1.0, magnitude) / cost, lengths, (8, 24)),)))


def decode_slow(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Fault(knobs={"decode_factor": _between(1.8, 7.0, magnitude)}))


def preemption(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Answers grow, and the KV pool shrinks (another process takes some of it), so that running requests have no room
    to grow. The batch is not limited by slots, so admitted requests are preempted.
    """
    busy = _to_load(engine, factor, 0.5)
    pool = _tight_pool(engine, max(factor, 0.5 * engine.saturates_at), _between(0.5, 0.05, magnitude))
    fault = Fault(knobs={"kv_blocks": pool}, outputs=_everywhere(engine, _between(2.5, 6.0, magnitude)))
    return Incident((Episode(fault),), Fault(knobs={"slots": engine.limits.max_num_seqs}, load=busy))


def crash(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return Incident((Episode(Fault(down=True), 0.0, _between(30.0, 240.0, magnitude)),))


def hang(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return Incident((Episode(Fault(knobs={"hung": True}), 0.0, _between(20.0, 240.0, magnitude)),))


def cold_start(_engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    """A new process takes over at full traffic: its cache is empty, and graphs and kernels are still being compiled."""
    warm_up = rng.uniform(90.0, 300.0)
    slow = {"prefill_factor": _between(2.0, 8.0, magnitude), "decode_factor": _between(1.3, 3.0, magnitude)}
    return Incident((Episode(Fault(fresh=True)), Episode(Fault(knobs=slow), 0.0, warm_up)))


def slow_clients(engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    lane = rng.choice(("interactive", "batch"))
    tpot = engine.lane(lane).aims.tpot
    assert tpot is not None
    pace = _between(0.75, 0.25, magnitude) / tpot.threshold_seconds
    return _always(Fault(slow_clients={lane: SlowClients(_between(0.3, 1.0, magnitude), pace)}))


def hop(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """A hop starts to buffer tokens, for 0.8 to 2.5 TTFT thresholds; answers are lengthened so that this shows."""
    load = engine.lane("interactive")
    aim = load.aims.ttft
    assert aim is not None
    pace = engine.costs.decode(6, 10_000) * 1.4
    longer = max(1.0, min(1.5 * aim.threshold_seconds / (load.output_tokens * pace), 3.0 / factor))
    events = _between(0.8, 2.5, magnitude) * aim.threshold_seconds / pace
    setup = Fault(outputs={"interactive": longer})
    return _always(Fault(hop=Hop(round(events), 60.0)), setup)


def tokeniser(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """The work of the serial front end grows to 0.85 to 1.3 of one core."""
    work = sum(load.per_second * factor * engine.costs.front_end(load.prompt_tokens) for load in engine.lanes)
    return _always(Fault(knobs={"front_end_factor": _between(0.85, 1.3, magnitude) / work}))


def noisy_tenant(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """One lane's arrivals grow and load the engine to 0.95 to 1.6 of its saturation."""
    lane = rng.choice(("code", "interactive", "batch"))
    work = {load.lane: load.per_second * _whole_work(engine, load.lane) for load in engine.lanes}
    share = work[lane] / sum(work.values())
    missing = _between(0.95, 1.6, magnitude) * engine.saturates_at / factor - 1.0
    return _always(Fault(load={lane: 1.0 + max(0.2, missing / share)}))


def _whole_work(engine: EngineConfig, lane: str) -> float:
    """Seconds that one request of a lane costs: its prefill, and its share of the decode steps."""
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


def _kind(sampler: Sampler) -> str:
    """The kind's name: the name of its function, with hyphens."""
    return sampler.__name__.replace("_", "-")


PAIRS: tuple[tuple[Sampler, Sampler], ...] = (
    (prefill_slow, tokeniser),
    (overload, decode_slow),
    (cache_lost, long_outputs),
)
"""Pairs from which incidents of two faults are drawn."""
