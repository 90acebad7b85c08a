"""Default objectives of five kinds of traffic, and how much more time a longer prompt and a larger model have.

Knows thresholds with their reasons, and which lane names stand for which kind. Refuses to know what a config says
(`config/objectives.py` puts the two together), and how large a model is (`config/model_size.py`). The limits called MLPerf's are
those of its LLM benchmarks' server runs at the 99th percentile (mlcommons/inference, loadgen/mlperf.conf, commit b66003e of
2026-08-20). Our targets are lower than 99 %, because real traffic is mixed. People read 238 words a minute in silence and 183 aloud
(Brysbaert 2019, https://doi.org/10.1016/j.jml.2019.104047): with 0.75 words a token, 5.3 and 4.1 tokens a second.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.objectives.objective import Objective


ORDINARY_TOKENS = 4096
"""Tokens up to which a prompt is ordinary: the lane's TTFT threshold holds unchanged. Longer prompts have more time."""


SMALL_BILLIONS, LARGE_BILLIONS = 15.0, 100.0
"""Billions of parameters up to which a model is small, and above which it is large: MLPerf has limits for 8, 70 and 405."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Objectives of one kind of traffic where the config leaves them open. None: no objective."""

    target: float | None = None
    """A ratio between 0 and 1, for every objective but `stall`."""
    ttft_seconds: float | None = None
    """For prompts of at most ORDINARY_TOKENS, and for prompts of unknown length."""
    tpot_seconds: float | None = None
    """For models between SMALL_BILLIONS and LARGE_BILLIONS, and for models of unknown size."""
    small_tpot_seconds: float | None = None
    """For small models. None: size has no effect, here and below."""
    large_tpot_seconds: float | None = None
    """For large models."""
    e2e_seconds: float | None = None
    """As `ttft_seconds`. A longer prompt gets as many additional seconds as its TTFT threshold does."""
    stall_seconds: float | None = None
    """For the longest gap of a stream. Neither the prompt nor the size of the model has an effect on it."""
    stall_target: float | None = None
    """The target of `stall` alone. None: `target`."""
    doubling_tokens: int | None = None
    """Tokens beyond ORDINARY_TOKENS that double the TTFT threshold; twice as many treble it. None: length has no
    effect."""

    def threshold_seconds(self, objective: Objective) -> float | None:
        """The threshold of an ordinary prompt."""
        thresholds = {
            Objective.TTFT: self.ttft_seconds,
            Objective.TPOT: self.tpot_seconds,
            Objective.E2E: self.e2e_seconds,
            Objective.STALL: self.stall_seconds,
        }
        return thresholds[objective]

    def target_of(self, objective: Objective) -> float | None:
        """The target of one objective, a ratio between 0 and 1. None: this preset has none."""
        if objective is Objective.STALL and self.stall_target is not None:
            return self.stall_target
        return self.target

    def for_size(self, billions: float | None) -> "Preset":
        """The same with the `tpot` threshold for a model of this size. None: not known."""
        tpot_seconds = None
        if billions is not None and billions <= SMALL_BILLIONS:
            tpot_seconds = self.small_tpot_seconds
        elif billions is not None and billions > LARGE_BILLIONS:
            tpot_seconds = self.large_tpot_seconds
        return self if tpot_seconds is None else replace(self, tpot_seconds=tpot_seconds)

    def extra_seconds(self, ttft_seconds: float, tokens: int) -> float:
        """Seconds beyond `ttft_seconds` that the first token of a prompt of `tokens` tokens may take. At least 0."""
        if self.doubling_tokens is None:
            return 0.0
        return ttft_seconds * max(0, tokens - ORDINARY_TOKENS) / self.doubling_tokens


INTERACTIVE = Preset(
    target=0.95,
    ttft_seconds=1.5,
    tpot_seconds=0.08,
    small_tpot_seconds=0.05,
    large_tpot_seconds=0.12,
    e2e_seconds=30.0,
    stall_seconds=2.0,
    stall_target=0.99,
    doubling_tokens=4096,
)
"""A person reads the answer while it is written.

- ttft: between MLPerf's interactive limits for 8B and 70B models (0.5 and 0.45 s) and its plain ones (2 s); the same as
  for DeepSeek-R1, interactive. In proportion to the length beyond 4096 tokens: a pass over a prompt costs at least that.
  Prompts of 4k to 16k then have 6 s, as all prompts of MLPerf's Llama 3.1 405B have.
- tpot: 12 tokens a second, more than twice what people read; 20 and 8 for small and large models. Each lies near the middle (the
  geometric mean) of MLPerf's two limits, interactive and plain: 0.03 and 0.1 s for 8B, 0.04 and 0.2 s for 70B, 0.08 and 0.175 s for
  405B. The plain limit of its two newest mixtures of experts is 0.08 s (DeepSeek-R1, 37B active; gpt-oss-120b).
- e2e: 350 tokens after that first token at the pace of a model between small and large. Size has no effect on it: an answer
  that is not streamed has 240 tokens at the pace of a large one. MLPerf gives a whole answer of GPT-J 20 s.
- target: 0.95, so that ten times the allowed misses is half of all requests: a burn rate of 10 can be reached.
- stall: a reader notices a text that stands still for 2 s. A step that holds a part of a long prompt, a block of 32 tokens and an event of
  ten speculated tokens take less than one second at the slowest pace above (0.12 s a token, of which a step makes several). Its target
  is 0.99 and not 0.95, because a healthy engine hardly ever stands still for so long: at 0.95, a stream in ten that does would be no
  more than twice what is allowed, which pages no person.

Only this preset has it. No person sees the gaps of a batch or of a program that takes the whole answer, and one line of code is short. A
synthesiser of speech has some sentences in reserve, which last for seconds or for none: who knows how many, sets the objective.
"""

BATCH = Preset(
    target=0.9,
    ttft_seconds=30.0,
    tpot_seconds=0.2,
    small_tpot_seconds=0.1,
    e2e_seconds=300.0,
    doubling_tokens=65_536,
)
"""No person waits for the answer, but a job that makes no progress is noticed.

- ttft: a queue of half a minute still drains; a batch lane is meant to wait behind the others. Most of the 30 s is for
  waiting, so length adds little: 65,536 further tokens, at 2,000 a second, double it.
- tpot: MLPerf's loosest (Llama 2 70B and Mixtral, plain; for small models Llama 3.1 8B, plain): such a lane is meant to run in full
  batches.
- e2e: 1,350 tokens at that pace after that first token.
- target: 0.9, because a person does not notice a retry.
"""

CODE = Preset(
    target=0.9,
    ttft_seconds=0.5,
    tpot_seconds=0.04,
    small_tpot_seconds=0.03,
    large_tpot_seconds=0.08,
    e2e_seconds=5.0,
    doubling_tokens=4096,
)
"""Code completion while a person types: a late answer is useless.

- ttft: MLPerf's interactive limit for Llama 3.1 8B; after that the person has pressed the next key.
- tpot: MLPerf's for Llama 2 70B, interactive: a line of 12 tokens in half a second; for small and large models those of Llama 3.1 8B
  and 405B.
- e2e: 110 tokens after that first token at the pace of a model between small and large, 56 at that of a large one.
- target: 0.9: on an engine that others share, one completion in ten waits behind a long prompt even on a good day.
"""

VOICE = Preset(target=0.95, ttft_seconds=0.5, tpot_seconds=0.1, e2e_seconds=5.5, doubling_tokens=4096)
"""A person hears the answer: speech comes in, text goes to a synthesiser sentence by sentence.

- ttft: people answer each other after 0.2 s on average (Stivers 2009, https://doi.org/10.1073/pnas.0903616106), and a voice agent
  is slower. That 0.8 s in all still sound natural, of which recognising the end of speech and the first sound take 0.3 s, is our
  assumption.
- tpot: 10 tokens a second, more than twice the pace of speech, so that the synthesiser never waits. Speech is as fast with a large
  model as with a small one, so size has no effect.
- e2e: 50 tokens, two spoken sentences, at that pace after that first token.
- target: 0.95, as for people who read: one late turn in twenty.
"""

AGENT = replace(CODE, target=0.95, ttft_seconds=2.0, e2e_seconds=15.0, doubling_tokens=8192)
"""A program waits for the whole answer, and its next step waits for it: tool calls, coding agents, chains of prompts.

- ttft: MLPerf's for gpt-oss-120b, interactive: no person sees the first token. A prompt repeats that of the step before, which the
  engine has in its prefix cache, so length counts half: 8,192 further tokens double it.
- tpot: MLPerf's interactive limits, as for code: no person reads along, and delays of all steps add up.
- e2e: 325 tokens, a tool call with its reasons, after that first token at the pace of a model between small and large; 160 at that
  of a large one.
- target: 0.95: of a task in ten steps, four in ten have a late one even then.
"""

OBJECTIVE_PRESETS: Mapping[str, Preset] = {
    "interactive": INTERACTIVE,
    "batch": BATCH,
    "code": CODE,
    "voice": VOICE,
    "agent": AGENT,
    "none": Preset(),
}
"""By the name that a config uses; `none` has no objectives and gives longer prompts no more time."""

_BY_LANE = {
    "interactive": "interactive",
    "chat": "interactive",
    "default": "interactive",
    "batch": "batch",
    "code": "code",
    "code-completion": "code",
    "completion": "code",
    "voice": "voice",
    "agent": "agent",
    "agents": "agent",
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
