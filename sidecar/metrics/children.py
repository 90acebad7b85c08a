"""Children: one labelled series (or one histogram's series) each, as cheap to write as Python allows.

They hold numbers and nothing else. `rendered` caches a child's lines for the page, and every write clears it;
`text_page.py` fills it in, and `template`, which is made with the constant labels in `constants`. Everything happens on one
thread, so a child is never seen half written.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sidecar.metrics.native_buckets import NativeBuckets


_INFINITY = float("inf")
_TRACE_ID_TEXT = re.compile(r"[0-9a-f]{32}")


class Exemplar(NamedTuple):
    trace_id: str
    value: float
    at_unix: float | None


class CounterChild:
    """A number that only rises. `value` may be read."""

    __slots__ = ("_refused", "constants", "labels", "rendered", "template", "value")

    def __init__(self, labels: tuple[str, ...], refused: Callable[[], None]) -> None:
        self.labels = labels
        self.value: float = 0.0
        self.rendered: bytes | None = None
        self.template: bytes | None = None
        self.constants: Mapping[str, str] | None = None
        self._refused = refused

    def inc(self, n: float = 1) -> None:
        """Add n >= 0. A negative, infinite or NaN n is refused and counted: a counter must not fall."""
        if not 0 <= n < _INFINITY:
            self._refused()
            return
        self.value += n
        self.rendered = None


class GaugeChild:
    """A current value; None means unknown, and is not exported."""

    __slots__ = ("constants", "labels", "rendered", "template", "value")

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.value: float | None = None
        self.rendered: bytes | None = None
        self.template: bytes | None = None
        self.constants: Mapping[str, str] | None = None

    def set(self, value: float | None) -> None:
        """Set the current value; None takes it off the page."""
        if value != self.value:
            self.value = value
            self.rendered = None

    def inc(self, n: float = 1) -> None:
        """Add n, which may be negative, to the value, or to 0 if the value is unknown."""
        self.value = (self.value or 0.0) + n
        self.rendered = None


class HistogramChild:
    """Observations: a sum, and counts between edges (not cumulative; the last one counts values above every edge).

    `native`: the same observations in finer buckets, for scrapers that ask for native histograms; None: there are none.
    """

    __slots__ = (
        *("_refused", "bounds", "constants", "counts", "exemplars", "labels", "native", "rendered", "sum", "template"),
    )

    def __init__(
        self,
        labels: tuple[str, ...],
        refused: Callable[[], None],
        bounds: tuple[float, ...],
        native: NativeBuckets | None = None,
    ) -> None:
        self.labels = labels
        self.bounds = bounds
        self.native = native
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] | None = None
        self.rendered: bytes | None = None
        self.template: bytes | None = None
        self.constants: Mapping[str, str] | None = None
        self._refused = refused

    def observe(self, value: float, exemplar_trace_id: str | None = None, at_unix: float | None = None) -> None:
        """Count one value >= 0. Others are refused and counted: one NaN would spoil the sum for the process's life.

        `exemplar_trace_id`: 32 lower-case hex digits; anything else makes no exemplar. `at_unix`: its instant in
        seconds.
        """
        if not 0.0 <= value < _INFINITY:
            self._refused()
            return
        # An edge includes its own value (le): the first edge that is not below it.
        index = bisect_left(self.bounds, value)
        self.counts[index] += 1
        self.sum += value
        self.rendered = None
        if self.native is not None:
            self.native.add(value)
        if exemplar_trace_id is not None and _TRACE_ID_TEXT.fullmatch(exemplar_trace_id):
            if self.exemplars is None:
                self.exemplars = {}
            self.exemplars[index] = Exemplar(exemplar_trace_id, value, at_unix)

    @property
    def count(self) -> int:
        return sum(self.counts)


Child = CounterChild | GaugeChild | HistogramChild
