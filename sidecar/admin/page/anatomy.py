"""The live anatomy: the last minutes per lane and prompt length, between two snapshots of the registry.

Pure. Refuses to give a number where nothing happened, or a quantile from too few samples. Means of phases add up, so
the picture is made of them. Quantiles do not add up, so they stand beside the picture. TTFT and inter-token time are
separate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from sidecar.admin.page.budget import Budget, budgets
from sidecar.history.growth import Labels, Total, quantile
from sidecar.history.ring import History
from sidecar.history.series import SHOWN_SECONDS
from sidecar.history.slices import Sliced
from sidecar.history.snapshot import Snapshot, counted, observed
from sidecar.metrics import catalogue as c


SAMPLES_FOR = {0.5: 1, 0.95: 20, 0.99: 100}
"""Quantile to the samples it needs: at least one is expected above the quantile, or it would be just the maximum."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of one histogram over the window, interpolated within buckets, in seconds."""

    count: int
    at: Mapping[float, float | None]
    """Quantile (0 to 1) to seconds; None if there are too few samples, infinite above the last bucket edge."""
    last_edge: float


@dataclass(frozen=True, slots=True)
class LaneAnatomy:
    """One lane over the window, or the part of its requests with prompts in one length bucket."""

    lane: str
    streaming: bool
    """Streamed and non-streamed requests are separate, because their phases mean different things."""
    requests: int
    """Requests with outcome ok and phases that add up: the denominator of the means."""
    mean_seconds: float
    phases: Mapping[str, float]
    """Phase to its additive mean in seconds; phases with no sample are absent."""
    sources: Mapping[str, Mapping[str, float]]
    """Phase to source to the share of its samples, 0 to 1."""
    spread: Mapping[str, Quantiles] = field(default_factory=dict)
    """Phase to its quantiles over the requests that have a sample. Quantiles of phases do not add up."""
    prompt_bucket: str = ""
    """Empty if the bar covers all prompt lengths."""
    buckets: tuple["LaneAnatomy", ...] = ()
    """One bar per prompt-length bucket, short to long."""


@dataclass(frozen=True, slots=True)
class LaneEnds:
    """How a lane's requests ended over the window, and its two latencies."""

    lane: str
    outcomes: Mapping[str, int]
    ttft: Quantiles
    tpot: Quantiles
    """Quantiles of whole answers, with delivery: the objective is on these."""
    inter_token: Quantiles
    """Quantiles of single gaps, before delivery."""
    attribution: Mapping[tuple[str, str], int]
    """(source, reason) to number of requests."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """All lanes that had traffic, over `window_seconds`, the observed part of the window."""

    window_seconds: float
    ever: bool
    """At least one inference request ended since the process began, within or before the window."""
    bars: tuple[LaneAnatomy, ...]
    ends: tuple[LaneEnds, ...]
    budgets: tuple[Budget, ...] = ()


def anatomy_of(history: History, now: Snapshot) -> Sliced[Anatomy]:
    then, metrics = history.before(now, SHOWN_SECONDS), history.metrics
    bars = yield from _bars(then, now, metrics.prompt_buckets.shown())
    ends = yield from _ends(then, now)
    ever = any(now.counters[c.REQUESTS_TOTAL.name].values())
    spent = yield from budgets(metrics, then, now)
    return Anatomy(max(0.0, now.at - then.at), ever, tuple(bars), tuple(ends), tuple(spent))


def _bars(then: Snapshot, now: Snapshot, lengths: Sequence[str]) -> Sliced[list[LaneAnatomy]]:
    whole = yield from observed(then, now, c.REQUEST_SECONDS, "lane", "streaming", "prompt_bucket")
    parts = yield from observed(
        then, now, c.REQUEST_PHASE_SECONDS, "lane", "streaming", "prompt_bucket", "phase", "source"
    )
    by_group: dict[Labels, dict[Labels, Total]] = {}
    for labels, total in parts.items():
        by_group.setdefault(labels[:3], {})[labels[3:]] = total
    bars = []
    for lane, streaming in sorted({key[:2] for key in whole}, key=lambda key: (key[0], key[1] != "true")):
        yield
        keys = [key for bucket in lengths if (key := (lane, streaming, bucket)) in whole]
        buckets = tuple(_bar(key, whole[key], by_group.get(key, {})) for key in keys)
        bars.append(
            _bar(
                (lane, streaming, ""),
                reduce(add, (whole[key] for key in keys)),
                _together(by_group.get(key, {}) for key in keys),
                buckets,
            )
        )
    return bars


def _together(groups: Iterable[dict[Labels, Total]]) -> dict[Labels, Total]:
    found: dict[Labels, Total] = {}
    for group in groups:
        for key, total in group.items():
            found[key] = found[key] + total if key in found else total
    return found


def _bar(
    key: Labels, whole: Total, parts: Mapping[Labels, Total], buckets: tuple[LaneAnatomy, ...] = ()
) -> LaneAnatomy:
    by_phase: dict[str, dict[str, Total]] = {}
    for (phase, source), total in parts.items():
        by_phase.setdefault(phase, {})[source] = total
    phases = {phase: reduce(add, sources.values()) for phase, sources in by_phase.items()}
    return LaneAnatomy(
        lane=key[0],
        streaming=key[1] == "true",
        prompt_bucket=key[2],
        requests=round(whole.count),
        mean_seconds=whole.sum / whole.count,
        phases={phase: total.sum / whole.count for phase, total in phases.items()},
        sources={
            phase: {source: total.count / phases[phase].count for source, total in sources.items()}
            for phase, sources in by_phase.items()
        },
        spread={phase: _quantiles(total, c.REQUEST_PHASE_SECONDS.buckets) for phase, total in phases.items()},
        buckets=buckets,
    )


def _ends(then: Snapshot, now: Snapshot) -> Sliced[list[LaneEnds]]:
    ttft = yield from observed(then, now, c.TIME_TO_FIRST_TOKEN_SECONDS, "lane")
    tpot = yield from observed(then, now, c.TIME_PER_OUTPUT_TOKEN_SECONDS, "lane")
    inter_token = yield from observed(then, now, c.INTER_TOKEN_SECONDS, "lane")
    outcomes = _happened((yield from counted(then, now, c.REQUESTS_TOTAL, "lane", "outcome")))
    attribution = _happened((yield from counted(then, now, c.PHASE_ATTRIBUTION_TOTAL, "lane", "source", "reason")))
    return [
        LaneEnds(
            lane=lane,
            outcomes={outcome: n for (of, outcome), n in outcomes.items() if of == lane},
            ttft=_quantiles(ttft.get((lane,)), c.TIME_TO_FIRST_TOKEN_SECONDS.buckets),
            tpot=_quantiles(tpot.get((lane,)), c.TIME_PER_OUTPUT_TOKEN_SECONDS.buckets),
            inter_token=_quantiles(inter_token.get((lane,)), c.INTER_TOKEN_SECONDS.buckets),
            attribution={(source, reason): n for (of, source, reason), n in attribution.items() if of == lane},
        )
        for lane in sorted({key[0] for key in (*outcomes, *ttft, *tpot, *inter_token)})
    ]


def _happened(counts: Mapping[Labels, float]) -> dict[Labels, int]:
    return {labels: round(count) for labels, count in counts.items() if count}


def _quantiles(total: Total | None, bounds: tuple[float, ...]) -> Quantiles:
    if total is None:
        return Quantiles(0, dict.fromkeys(SAMPLES_FOR), bounds[-1])
    at = {q: quantile(q, total.counts, bounds) if total.count >= fewest else None for q, fewest in SAMPLES_FOR.items()}
    return Quantiles(round(total.count), at, bounds[-1])
