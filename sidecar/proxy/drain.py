"""The drain of the queue: when it is worth to come again, for the `Retry-After` of a request that is turned away.

By Little's law, the requests in flight are done after (requests in flight) / (completions per second), if the drain goes
on as it did of late. Knows two counts and the time; refuses to know sockets, requests and why one was turned away.
"""

import math
from collections import deque


DRAIN_SECONDS = 30.0
"""Completions of this last time are the rate: some answers take tens of seconds, and a load changes within minutes."""
SHORTEST_RATE_SECONDS = 1.0
"""Below this span a rate is an accident."""
LONGEST_AGAIN_SECONDS = 60
"""The OpenAI clients follow `Retry-After` up to 60 s; a longer one they replace by their own, shorter wait."""


class Drain:
    """The ends of requests that had a place, in the last DRAIN_SECONDS. `sample` is called a few times a second."""

    def __init__(self, at: float) -> None:
        self.count = 0
        """Requests that had a place among `requests_in_flight` and have given it back, since the process began. A tunnel
        is not one of them: it has places of its own."""
        self._samples: deque[tuple[float, int]] = deque([(at, 0)])

    def sample(self, at: float) -> None:
        """Note the count at this instant, in monotonic seconds, and forget what is older than the window."""
        samples = self._samples
        samples.append((at, self.count))
        while len(samples) > 1 and at - samples[1][0] >= DRAIN_SECONDS:
            samples.popleft()

    def retry_after_seconds(self, ahead: int, at: float) -> int | None:
        """Whole seconds, from 1 to 60, after which `ahead` requests are done; None while no rate is known."""
        since, before = self._samples[0]
        seconds, completed = at - since, self.count - before
        if seconds < SHORTEST_RATE_SECONDS or completed <= 0:
            return None
        return min(LONGEST_AGAIN_SECONDS, max(1, math.ceil(ahead * seconds / completed)))
