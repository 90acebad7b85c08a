"""Numbers of a lane from growth and gauges: `Measured`, with the verdict that the decided roots add up to. Pure.

A ratio whose divisor is 0 or unknown is None, and so is a quantile from too few samples. A number of the whole engine is
only ever divided by one of the whole engine.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sidecar.diagnosis.measured import CostRatio, Latency, Load, Measured, PhaseParts, PhaseTime, Regime
from sidecar.diagnosis.verdict import (
    LaneObjective,
    ModelLane,
    RootPhase,
    Verdict,
    of_largest,
    root_cause,
    root_phase,
)
from sidecar.history.growth import Growth, Total, Windows, quantile
from sidecar.history.series import LONG_SECONDS, NOW_SECONDS, SHOWN_SECONDS
from sidecar.ledger.account import Phase
from sidecar.ledger.phase_parts import REST
from sidecar.metrics import catalogue as c
from sidecar.metrics.declaration import Counter, Gauge, Histogram
from sidecar.objectives.attribution import VOTES, Blame
from sidecar.objectives.objective import Objective
from sidecar.objectives.page_limits import BURNS_RATIO, BURNS_TIMES, FEWEST_DECIDED
from sidecar.pod.causes import ROOT_PHASES, Cause, Per, Unknown
from sidecar.pod.factor import Factor
from sidecar.pod.size import RootSize
from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome


SAMPLES_FOR_P99 = 100
"""Samples that a p99 needs: at least one is expected above the quantile, or it would be just the maximum."""
SAMPLES_FOR_P50 = 5
"""Samples that a median needs."""
SPAN_FOR_REGIME_SECONDS = 600.0
"""Observed seconds before the window that are needed to tell a spike from a steady state."""


def measured(
    windows: Windows, who: ModelLane, known: Measured, missed_until: Mapping[LaneObjective, float] | None = None
) -> Measured:
    """The record of one lane of one model: `known`, completed with everything that growth and gauges tell.

    `missed_until`: see `Latency.missed_until_seconds`.
    """
    shown = windows.growth[SHOWN_SECONDS]
    seconds = shown.seconds
    by_spans = windows.gauge(c.WITHOUT_PROXY) == 1.0
    verdicts = {of: found for of in Objective if (found := verdict(windows, LaneObjective(*who, of))) is not None}
    arrivals = shown.counted(c.REQUESTS_RECEIVED_TOTAL, *who)
    until = {of.objective: age for of, age in (missed_until or {}).items() if of[:2] == who}
    cached = shown.counted(c.CACHED_PROMPT_TOKENS_TOTAL, *who)
    uncached = shown.counted(c.UNCACHED_PROMPT_TOKENS_TOTAL, *who)
    return replace(
        known,
        model=who.model,
        lane=who.lane,
        window_seconds=seconds,
        long_window_seconds=windows.growth[LONG_SECONDS].seconds,
        ttft=_latency(windows, who, Objective.TTFT, c.TIME_TO_FIRST_TOKEN_SECONDS, until),
        inter_token=_latency(windows, who, Objective.TPOT, None if by_spans else c.INTER_TOKEN_SECONDS, until),
        e2e=_latency(windows, who, Objective.E2E, None, until),
        stall=_latency(windows, who, Objective.STALL, None, until),
        phases=_phases(shown, who),
        phase_parts=_phase_parts(shown, who),
        verdicts=verdicts,
        rejected=shown.counted(c.REQUESTS_TOTAL, *who, Outcome.REJECTED),
        own_rejections=_own_rejections(shown),
        ratios={Cause(cause): ratio for (cause,), ratio in windows.all_of(c.EVIDENCE_RATIO).items()},
        costs=_costs(windows),
        unknown_costs={part: why for (part, why), true in windows.all_of(c.ENGINE_COST_UNKNOWN).items() if true},
        load=Load(
            arrivals_per_second=over(arrivals, seconds),
            engine_arrivals_per_second=_engine_arrivals(windows, known.source),
            prompt_mean_tokens=_mean(shown.observed(c.PROMPT_TOKENS, *who)),
            output_mean_tokens=_mean(shown.observed(c.OUTPUT_TOKENS, *who)),
            waiting=windows.gauge(c.ENGINE_REQUESTS_WAITING),
            running=windows.gauge(c.ENGINE_REQUESTS_RUNNING),
            running_peak=windows.peaks.get(c.ENGINE_REQUESTS_RUNNING.name),
            lane_waiting=windows.gauge(c.REQUESTS_IN_FLIGHT, *who, "waiting"),
            lane_streaming=windows.gauge(c.REQUESTS_IN_FLIGHT, *who, "streaming"),
            kv_usage=windows.gauge(c.ENGINE_KV_CACHE_USAGE_RATIO),
            preempted=over(shown.counted(c.ENGINE_PREEMPTIONS_TOTAL), total(shown, c.REQUESTS_RECEIVED_TOTAL)),
            cached=None if uncached is None or cached is None else over(cached, cached + uncached),
        ),
        regime=regime(windows, who),
        agreement={phase: ratio for (phase,), ratio in windows.all_of(c.ENGINE_REPORT_AGREEMENT_RATIO).items()},
        traffic_seen=windows.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO),
        unsplit=_unsplit(shown, who.lane),
        by_spans=by_spans,
    )


def lanes(windows: Windows) -> list[ModelLane]:
    """Every model and lane that had traffic within the window, or missed within the long one."""
    arrived = windows.growth[SHOWN_SECONDS].counters.get(c.REQUESTS_RECEIVED_TOTAL.name, {})
    missed = windows.growth[LONG_SECONDS].counters.get(c.SLO_MISSES_TOTAL.name, {})
    active = {ModelLane(who[0], who[1]) for grown in (arrived, missed) for who, count in grown.items() if count > 0}
    return sorted(active)


def missed(windows: Windows) -> list[LaneObjective]:
    """Every model, lane and objective that has a miss in the long window."""
    misses = windows.growth[LONG_SECONDS].counters.get(c.SLO_MISSES_TOTAL.name, {})
    return [LaneObjective(model, lane, Objective(of)) for (model, lane, of), count in misses.items() if count > 0]


# --- the verdict ---------------------------------------------------------------------------------------------------------


def verdict(windows: Windows, who: LaneObjective) -> Verdict | None:
    """The roots of one lane's misses within the shortest window that burns; None if none is decided, and none waits to be."""
    now = windows.growth[NOW_SECONDS]
    if _burns(now, who):
        found = _verdict(windows, now, who)
        if found is not None and found.decided >= FEWEST_DECIDED:
            return found
    return _verdict(windows, windows.growth[SHOWN_SECONDS], who)


def _burns(now: Growth, who: LaneObjective) -> bool:
    missed, allowed = (now.counted(of, *who) or 0.0 for of in (c.SLO_MISSES_TOTAL, c.SLO_ALLOWED_MISSES_TOTAL))
    if missed <= 0:
        return False
    return missed >= BURNS_TIMES * allowed or missed >= BURNS_RATIO * (
        _judged(now, ModelLane(*who[:2]), who.objective) or 0
    )


def _verdict(windows: Windows, window: Growth, who: LaneObjective) -> Verdict | None:
    roots = _by_phase(window, c.SLO_ROOT_MISSES_TOTAL, who, ROOT_PHASES)
    undecided = windows.gauge(c.SLO_UNDECIDED_MISSES, *who) or 0.0
    if not roots and undecided <= 0:
        return None
    votes = _by_phase(windows.growth[SHOWN_SECONDS], c.SLO_BLAMED_MISSES_TOTAL, who, VOTES[who.objective])
    split = {Blame(phase): count for phase, count in votes.items() if phase != Blame.UNATTRIBUTED}
    return Verdict(
        roots={root_phase(phase): count for phase, count in roots.items()},
        seconds=window.seconds,
        misses=window.counted(c.SLO_MISSES_TOTAL, *who),
        undecided=undecided,
        causes=_causes(window, who.model),
        waited_in={phase: count / sum(split.values()) for phase, count in split.items()},
        began=_by_root(windows, c.INCIDENT_AGE_SECONDS, min),
        shown=_by_root(windows, c.INCIDENT_SHOWN_AGE_SECONDS, max),
        confidences=_by_root(windows, c.INCIDENT_CONFIDENCE_RATIO, min),
        sizes=_sizes(windows),
    )


def _by_root(windows: Windows, metric: Gauge, chosen: Callable[[float, float], float]) -> dict[RootPhase, float]:
    """Phase to a number of the open incidents with this root."""
    found: dict[RootPhase, float] = {}
    for (phase, _), value in windows.all_of(metric).items():
        found[root_phase(phase)] = chosen(value, found.get(root_phase(phase), value))
    return found


def _sizes(windows: Windows) -> dict[Cause, RootSize]:
    low, high = windows.all_of(c.INCIDENT_SIZE_RATIO_LOW), windows.all_of(c.INCIDENT_SIZE_RATIO_HIGH)
    return of_largest(
        (Cause(key[1]), RootSize(Factor(ratio, low.get(key, ratio), high.get(key, ratio)), Per(key[2])))
        for key, ratio in windows.all_of(c.INCIDENT_SIZE_RATIO).items()
    )


def _by_phase(window: Growth, metric: Counter, who: LaneObjective, phases: Iterable[str]) -> dict[str, float]:
    """Phase to the growth of one counter of misses, where it grew."""
    counts = {phase: window.counted(metric, *who, phase) or 0.0 for phase in phases}
    return {phase: count for phase, count in counts.items() if count > 0}


def _causes(window: Growth, model: str) -> dict[RootPhase, Cause | Unknown]:
    """Phase to the cause that most misses of the model were decided for, over all lanes and objectives."""
    found = window.counters.get(c.SLO_ROOT_CAUSE_MISSES_TOTAL.name, {})
    counts = sorted((count, phase, cause) for (of, phase, cause), count in found.items() if of == model and count > 0)
    return {root_phase(phase): root_cause(cause) for _, phase, cause in counts}


def _own_rejections(window: Growth) -> float | None:
    """Requests of any lane that the sidecar turned away because too many were in flight; None if nothing tells. What is refused at the door
    never was a request of a lane.
    """
    found = window.counters.get(c.FAILURES_TOTAL.name)
    return None if found is None else found.get((Failure.TOO_MANY_IN_FLIGHT.reason,), 0.0)


def _costs(windows: Windows) -> dict[str, CostRatio]:
    low, high = windows.all_of(c.ENGINE_COST_RATIO_LOW), windows.all_of(c.ENGINE_COST_RATIO_HIGH)
    return {
        part: CostRatio(ratio, low.get((part,), ratio), high.get((part,), ratio))
        for (part,), ratio in windows.all_of(c.ENGINE_COST_RATIO).items()
    }


# --- the load ------------------------------------------------------------------------------------------------------------


def _engine_arrivals(windows: Windows, source: str) -> float | None:
    """Arrivals a second of the whole engine over the last two minutes: the window closest to the minute of its gauges.

    On one pod the requests that bypass the sidecar are added, if their share is known. A fleet states only the share of
    its worst pod, which says nothing about the others. Of a fleet with several models it is None: each has engines of its own.
    """
    window = windows.growth[NOW_SECONDS]
    arrived = window.counters.get(c.REQUESTS_RECEIVED_TOTAL.name, {})
    if source == "prometheus" and len({who[0] for who, count in arrived.items() if count > 0}) > 1:
        return None
    arrivals = over(total(window, c.REQUESTS_RECEIVED_TOTAL), window.seconds)
    seen = windows.gauge(c.ENGINE_TRAFFIC_SEEN_RATIO) if source == "sidecar" else None
    return arrivals / min(seen, 1.0) if arrivals is not None and seen else arrivals


def regime(windows: Windows, who: ModelLane) -> Regime | None:
    """A spike if the half hour before the window was good, steady if it was as bad; None if neither is clear."""
    shown, long = windows.growth[SHOWN_SECONDS], windows.growth[LONG_SECONDS]
    if long.seconds - shown.seconds < SPAN_FOR_REGIME_SECONDS:
        return None
    burns = []
    for objective in Objective:
        missed = [growth.counted(c.SLO_MISSES_TOTAL, *who, objective) or 0.0 for growth in (shown, long)]
        allowed = [growth.counted(c.SLO_ALLOWED_MISSES_TOTAL, *who, objective) or 0.0 for growth in (shown, long)]
        now, before = over(missed[0], allowed[0]), over(missed[1] - missed[0], allowed[1] - allowed[0])
        if now and before is not None:
            burns.append((now, before))
    if not burns:
        return None
    now, before = max(burns)
    if before >= now / 2:
        return Regime.STEADY
    return Regime.SPIKE if before <= now / 4 else None


# --- numbers -------------------------------------------------------------------------------------------------------------


def _latency(
    windows: Windows,
    who: ModelLane,
    objective: Objective,
    metric: Histogram | None,
    until: Mapping[Objective, float],
) -> Latency:
    shown, long = windows.growth[SHOWN_SECONDS], windows.growth[LONG_SECONDS]
    grown = None if metric is None else shown.observed(metric, *who)
    misses, misses_long = (growth.counted(c.SLO_MISSES_TOTAL, *who, objective) for growth in (shown, long))
    return Latency(
        p99_seconds=_quantile(0.99, grown, metric, SAMPLES_FOR_P99),
        p50_seconds=_quantile(0.5, grown, metric, SAMPLES_FOR_P50),
        mean_seconds=_mean(grown),
        samples=None if metric is None else round(grown.count) if grown else 0,
        threshold_seconds=_threshold(windows, who, objective),
        misses=misses,
        judged=_judged(shown, who, objective),
        burn=over(misses, shown.counted(c.SLO_ALLOWED_MISSES_TOTAL, *who, objective)),
        misses_long=misses_long,
        burn_long=over(misses_long, long.counted(c.SLO_ALLOWED_MISSES_TOTAL, *who, objective)),
        missed_until_seconds=until.get(objective),
    )


def _judged(shown: Growth, who: ModelLane, objective: Objective) -> float | None:
    found = shown.counters.get(c.SLO_REQUESTS_TOTAL.name, {})
    counts = [count for (model, lane, _, of), count in found.items() if (model, lane, of) == (*who, objective)]
    return sum(counts) if counts else None


def _threshold(windows: Windows, who: ModelLane, objective: Objective) -> float | None:
    """The strictest threshold of the prompt buckets that had such requests, or of all buckets if none had."""
    asked = windows.growth[LONG_SECONDS].counters.get(c.SLO_REQUESTS_TOTAL.name, {})
    thresholds = {
        bucket: value
        for (of_lane, bucket, of), value in windows.all_of(c.SLO_THRESHOLD_SECONDS).items()
        if (of_lane, of) == (who.lane, objective)
    }
    had = [value for bucket, value in thresholds.items() if asked.get((*who, bucket, objective))]
    return min(had or thresholds.values(), default=None)


def _quantile(q: float, grown: Total | None, metric: Histogram | None, fewest: int) -> float | None:
    if metric is None or grown is None or grown.count < fewest or not grown.counts:
        return None
    return quantile(q, grown.counts, metric.buckets)


def _phases(shown: Growth, who: ModelLane) -> dict[Blame, PhaseTime]:
    """Means over all requests of the lane, also those without a sample in the phase, so that the means add up."""
    whole = shown.observed(c.REQUEST_SECONDS, *who)
    if whole is None:
        return {}
    by_phase: dict[Blame, dict[str, Total]] = {}
    for (of_model, of_lane, phase, source), grown in shown.histograms.get(c.REQUEST_PHASE_SECONDS.name, {}).items():
        if (of_model, of_lane) == who and grown.count > 0:
            by_phase.setdefault(Blame(Phase(phase).value), {})[source] = grown
    return {
        phase: PhaseTime(
            mean_seconds=sum(grown.sum for grown in sources.values()) / whole.count,
            sources={source: grown.count / sum(g.count for g in sources.values()) for source, grown in sources.items()},
        )
        for phase, sources in by_phase.items()
    }


def _phase_parts(shown: Growth, who: ModelLane) -> dict[Blame, PhaseParts]:
    """Means over the requests that have a rest of the phase: those whose engine states a part of it, each of which has one."""
    by_phase: dict[str, dict[str, Total]] = {}
    for (model, lane, phase, part), grown in shown.histograms.get(c.REQUEST_PHASE_PART_SECONDS.name, {}).items():
        if (model, lane) == who and grown.count > 0:
            by_phase.setdefault(phase, {})[part] = grown
    return {
        Blame(Phase(phase).value): PhaseParts(
            requests=parts[REST].count,
            mean_seconds={part: grown.sum / parts[REST].count for part, grown in parts.items()},
        )
        for phase, parts in by_phase.items()
        if REST in parts
    }


def _unsplit(shown: Growth, lane: str) -> dict[str, float]:
    found = shown.counters.get(c.PHASE_ATTRIBUTION_TOTAL.name, {})
    total = sum(count for (of_lane, _, _), count in found.items() if of_lane == lane)
    return {
        reason: count / total
        for (of_lane, source, reason), count in found.items()
        if of_lane == lane and source == "none" and count > 0
    }


def total(growth: Growth, metric: Counter, model: str | None = None) -> float:
    """Growth of a counter, of one model or of all; 0 if there is no such series."""
    found = growth.counters.get(metric.name, {})
    return sum(count for who, count in found.items() if model is None or who[0] == model)


def over(of: float | None, divisor: float | None) -> float | None:
    """A ratio; None if either number is unknown, or the divisor is 0."""
    return of / divisor if of is not None and divisor else None


def _mean(grown: Total | None) -> float | None:
    return None if grown is None else grown.sum / grown.count
