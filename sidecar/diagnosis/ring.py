"""The last half hour of one process, as the diagnosis needs it: looks at the registry, and what lies between them.

Pure: instants are passed in. Beside the looks it keeps what the recording rules keep as well: the evidence's baseline,
frozen while objectives are missed, and the verdict of a moment ago. Looks are sums by few labels, so that half an hour of
them is small; older ones stand further apart.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import add
from statistics import fmean

from sidecar.diagnosis import engine_evidence as evidence
from sidecar.diagnosis import facts as reading
from sidecar.diagnosis.engine_evidence import Baseline
from sidecar.diagnosis.measured import Measured
from sidecar.diagnosis.verdict import Verdict, decide
from sidecar.history.series import GAUGES, KEPT, LONG_SECONDS, WINDOWS, Grown, Growth, Kept, KeptGauge, Seen
from sidecar.history.slices import Sliced, run_now
from sidecar.metrics import slo_metrics as p
from sidecar.metrics.children import CounterChild, HistogramChild
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.registry import Family, Metrics
from sidecar.slo.objective import Objective


PERIOD_SECONDS = 5.0
"""Between two looks. Recorded rules look every 15 s, and wait three minutes for a baseline; a process begins in a state of calm
that may not last so long.
"""
MINUTE_SECONDS = 60.0
A_TURN = 10
"""Verdicts that are decided before others have the loop."""
_REDUCE: Mapping[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}


@dataclass(slots=True)
class _Look:
    """Totals at one instant."""

    at: float
    counters: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    histograms: dict[str, dict[tuple[str, ...], Grown]] = field(default_factory=dict)
    gauges: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)


class DiagnosisRing:
    """One process's."""

    def __init__(self, metrics: Metrics, *, at: float) -> None:
        self._metrics = metrics
        self._looks: deque[_Look] = deque([run_now(_look(metrics, at))])
        self._baselines: dict[str, Baseline] = {}
        self._verdicts: dict[tuple[str, str, Objective], Verdict] = {}

    def look(self, at: float) -> None:
        """Remember how things stand; decide, so that the next verdict knows what stood before."""
        run_now(self.look_in_turns(at))

    def look_in_turns(self, at: float) -> Sliced[None]:
        """The same, for a loop that has traffic."""
        look = yield from _look(self._metrics, at)
        self._looks.append(look)
        self._thin(at)
        seen = yield from self._seen(look)
        for model in self._metrics.models.shown():
            yield
            baseline = self._baselines.setdefault(model, Baseline())
            baseline.learn(at, evidence.now(seen, model), disturbed=evidence.disturbed(seen, model))
        self._verdicts = yield from self._decided(seen, (yield from self._compared(seen)))

    def lanes(self, at: float, *, engine: str | None = None, hints: tuple[str, ...] = ()) -> list[Measured]:
        """What is known now of every lane that had traffic or missed. `engine`: its kind; `hints`: see `Measured`."""
        return run_now(self.lanes_in_turns(at, engine=engine, hints=hints))

    def lanes_in_turns(
        self, at: float, *, engine: str | None = None, hints: tuple[str, ...] = ()
    ) -> Sliced[list[Measured]]:
        """The same, for a loop that has traffic."""
        now = yield from _look(self._metrics, at)
        seen = yield from self._seen(now)
        compared = yield from self._compared(seen)
        verdicts = yield from self._decided(seen, compared)
        found = []
        for model, lane in reading.lanes(seen):
            yield
            told = reading.Told(
                source="sidecar",
                verdicts={of: verdict for (m, la, of), verdict in verdicts.items() if (m, la) == (model, lane)},
                ratios=compared[model].ratios if model in compared else {},
                baseline=model in self._baselines and bool(self._baselines[model].usual.model),
                baseline_is_young=model in self._baselines and self._baselines[model].is_young,
                engine=engine,
                hints=hints,
            )
            found.append(reading.measured(seen, model, lane, told))
        return found

    def _decided(
        self, seen: Seen, compared: Mapping[str, reading.Comparison]
    ) -> Sliced[dict[tuple[str, str, Objective], Verdict]]:
        # On this pod stand all of its misses.
        faulty, kv_full = reading.faults(seen), float(reading.kv_full(seen))
        found: dict[tuple[str, str, Objective], Verdict] = {}
        for number, who in enumerate(_promised(seen), 1):
            if number % A_TURN == 0:
                yield
            case = reading.case(
                seen,
                who,
                compared.get(who[0], reading.Comparison()),
                faulty,
                kv_full=kv_full if who[2] is not Objective.TPOT else 0.0,
                kv_full_pods=kv_full,
            )
            before = self._verdicts.get(who)
            verdict = decide(case, None if before is None else before.phase)
            if verdict is not None:
                found[who] = verdict
        return found

    def _compared(self, seen: Seen) -> Sliced[dict[str, reading.Comparison]]:
        found = {}
        for model, baseline in list(self._baselines.items()):
            yield
            found[model] = evidence.compared(seen, model, evidence.now(seen, model), baseline.usual)
        return found

    def _seen(self, now: _Look) -> Sliced[Seen]:
        windows = {}
        for seconds in WINDOWS:
            yield
            then = next((look for look in self._looks if look.at >= now.at - seconds), self._looks[-1])
            windows[seconds] = _between(then, now, seconds)
        minute = [*(look for look in self._looks if now.at - MINUTE_SECONDS <= look.at < now.at), now]
        return Seen(windows, {kept.metric.name: _over_a_minute(kept, minute) for kept in GAUGES})

    def _thin(self, at: float) -> None:
        """Beyond the window that is shown, one look a minute is enough; beyond the long one, one in all."""
        kept: deque[_Look] = deque()
        for look in self._looks:
            young = look.at > at - WINDOWS[1] - PERIOD_SECONDS
            if young or not kept or look.at - kept[-1].at >= MINUTE_SECONDS:
                kept.append(look)
        while len(kept) > 1 and kept[1].at <= at - LONG_SECONDS:
            kept.popleft()
        self._looks = kept


def _promised(seen: Seen) -> Iterable[tuple[str, str, Objective]]:
    """Everybody who missed in the last half hour."""
    missed = seen.windows[LONG_SECONDS].counters.get(p.SLO_MISSES_TOTAL.name, {})
    for (model, lane, objective), count in missed.items():
        if count > 0:
            yield model, lane, Objective(objective)


# --- looks ---------------------------------------------------------------------------------------------------------------


def _look(metrics: Metrics, at: float) -> Sliced[_Look]:
    metrics.look(at)
    look = _Look(at)
    for kept in KEPT:
        yield
        if isinstance(kept.metric, Histogram):
            look.histograms[kept.metric.name] = _histograms(metrics.histogram(kept.metric), kept)
        else:
            look.counters[kept.metric.name] = _counters(metrics.counter(kept.metric), kept)
    for gauge in GAUGES:
        look.gauges[gauge.metric.name] = _gauges(metrics, gauge)
    return look


def _counters(family: Family[CounterChild], kept: Kept) -> dict[tuple[str, ...], float]:
    places = _places([label.name for label in family.metric.labels], kept.labels)
    totals: dict[tuple[str, ...], float] = {}
    for labels, child in family.children.items():
        key = tuple(labels[place] for place in places)
        totals[key] = totals.get(key, 0.0) + child.value
    return totals


def _histograms(family: Family[HistogramChild], kept: Kept) -> dict[tuple[str, ...], Grown]:
    names = [label.name for label in family.metric.labels]
    places = _places(names, kept.labels)
    wanted = [(names.index(name), value) for name, value in kept.only.items()]
    totals: dict[tuple[str, ...], Grown] = {}
    for labels, child in family.children.items():
        if any(labels[place] != value for place, value in wanted):
            continue
        key = tuple(labels[place] for place in places)
        before = totals.get(key, Grown(0, 0.0))
        counts = tuple(map(add, before.counts, child.counts)) if before.counts else tuple(child.counts)
        totals[key] = Grown(before.count + child.count, before.sum + child.sum, counts if kept.buckets else ())
    return totals


def _gauges(metrics: Metrics, kept: KeptGauge) -> dict[tuple[str, ...], float]:
    family = metrics.gauge(kept.metric)
    places = _places([label.name for label in family.metric.labels], kept.labels)
    found: dict[tuple[str, ...], list[float]] = {}
    for labels, child in family.children.items():
        if child.value is not None:
            found.setdefault(tuple(labels[place] for place in places), []).append(child.value)
    return {key: _REDUCE[kept.reduce](values) for key, values in found.items()}


def _places(names: list[str], kept: tuple[str, ...]) -> list[int]:
    return [names.index(name) for name in kept]


def _between(then: _Look, now: _Look, window_seconds: float) -> Growth:
    counters = {
        kept.metric.name: {
            key: max(0.0, value - then.counters[kept.metric.name].get(key, 0.0))
            for key, value in now.counters[kept.metric.name].items()
        }
        for kept in KEPT
        if not kept.metric.buckets and window_seconds in kept.windows
    }
    histograms = {
        kept.metric.name: {
            key: _grown(then.histograms[kept.metric.name].get(key), grown)
            for key, grown in now.histograms[kept.metric.name].items()
        }
        for kept in KEPT
        if kept.metric.buckets and window_seconds in kept.windows
    }
    return Growth(max(0.0, now.at - then.at), counters, histograms)


def _grown(then: Grown | None, now: Grown) -> Grown:
    if then is None:
        return now
    counts = tuple(b - a for a, b in zip(then.counts, now.counts, strict=True))
    return Grown(now.count - then.count, now.sum - then.sum, counts)


def _over_a_minute(kept: KeptGauge, minute: list[_Look]) -> dict[tuple[str, ...], float]:
    now = minute[-1].gauges[kept.metric.name]
    if not kept.minute:
        return now
    return {key: fmean(look.gauges[kept.metric.name].get(key, value) for look in minute) for key, value in now.items()}
