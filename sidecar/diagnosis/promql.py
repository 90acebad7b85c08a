"""Queries to a fleet's Prometheus, and the reading of its answers. Pure: queries are text, answers are samples.

The queries are written from the same table as the snapshots of a running sidecar (`history/series.py`), so that both have
the same numbers under the same names. It knows PromQL and one recorded series (the pods that have a page of their own), and
no HTTP. Everything else is read from what the sidecars expose, so that no recording rule needs to be loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.diagnosis.measured import COMING_UP_SECONDS, EngineDown, PodShare
from sidecar.diagnosis.verdict import LaneObjective
from sidecar.history.growth import Growth, Total, Windows
from sidecar.history.series import (
    GAUGE_SERIES,
    GROWTH_SERIES,
    LONG_SECONDS,
    NOW_SECONDS,
    SHOWN_SECONDS,
    GaugeSeries,
    GrowthSeries,
)
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Histogram
from sidecar.metrics.histogram_forms import buckets, of_any_form
from sidecar.metrics.target_labels import ONE_PROCESS
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import ROOT_PHASES, ROOTS


LONG_TIMES = 6
"""Least ratio of the long window to the shown one."""

Samples = list[tuple[Mapping[str, str], float]]
"""Labels and value of each sample of an instant query. A native histogram is many: at both edges of each of its buckets (`le`), the
count below."""
Ranges = list[tuple[Mapping[str, str], Mapping[float, float]]]
"""Labels of each series of a range query, with its values by unix time."""


PEAK_STEP_SECONDS = 30
"""Between the instants at which a sum over pods is looked at for its highest value."""


@dataclass(frozen=True, slots=True, order=True)
class Fleet:
    """The pods of one engine: one job in one namespace."""

    namespace: str | None = None
    """None if Prometheus adds no namespace label."""
    job: str | None = None
    """None if it is not known which job, so that all of the namespace are one fleet."""

    def of(self, **labels: str) -> str:
        """The label matchers of a selector, without braces."""
        own = {"namespace": self.namespace, "job": self.job}
        known = {name: value for name, value in own.items() if value is not None}
        return ",".join(f"{name}={quoted(value)}" for name, value in {**known, **labels}.items())


def fleets(asked: Fleet) -> str:
    """Query for every namespace and job that has a sidecar, as far as they are asked for."""
    of = asked.of()
    return f"group by (namespace, job) (llm_requests_received_total{{{of}}} or llm_engine_up{{{of}}})"


def fleets_of(answer: Samples, asked: Fleet) -> list[Fleet]:
    """The fleets of that answer; the one that was asked for if there is none."""
    found = sorted({(of.get("namespace", ""), of.get("job", "")) for of, _ in answer})
    return [Fleet(name or None, job or None) for name, job in found] or [asked]


def quoted(value: str) -> str:
    """A label value in quotes, escaped for PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def spans(window_seconds: float) -> dict[float, float]:
    """Window of `history/series.py` to its length in seconds for these queries."""
    longest = max(LONG_SECONDS, LONG_TIMES * window_seconds)
    return {NOW_SECONDS: NOW_SECONDS, SHOWN_SECONDS: window_seconds, LONG_SECONDS: longest}


def growth(fleet: Fleet, window_seconds: float) -> dict[tuple[str, float], str]:
    """(series, window) to the query for its growth."""
    asked = {}
    for series in GROWTH_SERIES:
        for window in series.windows:
            seconds = f"{spans(window_seconds)[window]:.0f}s"
            for name in _names(series):
                by, matchers = ", ".join(series.labels), f"{{{fleet.of(**series.only)}}}"
                read = of_any_form(f"increase({name}{matchers}[{seconds}])")
                if name.endswith("_bucket"):
                    by, read = ", ".join((*series.labels, "le")), buckets(series.metric.name, matchers, seconds)
                asked[name, window] = f"sum by ({by}) ({read})"
    return asked


def gauges(fleet: Fleet) -> dict[str, str]:
    """Gauge to the query for its value."""
    return {gauge.metric.name: _gauge(gauge, fleet) for gauge in GAUGE_SERIES if gauge.diagnosed}


def peaks(fleet: Fleet, window_seconds: float) -> dict[str, str]:
    """Gauge to the query for its highest value within the long window, of all pods at one instant."""
    seconds = spans(window_seconds)[LONG_SECONDS]
    return {
        gauge.metric.name: (
            f"max_over_time(({gauge.reduce}({gauge.metric.name}{{{fleet.of()}}}))[{seconds:.0f}s:{PEAK_STEP_SECONDS}s])"
        )
        for gauge in GAUGE_SERIES
        if gauge.peak
    }


def _gauge(gauge: GaugeSeries, fleet: Fleet) -> str:
    of = f"{gauge.metric.name}{{{fleet.of()}}}"
    value = f"avg_over_time({of}[1m])" if gauge.minute else f"(timestamp({of}) - {of})" if gauge.age else of
    return f"{gauge.reduce} by ({', '.join(gauge.labels)}) ({value})"


def _names(series: GrowthSeries) -> tuple[str, ...]:
    name = series.metric.name
    if not isinstance(series.metric, Histogram):
        return (name,)
    return (f"{name}_sum", f"{name}_count", *((f"{name}_bucket", name) if series.buckets else ()))


def windows_of(
    answers: Mapping[tuple[str, float], Samples],
    gauge_answers: Mapping[str, Samples],
    peak_answers: Mapping[str, Samples],
    window_seconds: float,
) -> Windows:
    """The answers in the form of a running sidecar's windows."""
    grown = {}
    for window, seconds in spans(window_seconds).items():
        counters: dict[str, dict[tuple[str, ...], float]] = {}
        histograms: dict[str, dict[tuple[str, ...], Total]] = {}
        for series in GROWTH_SERIES:
            if window not in series.windows:
                continue
            if isinstance(series.metric, Histogram):
                histograms[series.metric.name] = _histogram(series, series.metric, answers, window)
            else:
                counters[series.metric.name] = _by(series.labels, answers.get((series.metric.name, window), []))
        grown[window] = Growth(seconds, counters, histograms)
    found = {gauge.metric.name: _by(gauge.labels, gauge_answers.get(gauge.metric.name, [])) for gauge in GAUGE_SERIES}
    highest = {name: value for name, answer in peak_answers.items() for value in _by((), answer).values()}
    return Windows(grown, found, highest)


def known_roots(windows: Windows) -> bool:
    """Whether every phase and cause that a sidecar of the fleet decided is one that this version knows."""
    shown, phases = windows.growth[SHOWN_SECONDS].counters, {*ROOT_PHASES}
    decided = {labels[-1] for labels in shown[c.SLO_ROOT_MISSES_TOTAL.name]}
    causes = {labels[-2:] for labels in shown[c.SLO_ROOT_CAUSE_MISSES_TOTAL.name]}
    return decided <= phases and causes <= {*ROOTS}


def _by(labels: tuple[str, ...], samples: Samples) -> dict[tuple[str, ...], float]:
    # NaN is the value of a gauge that is unknown.
    return {tuple(of.get(name, "") for name in labels): value for of, value in samples if value == value}  # noqa: PLR0124


def _histogram(
    series: GrowthSeries, metric: Histogram, answers: Mapping[tuple[str, float], Samples], window: float
) -> dict[tuple[str, ...], Total]:
    sums = _by(series.labels, answers.get((f"{metric.name}_sum", window), []))
    counts = _by(series.labels, answers.get((f"{metric.name}_count", window), []))
    edges: dict[tuple[str, ...], dict[float, float]] = {}
    for of, value in answers.get((f"{metric.name}_bucket", window), []):
        edges.setdefault(tuple(of.get(name, "") for name in series.labels), {})[float(of["le"])] = value
    native: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for of, value in answers.get((metric.name, window), []):
        native.setdefault(tuple(of.get(name, "") for name in series.labels), []).append((float(of["le"]), value))
    for key, points in native.items():
        of_both = edges.setdefault(key, dict.fromkeys((*metric.buckets, float("inf")), 0.0))
        for edge in of_both:
            of_both[edge] += _below(edge, points)
    return {
        key: Total(count, sums.get(key, 0.0), _between_edges(metric, edges.get(key, {})))
        for key, count in counts.items()
    }


def _below(edge: float, points: list[tuple[float, float]]) -> float:
    """Samples of a native histogram below an edge; an estimate where the edge lies within one of its buckets, whose samples are
    taken to lie evenly.
    """
    low, count = 0.0, 0.0
    for high, up_to in sorted(points):
        if high > edge:
            return count + (up_to - count) * (edge - low) / (high - low)
        low, count = high, up_to
    return count


def _between_edges(metric: Histogram, cumulative: Mapping[float, float]) -> tuple[float, ...]:
    """Counts between the edges, not cumulative; empty if a pod of another version has other edges."""
    edges = (*metric.buckets, float("inf"))
    if any(edge not in cumulative for edge in edges):
        return ()
    ordered = [cumulative[edge] for edge in edges]
    return tuple(max(0.0, b - a) for a, b in zip([0.0, *ordered], ordered, strict=False))


# --- pods ----------------------------------------------------------------------------------------------------------------

_MISSES, _JUDGED, _ODD = "misses", "judged", "odd"


def pods(fleet: Fleet, window_seconds: float) -> dict[str, str]:
    """Queries for the misses and the judged requests of each pod, and for the pods that have a page of their own."""
    by = ", ".join((*LaneObjective._fields, "pod"))
    of = f"{{{fleet.of()}}}[{window_seconds:.0f}s]"
    return {
        _MISSES: f"sum by ({by}) (increase({c.SLO_MISSES_TOTAL.name}{of}))",
        _JUDGED: f"sum by ({by}) (increase({c.SLO_REQUESTS_TOTAL.name}{of}))",
        _ODD: f"pod:llm_slo:odd{{{fleet.of()}}} == 1",
    }


def pod_shares(answers: Mapping[str, Samples], model: str, lane: str) -> dict[Objective, tuple[PodShare, ...]]:
    """Objective to the pods of a lane, the one with the most misses first; without objectives that nothing missed."""
    odd = {of.get("pod", "") for of, _ in answers[_ODD] if of.get("model", model) == model}
    found = {}
    for objective in Objective:
        who = {"model": model, "lane": lane, "objective": str(objective)}
        misses, judged = (_by_pod(answers[name], who) for name in (_MISSES, _JUDGED))
        missed, requests = sum(misses.values()), sum(judged.values())
        if missed > 0 and requests > 0:
            shares = [
                PodShare(
                    pod=pod,
                    misses=misses.get(pod, 0.0),
                    share=misses.get(pod, 0.0) / missed,
                    of_requests=count / requests,
                    odd=pod in odd,
                )
                for pod, count in judged.items()
            ]
            found[objective] = tuple(sorted(shares, key=lambda one: (-one.misses, one.pod)))
    return found


def _by_pod(samples: Samples, who: Mapping[str, str]) -> dict[str, float]:
    return {
        of.get("pod", ""): value
        for of, value in samples
        if value > 0 and all(of.get(name) == text for name, text in who.items())
    }


# --- engines that are down -----------------------------------------------------------------------------------------------


_WAS_UP_WINDOW = "2h"
"""An engine that was up within it is down and not starting, even if its sidecar began anew since."""


def engine_up(fleet: Fleet) -> str:
    """Query for the health of each pod's engine: 1 if it passes its health checks and is not stalled, else 0."""
    return f"min by (pod) (llm_engine_up{{{fleet.of()}}})"


def engine_stalled(fleet: Fleet) -> str:
    """Query for the pods with an engine that has stopped in the middle of its work."""
    return f"max by (pod) (llm_engine_stalled{{{fleet.of()}}}) == 1"


def engines_coming_up(fleet: Fleet) -> str:
    """Query for the pods with an engine that was never up and may still load its model, as in the alert LLMEngineDown."""
    mine, limit = fleet.of(), f"{COMING_UP_SECONDS:.0f}"
    age = f"{c.SIDECAR_TIME_SECONDS.name}{{{mine}}} - process_start_time_seconds{{{mine}}}"  # a pod's clock may be off
    return (
        f"max by (pod) (max_over_time(llm_engine_up{{{mine}}}[{_WAS_UP_WINDOW}]) == 0"
        f" and on ({', '.join(ONE_PROCESS)}) {age} < {limit})"
    )


def engines_down(answer: Samples, coming_up: Samples, fleet: Fleet, stalled: Samples | None = None) -> list[EngineDown]:
    """The pods of a fleet with an engine that is down, as one entry, and those with a stalled one, as another.

    `coming_up`: pods that still have time for their first start; they are left out. `stalled`: answer to that query.
    """
    starting, hung = ({labels.get("pod", "") for labels, _ in samples} for samples in (coming_up, stalled or []))
    down = {labels.get("pod", "") for labels, value in answer if value == 0} - starting
    return [
        EngineDown(
            namespace=fleet.namespace, job=fleet.job, pods=tuple(sorted(pods)), of_pods=len(answer), stalled=stopped
        )
        for stopped, pods in ((False, down - hung), (True, down & hung))
        if pods
    ]


def samples(answer: Mapping[str, Any]) -> Samples:
    """The instant vector in an answer of Prometheus' API. Raises KeyError or ValueError for another form."""
    if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
        raise ValueError("no instant vector")
    return [one for item in answer["data"]["result"] for one in _samples_of(item)]


def _samples_of(item: Mapping[str, Any]) -> Samples:
    if "histogram" not in item:
        return [(item["metric"], float(item["value"][1]))]
    told = item["histogram"][1]
    found: Samples = [({**item["metric"], "le": "+Inf"}, float(told["count"]))]
    below = 0.0
    for _, low, high, count in told.get("buckets", []):
        found.append(({**item["metric"], "le": low}, below))
        below += float(count)
        found.append(({**item["metric"], "le": high}, below))
    return found


def ranges(answer: Mapping[str, Any]) -> Ranges:
    """The range vectors in an answer of Prometheus' API. Raises KeyError or ValueError for another form."""
    if answer["status"] != "success" or answer["data"]["resultType"] != "matrix":
        raise ValueError("no range vectors")
    return [(item["metric"], {at: float(value) for at, value in item["values"]}) for item in answer["data"]["result"]]
