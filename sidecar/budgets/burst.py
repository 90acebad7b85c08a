"""When a burst of clients is over, so that the memory that they used can be given back.

Pure: bytes and instants come in, a verdict comes out. It refuses to know how memory is given back (`heap.py`), which takes
a millisecond per 8 MiB on the event loop, and up to 130 ms after the largest burst: that is why it waits until no request is
in flight, and no longer than LONGEST_TRIM_WAIT_SECONDS.
"""

LEAST_BYTES = 16 << 20
"""A burst below this leaves little behind."""
FALLEN_SECONDS = 2.0
"""A burst is over when half of it has been gone for this long."""
LONGEST_TRIM_WAIT_SECONDS = 30.0
"""The longest wait for an instant without requests."""


class Burst:
    """One burst after the other: `over` is asked a few times a second."""

    def __init__(self) -> None:
        self._peak_bytes = 0
        self._fell_at: float | None = None

    def over(self, at: float, used_bytes: int, *, busy: bool) -> bool:
        """Whether memory should be given back now. `busy`: requests are in flight."""
        if used_bytes > self._peak_bytes // 2:
            self._peak_bytes, self._fell_at = max(self._peak_bytes, used_bytes), None
            return False
        if self._peak_bytes < LEAST_BYTES:
            return False
        if self._fell_at is None:
            self._fell_at = at
        waited_seconds = at - self._fell_at
        if waited_seconds < FALLEN_SECONDS or (busy and waited_seconds < LONGEST_TRIM_WAIT_SECONDS):
            return False
        self._peak_bytes, self._fell_at = used_bytes, None
        return True
