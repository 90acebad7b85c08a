"""The parts of an engine's recent work: what its decodes and its prompts usually take. Pure.

Where both costs have grown, the parts say which of them adds more seconds to the steps. It knows expected seconds. It
refuses to know what the steps took (`step_model.py`).
"""

from math import exp


FADES_SECONDS = 20.0
"""Time constant with which older work loses its weight."""


class WorkParts:
    """Sums of expected seconds that fade."""

    def __init__(self) -> None:
        self._decode_seconds = self._prompt_seconds = 0.0
        self._faded_at = 0.0

    def add(self, at: float, decode_seconds: float, prompt_seconds: float) -> None:
        """A step has ended, or some that were read together; these are the usual seconds of its decodes and of the prompts
        that ended with it.
        """
        if at - self._faded_at >= 1.0:
            faded = exp((self._faded_at - at) / FADES_SECONDS)
            self._decode_seconds, self._prompt_seconds = self._decode_seconds * faded, self._prompt_seconds * faded
            self._faded_at = at
        self._decode_seconds += decode_seconds
        self._prompt_seconds += prompt_seconds

    def forget(self) -> None:
        """The engine was replaced."""
        self._decode_seconds = self._prompt_seconds = 0.0

    def decode_share(self) -> float | None:
        """Share of decodes in the recent work, 0 to 1; prompts have the rest. None without any work."""
        total = self._decode_seconds + self._prompt_seconds
        return self._decode_seconds / total if total else None
