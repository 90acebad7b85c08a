"""The last half hour of one process: a ring of snapshots of its registry, from which pages and diagnoses read their windows.

Pure: instants are passed in, and the admin listener ticks. Snapshots of the shown window stand `PERIOD_SECONDS` apart and are
whole; older ones stand a minute apart and hold counters, and the few gauges whose highest value is read over the long window.
The points of the phases' curves (`phase_points.py`) stand apart.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from sidecar.history.growth import Labels, Windows
from sidecar.history.phase_points import POINT_SECONDS, PhasePoint, phase_point
from sidecar.history.series import GAUGE_SERIES, LONG_SECONDS, PEAK_GAUGES, SHOWN_SECONDS, WINDOWS, GaugeSeries
from sidecar.history.slices import Sliced, run_now
from sidecar.history.snapshot import Snapshot, grown, take
from sidecar.metrics.declaration import Counter
from sidecar.metrics.registry import Metrics


PERIOD_SECONDS = 5.0
"""Between two snapshots: a window of five minutes is exact to 2 %."""
MINUTE_SECONDS = 60.0


class History:
    def __init__(self, metrics: Metrics, *, at: float) -> None:
        self.metrics = metrics
        self.began_at = at
        self._whole: deque[Snapshot] = deque([run_now(take(metrics, at))])
        self._old: deque[Snapshot] = deque()
        self._points: deque[PhasePoint] = deque([run_now(phase_point(self._whole[0]))])

    def tick(self, at: float) -> Sliced[Snapshot]:
        """Take and keep a snapshot; call it every `PERIOD_SECONDS`."""
        now = yield from self.now(at)
        self._whole.append(now)
        while len(self._whole) > 2 and self._whole[1].at <= at - SHOWN_SECONDS:
            oldest = self._whole.popleft()
            if not self._old or oldest.at - self._old[-1].at >= MINUTE_SECONDS:
                gauges = {name: oldest.gauges[name] for name in PEAK_GAUGES}
                self._old.append(replace(oldest, histograms={}, gauges=gauges))
        while len(self._old) > 1 and self._old[1].at <= at - LONG_SECONDS:
            self._old.popleft()
        if at - self._points[-1].at >= POINT_SECONDS:
            self._points.append((yield from phase_point(now, self._points[-1])))
        while len(self._points) > 1 and self._points[1].at <= at - LONG_SECONDS:
            self._points.popleft()
        return now

    def now(self, at: float) -> Sliced[Snapshot]:
        """A snapshot as of the first slice."""
        return take(self.metrics, at, self._whole[-1])

    def before(self, now: Snapshot, seconds: float) -> Snapshot:
        """The first snapshot of the window that ends with `now`; the newest one if none is in the window."""
        held = self._whole if seconds <= SHOWN_SECONDS else (*self._old, *self._whole)
        earlier = [snapshot for snapshot in held if snapshot.at <= now.at] or [now]  # a tick may have come since
        return next((snapshot for snapshot in earlier if snapshot.at >= now.at - seconds), earlier[-1])

    def within(self, now: Snapshot, seconds: float) -> list[Snapshot]:
        """The whole snapshots of the window that ends with `now`, which is the last; at most `SHOWN_SECONDS` are held."""
        return [*(one for one in self._whole if now.at - seconds <= one.at < now.at), now]

    def points(self, now: Snapshot) -> Sliced[list[PhasePoint]]:
        """The points of the long window that ends with `now`, which is the last, and not close to the one before: in a few
        seconds no request may have ended.
        """
        latest = yield from phase_point(now)
        began_at, ends_at = now.at - LONG_SECONDS, now.at - POINT_SECONDS
        return [*(point for point in self._points if began_at <= point.at <= ends_at), latest]

    def between(self, then: Snapshot, now: Snapshot) -> list[Snapshot]:
        """The snapshots after the first of these two, up to the second, oldest first."""
        return [*(one for one in (*self._old, *self._whole) if then.at < one.at < now.at), now]

    def grew_at(self, now: Snapshot, metric: Counter) -> float | None:
        """Instant of the first snapshot after a counter's last growth within the long window; None if it did not grow."""
        held = [one for one in (*self._old, *self._whole) if now.at - LONG_SECONDS <= one.at < now.at]
        sums = [(one.at, sum(one.counters[metric.name].values())) for one in (*held, now)]
        return next((newer[0] for older, newer in reversed([*pairwise(sums)]) if newer[1] > older[1]), None)

    def windows(self, now: Snapshot) -> Sliced[Windows]:
        """Growth over every window that ends with `now`, and the gauges."""
        growth = {}
        for seconds in WINDOWS:
            growth[seconds] = yield from grown(self.before(now, seconds), now, seconds)
        minute = self.within(now, MINUTE_SECONDS)
        gauges = {series.metric.name: _stands(series, minute) for series in GAUGE_SERIES}
        return Windows(growth, gauges, self._peaks(now))

    def _peaks(self, now: Snapshot) -> dict[str, float]:
        """The highest value of each gauge of `PEAK_GAUGES` within the long window, where one is known."""
        held = [one for one in (*self._old, *self._whole) if now.at - LONG_SECONDS <= one.at < now.at]
        values = {
            name: [one.gauges[name][()] for one in (*held, now) if () in one.gauges[name]] for name in PEAK_GAUGES
        }
        return {name: max(known) for name, known in values.items() if known}


def _stands(series: GaugeSeries, minute: Sequence[Snapshot]) -> dict[Labels, float]:
    """One gauge as of the last of these snapshots, or its mean over all of them."""
    name = series.metric.name
    now = minute[-1].gauges[name]
    if not series.minute:
        return dict(now)
    return {key: fmean(snapshot.gauges[name].get(key, value) for snapshot in minute) for key, value in now.items()}
