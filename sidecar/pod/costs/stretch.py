"""The steps from one that held no prompt to the next: their time beyond decodes is the work of their prompts. Pure.

It knows seconds and prompts. It refuses to know what prompts cost (`step_model.py`).
"""

from itertools import pairwise
from typing import NamedTuple

from sidecar.pod.costs.linear_costs import prompt_terms
from sidecar.pod.costs.steps import Prompt, Step


PART_SECONDS = 2.0
"""Least length of a part of an open stretch that ends with a prompt's end: one sample of many prompts would tell no spread."""


class EndedStretch(NamedTuple):
    """A stretch that is over."""

    ended_at: float
    excess: float
    """Seconds beyond its decodes, at the cost that they had then."""
    terms: tuple[float, float]


class _Mark(NamedTuple):
    """All that a stretch held until a prompt ended."""

    ended_at: float
    seconds: float
    decode_seconds: float
    prompts: int
    decode: float
    """The cost of decodes over their usual one then."""


class Stretch:
    """The steps from one pure step to the next."""

    __slots__ = ("_marks", "began_at", "begun", "decode_seconds", "ended_at", "measured", "prompts", "seconds")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.ended_at = began_at
        self.seconds = 0.0
        self.decode_seconds = 0.0
        """The cost of its decodes while all was well."""
        self.prompts: list[Prompt] = []
        self.begun: Prompt | None = None
        """The prompt that is computed in parts now."""
        self.measured = True
        """The lengths of all prompts that waited meanwhile were known."""
        self._marks = [_Mark(began_at, 0.0, 0.0, 0, 1.0)]

    def add(self, step: Step, seconds: float, decode_seconds: float, decode: float) -> None:
        """One more step, or several alike, each of so many seconds, of which its decodes usually take `decode_seconds`. `decode`: the
        cost of decodes over their usual one, now.
        """
        self.seconds += seconds * step.steps
        self.decode_seconds += decode_seconds * step.steps
        self.prompts += step.prompts
        self.begun = step.begun
        self.measured = self.measured and step.measured
        self.ended_at = step.ended_at
        if step.prompts and step.ended_at - self._marks[-1].ended_at >= PART_SECONDS:
            self._marks.append(self._mark(decode))

    def ended(self, at: float, decode: float) -> EndedStretch:
        """It is over. `decode`: cost of decodes over their usual one."""
        return EndedStretch(at, self.seconds - decode * self.decode_seconds, prompt_terms(self.prompts))

    def decodes_at_most(self, prompt_seconds: float) -> float:
        """The cost of its decodes over their usual one if its prompts took no more than these seconds."""
        return (self.seconds - prompt_seconds) / self.decode_seconds

    def so_far(self, decode: float, since: float) -> list[EndedStretch]:
        """Its parts that ended since this instant, as if it ended now. The prompt that is computed in parts counts as a whole, so prompts
        seem too cheap rather than too dear. `decode`: the cost of decodes over their usual one, now.
        """
        prompts = self.prompts if self.begun is None else [*self.prompts, self.begun]
        ends = [*self._marks, self._mark(decode)._replace(prompts=len(prompts))]
        return [
            EndedStretch(
                end.ended_at,
                end.seconds - begin.seconds - end.decode * (end.decode_seconds - begin.decode_seconds),
                # In order: a mark counts no fewer prompts than the one before.
                prompt_terms(prompts[begin.prompts : end.prompts]),
            )
            for begin, end in pairwise(ends)
            if end.ended_at >= since
        ]

    def _mark(self, decode: float) -> _Mark:
        return _Mark(self.ended_at, self.seconds, self.decode_seconds, len(self.prompts), decode)
