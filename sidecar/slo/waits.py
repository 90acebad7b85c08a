"""The work of an engine while requests wait for their first token: prompts, a full batch, or neither. Pure.

Requests wait for compute only if nearly each step meanwhile holds prompts, and for a slot or for KV blocks only if as
many sequences or tokens as ever are in the batch. If neither is true, they have not reached the scheduler. It knows
steps (`steps.py`). It refuses to name a cause.
"""

from collections import deque
from typing import NamedTuple

from sidecar.slo.steps import Step


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
    """Shares, 0 to 1, of the time in which requests waited."""

    computes: float
    """In steps with prompts in them."""
    full: float
    """In steps with as many sequences, or as many tokens in their contexts, as any of them had."""


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
        """Take in a step of `seconds`, the decodes of which cost `decode_seconds` now."""
        if step.waiting >= LEAST_WAITING:
            with_prompts = seconds > WITH_PROMPTS * decode_seconds
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
        computes = sum(each.seconds for each in seen if each.with_prompts)
        sequences = FULL_SEQUENCES * max(each.sequences for each in seen)
        tokens = FULL_TOKENS * max(each.context_tokens for each in seen)
        full = max(
            sum(each.seconds for each in seen if each.sequences >= sequences),
            sum(each.seconds for each in seen if each.context_tokens >= tokens),
        )
        return Doing(computes / total, full / total)
