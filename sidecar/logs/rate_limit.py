"""What keeps a storm of one event from burying the others: a token bucket per event name, and a count of what it held back.

Pure: the instant is an argument. Event names are constants of this program, so their number is small; it is bounded anyway.
"""

from dataclasses import dataclass


@dataclass
class _Bucket:
    tokens: float
    filled_at: float
    suppressed: int = 0


_MOST_NAMES = 1000
_REST = "(rest)"


class StormGate:
    """Lets each event name through at a rate, with a burst."""

    def __init__(self, rate_per_second: float, burst: int, own: dict[str, tuple[float, int]] | None = None) -> None:
        """`own` has the (rate, burst) of names that are not like the others."""
        self._usual = (rate_per_second, burst)
        self._own = own or {}
        self._buckets: dict[str, _Bucket] = {}
        self.held_back_ever = 0
        """Events held back since the beginning."""

    def admit(self, name: str, at: float) -> int | None:
        """None if this one is held back; else how many of its name were, since the last that was not."""
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
        """What is held back and not yet told, by name; telling it resets it."""
        told = {name: bucket.suppressed for name, bucket in self._buckets.items() if bucket.suppressed}
        for name in told:
            self._buckets[name].suppressed = 0
        return told
