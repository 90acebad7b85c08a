"""The usual share of a lane's prompt tokens that an engine finds in its prefix cache. Pure.

A prompt's cached tokens are stated at the end of its answer, and the work of its prefill is needed at its beginning. So
each lane has a mean, learned while prompts cost what they usually do: after the loss of a cache, they then cost more
than expected.
"""

from typing import ClassVar

from sidecar.pod.usual.learner import Amount, Learner, Past, Row, Table, Text


NEWEST_WEIGHT = 1 / 200
"""Weight of the newest request in a lane's mean, once it has as many."""
SPACING_SECONDS = 5.0
FREELY_LEARNED = 20
"""Beyond so many requests, a lane learns from one in SPACING_SECONDS: a lost cache becomes usual in an hour."""


class CachedShares(Learner):
    """The means of all lanes of one process."""

    KEPT: ClassVar = {"_lanes": Table(Text(), Row(Amount(whole=True), Amount(), Past()))}

    def __init__(self) -> None:
        self._lanes: dict[str, tuple[int, float, float]] = {}
        """Lane to the number of requests that taught, their mean cached share, and the instant of the last of them."""

    def learn(self, lane: str, prompt_tokens: float, cached_tokens: float, at: float) -> None:
        """A request was answered. `cached_tokens`: at most `prompt_tokens`, which are above 0."""
        count, mean, learned_at = self._lanes.get(lane, (0, 0.0, at))
        if count >= FREELY_LEARNED and at < learned_at + SPACING_SECONDS:
            return
        weight = max(NEWEST_WEIGHT, 1 / (count + 1))
        self._lanes[lane] = count + 1, mean + (min(1.0, cached_tokens / prompt_tokens) - mean) * weight, at

    def uncached(self, lane: str, prompt_tokens: float) -> float:
        """Tokens of such a prompt that usually have to be computed; at least 1."""
        return max(1.0, prompt_tokens * (1.0 - self._lanes.get(lane, (0, 0.0, 0.0))[1]))
