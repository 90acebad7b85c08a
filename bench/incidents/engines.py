"""Engine configurations on which incidents are played: costs, limits, lanes with traffic, and sensible objectives.

It knows numbers and their reasons. It refuses to know incidents (`kinds.py`) and how a run is played (`play.py`).

The constants are of the same order as the demo's presets and as those of the study in reference/blame.md, but slower
per prompt token, so that an engine is busy at a few requests per second and a run is cheap. Thresholds were set from
healthy runs at the highest load factor in the kindest world: rounded up until fewer than a third of the allowed misses
are used. In other worlds and at higher loads `saturation.fair` raises them by the same rule. No value was changed after
a rule had been seen to fail on it. Engines that are not written down here come from `drawn.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.config.buckets import PromptBuckets
from sidecar.objectives.objective import Aim, Aims, Objectives


MODEL = "llama"
BUCKETS = PromptBuckets((512, 4096, 16_384))
"""Fewer edges than the default: a run has few requests, and each series (edge, lane, objective) costs promtool time."""
LOWEST_LOAD, HIGHEST_LOAD = 0.5, 1.1
"""Each seed draws a load factor between these; at all of them a healthy run keeps the error budget of every lane."""


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """One lane's traffic at load factor 1, and its objectives."""

    lane: str
    per_second: float
    prompt_tokens: int
    output_tokens: int
    shared_tokens: int
    """Prompt tokens of the prefix that all requests of a tenant (one of `PREFIXES`) share; the prefix cache has it."""
    aims: Aims
    spread: float = 0.4
    """Lengths are drawn uniformly within this fraction around their value; the shared prefix keeps its length."""
    unstreamed: float = 0.0
    """Share of requests that are not streamed, 0 to 1."""
    aims_by_bucket: Mapping[str, Aims] = field(default_factory=dict)
    """Prompt bucket to its own objectives; all other buckets have `aims`."""
    model: str = MODEL


PREFIXES = 4
"""Number of shared prefixes in each lane."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One replica with its lanes: their traffic and objectives."""

    name: str
    limits: Limits
    slots: int
    """Number of sequences that it admits while healthy; a fault may raise it up to `limits.max_num_seqs`."""
    costs: Costs
    lanes: tuple[LaneLoad, ...]
    saturates_at: float
    """Load factor from which on its queue grows without bound; measured, to within 5 %."""
    held_out: bool = False
    """Whether it is excluded from tuning."""

    def objectives(self) -> Objectives:
        """Objectives of all lanes, for every bucket."""
        return Objectives(
            {
                load.lane: {bucket: load.aims_by_bucket.get(bucket, load.aims) for bucket in BUCKETS.labels}
                for load in self.lanes
            }
        )

    def lane(self, name: str) -> LaneLoad:
        """One lane's traffic by name."""
        return next(load for load in self.lanes if load.lane == name)


def _aims(ttft: tuple[float, float], tpot: tuple[float, float], e2e: tuple[float, float] | None = None) -> Aims:
    """Objectives, each given as threshold in seconds and target."""
    return Aims(Aim(*ttft), Aim(*tpot), None if e2e is None else Aim(*e2e))


def _lanes(
    interactive: tuple[float, int, int, int, Aims],
    batch: tuple[float, int, int, int, Aims],
    code: tuple[float, int, int, int, Aims],
    *,
    unstreamed: float,
    long_batch: Aims | None = None,
) -> tuple[LaneLoad, ...]:
    """Lanes, each from requests/s, prompt, output, shared tokens, objectives. `long_batch`: objectives from 4k on."""
    longer = {} if long_batch is None else dict.fromkeys(("4k-16k", "16k+"), long_batch)
    return (
        LaneLoad("interactive", *interactive),
        LaneLoad("batch", *batch, unstreamed=unstreamed, aims_by_bucket=longer),
        LaneLoad("code", *code),
    )


CHUNKS_2048 = EngineConfig(
    "chunks-2048",
    Limits(max_num_seqs=96, max_num_batched_tokens=2048, max_model_len=16_384, kv_blocks=5_000),
    slots=16,
    costs=Costs(
        step_seconds=6e-3,
        per_sequence_seconds=8e-5,
        per_kv_token_seconds=1e-8,
        per_prompt_token_seconds=2.2e-4,
        per_prompt_token_context_seconds=4e-8,
        front_end_request_seconds=0.006,
        front_end_token_seconds=3e-6,
        delivery_seconds=0.004,
    ),
    lanes=_lanes(
        (1.0, 2500, 110, 1900, _aims((2.0, 0.95), (0.050, 0.95))),
        (0.16, 3000, 180, 0, _aims((4.0, 0.90), (0.060, 0.90), (12.0, 0.90))),
        (1.1, 1500, 30, 1200, _aims((2.0, 0.95), (0.120, 0.95))),
        unstreamed=0.5,
    ),
    saturates_at=1.9,
)
"""vLLM's default token budget: a 3,000-token prompt takes two long steps, and later requests wait for them."""


CHUNKS_512 = EngineConfig(
    "chunks-512",
    Limits(max_num_seqs=96, max_num_batched_tokens=512, max_model_len=16_384, kv_blocks=5_000),
    slots=20,
    costs=Costs(
        step_seconds=8e-3,
        per_sequence_seconds=1e-4,
        per_kv_token_seconds=1.5e-8,
        per_prompt_token_seconds=1.7e-4,
        per_prompt_token_context_seconds=2e-8,
        front_end_request_seconds=0.010,
        front_end_token_seconds=5e-6,
        delivery_seconds=0.006,
    ),
    lanes=_lanes(
        (1.2, 2400, 120, 1800, _aims((2.5, 0.99), (0.045, 0.95))),
        (0.14, 3600, 200, 0, _aims((4.0, 0.90), (0.060, 0.90))),
        (1.0, 1600, 40, 1200, _aims((1.5, 0.95), (0.080, 0.95))),
        unstreamed=0.0,
    ),
    saturates_at=2.0,
)
"""A small token budget: a prompt takes many steps, which slow decode only a little."""


UNCHUNKED = EngineConfig(
    "unchunked",
    Limits(
        max_num_seqs=96, max_num_batched_tokens=16_384, max_model_len=16_384, kv_blocks=6_000, chunked_prefill=False
    ),
    slots=18,
    costs=Costs(
        step_seconds=7e-3,
        per_sequence_seconds=6e-5,
        per_kv_token_seconds=1.2e-8,
        per_prompt_token_seconds=1.8e-4,
        per_prompt_token_context_seconds=3e-8,
        front_end_request_seconds=0.005,
        front_end_token_seconds=2e-6,
        delivery_seconds=0.003,
    ),
    lanes=_lanes(
        (1.1, 2800, 90, 2000, _aims((2.5, 0.95), (0.060, 0.95))),
        (0.12, 4000, 200, 0, _aims((4.0, 0.90), (0.070, 0.90), (15.0, 0.90))),
        (1.2, 1300, 40, 1000, _aims((2.0, 0.95), (0.120, 0.95))),
        unstreamed=0.3,
    ),
    saturates_at=1.9,
)
"""Prompts are computed whole: all streams stand still during a prefill."""


DECODE_HEAVY = EngineConfig(
    "decode-heavy",
    Limits(max_num_seqs=128, max_num_batched_tokens=512, max_model_len=16_384, kv_blocks=6_000),
    slots=36,
    costs=Costs(
        step_seconds=9e-3,
        per_sequence_seconds=5e-4,
        per_kv_token_seconds=2e-8,
        per_prompt_token_seconds=4e-5,
        per_prompt_token_context_seconds=6e-9,
        front_end_request_seconds=0.004,
        front_end_token_seconds=2e-6,
        delivery_seconds=0.004,
    ),
    lanes=_lanes(
        (1.5, 3000, 260, 2500, _aims((0.6, 0.95), (0.035, 0.95))),
        (0.22, 3000, 400, 0, _aims((1.5, 0.90), (0.040, 0.90))),
        (1.2, 2300, 60, 2000, _aims((0.5, 0.95), (0.035, 0.90))),
        unstreamed=0.0,
    ),
    saturates_at=2.0,
)
"""Short prompts and long answers: many sequences in each step, and prompts that cost almost nothing."""


HELD_OUT = EngineConfig(
    "held-out",
    Limits(max_num_seqs=80, max_num_batched_tokens=1024, max_model_len=12_288, kv_blocks=2_400),
    slots=20,
    costs=Costs(
        step_seconds=11e-3,
        per_sequence_seconds=1.5e-4,
        per_kv_token_seconds=1.2e-7,
        per_prompt_token_seconds=1.5e-4,
        per_prompt_token_context_seconds=1.6e-8,
        front_end_request_seconds=0.008,
        front_end_token_seconds=4e-6,
        delivery_seconds=0.005,
    ),
    lanes=_lanes(
        (1.0, 2200, 130, 1400, _aims((1.2, 0.95), (0.045, 0.95))),
        (0.10, 3200, 150, 0, _aims((3.0, 0.90), (0.060, 0.90), (10.0, 0.90))),
        (1.2, 1700, 50, 1300, _aims((0.9, 0.95), (0.060, 0.95))),
        unstreamed=0.2,
    ),
    saturates_at=2.1,
    held_out=True,
)
"""Like a 13B model without grouped-query attention: its KV pool is a third full on a quiet day. Not used for tuning."""


ENGINES = (CHUNKS_2048, CHUNKS_512, UNCHUNKED, DECODE_HEAVY, HELD_OUT)
BY_NAME = {engine.name: engine for engine in ENGINES}
