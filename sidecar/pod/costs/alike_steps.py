"""The cost of decodes where too few steps are known to hold no prompt: that of the steps that are most alike. Pure.

While longer prompts wait, any step may hold a part of one. Steps without one cost about the same, and those with one do
not, so the densest ones tell the decodes. But an engine whose every step holds a full chunk of a prompt has steps that
are all alike as well. Then their prompts would have cost next to nothing, or a prompt that has not ended or is of unknown
length explains them, or prompts that became dear by much less than the decodes would have to, and there is no answer.

Many steps that are alike, and some that are much longer, are decodes and steps with a chunk all the same, where prompts end
one after the other. A scheduler fills a step with as much of a waiting prompt as its budget allows (vLLM
`max_num_batched_tokens`, SGLang `chunked_prefill_size`), and one that computes prompts whole has longer steps still. It
computes prompts in order; where it does not (vLLM `long_prefill_token_threshold`), a prompt in work may be in all steps.

It knows what steps took, and is told what their decodes usually cost when it is asked. It refuses to know how that is
learned (`step_model.py`).
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.pod.costs.linear_costs import Compared, Costs, decode_terms
from sidecar.pod.costs.steps import Step
from sidecar.pod.factor import Factor, densest_of


MOST_SEEN = 1024
FEWEST_SEEN = 20
LIKE_USUAL = 1.2
"""A factor up to this may be believed, however little time it leaves for prompts."""
CHEAPEST_PROMPTS = 0.5
"""A dearer one must leave this share of their expected seconds to the prompts that were computed meanwhile."""
DEAREST_PROMPT = 4.0
"""A prompt that is computed in parts, for up to so many times its expected seconds, may explain all that steps take beyond their usual
decodes and the prompts that ended: it has not ended itself, so nothing is left for it."""
DEARER_THAN_PROMPTS = 3.0
"""Prompts that are dear by a third as much as the decodes would have to be explain all that steps take beyond their usual decodes: every
step holds a chunk, whose cost is many times that of the decodes beside it."""
ALIKE = 1.1
"""A step is one of those that are alike if its ratio is at most this factor outside of their interval."""
FULL = 2.0
"""A step of at least so many times the longest of those that are alike is taken for one with a full chunk."""
OVER_PARTS = 2
"""The steps that are alike must be more than so many times those that may hold a part of a prompt without being full."""


class Bounds(NamedTuple):
    """The least and the most that a decode factor may be, with prompts at their usual cost."""

    least: float
    most: float


class _Seen(NamedTuple):
    step: Step
    seconds: float
    prompt_seconds: float
    begun_seconds: float


class AlikeSteps:
    """The recent steps of one engine, with and without prompts."""

    def __init__(self) -> None:
        self._seen: deque[_Seen] = deque(maxlen=MOST_SEEN)

    def add(self, step: Step, seconds: float, prompt_seconds: float, begun_seconds: float = 0.0) -> None:
        """A step has ended, or some that were read together, each of so many seconds. `prompt_seconds`: what the prompts that ended with
        them should cost; `begun_seconds`: what the whole prompt should that was computed in parts then.
        """
        self._seen.append(_Seen(step, step.steps * seconds, prompt_seconds, begun_seconds))

    def forget(self) -> None:
        """The engine was replaced."""
        self._seen.clear()

    def enough(self, since: float) -> bool:
        """Whether there were enough steps since this instant to compare them."""
        return len(self._seen) >= FEWEST_SEEN and self._seen[-FEWEST_SEEN].step.ended_at >= since

    def factor(self, since: float, usual_excess: float, usual: Costs) -> Compared | None:
        """The decode factor since this instant; None if there were too few steps, or if prompts may have been in all that are alike.

        `usual_excess`: what prompts took to what they should take, while all was well.
        """
        seen = [each for each in self._seen if each.step.ended_at >= since]
        # Prompts are computed in order: until the last one ended, the one in work had not begun. Where it had, it cost the usual.
        ends = [place for place, each in enumerate(seen) if each.step.prompts]
        before = _told(seen[: ends[-1] + 1] if ends else [], usual_excess, usual, 1.0)
        # That decodes cost the usual until then tells nothing of now. That they were dear already does.
        dear = before if before is not None and before.factor.low > LIKE_USUAL else None
        return _told(seen, usual_excess, usual, DEAREST_PROMPT) or dear

    def dearest(self, since: float, usual_excess: float, usual: Costs) -> Bounds | None:
        """The decode factor since this instant if each prompt cost the usual. None without a step.

        The least: all prompts that ended, and the one in work, were computed since then as a whole. The most takes prompts as computed
        in order: those that ended first were computed before, the others since then, and the one in work has hardly begun. Where
        none ended, that one was computed all the while.
        """
        seen = [each for each in self._seen if each.step.ended_at >= since]
        if not seen:
            return None
        ended = [each.prompt_seconds for each in seen if each.step.prompts]
        begun = max(each.begun_seconds for each in seen)
        seconds = sum(each.seconds for each in seen)
        decodes = sum(_usual_seconds(each.step, usual) for each in seen)
        return Bounds(
            (seconds - usual_excess * (sum(ended) + begun)) / decodes,
            (seconds - usual_excess * (sum(ended[1:]) if ended else begun)) / decodes,
        )


def _told(seen: Sequence[_Seen], usual_excess: float, usual: Costs, dearest_prompt: float) -> Compared | None:
    """The decode factor of these steps. `dearest_prompt`: the cost of the prompt in work, over its usual one, up to which it may explain
    them.
    """
    if len(seen) < FEWEST_SEEN:
        return None
    steps = [each.step for each in seen]
    decodes = [_usual_seconds(each, usual) for each in steps]
    pairs = list(zip(seen, decodes, strict=True))
    found = densest_of(sorted(each.seconds / decode_seconds for each, decode_seconds in pairs), FEWEST_SEEN)
    number = sum(each.steps for each in steps)
    terms = decode_terms(
        sum(each.steps * each.sequences for each in steps) / number,
        sum(each.steps * each.context_tokens for each in steps) / number,
    )
    if found.value <= LIKE_USUAL:
        return Compared(found, terms)
    ended = usual_excess * sum(each.prompt_seconds for each in seen)
    begun = usual_excess * max(each.begun_seconds for each in seen)
    beyond = sum(each.seconds - decode_seconds for each, decode_seconds in pairs)
    if beyond - ended <= dearest_prompt * begun or not all(each.measured for each in steps):
        return None
    if beyond * DEARER_THAN_PROMPTS <= found.value * (ended + begun) and not _hold_none(pairs, found):
        return None
    left = sum(each.seconds - found.value * decode_seconds for each, decode_seconds in pairs)
    return Compared(found, terms) if left >= CHEAPEST_PROMPTS * ended else None


def _usual_seconds(step: Step, usual: Costs) -> float:
    return step.steps * usual.decode_seconds(step.sequences, step.context_tokens)


def _hold_none(pairs: Sequence[tuple[_Seen, float]], found: Factor) -> bool:
    """Whether the steps that are alike hold no prompt, if prompts are computed in order: those that hold one are full then, but for one of
    each prompt that ended and of the one in work, which hold what is left of it. There must be full ones, and many that are alike.
    `pairs`: each step, and its decodes at their usual cost.
    """
    lengths = [each.seconds / each.step.steps for each, _ in pairs]
    alike = [
        length
        for length, (each, decode_seconds) in zip(lengths, pairs, strict=True)
        if found.low / ALIKE <= each.seconds / decode_seconds <= found.high * ALIKE
    ]
    full = sum(length >= FULL * max(alike) for length in lengths)
    parts = 1 + sum(len(each.step.prompts) for each, _ in pairs)
    return full > 0 and len(alike) > OVER_PARTS * parts and len(lengths) - len(alike) - full <= parts
