"""Queries to a fleet's Prometheus, and the reading of its answers. Pure: queries are text, answers are samples.

The queries are written from the same table as the snapshots of a running sidecar (`history/series.py`), so that both have
the same numbers under the same names. It knows PromQL and the names of the recording rules, and no HTTP.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.diagnosis.facts import KV_FULL_RATIO, PREEMPTED
from sidecar.diagnosis.measured import COMING_UP_SECONDS, EngineDown
from sidecar.diagnosis.verdict import FEWEST_MISSES, LaneObjective, Verdict
from sidecar.history.growth import Growth, Total, Windows
from sidecar.history.series import GAUGE_SERIES, GROWTH_SERIES, LONG_SECONDS, NOW_SECONDS, SHOWN_SECONDS, GrowthSeries
from sidecar.metrics.declaration import Histogram
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import NO_CAUSE, Cause
from sidecar.slo.objective import Objective


LONG_TIMES = 6
"""Least ratio of the long window to the shown one."""

Samples = list[tuple[Mapping[str, str], float]]
"""Labels and value of each sample of an instant query."""


@dataclass(frozen=True, slots=True)
class Fleet:
    namespace: str | None = None
    """None if Prometheus adds no namespace label."""

    def of(self, **labels: str) -> str:
        """The label matchers of a selector, without braces."""
        own = {} if self.namespace is None else {"namespace": self.namespace}
        return ",".join(f"{name}={quoted(value)}" for name, value in {**own, **labels}.items())


def quoted(value: str) -> str:
    """A label value in quotes, escaped for PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def spans(window_seconds: float) -> dict[float, float]:
    """Window of `history/series.py` to its length in seconds for these queries."""
    longest = max(LONG_SECONDS, LONG_TIMES * window_seconds)
    return {NOW_SECONDS: NOW_SECONDS, SHOWN_SECONDS: window_seconds, LONG_SECONDS: longest}


NAMESPACES = "group by (namespace) (llm_requests_received_total)"


def growth(fleet: Fleet, window_seconds: float) -> dict[tuple[str, float], str]:
    """(series, window) to the query for its growth."""
    asked = {}
    for series in GROWTH_SERIES:
        for window in series.windows:
            seconds = f"{spans(window_seconds)[window]:.0f}s"
            for name in _names(series):
                by = ", ".join((*series.labels, *(("le",) if name.endswith("_bucket") else ())))
                of = f"{name}{{{fleet.of(**series.only)}}}"
                asked[name, window] = f"sum by ({by}) (increase({of}[{seconds}]))"
    return asked


def gauges(fleet: Fleet) -> dict[str, str]:
    """Gauge to the query for its value."""
    asked = {}
    for gauge in GAUGE_SERIES:
        of = f"{gauge.metric.name}{{{fleet.of()}}}"
        value = f"avg_over_time({of}[1m])" if gauge.minute else of
        asked[gauge.metric.name] = f"{gauge.reduce} by ({', '.join(gauge.labels)}) ({value})"
    return asked


def _names(series: GrowthSeries) -> tuple[str, ...]:
    name = series.metric.name
    if not isinstance(series.metric, Histogram):
        return (name,)
    return (f"{name}_sum", f"{name}_count", *((f"{name}_bucket",) if series.buckets else ()))


def windows_of(
    answers: Mapping[tuple[str, float], Samples], gauge_answers: Mapping[str, Samples], window_seconds: float
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
    return Windows(grown, found)


def _by(labels: tuple[str, ...], samples: Samples) -> dict[tuple[str, ...], float]:
    # NaN is the value of a gauge that is unknown.
    return {tuple(of.get(name, "") for name in labels): value for of, value in samples if value == value}  # noqa: PLR0124


def _histogram(
    series: GrowthSeries, metric: Histogram, answers: Mapping[tuple[str, float], Samples], window: float
) -> dict[tuple[str, ...], Total]:
    sums = _by(series.labels, answers.get((f"{metric.name}_sum", window), []))
    counts = _by(series.labels, answers.get((f"{metric.name}_count", window), []))
    buckets: dict[tuple[str, ...], dict[float, float]] = {}
    for of, value in answers.get((f"{metric.name}_bucket", window), []):
        buckets.setdefault(tuple(of.get(name, "") for name in series.labels), {})[float(of["le"])] = value
    return {
        key: Total(count, sums.get(key, 0.0), _between_edges(metric, buckets.get(key, {})))
        for key, count in counts.items()
    }


def _between_edges(metric: Histogram, cumulative: Mapping[float, float]) -> tuple[float, ...]:
    """Counts between the edges, not cumulative; empty if a pod of another version has other edges."""
    edges = (*metric.buckets, float("inf"))
    if any(edge not in cumulative for edge in edges):
        return ()
    ordered = [cumulative[edge] for edge in edges]
    return tuple(max(0.0, b - a) for a, b in zip([0.0, *ordered], ordered, strict=False))


# --- recorded verdicts ---------------------------------------------------------------------------------------------------


def recorded(fleet: Fleet) -> dict[str, str]:
    """Queries for verdict and evidence as the page has them; `loaded` has an answer only if the rules are loaded."""
    mine = fleet.of()
    return {
        "loaded": f"count(model:llm_evidence:now{{{mine}}})",
        "phase": f"lane:llm_slo_verdict:phase{{{mine}}} == 1",
        "cause": f"lane:llm_slo_verdict:cause{{{mine}}}",
        "waited_in": f"lane:llm_slo_waited_in:ratio{{{mine}}}",
        "split": f"lane:llm_slo_votes:split{{{mine}}}",
        "provisional": f"lane:llm_slo_verdict:provisional{{{mine}}}",
        "decided": f"lane:llm_slo_verdict:decided{{{mine}}}",
        "bursts": f"lane:llm_slo_verdict:bursts{{{mine}}}",
        "moved": f"lane:llm_slo_verdict:moved{{{mine}}}",
        "misses": f"lane:llm_slo_misses:increase5m{{{mine}}}",
        "ratio": f"model:llm_evidence:ratio{{{mine}}}",
    }


def recorded_verdicts(answers: Mapping[str, Samples]) -> dict[LaneObjective, Verdict]:
    """Model, lane and objective to the page's own verdict. Raises ValueError for a value that this version does not know."""
    found = {}
    for of, _ in answers["phase"]:
        who = LaneObjective(of["model"], of["lane"], Objective(of["objective"]))
        phase = Blame(of["phase"])
        causes = [labels["cause"] for labels in _mine(answers["cause"], who)]
        found[who] = Verdict(
            phase=phase,
            cause=Cause(causes[0]) if causes and causes[0] != NO_CAUSE else None,
            waited_in={Blame(labels["phase"]): value for labels, value in answers["waited_in"] if _is(labels, who)},
            votes=next((value for labels, value in answers["split"] if _is(labels, who)), 0.0),
            provisional=bool(_mine(answers["provisional"], who)),
            collected=phase is Blame.STREAM and bool(_mine(answers["bursts"], who)),
            moved=phase is Blame.PREFILL and bool(_mine(answers["moved"], who)),
        )
    return found


def recorded_votes_seconds(answers: Mapping[str, Samples]) -> dict[LaneObjective, float]:
    """Model, lane and objective to the window of the recorded votes: five minutes, or thirty if few requests missed."""
    found = {}
    for of, _ in answers["phase"]:
        who = LaneObjective(of["model"], of["lane"], Objective(of["objective"]))
        misses = next((value for labels, value in answers["misses"] if _is(labels, who)), 0.0)
        found[who] = SHOWN_SECONDS if misses >= FEWEST_MISSES else LONG_SECONDS
    return found


def recorded_ratios(answers: Mapping[str, Samples], model: str) -> dict[Cause, float]:
    """Evidence over its frozen baseline. Raises ValueError for a value that this version does not know."""
    return {Cause(of["evidence"]): value for of, value in answers["ratio"] if of["model"] == model}


def _is(labels: Mapping[str, str], who: LaneObjective) -> bool:
    return all(labels.get(name) == value for name, value in who._asdict().items())


def _mine(samples: Samples, who: LaneObjective) -> list[Mapping[str, str]]:
    return [labels for labels, _ in samples if _is(labels, who)]


# --- faults, without recording rules -------------------------------------------------------------------------------------


def faults(fleet: Fleet, window_seconds: float) -> dict[str, str]:
    """Queries for the faults of each pod, as in the recording rules (alert_rules/verdict.py), and for its misses."""
    mine, window = fleet.of(), f"{window_seconds:.0f}s"
    usage = f"min by (pod) (avg_over_time(llm_engine_kv_cache_usage_ratio{{{mine}}}[1m])) >= {KV_FULL_RATIO}"
    preempted = f"sum by (pod) (rate(llm_engine_preemptions_total{{{mine}}}[{window}]))"
    arrived = f"sum by (pod) (rate(llm_requests_received_total{{{mine}}}[{window}]))"
    return {
        Cause.DOWN.value: (
            f"max by (pod) (llm_engine_up{{{mine}}} == 0 or increase(llm_engine_restarts_total{{{mine}}}[{window}]) > 0)"
        ),
        Cause.SILENCE.value: f"max by (pod) (increase(llm_engine_stalled_seconds_total{{{mine}}}[{window}]) > 0)",
        Cause.PREEMPTION.value: f"{preempted} >= {PREEMPTED} * {arrived} > 0",
        Cause.KV.value: (
            f"{usage} and on (pod) min by (pod) (avg_over_time(llm_engine_requests_waiting{{{mine}}}[1m])) >= 1"
        ),
        "pods": f"group by (model, pod) (llm_requests_received_total{{{mine}}})",
        "misses": f"sum by (model, lane, objective, pod) (increase(llm_slo_misses_total{{{mine}}}[{window}]))",
    }


def faulty(answers: Mapping[str, Samples], who: LaneObjective) -> tuple[dict[Cause, float], float]:
    """Fault to the share of these misses on pods that have it; and the same share for a full KV cache."""
    misses = {labels.get("pod", ""): value for labels, value in answers["misses"] if _is(labels, who)}
    total = sum(misses.values())
    if not total:
        return {}, 0.0

    def share(name: str) -> float:
        return sum(misses.get(labels.get("pod", ""), 0.0) for labels, _ in answers[name]) / total

    full = 0.0 if who.objective is Objective.TPOT else share(Cause.KV.value)
    return {cause: share(cause.value) for cause in (Cause.DOWN, Cause.SILENCE, Cause.PREEMPTION)}, full


def kv_full_pods(answers: Mapping[str, Samples], model: str) -> float:
    """Share of a model's pods that have a full KV cache."""
    pods = {labels.get("pod", "") for labels, _ in answers["pods"] if labels.get("model") == model}
    full = {labels.get("pod", "") for labels, _ in answers[Cause.KV.value]}
    return len(pods & full) / len(pods) if pods else 0.0


def engine_up(fleet: Fleet) -> str:
    """Query for the health of each pod's engine: 1 if it passes its health checks, else 0."""
    return f"min by (pod) (llm_engine_up{{{fleet.of()}}})"


def engines_coming_up(fleet: Fleet) -> str:
    """Query for the pods with an engine that was never up and may still load its model, as in the alert LLMEngineDown."""
    mine, limit = fleet.of(), f"{COMING_UP_SECONDS:.0f}"
    began = f"process_start_time_seconds{{{mine}}} and on (namespace, pod, instance) llm_sidecar_build_info{{{mine}}}"
    return (
        f"max by (pod) (max_over_time(llm_engine_up{{{mine}}}[{limit}s])) == 0"
        f" and on (pod) max by (pod) (time() - {began}) < {limit}"
    )


def engines_down(answer: Samples, coming_up: Samples, fleet: Fleet) -> list[EngineDown]:
    """The pods of a namespace with an engine that is down, as one entry; empty if there are none.

    `coming_up`: pods that still have time for their first start; they are left out.
    """
    starting = {labels.get("pod", "") for labels, _ in coming_up}
    pods = tuple(sorted({labels.get("pod", "") for labels, value in answer if value == 0} - starting))
    return [EngineDown(namespace=fleet.namespace, pods=pods, of_pods=len(answer))] if pods else []


def samples(answer: Mapping[str, Any]) -> Samples:
    """The instant vector in an answer of Prometheus' API. Raises KeyError or ValueError for another form."""
    if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
        raise ValueError("no instant vector")
    return [(item["metric"], float(item["value"][1])) for item in answer["data"]["result"]]
