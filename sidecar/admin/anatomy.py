"""The live anatomy: what the last minutes looked like, per lane, out of a ring of looks at the registry.

Pure: instants are passed in. Knows sums and counts at two instants and says what lies between them; refuses to say a
number where nothing happened, or a quantile out of too few samples. Means of phases add up and make the picture;
quantiles do not add up, so TTFT and the gaps between tokens stand apart from it and from each other.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from sidecar.metrics import catalogue as c
from sidecar.metrics.children import HistogramChild
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.quantile import quantile
from sidecar.metrics.registry import Metrics


K = TypeVar("K")
WINDOW_SECONDS = 300.0
PERIOD_SECONDS = 5.0

SAMPLES_FOR = {0.5: 1, 0.95: 20, 0.99: 100}
"""A quantile needs at least one sample expected above it, or it is the maximum by another name."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one histogram over the window, interpolated within buckets, in seconds."""

    count: int
    at: Mapping[float, float | None]
    """Quantile to seconds; None where there are too few samples. Infinite above the last edge."""
    last_edge: float


@dataclass(frozen=True, slots=True)
class LaneAnatomy:
    """One lane over the window."""

    lane: str
    streaming: bool
    """Streamed and non-streamed requests are told apart: their phases mean different things."""
    requests: int
    """Requests with outcome ok whose phases are known to add up: the denominator of the means."""
    mean_seconds: float
    phases: Mapping[str, float]
    """Phase to its additive mean in seconds; phases with no sample are absent."""
    sources: Mapping[str, Mapping[str, float]]
    """Phase to source to the share of its samples, 0 to 1."""


@dataclass(frozen=True, slots=True)
class LaneEnds:
    """How a lane's requests ended over the window, and its two latencies."""

    lane: str
    outcomes: Mapping[str, int]
    ttft: Quantiles
    inter_token: Quantiles
    attribution: Mapping[tuple[str, str], int]
    """(source, reason) to requests."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """All lanes that had traffic, over `window_seconds` that have really been seen."""

    window_seconds: float
    ever: bool
    """Some inference request ended since the process began, be it before the window."""
    bars: tuple[LaneAnatomy, ...]
    ends: tuple[LaneEnds, ...]


@dataclass(slots=True)
class _Look:
    """Totals at one instant, by lane: only what the page needs, so that a ring of them is small."""

    at: float
    phases: dict[tuple[str, str, str, str], tuple[int, float]] = field(default_factory=dict)
    whole: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    ttft: dict[str, list[int]] = field(default_factory=dict)
    inter_token: dict[str, list[int]] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], float] = field(default_factory=dict)
    attribution: dict[tuple[str, str, str], float] = field(default_factory=dict)


class AnatomyRing:
    """Looks at the registry every few seconds, and the difference between now and the oldest of them."""

    def __init__(self, metrics: Metrics, *, at: float, window_seconds: float = WINDOW_SECONDS) -> None:
        self._metrics = metrics
        self._window_seconds = window_seconds
        self._looks: deque[_Look] = deque([_look(metrics, at)])

    def look(self, at: float) -> None:
        """Remember how things stand at this monotonic instant, and forget what is older than the window."""
        self._looks.append(_look(self._metrics, at))
        while len(self._looks) > 2 and self._looks[1].at <= at - self._window_seconds:
            self._looks.popleft()

    def anatomy(self, at: float) -> Anatomy:
        """What happened within the window that ends now."""
        then = next((look for look in self._looks if look.at >= at - self._window_seconds), self._looks[-1])
        now = _look(self._metrics, at)
        ever = any(now.outcomes.values())
        return Anatomy(max(0.0, at - then.at), ever, tuple(_bars(then, now)), tuple(_ends(then, now)))


def _look(metrics: Metrics, at: float) -> _Look:
    look = _Look(at)
    # Labels are told by name from the declaration, so that an order changed there cannot mislabel a bar here.
    for labels, child in _labelled(metrics, c.REQUEST_PHASE_SECONDS):
        _grow(look.phases, (labels["lane"], labels["streaming"], labels["phase"], labels["source"]), child)
    for labels, child in _labelled(metrics, c.REQUEST_SECONDS):
        _grow(look.whole, (labels["lane"], labels["streaming"]), child)
    for metric, totals in ((c.TIME_TO_FIRST_TOKEN_SECONDS, look.ttft), (c.INTER_TOKEN_SECONDS, look.inter_token)):
        for labels, child in _labelled(metrics, metric):
            before = totals.get(labels["lane"])
            totals[labels["lane"]] = (
                list(child.counts) if before is None else [a + b for a, b in zip(before, child.counts, strict=True)]
            )
    for values, counter in metrics.counter(c.REQUESTS_TOTAL).children.items():
        key = (values[1], values[3])
        look.outcomes[key] = look.outcomes.get(key, 0) + counter.value
    for values, counter in metrics.counter(c.PHASE_ATTRIBUTION_TOTAL).children.items():
        look.attribution[values[0], values[1], values[2]] = counter.value
    return look


def _labelled(metrics: Metrics, metric: Histogram) -> Iterable[tuple[dict[str, str], HistogramChild]]:
    family = metrics.histogram(metric)
    names = [label.name for label in family.metric.labels]
    for values, child in family.children.items():
        yield dict(zip(names, values, strict=True)), child


def _grow(totals: dict[K, tuple[int, float]], key: K, child: HistogramChild) -> None:
    count, seconds = totals.get(key, (0, 0.0))
    totals[key] = (count + child.count, seconds + child.sum)


def _bars(then: _Look, now: _Look) -> Iterable[LaneAnatomy]:
    for (lane, streaming), (count, seconds) in sorted(
        now.whole.items(), key=lambda item: (item[0][0], item[0][1] != "true")
    ):
        count_before, seconds_before = then.whole.get((lane, streaming), (0, 0.0))
        requests = count - count_before
        if requests <= 0:
            continue
        phases: dict[str, float] = {}
        samples: dict[str, dict[str, int]] = {}
        for key, (phase_count, phase_seconds) in now.phases.items():
            if key[:2] != (lane, streaming):
                continue
            before = then.phases.get(key, (0, 0.0))
            if phase_count > before[0]:
                _, _, phase, source = key
                phases[phase] = phases.get(phase, 0.0) + (phase_seconds - before[1]) / requests
                samples.setdefault(phase, {})[source] = phase_count - before[0]
        yield LaneAnatomy(
            lane=lane,
            streaming=streaming == "true",
            requests=requests,
            mean_seconds=(seconds - seconds_before) / requests,
            phases=phases,
            sources={phase: {s: n / sum(by.values()) for s, n in by.items()} for phase, by in samples.items()},
        )


def _ends(then: _Look, now: _Look) -> Iterable[LaneEnds]:
    for lane in sorted({lane for lane, _ in now.outcomes} | set(now.ttft)):
        outcomes = {
            outcome: grown
            for (of_lane, outcome), total in now.outcomes.items()
            if of_lane == lane and (grown := round(total - then.outcomes.get((lane, outcome), 0))) > 0
        }
        ttft = _quantiles(then.ttft.get(lane), now.ttft.get(lane), c.TIME_TO_FIRST_TOKEN_SECONDS.buckets)
        inter_token = _quantiles(then.inter_token.get(lane), now.inter_token.get(lane), c.INTER_TOKEN_SECONDS.buckets)
        attribution = {
            (source, reason): grown
            for (of_lane, source, reason), total in now.attribution.items()
            if of_lane == lane and (grown := round(total - then.attribution.get((lane, source, reason), 0))) > 0
        }
        if outcomes or ttft.count or inter_token.count:
            yield LaneEnds(lane, outcomes, ttft, inter_token, attribution)


def _quantiles(then: list[int] | None, now: list[int] | None, bounds: tuple[float, ...]) -> Quantiles:
    counts = [
        b - a for a, b in zip(then or [0] * (len(bounds) + 1), now or then or [0] * (len(bounds) + 1), strict=True)
    ]
    total = sum(counts)
    at = {q: quantile(q, counts, bounds) if total >= needed else None for q, needed in SAMPLES_FOR.items()}
    return Quantiles(total, at, bounds[-1])
