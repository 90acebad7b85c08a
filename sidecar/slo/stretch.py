"""The steps from one that held no prompt to the next: their time beyond decodes is the work of their prompts. Pure.

It knows seconds and prompts. It refuses to know what prompts cost (`step_model.py`).
"""

from typing import NamedTuple

from sidecar.slo.steps import Prompt


class Stretch:
    """The steps from one pure step to the next."""

    __slots__ = ("began_at", "decode_seconds", "ended_at", "prompts", "seconds")

    def __init__(self, began_at: float) -> None:
        self.began_at = began_at
        self.ended_at = began_at
        self.seconds = 0.0
        self.decode_seconds = 0.0
        """The cost of its decodes while all was well."""
        self.prompts: list[Prompt] = []


class EndedStretch(NamedTuple):
    """A stretch that is over."""

    ended_at: float
    excess: float
    """Seconds beyond its decodes, at the cost that they had then."""
    terms: tuple[float, float]
