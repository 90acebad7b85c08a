"""When a burst of clients is over, so that the memory that they used can be given back.

Pure: bytes and instants come in, a verdict comes out. It refuses to know how memory is given back (`heap.py`), which keeps the
event loop for about a millisecond per 10 MiB: that is why it waits until no request is in flight, and no longer than
LONGEST_TRIM_WAIT_SECONDS.
"""

LEAST_BYTES = 16 << 20
"""A burst below this leaves little behind."""
FALLEN_SECONDS = 2.0
"""A burst is over when half of it has been gone for this long."""
LONGEST_TRIM_WAIT_SECONDS = 30.0
"""The longest wait for an instant without requests."""


class Burst:
    """One burst after the other: `over` is asked a few times a second.

    `remembered_seconds`: for so long after its end something of a request may be kept. Memory is given back a second time after
    that.
    """

    def __init__(self, remembered_seconds: float) -> None:
        self._remembered_seconds = remembered_seconds
        self._peak_bytes = 0
        self._fell_at: float | None = None
        self._again_at: float | None = None

    def over(self, at: float, used_bytes: int, *, busy: bool) -> bool:
        """Whether memory should be given back now. `busy`: requests are in flight."""
        if used_bytes > self._peak_bytes // 2:
            self._peak_bytes, self._fell_at = max(self._peak_bytes, used_bytes), None
        elif self._fell_at is None and self._peak_bytes >= LEAST_BYTES:
            self._fell_at = at
        if self._peak_bytes >= LEAST_BYTES:
            self._again_at = None  # the end of this burst comes instead
        since, least_seconds = (self._again_at, 0.0) if self._fell_at is None else (self._fell_at, FALLEN_SECONDS)
        if since is None or at - since < (LONGEST_TRIM_WAIT_SECONDS if busy else least_seconds):
            return False
        if self._fell_at is None:
            self._again_at = None
        else:
            self._peak_bytes, self._fell_at = used_bytes, None
            self._again_at = at + self._remembered_seconds
        return True
