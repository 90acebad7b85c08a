"""Every kind of incident: what changes, how much of it a seed draws, and what is truly wrong. The table that pages are graded by.

It knows faults and their names. It refuses to know what the product says of them: the labels here were written down before any
rule was run, with the reason beside each set that has more than one.

*Root* is the fault that was put in, as the phase whose owners can mend it. Where two phases are both right, both stand there:

- More load, or longer answers, fill the batch and then the queue: that slow tokens are then the queue's or the decode's doing are two
  sentences about one cause, so for TPOT both count.
- An unstreamed answer is one number, in which waiting and a fuller batch add up: queue and decode both count under load.
- A KV pool that ran full while requests waited is the engine's memory and the queue's reason: where the simulator says that it was
  so, `engine` counts beside queue.
- A slower prefill makes steps longer, and so every stream's tokens: TPOT names decode or prefill.
- A slow decode keeps slots for longer and shares steps with prompts: a TTFT miss is then queue or decode.
- A slow front end is `first_token` where the answer is streamed; where it is not, the ledger has no such phase: `unattributed`.
- A hop that collects tokens is no hop of unstreamed answers.
- A new process is an engine event, and its cold cache and first steps are slow prefills: engine or prefill.
- Long prompts are prefill in their own lane. In the others they are the queue.
- Two faults at once: either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.incidents.effects import Effect, Episode, Hop, SlowClients, Stranger
from bench.incidents.engines import EngineConfig
from bench.incidents.play import INCIDENT_SECONDS, Incident


Labels = frozenset[str]
Draw = Callable[[EngineConfig, float, float, Random], Incident]
"""From an engine, the seed's load factor, a magnitude from 0 (barely) to 1, and what else is drawn."""


def _set(*labels: str) -> Labels:
    return frozenset(labels)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident and its truth."""

    name: str
    says: str
    """What happens, in a sentence."""
    draw: Draw
    ttft: Labels
    tpot: Labels
    e2e: Labels
    own_lane: Mapping[str, Mapping[str, Labels]] = field(default_factory=dict)
    """Lane, then objective, to labels of its own."""
    kv: bool = False
    """`engine` counts too where the KV pool truly ran full while requests waited."""
    front_end: bool = False
    """The estimator cannot see it, and nobody promised that it would."""

    def root(self, lane: str, objective: str, *, kv_ran_full: bool) -> Labels:
        """The phases that are right for one lane and objective."""
        labels: Labels = {"ttft": self.ttft, "tpot": self.tpot, "e2e": self.e2e}[objective]
        labels = self.own_lane.get(lane, {}).get(objective, labels)
        return labels | {"engine"} if self.kv and kv_ran_full else labels


def _between(low: float, high: float, magnitude: float) -> float:
    """Log-uniform: magnitude 0 is `low`, 1 is `high`."""
    return low * (high / low) ** magnitude


def _always(effect: Effect, setup: Effect | None = None) -> Incident:
    return Incident((Episode(effect),), Effect() if setup is None else setup)


def _everywhere(engine: EngineConfig, value: Any) -> dict[str, Any]:
    return {load.lane: value for load in engine.lanes}


def _to_load(engine: EngineConfig, factor: float, share: float) -> dict[str, float]:
    """The factor of every lane's arrivals that loads the engine to this share of what saturates it."""
    return _everywhere(engine, max(1.0, share * engine.saturates_at / factor))


def _work_seconds(engine: EngineConfig, lane: str) -> float:
    """What one request of a lane costs in prompt chunks alone."""
    load = engine.lane(lane)
    return engine.costs.chunk(load.prompt_tokens - load.shared_tokens, load.shared_tokens)


# --- what each kind draws ----------------------------------------------------------------------------------------------


def _burst(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    share = _between(1.1, 3.0, magnitude)
    lasts = rng.uniform(120.0, 300.0)
    effect = Effect(load=_to_load(engine, factor, share))
    return Incident((Episode(effect, 0.0, lasts),), seconds=INCIDENT_SECONDS)


def _overload(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Effect(load=_to_load(engine, factor, _between(0.9, 1.5, magnitude))))


def _long_outputs(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
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
        * (4.0 + load.output_tokens * engine.costs.decode(6, 6000))
        * engine.limits.blocks_for(load.prompt_tokens - load.shared_tokens + load.output_tokens)
        for load in engine.lanes
    )
    return round(engine.limits.blocks_for(engine.limits.max_model_len) + spare * usual)


def _prompts_beyond_kv(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    pool = min(engine.limits.kv_blocks, _tight_pool(engine, factor, 0.5))
    setup = Effect(knobs={"slots": engine.limits.max_num_seqs, "kv_blocks": pool})
    growth = _between(2.0, 5.0, magnitude)
    effect = Effect(prompts={"interactive": growth, "code": growth}, outputs=dict.fromkeys(("interactive",), 2.0))
    return Incident((Episode(effect),), setup)


def _few_slots(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Somebody lowered the batch size."""
    needed = engine.slots * factor / engine.saturates_at
    return _always(Effect(knobs={"slots": max(1, round(needed * _between(0.6, 0.15, magnitude)))}))


def _long_tail(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """A few very long prompts in one lane: together this share of the prefill that the engine has left."""
    longest = engine.limits.max_model_len - 600
    low = round(0.55 * longest)
    cost = engine.costs.chunk(round(0.75 * longest), 0)
    left = 1.0 - factor / engine.saturates_at
    share = left * _between(0.3, 1.1, magnitude)
    return _always(Effect(strangers=(Stranger("batch", share / cost, (low, longest), (100, 300)),)))


def _cache_lost(engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    share = _between(0.3, 1.0, magnitude)
    return _always(Effect(uncached={"interactive": share, "code": share}))


def _prefill_slow(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Effect(knobs={"prefill_factor": _between(1.5, 6.0, magnitude)}))


def _interference(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Many prompts of the batch lane's usual length that hardly ask for an answer: steps are full of them."""
    load = engine.lane("batch")
    cost = engine.costs.chunk(load.prompt_tokens, 0)
    left = 1.0 - factor / engine.saturates_at
    lengths = (round(0.8 * load.prompt_tokens), round(1.2 * load.prompt_tokens))
    return _always(
        Effect(strangers=(Stranger("batch", left * _between(0.5, 1.0, magnitude) / cost, lengths, (8, 24)),))
    )


def _decode_slow(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return _always(Effect(knobs={"decode_factor": _between(1.8, 7.0, magnitude)}))


def _preemption(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """Less memory than the batch grows into: the pool shrinks (another process took it), and answers run on."""
    pool = min(engine.limits.kv_blocks, _tight_pool(engine, factor, _between(0.5, 0.05, magnitude)))
    return Incident(
        (Episode(Effect(knobs={"kv_blocks": pool}, outputs=_everywhere(engine, _between(2.0, 5.0, magnitude)))),),
        Effect(knobs={"slots": engine.limits.max_num_seqs}),
    )


def _crash(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return Incident((Episode(Effect(down=True), 0.0, _between(30.0, 240.0, magnitude)),))


def _hang(_engine: EngineConfig, _factor: float, magnitude: float, _rng: Random) -> Incident:
    return Incident((Episode(Effect(knobs={"hung": True}), 0.0, _between(20.0, 240.0, magnitude)),))


def _cold_start(_engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    """A new process takes over at full traffic: an empty cache, and graphs and kernels still being compiled."""
    warm_up = rng.uniform(90.0, 300.0)
    slow = {"prefill_factor": _between(2.0, 8.0, magnitude), "decode_factor": _between(1.3, 3.0, magnitude)}
    return Incident((Episode(Effect(fresh=True)), Episode(Effect(knobs=slow), 0.0, warm_up)))


def _slow_clients(engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    lane = rng.choice(("interactive", "batch"))
    tpot = engine.lane(lane).aims.tpot
    assert tpot is not None
    pace = _between(0.75, 0.25, magnitude) / tpot.threshold_seconds
    return _always(Effect(slow_clients={lane: SlowClients(_between(0.3, 1.0, magnitude), pace)}))


def _hop(_engine: EngineConfig, _factor: float, magnitude: float, rng: Random) -> Incident:
    return _always(Effect(hop=Hop(round(_between(24.0, 256.0, magnitude)), rng.uniform(4.0, 30.0))))


def _tokeniser(engine: EngineConfig, factor: float, magnitude: float, _rng: Random) -> Incident:
    """The serial front end's work grows until it is nearly, or more than, one core's."""
    work = sum(load.per_second * factor * engine.costs.front_end(load.prompt_tokens) for load in engine.lanes)
    return _always(Effect(knobs={"front_end_factor": _between(0.85, 1.3, magnitude) / work}))


def _noisy_tenant(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
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


def _two(engine: EngineConfig, factor: float, magnitude: float, rng: Random) -> Incident:
    first, second = PAIRS[rng.randrange(len(PAIRS))]
    drawn = [draw(engine, factor, magnitude, rng) for draw in (first, second)]
    return Incident(tuple(episode for incident in drawn for episode in incident.episodes))


PAIRS: tuple[tuple[Draw, Draw], ...] = (
    (_prefill_slow, _tokeniser),
    (_overload, _decode_slow),
    (_cache_lost, _long_outputs),
)
"""What two faults are drawn from. Their truths: prefill or first_token; queue or decode; prefill or queue."""

_LOAD: dict[str, Labels] = {"ttft": _set("queue"), "tpot": _set("decode", "queue"), "e2e": _set("queue", "decode")}
_PREFILL: dict[str, Labels] = {"ttft": _set("prefill"), "tpot": _set("decode", "prefill"), "e2e": _set("prefill")}
_ENGINE: dict[str, Labels] = {"ttft": _set("engine"), "tpot": _set("engine"), "e2e": _set("engine")}
_EITHER: Labels = _set("prefill", "first_token", "queue", "decode", "unattributed")

KINDS = (
    Kind("burst", "arrivals multiply for minutes", _burst, **_LOAD, kv=True),
    Kind("overload", "arrivals grow, and stay", _overload, **_LOAD, kv=True),
    Kind("long-outputs", "answers grow and keep their slots", _long_outputs, **_LOAD, kv=True),
    Kind("prompts-beyond-kv", "prompts grow, max-batch is too high for the KV cache", _prompts_beyond_kv, **_LOAD, kv=True),
    Kind("few-slots", "max-batch set too low", _few_slots, **_LOAD),
    Kind(
        "long-tail",
        "very long prompts in one lane",
        _long_tail,
        ttft=_set("queue"),
        tpot=_set("decode"),
        e2e=_set("queue", "prefill"),
        own_lane={"batch": {"ttft": _set("prefill")}},
    ),
    Kind("cache-lost", "the shared beginning is no longer cached", _cache_lost, **_PREFILL),
    Kind("prefill-slow", "prompts take longer to compute", _prefill_slow, **_PREFILL),
    Kind(
        "interference",
        "many more prompts of the usual length, with next to no answers: decodes share their steps",
        _interference,
        ttft=_set("queue"),
        tpot=_set("decode"),
        e2e=_set("queue", "decode"),
    ),
    Kind(
        "decode-slow",
        "every decoding step takes longer (bandwidth, placement)",
        _decode_slow,
        ttft=_set("queue", "decode"),
        tpot=_set("decode"),
        e2e=_set("decode", "queue"),
    ),
    Kind(
        "preemption",
        "the KV pool shrinks and running requests are preempted",
        _preemption,
        ttft=_set("engine", "queue"),
        tpot=_set("engine"),
        e2e=_set("engine", "queue"),
    ),
    Kind("crash", "the engine dies and comes back", _crash, **_ENGINE),
    Kind("hang", "no step ends for a while", _hang, **_ENGINE),
    Kind(
        "cold-start",
        "a new process at full traffic",
        _cold_start,
        ttft=_set("engine", "prefill"),
        tpot=_set("engine", "decode", "prefill"),
        e2e=_set("engine", "prefill"),
    ),
    Kind("slow-clients", "clients read slower than tokens come", _slow_clients, _set("stream"), _set("stream"), _set("stream")),
    Kind("hop", "something between engine and sidecar collects tokens", _hop, _set("stream"), _set("stream"), _set("stream")),
    Kind(
        "tokeniser",
        "the serial front end is slow",
        _tokeniser,
        ttft=_set("first_token"),
        tpot=_set("first_token", "decode"),
        e2e=_set("first_token", "unattributed"),
        front_end=True,
    ),
    Kind("noisy-tenant", "one lane's arrivals multiply", _noisy_tenant, **_LOAD, kv=True),
    Kind("two-faults", "two of the above at once", _two, _EITHER, _EITHER, _EITHER, front_end=True),
)
BY_NAME = {kind.name: kind for kind in KINDS}
