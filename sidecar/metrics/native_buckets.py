"""The buckets of one native histogram: exponential, and finer than any fixed layout at the same number of series.

Knows how Prometheus numbers such buckets: at schema n a bucket's edges are a factor of 2^(2^-n) apart, and bucket k ends
at 2^(k * 2^-n), its edge included. They stand side by side in one array, from the lowest used one to the highest, so that the
page takes them as they are. At most MOST_BUCKETS of them; one more, and all are merged in pairs, which halves the resolution.
Refuses to know sums, labels and pages: `children.py` has the first two, `protobuf_page.py` writes the third.
"""

from array import array
from bisect import bisect_left
from math import frexp


FINEST_SCHEMA = 5
"""Neighbouring edges are 2.19 % apart. A quantile is found inside the right bucket, however the samples lie in it, so it is
wrong by one bucket at most: what half a bucket is at schema 4, where only well spread samples would keep to half of one."""
MOST_BUCKETS = 640
"""Most of one child, empty ones between used ones included: 20 octaves at the finest schema, such as 1 ms to 1,000 s."""
ZERO_THRESHOLD = 2.0**-30
"""Values up to it, about a nanosecond, are counted as zero."""
LARGEST_VALUE = 2.0**40
"""Values above it are counted in its bucket. From ZERO_THRESHOLD to it are 70 octaves, which fit at schema 3."""


class NativeBuckets:
    """Counts of values >= 0 in buckets that stand side by side: `counts[n]` is bucket `first + n` at the present schema."""

    __slots__ = ("_fractions", "counts", "first", "schema", "zeros")

    def __init__(self) -> None:
        self.schema = FINEST_SCHEMA
        self.first = 0
        self.counts = array("I")
        """32 bits each, or 64 once one has more."""
        self.zeros = 0
        self._fractions = _FRACTIONS[FINEST_SCHEMA]

    def add(self, value: float) -> None:
        """Count one value >= 0."""
        if value <= ZERO_THRESHOLD:
            self.zeros += 1
            return
        fraction, exponent = frexp(min(LARGEST_VALUE, value))
        key = bisect_left(self._fractions, fraction) + (exponent - 1) * len(self._fractions)
        place = key - self.first
        if not 0 <= place < len(self.counts):
            place = self._place_for(key)
        try:
            self.counts[place] += 1
        except OverflowError:
            self.counts = array("Q", self.counts)
            self.counts[place] += 1

    def _place_for(self, key: int) -> int:
        """Make a place for a bucket outside, at a coarser schema if there would be too many."""
        first, last = self.first, self.first + len(self.counts) - 1
        if not self.counts:
            first = last = self.first = key
        while max(last, key) - min(first, key) >= MOST_BUCKETS:
            self._merge()
            first, last, key = (first + 1) >> 1, (last + 1) >> 1, (key + 1) >> 1
        before = max(0, self.first - key)
        behind = max(0, key - self.first + 1 - len(self.counts))
        self.counts = _zeros(self.counts, before) + self.counts + _zeros(self.counts, behind)
        self.first -= before
        return key - self.first

    def _merge(self) -> None:
        """Merge buckets in pairs."""
        first = (self.first + 1) >> 1
        merged = _zeros(array("Q"), ((self.first + len(self.counts)) >> 1) - first + 1)
        for key, count in enumerate(self.counts, self.first):
            merged[((key + 1) >> 1) - first] += count
        self.counts, self.first = merged if max(merged) >= 2**32 else array("I", merged), first
        self.schema -= 1
        self._fractions = _FRACTIONS[self.schema]


def _zeros(like: "array[int]", size: int) -> "array[int]":
    return array(like.typecode, bytes(like.itemsize * size))


_FRACTIONS = tuple([0.5 * 2.0 ** (n / 2**schema) for n in range(2**schema)] for schema in range(FINEST_SCHEMA + 1))
"""By schema, the edges from 0.5 to below 1: what `frexp` leaves of a value lies between two of them."""
