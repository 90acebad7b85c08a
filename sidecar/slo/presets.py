"""What is promised where a config says nothing: three kinds of traffic, and how much longer a longer prompt may take.

Knows thresholds with their reasons, and which lane names stand for which kind. Refuses to know what a config says
(`config_objectives.py` puts the two together). The limits called MLPerf's are those of its LLM benchmarks' server runs at
the 99th percentile (mlcommons/inference, loadgen/mlperf.conf); ours are kept by fewer requests, as real traffic is mixed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidecar.slo.objective import Objective


ORDINARY_TOKENS = 4096
"""Up to this length a prompt is ordinary: the lane's TTFT threshold holds as it stands. Longer ones have more time."""


@dataclass(frozen=True, slots=True)
class Preset:
    """What one kind of traffic is held to where the config leaves it open. None: nothing."""

    target: float | None = None
    """A ratio between 0 and 1, for every objective."""
    ttft_seconds: float | None = None
    """For prompts of at most ORDINARY_TOKENS, and for those whose length nobody knows."""
    tpot_seconds: float | None = None
    e2e_seconds: float | None = None
    """As `ttft_seconds`; a longer prompt gets as many seconds more as its TTFT does."""
    doubling_tokens: int | None = None
    """So many tokens beyond the ordinary double the TTFT threshold, twice as many treble it. None: length changes nothing."""

    def threshold_seconds(self, objective: Objective) -> float | None:
        """The threshold of an ordinary prompt."""
        thresholds = {
            Objective.TTFT: self.ttft_seconds,
            Objective.TPOT: self.tpot_seconds,
            Objective.E2E: self.e2e_seconds,
        }
        return thresholds[objective]

    def extra_seconds(self, ttft_seconds: float, tokens: int) -> float:
        """How much longer than `ttft_seconds` the first token of a prompt of so many tokens may take. At least 0."""
        if self.doubling_tokens is None:
            return 0.0
        return ttft_seconds * max(0, tokens - ORDINARY_TOKENS) / self.doubling_tokens


INTERACTIVE = Preset(target=0.95, ttft_seconds=1.5, tpot_seconds=0.08, e2e_seconds=30.0, doubling_tokens=4096)
"""Somebody reads while it is written.

- ttft: between MLPerf's interactive limits for 8B and 70B models (0.5 and 0.45 s) and its plain ones (2 s); the same as
  for DeepSeek-R1, interactive. In proportion to the length beyond 4096 tokens: a pass over a prompt costs at least that.
  Prompts of 4k to 16k then have 6 s, as all prompts of MLPerf's Llama 3.1 405B have.
- tpot: 12 tokens a second, more than twice what people read. MLPerf: 0.04 s (70B, interactive) to 0.2 s (70B, plain);
  0.08 s for Llama 3.1 405B, interactive.
- e2e: 350 tokens at that pace after that first token. MLPerf gives a whole answer of GPT-J 20 s.
- target: 0.95, so that ten times the allowed misses is half of all requests, which can happen.
"""

BATCH = Preset(target=0.9, ttft_seconds=30.0, tpot_seconds=0.2, e2e_seconds=300.0, doubling_tokens=65_536)
"""Nobody watches, but a job that stands still is noticed.

- ttft: half a minute is a queue that drains; a batch lane is meant to wait behind the others. Most of it is for waiting, so
  length adds little: 65,536 further tokens, at 2,000 a second, double it.
- tpot: MLPerf's loosest (Llama 2 70B and Mixtral, plain): full batches are what such a lane is for.
- e2e: 1,350 tokens at that pace after that first token.
- target: 0.9, as a retry costs nobody's patience.
"""

CODE = Preset(target=0.9, ttft_seconds=0.5, tpot_seconds=0.04, e2e_seconds=5.0, doubling_tokens=4096)
"""Completion while somebody types: late is useless.

- ttft: MLPerf's interactive limit for Llama 3.1 8B; beyond it the next key is pressed.
- tpot: MLPerf's for Llama 2 70B, interactive: a line of 12 tokens in half a second.
- e2e: 110 tokens at that pace after that first token.
- target: 0.9: on an engine that others share, one completion in ten waits behind somebody's document even on a good day.
"""

PRESETS: Mapping[str, Preset] = {"interactive": INTERACTIVE, "batch": BATCH, "code": CODE, "none": Preset()}
"""By the name that a config uses; `none` promises nothing and stretches nothing."""

_BY_LANE = {
    "interactive": "interactive",
    "chat": "interactive",
    "default": "interactive",
    "batch": "batch",
    "code": "code",
    "code-completion": "code",
    "completion": "code",
}


def preset_for(lane: str) -> str:
    """The preset of a lane that names none: by the lane's own name, in any case, `_` as `-`; else `none`."""
    return _BY_LANE.get(lane.lower().replace("_", "-"), "none")


def longest_tokens(edges: Sequence[int]) -> tuple[int, ...]:
    """The longest prompt of each bucket, short to long; the last bucket is open and is taken to end at twice its beginning."""
    return (*edges, 2 * edges[-1])


def rounded(seconds: float) -> float:
    """To two significant digits, up: a threshold is read by people, and must not be tighter than its rule says."""
    step = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    steps = math.ceil(seconds / step - 1e-9)
    # Divided where a step is a fraction, so that 0.57 is not 0.5700000000000001.
    return steps * step if step >= 1 else steps / round(1 / step)
