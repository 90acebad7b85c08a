"""Draws engines that nothing was tuned on: costs, limits and lanes from published ranges, by a seed and a number.

It knows the ranges and the source of each. It refuses to know incidents (`kinds.py`), and the objectives that such an
engine can keep: those that it writes down are guesses from its costs, and `saturation.fair` replaces them.

An engine is rejected and drawn again if it is too fast to be played (a run would have too many requests) or too slow to
be judged (a lane would have too few), so the fast end of the published ranges is met less often than the slow one.
Every engine has the lanes `interactive`, `code` and `batch`, because incidents name them; some have `agents` too.

Sources, by the word that stands beside a range:

- *llm-d*: the tables of llm-d-inference-sim; an 8B model on H100 takes 25 to 40 ms and 0.15 to 0.30 ms a prompt token,
  a 70B model on eight takes 60 to 100 ms and 0.4 to 0.6. The fixed part is the front end, the step and the delivery
  here; what is missing to it (for 70B up to half) is not modelled.
- *vLLM nightly*: buildkite.com/vllm/performance-benchmark, build 9515, batch 8 and 128 tokens on H200: 833 ms for 8B
  (6.5 ms a step), 2,077 ms for 70B on four (16 ms), 1,917 ms for Mixtral 8x7B on two (15 ms).
- *arithmetic*: bytes over the bandwidth, or FLOPs over the peak, as in sidecar/commands/simulator/replica_presets.py.
- *Azure*: the Azure LLM inference traces (2023): conversation has 1,155 prompt and 211 output tokens on the mean, code
  2,048 and 28. *ShareGPT*: 161 and 338 (the vLLM paper). *Mooncake*: 7,590 and 182, half of the prompt cached (its
  paper, the trace of tools and agents is alike).
- *judgement*: no source was found; the range is wide on purpose.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from bench.incidents.engines import PREFIXES, EngineConfig, LaneLoad
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.objectives.objective import Aim, Aims


Range = tuple[float, float]
"""Lowest and highest value; drawn so that their logarithm is uniform."""

MOST_PER_SECOND, LEAST_PER_SECOND = 3.5, 0.7
"""Requests per second of all lanes at load factor 1. More cost too much CPU; with fewer, lanes are too quiet to burn."""
MOST_RUNNING = 60
"""Sequences that run at once when the engine is full: the simulator's cost grows with them."""
DRAWN_SATURATES_AT = 2.0
"""Load factor at which the formula of `most_per_second` sees the engine full, as with the engines of `engines.py`."""
CHUNKS = (512, 1024, 2048, 4096, 8192, None)
"""Token budgets of a step; None: whole prompts. vLLM's default was 512, then 2048, and is 8192 on large GPUs."""
SLOTS = (8, 12, 16, 24, 32, 48, 64, 128, 256)
"""llama.cpp's servers have a few slots, vLLM's default is 256. More than `MOST_RUNNING` slots meet a small KV pool."""
LONGEST = (8_192, 12_288, 16_384)
"""Values of max_model_len; the shortest that holds twice the longest lane's lengths, or a longer one."""


@dataclass(frozen=True, slots=True)
class Family:
    """Ranges of one kind of model on its usual hardware, in seconds."""

    name: str
    step: Range
    per_sequence: Range
    per_kv_token: Range
    per_prompt_token: Range


DENSE_8B = Family("8b", (6e-3, 11e-3), (2e-5, 1.2e-4), (2e-8, 6e-8), (1.5e-4, 3.0e-4))
"""step: vLLM nightly, and older GPUs. KV: 131 kB over 2 to 4.8 TB/s (arithmetic). Prompt: llm-d. Sequence: judgement."""
DENSE_70B = Family("70b", (14e-3, 28e-3), (3e-5, 2e-4), (1.2e-8, 5e-8), (4.0e-4, 6.0e-4))
"""step: vLLM nightly, and two GPUs instead of four. KV: 328 kB over 6.7 to 27 TB/s (arithmetic). Prompt: llm-d."""
WITHOUT_GQA = Family("13b", (8e-3, 16e-3), (5e-5, 2e-4), (1.0e-7, 2.4e-7), (1.5e-4, 3.5e-4))
"""Like Llama 2 13B: 819 kB of KV a token over 3.4 to 8 TB/s (arithmetic), so that a step's cost lies in the context."""
MIXTURE = Family("moe", (10e-3, 20e-3), (2e-4, 8e-4), (2e-9, 1e-8), (1.5e-4, 3.5e-4))
"""step: vLLM nightly. Each sequence wakes other experts and pays for reading them, whatever its context is: judgement,
and DeepSeek-V3's own bound (4.8 ms read at batch 32 for the experts of one token, about 11 for those of all)."""
SMALL_GPU = Family("small", (20e-3, 40e-3), (2e-5, 1e-4), (1.5e-7, 4.5e-7), (2.0e-4, 4.5e-4))
"""A 7B model in 8 bits on an L4 or A10: 7.5 GB over 300 to 600 GB/s, 131 kB of KV over the same (arithmetic)."""
FAMILIES = (DENSE_8B, DENSE_70B, WITHOUT_GQA, MIXTURE, SMALL_GPU)

PER_CONTEXT: Range = (2e-9, 4e-8)
"""Seconds per prompt token and token of its context: arithmetic (2e-9) to the longest published prompts (4.6e-8)."""
FRONT_END: Range = (0.002, 0.015)
FRONT_END_TOKEN: Range = (1e-6, 6e-6)
"""An idle API server to a busy one, as in the presets; fast tokenisers take 1 us a token, with a template 6."""
DELIVERY: Range = (0.002, 0.008)
"""As in the presets, 2 to 10 ms."""


@dataclass(frozen=True, slots=True)
class LaneShape:
    """Ranges of one kind of traffic, in tokens; `shared` is a share of the prompt, `weight` of the requests."""

    name: str
    prompt: Range
    output: Range
    shared: Range | None
    weight: Range
    targets: tuple[float, ...]
    unstreamed: tuple[float, ...] = (0.0,)


CHAT = LaneShape("chat", (300, 1600), (150, 340), (0.2, 0.6), (0.4, 0.6), (0.95, 0.99))
"""Between ShareGPT and Azure's conversation; longer prompts stand for a conversation's history."""
RETRIEVAL = LaneShape("rag", (2000, 4500), (90, 250), (0.5, 0.85), (0.4, 0.6), (0.95,), (0.0, 0.0, 0.1))
"""Documents behind a long prompt that all share: judgement, within Mooncake's lengths."""
COMPLETION = LaneShape("completion", (1200, 2600), (16, 60), (0.4, 0.8), (0.25, 0.45), (0.95,), (0.0, 0.0, 0.2))
"""Azure's code; the median prompt there has 1,500 tokens."""
EDITING = LaneShape("editing", (1500, 3000), (80, 200), (0.5, 0.8), (0.2, 0.4), (0.95,))
"""A file and the change that is wanted in it: judgement."""
SUMMARIES = LaneShape("summaries", (1800, 4000), (120, 260), None, (0.05, 0.12), (0.90,), (0.0, 0.3, 0.6, 0.9))
"""Documents of a few pages, as in MLPerf's GPT-J (news) and longer; nothing is shared."""
EXTRACTION = LaneShape("extraction", (700, 2200), (40, 130), (0.15, 0.4), (0.08, 0.2), (0.90,), (0.5, 1.0))
"""Fields read from a text with one common instruction, often unstreamed: judgement."""
TOOLS = LaneShape("tools", (3000, 6000), (40, 160), (0.7, 0.92), (0.08, 0.25), (0.90, 0.95), (0.0, 0.4))
"""An agent's turn: tool definitions and history are cached. Below Mooncake's mean, so that max_model_len may be 16k."""

SHAPES_OF = {"interactive": (CHAT, RETRIEVAL), "code": (COMPLETION, EDITING), "batch": (SUMMARIES, EXTRACTION)}
AGENTS = "agents"
AGENTS_SHARE = 0.45
"""Share of the engines with a fourth lane."""


def drawn(seed: str, number: int) -> EngineConfig:
    """The engine that a seed and a number draw, named after both. The same arguments give the same engine.

    Its rates are such that it is full at about `DRAWN_SATURATES_AT`, by a formula; `saturation.saturates_at` measures.
    """
    for attempt in count():
        found = _attempt(Random(f"{seed}/{number}/{attempt}/engine"), f"drawn-{seed}-{number}")
        if found is not None:
            return found
    raise AssertionError


def most_per_second(engine: EngineConfig) -> float:
    """Requests per second in sum, at which the engine's queue would grow without bound, by a formula.

    A full engine runs `n` sequences. A step takes `s`; prompts take the share `x * prefill` of all time at a rate `x`,
    so that `s = decode(n) / (1 - x * prefill)`. A request holds its slot for its own prompt and `output` steps.
    Noise, lengths and preemption are not in it: it is right to within a quarter or so.
    """
    sequences = full_batch(engine)
    prefill, output, held = (_mean(engine, each) for each in (_prefill_seconds(engine), _output, _held))
    decode = engine.costs.decode(sequences, round(sequences * held))
    low, high = 0.0, 1.0 / prefill
    for _ in range(60):
        rate = (low + high) / 2
        step = decode / (1.0 - rate * prefill)
        chunks = max(1.0, _mean(engine, _own) / engine.limits.max_num_batched_tokens)
        inside = chunks * step + prefill + output * step
        low, high = (rate, high) if rate * inside < sequences else (low, rate)
    return min(low, 0.9 / _mean(engine, _front_end_seconds(engine)))


def full_batch(engine: EngineConfig) -> int:
    """Number of sequences that run when the queue is never empty: the slots, or as many as the KV pool holds."""
    shared = PREFIXES * sum(engine.limits.blocks_for(load.shared_tokens) for load in engine.lanes)
    each = _mean(engine, lambda load: (load.prompt_tokens - load.shared_tokens + load.output_tokens) / 16)
    return max(1, min(engine.slots, int((engine.limits.kv_blocks - shared) / each)))


# --- means over requests ----------------------------------------------------------------------------------------------


def _mean(engine: EngineConfig, of: Callable[[LaneLoad], float]) -> float:
    """Mean over the requests of all lanes."""
    total = sum(load.per_second for load in engine.lanes)
    return sum(load.per_second * of(load) for load in engine.lanes) / total


def _own(load: LaneLoad) -> float:
    return load.prompt_tokens - load.shared_tokens


def _output(load: LaneLoad) -> float:
    return load.output_tokens


def _held(load: LaneLoad) -> float:
    """Tokens in the KV cache of a sequence that is half done, its share of the prefix included."""
    return load.prompt_tokens + load.output_tokens / 2


def _prefill_seconds(engine: EngineConfig) -> Callable[[LaneLoad], float]:
    return lambda load: engine.costs.chunk(load.prompt_tokens - load.shared_tokens, load.shared_tokens)


def _front_end_seconds(engine: EngineConfig) -> Callable[[LaneLoad], float]:
    return lambda load: engine.costs.front_end(load.prompt_tokens)


def _from(rng: Random, range_: Range) -> float:
    low, high = range_
    return low * math.exp(rng.random() * math.log(high / low))


# --- one attempt ------------------------------------------------------------------------------------------------------


def _attempt(rng: Random, name: str) -> EngineConfig | None:
    """An engine, or None if it cannot be played at a fair cost."""
    family = rng.choice(FAMILIES)
    costs = _costs(rng, family)
    lanes = _lanes_of(rng)
    fits = [each for each in LONGEST if each >= 2 * max(load.prompt_tokens + load.output_tokens for load in lanes)]
    longest = rng.choice(fits or LONGEST[-1:])
    chunk, slots = rng.choice(CHUNKS), rng.choice(SLOTS)
    blocks = _kv_blocks(rng, lanes, slots, longest)
    limits = Limits(
        max_num_seqs=max(64, 4 * slots),
        max_num_batched_tokens=longest if chunk is None else chunk,
        max_model_len=longest,
        kv_blocks=blocks,
        chunked_prefill=chunk is not None,
    )
    engine = EngineConfig(name, limits, slots, costs, lanes, DRAWN_SATURATES_AT)
    if full_batch(engine) > MOST_RUNNING:
        return None
    total = most_per_second(engine) / DRAWN_SATURATES_AT
    if not LEAST_PER_SECOND <= total <= MOST_PER_SECOND:
        return None
    return replace(engine, lanes=_at_rate(engine, total))


def _costs(rng: Random, family: Family) -> Costs:
    return Costs(
        step_seconds=_from(rng, family.step),
        per_sequence_seconds=_from(rng, family.per_sequence),
        per_kv_token_seconds=_from(rng, family.per_kv_token),
        per_prompt_token_seconds=_from(rng, family.per_prompt_token),
        per_prompt_token_context_seconds=_from(rng, PER_CONTEXT),
        front_end_request_seconds=_from(rng, FRONT_END),
        front_end_token_seconds=_from(rng, FRONT_END_TOKEN),
        delivery_seconds=_from(rng, DELIVERY),
    )


def _lanes_of(rng: Random) -> tuple[LaneLoad, ...]:
    """Lanes whose rates are shares that add up to 1, without objectives yet."""
    shapes = {lane: rng.choice(shapes) for lane, shapes in SHAPES_OF.items()}
    if rng.random() < AGENTS_SHARE:
        shapes[AGENTS] = TOOLS
    weights = {lane: _from(rng, shape.weight) for lane, shape in shapes.items()}
    return tuple(_lane(rng, lane, shape, weights[lane] / sum(weights.values())) for lane, shape in shapes.items())


def _lane(rng: Random, lane: str, shape: LaneShape, share: float) -> LaneLoad:
    prompt = round(_from(rng, shape.prompt))
    shared = 0 if shape.shared is None else round(prompt * _from(rng, shape.shared))
    target, unstreamed = rng.choice(shape.targets), rng.choice(shape.unstreamed)
    # The thresholds are set when costs and rates are known; this keeps the target until then.
    kept = Aims(Aim(1.0, target), Aim(1.0, target), Aim(1.0, target) if unstreamed else None)
    spread = rng.uniform(0.25, 0.6)
    return LaneLoad(lane, share, prompt, round(_from(rng, shape.output)), shared, kept, spread, unstreamed)


def _kv_blocks(rng: Random, lanes: Sequence[LaneLoad], slots: int, longest: int) -> int:
    """Blocks of the KV pool: at least one request of max_model_len, the shared prefixes, and the running sequences.

    Up to `MOST_RUNNING` slots the pool holds all of them 1.2 to 3 times over; with more slots it is what limits.
    """
    each = sum(load.per_second * (load.prompt_tokens - load.shared_tokens + load.output_tokens) for load in lanes) / 16
    shared = sum(PREFIXES * math.ceil(load.shared_tokens / 16) for load in lanes)
    running = slots * rng.uniform(1.2, 3.0) if slots <= MOST_RUNNING else MOST_RUNNING * rng.uniform(0.5, 0.95)
    return round(shared + max(running * each, 1.2 * longest / 16))


def _at_rate(engine: EngineConfig, total: float) -> tuple[LaneLoad, ...]:
    """The lanes at this sum of their rates, with objectives guessed from the engine's costs."""
    chunk = min(engine.limits.max_num_batched_tokens, 4096) * engine.costs.per_prompt_token_seconds
    half = max(1, full_batch(engine) // 2)
    pace = 1.5 * engine.costs.decode(half, half * 2000)

    def at_rate(load: LaneLoad) -> LaneLoad:
        first = max(0.2, 4.0 * _prefill_seconds(engine)(load) + 2.0 * chunk)
        answer = first + load.output_tokens * 2.5 * pace
        guessed = {"ttft": first, "tpot": 2.5 * pace, "e2e": answer}
        kept = {name: getattr(load.aims, name) for name in guessed}
        aims = Aims(**{name: aim and replace(aim, threshold_seconds=guessed[name]) for name, aim in kept.items()})
        return replace(load, per_second=load.per_second * total, aims=aims)

    return tuple(at_rate(load) for load in engine.lanes)
