"""Remembers which traces one request has claimed, and which several have, in memory of a fixed size. Pure.

Knows marks of traces: 63 bits of a hash each, in a table of slots, one bit beside them for "several". Keeps no trace id, so that a burst
leaves no small objects behind: spread over the heap, they would keep its pages. It refuses to guess: two traces
with the same mark count as one that is shared, and a trace that was forgotten counts as not claimed; neither joins anything.
"""

from array import array


_MARK_BITS = (1 << 64) - 2
_SHARED = 1


def _slots(most: int) -> "array[int]":
    return array("Q", bytes(16 * most))


class Claims:
    """`most`: traces in each of two tables, of which the older one is dropped when the newer one is full, or `keep_seconds` old."""

    def __init__(self, most: int, keep_seconds: float) -> None:
        self._most = most
        self._keep_seconds = keep_seconds
        self._newer, self._older = _slots(most), _slots(most)
        self._used = 0
        """Slots of the newer table that are taken: at most half of them."""
        self._began_at: float | None = None

    def claim(self, trace: str, at: float) -> None:
        """A request of this trace has begun. It counts for at least `keep_seconds`, unless `most` others came since."""
        if self._began_at is None:
            self._began_at = at
        elif self._used >= self._most or at - self._began_at >= self._keep_seconds:
            self._older, self._newer, self._used, self._began_at = self._newer, _slots(self._most), 0, at
        mark = (hash(trace) << 1) & _MARK_BITS or 2
        slots, older = self._newer, self._older
        size = len(slots)
        place = was = (mark >> 1) % size
        while (found := slots[place]) and found & _MARK_BITS != mark:
            place = (place + 1) % size
        if found:
            slots[place] = mark | _SHARED
            return
        while (found := older[was]) and found & _MARK_BITS != mark:
            was = (was + 1) % size
        slots[place] = mark | _SHARED if found else mark
        self._used += 1

    def alone(self, trace: str) -> bool:
        """Whether exactly one request is known to have claimed it."""
        mark = (hash(trace) << 1) & _MARK_BITS or 2
        for slots in (self._newer, self._older):
            place = (mark >> 1) % len(slots)
            while found := slots[place]:
                if found & _MARK_BITS == mark:
                    return found == mark
                place = (place + 1) % len(slots)
        return False
