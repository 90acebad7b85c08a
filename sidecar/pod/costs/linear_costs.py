"""The work of steps as terms, each of which costs so many seconds: a linear model. Pure.

It knows which terms there are, and that seconds are a sum. It refuses to know how costs are learned (`step_model.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import NamedTuple

from sidecar.pod.costs.steps import Prompt
from sidecar.pod.factor import Factor


class Compared(NamedTuple):
    """A factor of some work, the cost now over the usual one, with the mean terms of that work."""

    factor: Factor
    terms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of each part of a step."""

    step: float
    per_sequence: float
    per_context_token: float

    def decode_seconds(self, sequences: float, context_tokens: float) -> float:
        return self.step + self.per_sequence * sequences + self.per_context_token * context_tokens


def decode_terms(sequences: float, context_tokens: float) -> tuple[float, float, float]:
    """The terms of the decodes of one step, in the order of `Costs`."""
    return 1.0, float(sequences), context_tokens


def prompt_terms(prompts: Iterable[Prompt]) -> tuple[float, float]:
    """Uncached tokens of these prompts, and what attention multiplies: each of them by the tokens before it."""
    tokens = before = 0.0
    for each in prompts:
        tokens += each.uncached_tokens
        before += each.uncached_tokens * (each.tokens - each.uncached_tokens / 2)
    return tokens, before


def seconds_of(costs: Iterable[float], terms: Sequence[float]) -> float:
    """Seconds that work with these terms takes."""
    return float(sum(map(mul, costs, terms)))
