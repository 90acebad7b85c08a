"""The work of an engine while requests wait for their first token: prompts, a full batch, or neither. Pure.

Requests wait for compute only if nearly each step meanwhile holds prompts: a scheduler makes no step of decodes alone
while a request waits that has a place in the batch. In such steps, requests wait for a slot or for KV blocks only if as
many sequences or tokens as ever are in the batch. If neither is true, they have not reached the scheduler. It knows
steps (`steps.py`). It refuses to name a cause, and to judge the batch by steps with prompts: these hold slots and
blocks too, and no stream shows them.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.pod.costs.steps import Step


WITH_PROMPTS = 1.2
"""A step of this many times the cost of its decodes computes prompts too."""
LEAST_WAITING = 2
"""One request that waits may be in prefill itself, whatever else is true."""
WAITED_SECONDS = 30.0
FEWEST_WAITS = 20
FEWEST_SECONDS = 1.0
FULL_SEQUENCES, FULL_TOKENS = 0.9, 0.75
"""Shares of the largest batch from which on a batch is full: answers of different lengths leave gaps in the blocks."""
KEPT_WAITS = 1024


class Doing(NamedTuple):
    """Work of an engine in the time in which requests waited."""

    computes: float
    """Share of that time, 0 to 1, in steps with prompts in them."""
    full: float | None
    """Share, 0 to 1, of the other steps' time, in steps with as many sequences, or as many tokens in their contexts, as
    any of these had; None if there were hardly any others."""


class _Waited(NamedTuple):
    ended_at: float
    seconds: float
    with_prompts: bool
    sequences: int
    context_tokens: float


class Waits:
    """The recent steps of one engine in which several requests waited."""

    def __init__(self) -> None:
        self._steps: deque[_Waited] = deque(maxlen=KEPT_WAITS)

    def step(self, step: Step, seconds: float, decode_seconds: float) -> None:
        """Take in a step of `seconds`, the decodes of which cost `decode_seconds` now; of a pure step, that is not looked at."""
        if step.waiting >= LEAST_WAITING:
            with_prompts = not step.pure and seconds > WITH_PROMPTS * decode_seconds
            self._steps.append(
                _Waited(step.ended_at, seconds * step.steps, with_prompts, step.sequences, step.context_tokens)
            )

    def forget(self) -> None:
        """The engine was replaced."""
        self._steps.clear()

    def doing(self, at: float) -> Doing | None:
        """The work of the engine while requests waited, in the last WAITED_SECONDS; None if they hardly did."""
        seen = [each for each in self._steps if each.ended_at >= at - WAITED_SECONDS]
        total = sum(each.seconds for each in seen)
        if len(seen) < FEWEST_WAITS or total < FEWEST_SECONDS:
            return None
        decodes = [each for each in seen if not each.with_prompts]
        alone = sum(each.seconds for each in decodes)
        return Doing(1.0 - alone / total, _full(decodes) / alone if alone >= FEWEST_SECONDS else None)


def _full(decodes: Sequence[_Waited]) -> float:
    """Seconds of these steps in which the batch held as much as in any of them."""
    sequences = FULL_SEQUENCES * max(each.sequences for each in decodes)
    tokens = FULL_TOKENS * max(each.context_tokens for each in decodes)
    return max(
        sum(each.seconds for each in decodes if each.sequences >= sequences),
        sum(each.seconds for each in decodes if each.context_tokens >= tokens),
    )
