"""The last half hour of one process: a ring of snapshots of its registry, from which pages and diagnoses read their windows.

Pure: instants are passed in, and the admin listener ticks. Snapshots of the shown window stand `PERIOD_SECONDS` apart and are
whole; older ones stand a minute apart and hold counters, and the few gauges whose highest value is read over the long window.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from sidecar.history.growth import Labels, Windows
from sidecar.history.series import GAUGE_SERIES, LONG_SECONDS, PEAK_GAUGES, SHOWN_SECONDS, WINDOWS, GaugeSeries
from sidecar.history.slices import Sliced, run_now
from sidecar.history.snapshot import Snapshot, grown, take
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
