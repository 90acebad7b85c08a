"""Default objectives of three kinds of traffic, and how much more time a longer prompt has.

Knows thresholds with their reasons, and which lane names stand for which kind. Refuses to know what a config says
(`config/objectives.py` puts the two together). The limits called MLPerf's are those of its LLM benchmarks' server runs
at the 99th percentile (mlcommons/inference, loadgen/mlperf.conf). Our targets are lower than 99 %, because real traffic
is mixed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidecar.slo.objective import Objective


ORDINARY_TOKENS = 4096
"""Tokens up to which a prompt is ordinary: the lane's TTFT threshold holds unchanged. Longer prompts have more time."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Objectives of one kind of traffic where the config leaves them open. None: no objective."""

    target: float | None = None
    """A ratio between 0 and 1, for every objective."""
    ttft_seconds: float | None = None
    """For prompts of at most ORDINARY_TOKENS, and for prompts of unknown length."""
    tpot_seconds: float | None = None
    e2e_seconds: float | None = None
    """As `ttft_seconds`. A longer prompt gets as many additional seconds as its TTFT threshold does."""
    doubling_tokens: int | None = None
    """Tokens beyond ORDINARY_TOKENS that double the TTFT threshold; twice as many treble it. None: length has no
    effect."""

    def threshold_seconds(self, objective: Objective) -> float | None:
        """The threshold of an ordinary prompt."""
        thresholds = {
            Objective.TTFT: self.ttft_seconds,
            Objective.TPOT: self.tpot_seconds,
            Objective.E2E: self.e2e_seconds,
        }
        return thresholds[objective]

    def extra_seconds(self, ttft_seconds: float, tokens: int) -> float:
        """Seconds beyond `ttft_seconds` that the first token of a prompt of `tokens` tokens may take. At least 0."""
        if self.doubling_tokens is None:
            return 0.0
        return ttft_seconds * max(0, tokens - ORDINARY_TOKENS) / self.doubling_tokens


INTERACTIVE = Preset(target=0.95, ttft_seconds=1.5, tpot_seconds=0.08, e2e_seconds=30.0, doubling_tokens=4096)
"""A person reads the answer while it is written.

- ttft: between MLPerf's interactive limits for 8B and 70B models (0.5 and 0.45 s) and its plain ones (2 s); the same as
  for DeepSeek-R1, interactive. In proportion to the length beyond 4096 tokens: a pass over a prompt costs at least that.
  Prompts of 4k to 16k then have 6 s, as all prompts of MLPerf's Llama 3.1 405B have.
- tpot: 12 tokens a second, more than twice what people read. MLPerf: 0.04 s (70B, interactive) to 0.2 s (70B, plain);
  0.08 s for Llama 3.1 405B, interactive.
- e2e: 350 tokens at that pace after that first token. MLPerf gives a whole answer of GPT-J 20 s.
- target: 0.95, so that ten times the allowed misses is half of all requests: a burn rate of 10 can be reached.
"""

BATCH = Preset(target=0.9, ttft_seconds=30.0, tpot_seconds=0.2, e2e_seconds=300.0, doubling_tokens=65_536)
"""No person waits for the answer, but a job that makes no progress is noticed.

- ttft: a queue of half a minute still drains; a batch lane is meant to wait behind the others. Most of the 30 s is for
  waiting, so length adds little: 65,536 further tokens, at 2,000 a second, double it.
- tpot: MLPerf's loosest (Llama 2 70B and Mixtral, plain): such a lane is meant to run in full batches.
- e2e: 1,350 tokens at that pace after that first token.
- target: 0.9, because a person does not notice a retry.
"""

CODE = Preset(target=0.9, ttft_seconds=0.5, tpot_seconds=0.04, e2e_seconds=5.0, doubling_tokens=4096)
"""Code completion while a person types: a late answer is useless.

- ttft: MLPerf's interactive limit for Llama 3.1 8B; after that the person has pressed the next key.
- tpot: MLPerf's for Llama 2 70B, interactive: a line of 12 tokens in half a second.
- e2e: 110 tokens at that pace after that first token.
- target: 0.9: on an engine that others share, one completion in ten waits behind a long prompt even on a good day.
"""

OBJECTIVE_PRESETS: Mapping[str, Preset] = {"interactive": INTERACTIVE, "batch": BATCH, "code": CODE, "none": Preset()}
"""By the name that a config uses; `none` has no objectives and gives longer prompts no more time."""

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
    """The preset of a lane without one in the config: by the lane's name, in any case, `_` as `-`; else `none`."""
    return _BY_LANE.get(lane.lower().replace("_", "-"), "none")


def longest_tokens(edges: Sequence[int]) -> tuple[int, ...]:
    """Tokens of each bucket's longest prompt, short to long. The last is open: its end is twice its beginning."""
    return (*edges, 2 * edges[-1])


def rounded(seconds: float) -> float:
    """Round up to two significant digits: people read thresholds, and one must not be tighter than its rule says."""
    step = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    steps = math.ceil(seconds / step - 1e-9)
    # If a step is a fraction, divide: 0.57 must not become 0.5700000000000001.
    return steps * step if step >= 1 else steps / round(1 / step)
