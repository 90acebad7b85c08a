"""The engines' own series in a Prometheus that has no sidecar's: the queries for them, and the record of each engine. Pure.

It takes what an engine's page has of a whole engine: the slow ends of its times, its queue, its cache. It refuses to make up what no such
page knows: lanes, prompt lengths, promises, clients, and what is usual. So the thresholds are assumed, as of numbers that a person gives,
and the answer says what only a sidecar could tell. The names stand in each engine's file.
"""

from collections.abc import Iterator, Mapping
from math import isnan

from sidecar.diagnosis.measured import Latency, Load, Measured, PhaseTime
from sidecar.diagnosis.promql import Fleet, Samples
from sidecar.engines.kind import EngineKind
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.state_names import Count, Name, PageTime, StateNames
from sidecar.objectives.attribution import Blame


WITHOUT_SIDECAR = (
    "No sidecar's series are here: these are the engine's own, of all its lanes, prompt lengths and clients together, against assumed"
    " thresholds."
)
ONLY_A_SIDECAR_TELLS = (
    "a sidecar tells whose requests miss which objective, what broke beside the usual values, since when, and where time is lost behind the"
    " engine; `sidecar serve --no-proxy` needs no hop (docs/no_proxy.md)"
)
_BY_ENGINE_OF_JOB = "namespace, job"
_STATE_SECONDS = 60
"""Gauges are averaged over the last minute, as of sidecars."""
_PAGE_TIMES = {
    "ttft": PageTime.FIRST_TOKEN,
    "e2e": PageTime.WHOLE,
    Blame.QUEUE.value: PageTime.QUEUE,
    Blame.PREFILL.value: PageTime.PREFILL,
}
_PACE, _STARTED, _WAITING, _RUNNING, _KV_USAGE, _PREEMPTED, _CACHED = (
    *("pace", "started", "waiting", "running", "kv", "preempted", "cached"),
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
        whole = of if not names.breakdown else ",".join(filter(None, (of, f'{names.breakdown}=""')))
        ranks = f"max without ({', '.join(names.same_ranks)}) " if names.same_ranks else ""
        return f"{reduce} by ({_BY_ENGINE_OF_JOB}) ({ranks}(avg_over_time({gauge.name}{{{whole}}}[{_STATE_SECONDS}s])))"

    first = names.times[PageTime.FIRST_TOKEN]
    asked = {name: slow(names.times[time]) for name, time in _PAGE_TIMES.items() if time in names.times}
    asked |= {
        _PACE: slow(*names.paces),
        _STARTED: f"sum by ({_BY_ENGINE_OF_JOB}) (increase({first}_count{{{of}}}[{window}]))",
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


def measured(
    kind: EngineKind, answers: Mapping[str, Samples], model: str | None, window_seconds: float
) -> Iterator[Measured]:
    """The record of each engine of this kind that had a first token within the window."""
    for labels, started in answers.get(_STARTED, []):
        if not started > 0:
            continue
        told = {name: _of(samples, labels) for name, samples in answers.items()}
        arrivals = started / window_seconds
        preempted = told.get(_PREEMPTED)
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
            load=Load(
                arrivals_per_second=arrivals,
                engine_arrivals_per_second=arrivals,
                waiting=told.get(_WAITING),
                running=told.get(_RUNNING),
                kv_usage=told.get(_KV_USAGE),
                cached=told.get(_CACHED),
                preempted=None if preempted is None else preempted / arrivals,
                preemptions_per_second=preempted,
            ),
            engine=kind.name,
        )


def _of(samples: Samples, labels: Mapping[str, str]) -> float | None:
    """The value of this engine; None if there is none, or no number."""
    return next((value for of, value in samples if of == labels and not isnan(value)), None)
