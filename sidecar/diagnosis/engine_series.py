"""The engines' own series in a Prometheus that has no sidecar's: the queries for them, and the record of each engine. Pure.

It takes what an engine's page has of a whole engine: the slow ends of its times, its queue, its cache. It refuses to make up what no such
page knows: lanes, promises, clients. So the thresholds are assumed, as of numbers that a person gives, and the answer says what only a
sidecar could tell. It asks for the page of now and, slice by slice, for its past, by which `engine_past.py` tells what broke. The names stand
in each engine's file.
"""

from collections.abc import Iterator, Mapping
from math import inf, isnan
from typing import Any

from sidecar.diagnosis.engine_past import PAST_WINDOWS, WINDOW_SLICES, Slice, found
from sidecar.diagnosis.measured import Latency, Load, Measured, PhaseTime
from sidecar.diagnosis.promql import Fleet, Ranges, Samples
from sidecar.engines.kind import EngineKind
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.state_names import Count, Name, PageTime, StateNames
from sidecar.objectives.attribution import Blame
from sidecar.objectives.objective import Objective
from sidecar.objectives.presets import INTERACTIVE


WITHOUT_SIDECAR = (
    "No sidecar's series are here: these are the engine's own, of all its lanes, prompt lengths and clients together, against assumed"
    " thresholds."
)
ONLY_A_SIDECAR_TELLS = (
    "a sidecar tells whose requests miss which objective, what broke beside the usual values, since when, and where time is lost behind the"
    " engine; `sidecar serve --no-proxy` needs no hop (docs/no_proxy.md)"
)
NO_PREFILL = (
    "this engine's page has no time of the prefill: what first tokens take beside the queue stands for it, so that a slow front end and slow"
    " prompts look alike"
)
_BY_ENGINE_OF_JOB = "namespace, job"
_BY_TARGET = "namespace, job, instance"
_AN_ENGINE = "1h"
"""A target whose page had an engine's series within it is an engine, also while it is down."""
_STATE_SECONDS = 60
"""Gauges are averaged over the last minute, as of sidecars."""
_PAGE_TIMES = {
    "ttft": PageTime.FIRST_TOKEN,
    "e2e": PageTime.WHOLE,
    Blame.QUEUE.value: PageTime.QUEUE,
    Blame.PREFILL.value: PageTime.PREFILL,
}
_PACE, _STARTED, _SCRAPES, _WAITING, _RUNNING, _KV_USAGE, _PREEMPTED, _CACHED = (
    *("pace", "started", "scrapes", "waiting", "running", "kv", "preempted", "cached"),
)


def kinds() -> Iterator[tuple[EngineKind, StateNames]]:
    """The engines whose page has the two times that a diagnosis needs."""
    for kind in KINDS.values():
        if kind.state is not None and kind.state.paces and PageTime.FIRST_TOKEN in kind.state.times:
            yield kind, kind.state


def queries(names: StateNames, fleet: Fleet, model: str | None, window_seconds: float) -> dict[str, str]:
    """Number to its query, by namespace and job. `model`: one alone, by the engines' label `model_name`."""
    of = fleet.of(**({} if model is None else {"model_name": model}))
    window = f"{window_seconds:.0f}s"

    def slow(*alternatives: str) -> str:
        read = " or ".join(
            f"sum by ({_BY_ENGINE_OF_JOB}, le) (rate({name}_bucket{{{of}}}[{window}]))" for name in alternatives
        )
        return f"histogram_quantile(0.99, {read})"

    def summed(counted: tuple[Name, ...]) -> str:
        return " + ".join(f"sum by ({_BY_ENGINE_OF_JOB}) (rate({one.name}{{{of}}}[{window}]))" for one in counted)

    def now(reduce: str, gauge: Name) -> str:
        return f"{reduce} by ({_BY_ENGINE_OF_JOB}) {_gauge(names, of, gauge, f'avg_over_time(%s[{_STATE_SECONDS}s])')}"

    first = names.times[PageTime.FIRST_TOKEN]
    asked = {name: slow(names.times[time]) for name, time in _PAGE_TIMES.items() if time in names.times}
    asked |= {
        _PACE: slow(*names.paces),
        _STARTED: f"sum by ({_BY_ENGINE_OF_JOB}) (increase({first}_count{{{of}}}[{window}]))",
        _SCRAPES: f"max by ({_BY_ENGINE_OF_JOB}) (count_over_time({first}_count{{{of}}}[{window}]))",
    }
    gauges = (
        (_WAITING, "sum", names.waiting),
        (_RUNNING, "sum", names.running),
        (_KV_USAGE, "max", names.kv_cache_usage),
    )
    asked |= {name: now(reduce, gauge) for name, reduce, gauge in gauges if gauge is not None}
    if Count.PREEMPTIONS in names.counts:
        asked[_PREEMPTED] = summed(names.counts[Count.PREEMPTIONS])
    if {Count.PREFIX_CACHE_HITS, Count.PREFIX_CACHE_QUERIES} <= names.counts.keys():
        hits, asked_for = names.counts[Count.PREFIX_CACHE_HITS], names.counts[Count.PREFIX_CACHE_QUERIES]
        asked[_CACHED] = f"({summed(hits)}) / ({summed(asked_for)})"
    return asked


def first_tokens() -> list[str]:
    """The names of the histograms by which an engine is known."""
    return [names.times[PageTime.FIRST_TOKEN] for _, names in kinds()]


def has_series(answers: Mapping[str, Samples]) -> bool:
    """Whether any engine was scraped within the window."""
    return bool(answers.get(_STARTED) or answers.get(_SCRAPES))


def has_engines(answers: Mapping[str, Samples]) -> bool:
    """Whether any engine had a first token within the window."""
    return any(started > 0 for _, started in answers.get(_STARTED, []))


def slice_seconds(answers: Mapping[str, Samples], window_seconds: float) -> float:
    """The length of a slice of the past: a tenth of the window, and at least two scrapes of each engine, or nothing would grow in it.

    `answers`: to the queries of now.
    """
    scrapes = [count for _, count in answers.get(_SCRAPES, []) if count > 0]
    return max(window_seconds / WINDOW_SLICES, 2.0 * window_seconds / min(scrapes, default=inf))


def past_seconds(seconds: float) -> float:
    """The length of the past that is looked at in slices of so many seconds, the window included."""
    return (PAST_WINDOWS + 1) * WINDOW_SLICES * seconds


def past_queries(names: StateNames, fleet: Fleet, model: str | None, seconds: float) -> dict[str, str]:
    """Field of a slice of so many seconds to its query, by engine: to be asked at the end of each slice of the past."""
    of = fleet.of(**({} if model is None else {"model_name": model}))
    window, half = f"{seconds:.0f}s", f"{max(1.0, seconds / 2):.0f}s"

    def grown(*alternatives: str, by: str = _BY_TARGET) -> str:
        return " or ".join(f"sum by ({by}) (increase({name}{{{of}}}[{window}]))" for name in alternatives)

    first = names.times[PageTime.FIRST_TOKEN]
    steps = (f"sum by ({_BY_TARGET}) (idelta({name}_count{{{of}}}[{window}]))" for name in names.paces)
    engine = f"on ({_BY_TARGET}) max_over_time({first}_count{{{of}}}[{_AN_ENGINE}])"
    asked = {
        "up": f"min by ({_BY_TARGET}) (min_over_time(up{{{fleet.of()}}}[{window}]) and {engine})",
        "restarts": f"max by ({_BY_TARGET}) (resets({first}_count{{{of}}}[{window}]))",
        "first_buckets": grown(f"{first}_bucket", by=f"{_BY_TARGET}, le"),
        "gap_buckets": grown(*(f"{name}_bucket" for name in names.paces), by=f"{_BY_TARGET}, le"),
        "least_tokens": f"min_over_time(({' or '.join(steps)})[{window}:{half}])",
        "firsts": grown(f"{first}_count"),
        "first_seconds": grown(f"{first}_sum"),
        "gaps": grown(*(f"{name}_count" for name in names.paces)),
        "gap_seconds": grown(*(f"{name}_sum" for name in names.paces)),
    }
    for time, (number, total) in _SUMS.items():
        if time in names.times:
            asked[total] = grown(f"{names.times[time]}_sum")
            if number is not None:
                asked[number] = grown(f"{names.times[time]}_count")
    for count, total in _TOTALS.items():
        if count in names.counts:
            asked[total] = " + ".join(grown(one.name) for one in names.counts[count])
    return asked | _past_gauges(names, of, window)


def _past_gauges(names: StateNames, of: str, window: str) -> dict[str, str]:
    read = (
        ("waiting", "sum", f"avg_over_time(%s[{window}])", names.waiting),
        ("waiting_after", "sum", "%s", names.waiting),
        ("running", "sum", f"avg_over_time(%s[{window}])", names.running),
        ("least_running", "sum", f"min_over_time(%s[{window}])", names.running),
        ("kv_usage", "max", f"avg_over_time(%s[{window}])", names.kv_cache_usage),
    )
    return {
        field: f"{reduce} by ({_BY_TARGET}) {_gauge(names, of, gauge, how)}"
        for field, reduce, how, gauge in read
        if gauge is not None
    }


_SUMS: Mapping[PageTime, tuple[str | None, str]] = {
    PageTime.WHOLE: ("ended", "whole_seconds"),
    PageTime.QUEUE: ("queued", "queue_seconds"),
    PageTime.PREFILL: ("prefilled", "prefill_seconds"),
    PageTime.DECODE: (None, "decode_seconds"),
}
_TOTALS = {
    Count.PREFIX_CACHE_QUERIES: "prompt_tokens",
    Count.PREFIX_CACHE_HITS: "cached_tokens",
    Count.PREEMPTIONS: "preempted",
}


def slices(answers: Mapping[str, Ranges], seconds: float) -> dict[tuple[str, str], list[list[Slice]]]:
    """(namespace, job) to the slices of each of its engines, oldest first, from the first one in which its page is known."""
    engines: dict[tuple[str, str, str], dict[float, dict[str, Any]]] = {}
    for name, series in answers.items():
        for labels, values in series:
            key = labels.get("namespace", ""), labels.get("job", ""), labels.get("instance", "")
            by_time = engines.setdefault(key, {})
            for at, value in values.items():
                if isnan(value):
                    continue
                if name.endswith("_buckets"):
                    by_time.setdefault(at, {}).setdefault(name, {})[float(labels["le"])] = value
                else:
                    by_time.setdefault(at, {})[name] = value
    found: dict[tuple[str, str], list[list[Slice]]] = {}
    for (namespace, job, _), by_time in sorted(engines.items()):
        told = [by_time[at] for at in sorted(by_time)]
        known = next((number for number, one in enumerate(told) if "firsts" in one), len(told))
        found.setdefault((namespace, job), []).append([_slice(one, seconds) for one in told[known:]])
    return found


def _slice(told: dict[str, Any], seconds: float) -> Slice:
    return Slice(**{**told, "up": bool(told.get("up", 1.0))}, seconds=seconds)


def _gauge(names: StateNames, of: str, gauge: Name, read: str) -> str:
    """A gauge of all ranks and front ends, each of which counts once. `read`: what is read of each series, which is `%s` in it."""
    whole = of if not names.breakdown else ",".join(filter(None, (of, f'{names.breakdown}=""')))
    ranks = f"max without ({', '.join(names.same_ranks)}) " if names.same_ranks else ""
    return f"({ranks}({read % f'{gauge.name}{{{whole}}}'}))"


def measured(
    kind: EngineKind,
    answers: Mapping[str, Samples],
    model: str | None,
    window_seconds: float,
    past: Mapping[str, Ranges] | None = None,
) -> Iterator[Measured]:
    """The record of each engine of this kind that had a first token within the window. `past`: answers to the queries of the past."""
    engines = slices(past or {}, slice_seconds(answers, window_seconds))
    for labels, started in answers.get(_STARTED, []):
        if not started > 0:
            continue
        told = {name: _of(samples, labels) for name, samples in answers.items()}
        job = engines.get((labels.get("namespace", ""), labels.get("job", "")), [])
        broke = found(job, _thresholds())
        yield Measured(
            source="hand",  # quantiles alone, and no promise: judged as what a person tells
            namespace=labels.get("namespace"),
            job=labels.get("job"),
            model=model,
            window_seconds=window_seconds,
            ttft=Latency(p99_seconds=told["ttft"], samples=round(started)),
            inter_token=Latency(p99_seconds=told[_PACE]),
            e2e=Latency(p99_seconds=told.get("e2e")),
            phases={
                phase: PhaseTime(p99_seconds=seconds)
                for phase in (Blame.QUEUE, Blame.PREFILL)
                if (seconds := told.get(phase.value)) is not None
            },
            load=_load(told, started / window_seconds),
            engine=kind.name,
            verdicts=broke.verdicts,
            ratios=broke.ratios,
            hints=tuple(_lacks(kind)),
        )


def _load(told: Mapping[str, float | None], arrivals_per_second: float) -> Load:
    preempted = told.get(_PREEMPTED)
    return Load(
        arrivals_per_second=arrivals_per_second,
        engine_arrivals_per_second=arrivals_per_second,
        waiting=told.get(_WAITING),
        running=told.get(_RUNNING),
        kv_usage=told.get(_KV_USAGE),
        cached=told.get(_CACHED),
        preempted=None if preempted is None else preempted / arrivals_per_second,
        preemptions_per_second=preempted,
    )


def _lacks(kind: EngineKind) -> Iterator[str]:
    """Numbers that the page of this kind lacks for a verdict, and those that only a sidecar has."""
    if kind.state is not None and PageTime.PREFILL not in kind.state.times:
        yield NO_PREFILL
    yield ONLY_A_SIDECAR_TELLS


def _thresholds() -> dict[Objective, float]:
    told = {Objective.TTFT: INTERACTIVE.ttft_seconds, Objective.TPOT: INTERACTIVE.for_size(None).tpot_seconds}
    return {objective: seconds for objective, seconds in told.items() if seconds is not None}


def _of(samples: Samples, labels: Mapping[str, str]) -> float | None:
    """The value of this engine; None if there is none, or no number."""
    return next((value for of, value in samples if of == labels and not isnan(value)), None)
