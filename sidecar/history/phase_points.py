"""Seconds of each phase and requests of each lane, every half minute of the last half hour: points of a small curve. Pure.

Sums alone are kept, because means of phases add up and can be made of sums over any time; old snapshots hold no histograms.
It refuses to give a mean where no request has a sample of the phase: there the curve has a gap, and no zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sidecar.history.growth import Labels
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import CHILDREN_PER_SLICE, Snapshot, shared
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Histogram


POINT_SECONDS = 30.0
"""Between two points: at one request a second a point stands on thirty requests, and a curve has sixty points."""


@dataclass(frozen=True, slots=True)
class PhasePoint:
    """Totals since the process began, of streamed requests with outcome ok."""

    at: float
    requests: Mapping[Labels, float]
    """Model and lane to the number of requests."""
    seconds: Mapping[Labels, float]
    """Model, lane and phase to the seconds that they spent in it."""
    samples: Mapping[Labels, float]
    """The same keys to the number of requests whose time in that phase is known."""


@dataclass(frozen=True, slots=True)
class LaneCurve:
    """The mean seconds per phase of one lane, between each two points."""

    model: str
    lane: str
    edges: tuple[float, ...]
    """Instants of the points, oldest first: one more than means."""
    requests: float
    """Requests between the first edge and the last."""
    means: Mapping[str, tuple[float | None, ...]]
    """Phase to its additive means; None where no request has a sample. A phase without any is absent."""


def phase_point(now: Snapshot, before: PhasePoint | None = None) -> Sliced[PhasePoint]:
    """The point of this snapshot. `before`: its keys, and what has not changed, are shared with it."""
    requests: dict[Labels, float] = {}
    seconds: dict[Labels, float] = {}
    samples: dict[Labels, float] = {}
    yield from _added(now, c.REQUEST_SECONDS, ("model", "lane"), "count", requests)
    for number, found in (("sum", seconds), ("count", samples)):
        yield
        yield from _added(now, c.REQUEST_PHASE_SECONDS, ("model", "lane", "phase"), number, found)
    if before is None:
        return PhasePoint(now.at, requests, seconds, samples)
    return PhasePoint(
        now.at,
        shared(requests, before.requests),
        shared(seconds, before.seconds),
        shared(samples, before.samples),
    )


def _added(
    now: Snapshot, metric: Histogram, by: tuple[str, ...], number: str, found: dict[Labels, float]
) -> Sliced[None]:
    names = [label.name for label in metric.labels]
    places, streaming = [names.index(name) for name in by], names.index("streaming")
    for count, (labels, total) in enumerate(now.histograms[metric.name].items(), 1):
        if count % CHILDREN_PER_SLICE == 0:
            yield
        if labels[streaming] == "true":
            key = tuple(labels[place] for place in places)
            found[key] = found.get(key, 0.0) + getattr(total, number)


def curves(points: Sequence[PhasePoint]) -> Sliced[list[LaneCurve]]:
    """One curve per lane with requests between the first point and the last, the busiest lane first."""
    if len(points) < 2:
        return []
    first, last = points[0], points[-1]
    grown = {who: count - first.requests.get(who, 0.0) for who, count in last.requests.items()}
    found = []
    for who, count in sorted(grown.items(), key=lambda item: (-item[1], item[0])):
        yield
        if count > 0:
            keys = [key for key in last.seconds if key[:2] == who]
            spent = {key[2]: _means(points, who, key) for key in keys}
            means = {phase: values for phase, values in spent.items() if any(value is not None for value in values)}
            found.append(LaneCurve(who[0], who[1], tuple(point.at for point in points), count, means))
    return found


def _means(points: Sequence[PhasePoint], who: Labels, key: Labels) -> tuple[float | None, ...]:
    return tuple(_mean(older, newer, who, key) for older, newer in pairwise(points))


def _mean(older: PhasePoint, newer: PhasePoint, who: Labels, key: Labels) -> float | None:
    requests = newer.requests.get(who, 0.0) - older.requests.get(who, 0.0)
    if requests <= 0 or newer.samples.get(key, 0.0) <= older.samples.get(key, 0.0):
        return None
    return (newer.seconds.get(key, 0.0) - older.seconds.get(key, 0.0)) / requests
