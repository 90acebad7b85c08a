"""Memory for the bytes of one request with spans: a mapping of its own, which grows without a copy and goes back in parts.

A block of the C heap is copied now and then while it grows, and freed in one step: 4 MiB took 1 to 3 ms of the event loop where
the system's faults of memory are dear. Here a page is taken when it is first written, and a part goes back at a time.
It refuses to know what the bytes mean.
"""

from collections.abc import Iterator
from contextlib import suppress
from mmap import MADV_DONTNEED, MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_PRIVATE, mmap

from sidecar.otlp.wire_format import Body


PART_BYTES = 256 << 10
"""So many bytes go back to the system at once: 64 pages."""


class RequestMemory:
    """Room for `most_bytes`, of which only what is written takes memory."""

    def __init__(self, most_bytes: int) -> None:
        self._mapping = mmap(-1, most_bytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without huge pages refuses; a huge page would be 2 MiB in one step
            self._mapping.madvise(MADV_NOHUGEPAGE)

    def add(self, piece: bytes) -> None:
        """Append the piece. Raises ValueError beyond `most_bytes`."""
        self._mapping.write(piece)

    def body(self) -> Body:
        """All that was added. Call it once; nothing can be added after it."""
        size = self._mapping.tell()
        if not size:
            return b""
        self._mapping.resize(size)
        return self._mapping

    def give_back(self) -> Iterator[None]:
        """Give the memory back, a part after each step. The body reads as zeros from then on."""
        end = self._mapping.tell()
        for start in range(0, end, PART_BYTES):
            yield
            self._mapping.madvise(MADV_DONTNEED, start, min(PART_BYTES, end - start))
