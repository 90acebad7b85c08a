"""Samples incidents: each function turns an engine, a load and a magnitude into an incident of its kind.

It knows arithmetic on costs, so that a magnitude means the same on every engine: at 0 the objectives are barely missed,
or just met; at 1 they are missed by far. It refuses to know the truth of the result (`kinds.py`).

The load may be up to 0.9 of the engine's saturation (`world.py`). Above `MODERATE` every fault still changes something,
and no set-up adds load. Below it, on the engines that were built by hand, the incidents of the first eighteen kinds are
those of the bench before November 2026, when that was the highest load.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from bench.incidents.engines import HIGHEST_LOAD, PREFIXES, EngineConfig
from bench.incidents.fault import NOTHING, Episode, Fault, Hop, SlowClients, Stranger
from bench.incidents.play import HEALTHY_SECONDS, INCIDENT_SECONDS, Incident
from bench.incidents.world import Throttle


LEAST_MORE = 1.15
"""Least factor of the arrivals under an incident that adds load: an engine near its saturation gets more work too."""
LEAST_SPARE = 0.4
"""Share of an engine's time that added prompts are measured by, if less than this is spare."""
MODERATE = 0.6
"""Share of saturation up to which a set-up may load an engine by more requests; the load itself may be higher."""
LONGEST_ANSWERS = 0.8
"""Share of saturation up to which a set-up may load an engine by longer answers."""
NO_REQUEST = 1e-9
"""Factor of arrivals that leaves none over."""
RAMP_STEPS = 10
STEP_SECONDS = 60.0

Sampler = Callable[[EngineConfig, float, float, Random], Incident]
"""Function of an engine, the seed's load factor, a magnitude from 0 (barely) to 1, and a random generator."""


def _between(low: float, high: float, magnitude: float) -> float:
    """Log-linear in the magnitude: 0 gives `low`, 1 gives `high`."""
    return low * math.exp(magnitude * math.log(high / low))


def _always(fault: Fault, setup: Fault | None = None) -> Incident:
    return Incident((Episode(fault),), NOTHING if setup is None else setup)


def _everywhere(engine: EngineConfig, value: Any) -> dict[str, Any]:
    return {load.lane: value for load in engine.lanes}


def _to_load(engine: EngineConfig, factor: float, share: float, *, least: float = LEAST_MORE) -> dict[str, float]:
    """Lane to the factor of its arrivals, at least `least`, with which the load is this share of saturation."""
    return _everywhere(engine, max(least, share * engine.saturates_at / factor))


def _busy(engine: EngineConfig, factor: float, share: float) -> float:
    """Load factor of a day on which a set-up loads the engine to this share of its saturation, or it already is.

    A moderate factor that is a little above the share counts as the share.
    """
    busy = share * engine.saturates_at
    return max(factor, busy) if _is_busy(engine, factor) else busy


def _is_busy(engine: EngineConfig, factor: float) -> bool:
    """Whether the load is above `MODERATE`, so that a set-up must not add to it."""
    return factor > MODERATE * engine.saturates_at


def _spare(engine: EngineConfig, factor: float) -> float:
    """Share of the engine's time that added prompts are measured by, 0.4 to 1."""
    return max(LEAST_SPARE, 1.0 - factor / engine.saturates_at)


def _ttft_seconds(engine: EngineConfig, lane: str = "interactive") -> float:
    """Threshold of a lane's TTFT."""
    aim = engine.lane(lane).aims.ttft
    assert aim is not None
    return aim.threshold_seconds


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
    growth = min(most, max(1.5, _between(4.0, 16.0, magnitude) / factor))
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
    longest = engine.limits.blocks_for(engine.limits.max_model_len)
    return min(engine.limits.kv_blocks, round(longest + _shared_blocks(engine) + spare * usual))


def _running(engine: EngineConfig) -> tuple[int, float]:
    """Sequences that a full engine runs at once, and the mean KV blocks of one beyond its shared prefix."""
    own = {load.lane: load.prompt_tokens - load.shared_tokens + load.output_tokens for load in engine.lanes}
    each = sum(load.per_second * own[load.lane] for load in engine.lanes) / sum(
        load.per_second for load in engine.lanes
    )
    blocks = engine.limits.blocks_for(round(each))
    return min(engine.slots, max(1, (engine.limits.kv_blocks - _shared_blocks(engine)) // blocks)), blocks


def _shared_blocks(engine: EngineConfig) -> int:
    """KV blocks of all shared prefixes."""
    return sum(PREFIXES * engine.limits.blocks_for(load.shared_tokens) for load in engine.lanes)


def _full_pool(engine: EngineConfig, share: float) -> int:
    """KV blocks for this share of the sequences that a full engine runs, and at least for the longest request."""
    sequences, blocks = _running(engine)
    pool = round(_shared_blocks(engine) + share * sequences * blocks)
    return min(engine.limits.kv_blocks, max(pool, engine.limits.blocks_for(engine.limits.max_model_len)))


def prompts_beyond_kv(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prompts outgrow the KV pool, and answers double: each request holds its blocks until its answer ends.

    A busy engine keeps its slots: with more of them, its pool would be full before the fault.
    """
    setup = Fault(knobs={"slots": engine.limits.max_num_seqs, "kv_blocks": _tight_pool(engine, factor, 0.7)})
    growth = _between(1.5, 5.0, magnitude)
    if _is_busy(engine, factor):
        setup, growth = Fault(knobs={"kv_blocks": _full_pool(engine, 2.2)}), _between(3.0, 6.0, magnitude)
    fault = Fault(prompts={"interactive": growth, "code": growth}, outputs={"interactive": 2.0})
    return Incident((Episode(fault),), setup)


def few_slots(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """On a day with many streams the batch size is lowered to about the number of streams at a time, or below it."""
    setup = Fault(load=_to_load(engine, factor, 0.55, least=1.0))
    at_a_time = _busy(engine, factor, 0.55) * sum(
        load.per_second * (_work_seconds(engine, load.lane) + load.output_tokens * 1.2 * engine.costs.decode(8, 12_000))
        for load in engine.lanes
    )
    slots = min(engine.slots - 1, round(at_a_time * _between(1.1, 0.5, magnitude)))
    return _always(Fault(knobs={"slots": max(1, slots)}), setup)


def long_tail(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """A few very long prompts in one lane: together they take 0.3 to 0.9 of the engine's spare time (`_spare`)."""
    longest = engine.limits.max_model_len - 600
    low = round(0.55 * longest)
    cost = engine.costs.chunk(round(0.75 * longest), 0)
    share = _spare(engine, factor) * _between(0.3, 0.9, magnitude)
    return _always(Fault(strangers=(Stranger("batch", share / cost, (low, longest), (100, 300)),)))


def cache_lost(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prompts no longer hit the prefix cache, on a day busy enough for that to matter, but not overloaded."""
    sharing = [load for load in engine.lanes if load.shared_tokens]
    lost = sum(load.per_second * engine.costs.chunk(load.prompt_tokens, 0) * 1.1 for load in sharing)
    busiest = min(HIGHEST_LOAD, MODERATE * engine.saturates_at)
    busy = max(factor, min(busiest, 0.9 / lost) if lost else factor)
    setup = Fault(load=_everywhere(engine, busy / factor))
    return _always(Fault(uncached={load.lane: _between(0.4, 1.0, magnitude) for load in sharing}), setup)


def prefill_slow(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prefill slows until prompts alone take 0.5 to 1.4 of the engine's time, and by a factor of at least 1.4."""
    work = sum(load.per_second * factor * _work_seconds(engine, load.lane) for load in engine.lanes)
    return _always(Fault(knobs={"prefill_factor": max(1.4, _between(0.5, 1.4, magnitude) / work)}))


def interference(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Many prompts of the batch lane's usual length with short answers, so that steps are full of prefill."""
    load = engine.lane("batch")
    cost = engine.costs.chunk(load.prompt_tokens, 0)
    share = _spare(engine, factor) * _between(0.5, 1.0, magnitude)
    lengths = (round(0.8 * load.prompt_tokens), round(1.2 * load.prompt_tokens))
    return _always(Fault(strangers=(Stranger("batch", share / cost, lengths, (8, 24)),)))


def decode_slow(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Fault(knobs={"decode_factor": _between(1.8, 7.0, magnitude)}))


def preemption(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Answers grow, and the KV pool shrinks (another process takes some of it), so that running requests have no room
    to grow. The batch is not limited by slots, so admitted requests are preempted. A busy engine keeps its slots.
    """
    if _is_busy(engine, factor):
        pool = _full_pool(engine, _between(1.0, 0.5, magnitude))
        return _always(Fault(knobs={"kv_blocks": pool}, outputs=_everywhere(engine, _between(2.5, 6.0, magnitude))))
    busy = _to_load(engine, factor, 0.5, least=1.0)
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
    load, threshold = engine.lane("interactive"), _ttft_seconds(engine)
    pace = engine.costs.decode(6, 10_000) * 1.4
    longer = min(1.5 * threshold / (load.output_tokens * pace), 3.0 / factor, _longest_answers(engine, factor))
    events = _between(0.8, 2.5, magnitude) * threshold / pace
    setup = Fault(outputs={"interactive": max(1.0, longer)})
    return _always(Fault(hop=Hop(round(events), 60.0)), setup)


def _longest_answers(engine: EngineConfig, factor: float) -> float:
    """Factor of the lane interactive's answers that a healthy engine has room for; 1 if it is busy.

    Longer answers that are not streamed would miss their E2E objective, so a lane with such answers keeps its own.
    """
    load = engine.lane("interactive")
    if _is_busy(engine, factor) or load.unstreamed:
        return 1.0
    whole = sum(load.per_second * _whole_work(engine, load.lane) for load in engine.lanes)
    decoding = load.per_second * (_whole_work(engine, load.lane) - _work_seconds(engine, load.lane)) / whole
    return 1.0 + (LONGEST_ANSWERS * engine.saturates_at / factor - 1.0) / decoding


def tokeniser(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """The work of the serial front end grows to 0.85 to 1.3 of one core."""
    work = sum(load.per_second * factor * engine.costs.front_end(load.prompt_tokens) for load in engine.lanes)
    return _always(Fault(knobs={"front_end_factor": max(1.5, _between(0.85, 1.3, magnitude) / work)}))


def noisy_tenant(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """One lane's arrivals grow and load the engine to 0.95 to 1.6 of its saturation."""
    lane = rng.choice(("code", "interactive", "batch"))
    work = {load.lane: load.per_second * _whole_work(engine, load.lane) for load in engine.lanes}
    share = work[lane] / sum(work.values())
    missing = max(LEAST_MORE, _between(0.95, 1.6, magnitude) * engine.saturates_at / factor) - 1.0
    return _always(Fault(load={lane: 1.0 + max(0.2, missing / share)}))


def _whole_work(engine: EngineConfig, lane: str) -> float:
    """Seconds that one request of a lane costs: its prefill, and its share of the decode steps."""
    load = engine.lane(lane)
    return _work_seconds(engine, lane) + load.output_tokens * engine.costs.decode(8, 12_000) / 8


def ramp(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Load rises in steps of a minute over ten minutes, to 0.95 to 1.5 of saturation, and stays there."""
    goal = _to_load(engine, factor, _between(0.95, 1.5, magnitude))
    episodes = []
    for step in range(1, RAMP_STEPS + 1):
        load = {lane: 1.0 + (most - 1.0) * step / RAMP_STEPS for lane, most in goal.items()}
        ends = step * STEP_SECONDS if step < RAMP_STEPS else None
        episodes.append(Episode(Fault(load=load), (step - 1) * STEP_SECONDS, ends))
    return Incident(tuple(episodes))


def burst_30s(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Arrivals multiply for half a minute, to 2 to 4 times saturation."""
    return Incident((Episode(Fault(load=_to_load(engine, factor, _between(2.0, 4.0, magnitude))), 0.0, 30.0),))


def restart_then_overload(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """An overload, 80 to 200 s after a planned restart, which the engine took well."""
    restarts = -rng.uniform(80.0, 200.0)
    restart = Episode(Fault(fresh=True), restarts, restarts + 1.0)
    return Incident((restart, *overload(engine, factor, magnitude, rng).episodes))


def hang_unstreamed(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """A hang. One or more long answers that are not streamed began in the three seconds before it, and are in flight."""
    most = engine.limits.max_model_len - 700
    long = Stranger("batch", 0.3, (200, 600), (min(1600, most), min(2400, most)), streaming=False, first_at_once=True)
    return Incident((Episode(Fault(strangers=(long,)), -3.0, 0.0), *hang(engine, factor, magnitude, rng).episodes))


def errors(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """The engine answers 0.1 to 1 of the requests with status 500."""
    return _always(Fault(errors=_between(0.1, 1.0, magnitude)))


def throttled_sidecar(engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """The sidecar has 0.25 to 0.05 of a core, less than its work needs.

    A quota alone delays a read by less than the kernel's period of 0.1 s. A process that needs more than its quota falls
    behind by much more. The backlog is played as periods of 0.9 to 3 TTFT thresholds in which it mostly stands still.
    """
    period = _between(0.9, 3.0, magnitude) * _ttft_seconds(engine)
    return _always(Fault(throttle=Throttle(_between(0.25, 0.05, magnitude) * period, period)))


def prompts_grow(engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prompts of all lanes grow by 1.5 to 4 beyond their shared prefix. The KV cache has room for as many as run.

    The set-up builds such a cache, and lowers the slots to the sequences that the old one held.
    """
    growth = _between(1.5, 4.0, magnitude)
    slots, _ = _running(engine)
    longest = max(
        load.shared_tokens + 1.6 * growth * (load.prompt_tokens - load.shared_tokens + load.output_tokens)
        for load in engine.lanes
    )
    room = slots * engine.limits.blocks_for(min(engine.limits.max_model_len, round(longest)))
    pool = max(engine.limits.kv_blocks, _shared_blocks(engine) + room)
    return _always(Fault(prompts=_everywhere(engine, growth)), Fault(knobs={"kv_blocks": pool, "slots": slots}))


def kv_transfer(engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """KV caches take longer, so that the TPOT of a usual answer grows by 0.3 to 3 of its thresholds."""
    load = engine.lane("interactive")
    tpot = load.aims.tpot
    assert tpot is not None
    seconds = _between(0.3, 3.0, magnitude) * tpot.threshold_seconds * (load.output_tokens - 1)
    return _always(Fault(transfer_seconds=seconds))


def one_a_minute(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """Each lane has about one request a minute, and for twelve minutes all of them fail or are late.

    The engine hangs, is down, or computes prompts 6 times as slowly, or so slowly that every prompt misses its TTFT.
    """
    setup = Fault(load={load.lane: min(1.0, 1 / 60 / (load.per_second * factor)) for load in engine.lanes})
    late = max(2.2 * _ttft_seconds(engine, load.lane) / _work_seconds(engine, load.lane) for load in engine.lanes)
    faults = {
        hang: Fault(knobs={"hung": True}),
        crash: Fault(down=True),
        prefill_slow: Fault(knobs={"prefill_factor": max(6.0, late) * (1.0 + magnitude)}),
    }
    drawn = rng.choice(tuple(faults))
    return Incident((Episode(faults[drawn], 0.0, INCIDENT_SECONDS),), setup, made_of=(_kind(drawn),))


def merged_reads(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """One fault of the engine or of its traffic, and meanwhile reads hold 2 to 4 events, as on a machine that has much to do."""
    drawn = rng.choice((prefill_slow, cache_lost, overload, few_slots, decode_slow))
    found = drawn(engine, factor, magnitude, rng)
    merged = Episode(Fault(merged=rng.uniform(0.5, 0.75)))
    return replace(found, episodes=(*found.episodes, merged), made_of=(_kind(drawn),))


def restart_to_few_slots(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    """The batch size is lowered, for which the engine is replaced by a new process; for 5 to 60 s it warms up."""
    found = few_slots(engine, factor, magnitude, rng)
    slow = {"prefill_factor": 2.0, "decode_factor": 1.3}
    restart = (Episode(Fault(fresh=True)), Episode(Fault(knobs=slow), 0.0, rng.uniform(5.0, 60.0)))
    return replace(found, episodes=(*restart, *found.episodes), made_of=(_kind(few_slots),))


# --- those that drawn shapes alone have (`shapes.py`) ------------------------------------------------------------------


def rejections(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """The engine turns 0.1 to 1 of the requests away with status 429."""
    return _always(Fault(rejected=_between(0.1, 1.0, magnitude)))


def acceptance_falls(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """A step of an engine that speculates gives 1.7 tokens, and at worst 1: the world gives more."""
    return _always(Fault(tokens_a_step=_between(1.7, 1.0, magnitude)))


def gpu_neighbour(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """Another process, or heat, takes of the GPU: prompts and decodes take 1.4 to 4 times as long."""
    slower = _between(1.4, 4.0, magnitude)
    fault = Fault(knobs={"prefill_factor": slower, "decode_factor": slower})
    return Incident((Episode(fault),), made_of=(_kind(prefill_slow), _kind(decode_slow)))


def short_stalls(_engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    """No step ends for 2 to 7 s, again and again: each stall is too short for an engine to be called silent."""
    lasts, episodes, begins = _between(2.0, 7.0, magnitude), [], 0.0
    while begins + lasts < INCIDENT_SECONDS:
        episodes.append(Episode(Fault(knobs={"hung": True}), begins, begins + lasts))
        begins += lasts + rng.uniform(8.0, 25.0)
    return Incident(tuple(episodes))


def slow_network(engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """The way to all clients takes fewer tokens a second than a TPOT that is just met."""
    paces = {
        load.lane: _between(0.85, 0.3, magnitude) / load.aims.tpot.threshold_seconds
        for load in engine.lanes
        if load.aims.tpot is not None
    }
    return _always(Fault(slow_clients={lane: SlowClients(1.0, pace) for lane, pace in paces.items()}))


def lane_of_long_prompts(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Prompts of some 30,000 tokens in one lane: together they take 0.4 to 1.2 of the engine's spare time."""
    longest = engine.limits.max_model_len - 600
    share = _spare(engine, factor) * _between(0.4, 1.2, magnitude)
    cost = engine.costs.chunk(round(0.95 * longest), 0)
    return _always(Fault(strangers=(Stranger("batch", share / cost, (round(0.9 * longest), longest), (50, 200)),)))


def scale_in(engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    """One to two pods of four leave: the others get 1.33 to 2 times the load, and for a minute half of the new prompts find no prefix."""
    load = _everywhere(engine, _between(1.33, 2.0, magnitude))
    return Incident((Episode(Fault(load=load)), Episode(Fault(uncached=_everywhere(engine, 0.5)), 0.0, 60.0)))


def scale_out(engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    """A pod that had no request takes its whole share at once: its cache is empty, and its kernels are still being compiled."""
    warm_up = rng.uniform(60.0, 240.0)
    slow = {"prefill_factor": _between(2.0, 8.0, magnitude), "decode_factor": _between(1.3, 3.0, magnitude)}
    before = Episode(Fault(load=_everywhere(engine, NO_REQUEST)), -HEALTHY_SECONDS, 0.0)
    return Incident((before, Episode(Fault(fresh=True)), Episode(Fault(knobs=slow), 0.0, warm_up)))


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
    (decode_slow, tokeniser),
    (overload, hop),
    (prefill_slow, slow_clients),
    (crash, overload),
)
"""Pairs from which incidents of two faults are drawn."""
