"""Lanes and prompt lengths: who is slow, and whether it is the length of the prompt. Nothing here mixes lanes."""

from collections.abc import Iterator

from grafana.colours import FINE, RED, WARN
from grafana.panel import Board, Kind, Panel, Row
from grafana.query import (
    Query,
    distribution,
    mean_of,
    over_range,
    over_the_budget,
    quantile_of,
    samples_behind,
    summed,
)
from grafana.shapes import COUNTED, ENDED, FIRST_TOKENS, KNOWN_SPLIT, MISSED, OK, POINT_AT_IT, TIMES, phase_stack
from sidecar.commands.export.rules.dashboard_rules import BUDGET_DAYS


_BUCKET = "WHO, prompt_bucket"
_TTFT = "llm_time_to_first_token_seconds"


def _answer_began(part: str) -> str:
    return summed(f"rate(llm_time_to_first_output_token_seconds_{part}[R])", by="lane")


_REASONING = summed("increase(llm_reasoning_tokens_sum[W])", by="WHO")
_OF_ANSWERS = summed("increase(llm_answer_tokens_count[W])", by="WHO")
_REASONED = tuple(summed(f"rate(llm_reasoning_seconds_{part}[R])", by="lane") for part in ("sum", "count"))

_PHASE = "llm_request_phase_seconds"
_TTFT_OBJECTIVE = '{objective="ttft"}'
_THRESHOLD = f"max by (cluster, namespace, lane, prompt_bucket) (llm_slo_threshold_seconds{_TTFT_OBJECTIVE})"
_P95 = over_range(0.95, _TTFT, by=_BUCKET)


def _of_phase(phase: str) -> str:
    return f'{{phase="{phase}",streaming="true"}}'


def _phase(phase: str) -> Iterator[Query]:
    selector = _of_phase(phase)
    yield Query(over_range(0.95, _PHASE, by=_BUCKET, selector=selector), f"{phase} p95")
    yield Query(mean_of(_PHASE, by=_BUCKET, matchers=selector), f"{phase} mean")


def _mean(histogram: str, legend: str, ago: str = "") -> Query:
    return Query(mean_of(histogram, by="WHO", ago=ago), legend, unit="short")


_QUEUED = summed(f"increase({_PHASE}_count{_of_phase('queue')}[W])", by=_BUCKET)

_BUDGET_MISSES, _BUDGET_ALLOWED = (
    over_the_budget(counter, by="WHO, objective") for counter in ("misses", "allowed_misses")
)

_LENGTHS = Row(
    "Lane by prompt length, over the time shown",
    (
        Panel(
            Kind.TABLE,
            "Time to first token by lane and prompt length",
            "Short prompts are held to tighter thresholds than long ones; p95 of threshold is coloured where a lane has promised a TTFT."
            " A quantile stands where the requests carry it: p50 from 20, p95 from 100, p99 from 500.",
            FIRST_TOKENS,
            "s",
            (
                Query(over_range(0.5, _TTFT, by=_BUCKET), "p50"),
                Query(_P95, "p95"),
                Query(over_range(0.99, _TTFT, by=_BUCKET), "p99"),
                Query(
                    f"group by ({_BUCKET}) (increase(llm_slo_requests_total{_TTFT_OBJECTIVE}[W]) > 0)"
                    f" * on (cluster, namespace, lane, prompt_bucket) group_left () {_THRESHOLD}",
                    "threshold",
                ),
                Query(
                    f"({_P95}) / on (cluster, namespace, lane, prompt_bucket) group_left () {_THRESHOLD}",
                    "p95 of threshold",
                    unit="percentunit",
                    colours=((0.7, WARN), (1, RED)),
                    decimals=0,
                ),
                Query(
                    f"sum by ({_BUCKET}) (increase(llm_slo_misses_total{_TTFT_OBJECTIVE}[W]))"
                    f" / sum by ({_BUCKET}) (increase(llm_slo_requests_total{_TTFT_OBJECTIVE}[W])) >= 0",
                    "missed",
                    unit="percentunit",
                    colours=MISSED,
                    decimals=0,
                ),
                Query(f"{summed(f'increase({_TTFT}_count[W])', by=_BUCKET)} > 0", "requests", unit="short"),
            ),
            width=24,
            order=("lane", "prompt_bucket", "model", "cluster", "namespace"),
            sorted_by="p95 of threshold",
        ),
        Panel(
            Kind.TABLE,
            "Queue and prefill by lane and prompt length",
            "A queue is as long for short prompts as for long ones; prefill grows with the length. Means may be added, quantiles not.",
            KNOWN_SPLIT,
            "s",
            (
                *_phase("queue"),
                *_phase("prefill"),
                Query(
                    f"{_QUEUED} > 0",
                    "requests",
                    unit="short",
                ),
            ),
            width=24,
            height=7,
            order=("lane", "prompt_bucket", "model", "cluster", "namespace"),
            sorted_by="queue mean",
        ),
        Panel(
            Kind.TABLE,
            "Objectives of each lane, and how fast they burn",
            "Thresholds and targets by the config in force, and the burn of the time shown: 1 is what the target allows.",
            COUNTED,
            "s",
            (
                Query(
                    "max by (cluster, namespace, lane, prompt_bucket, objective) (llm_slo_threshold_seconds)",
                    "threshold",
                ),
                Query(
                    "max by (cluster, namespace, lane, prompt_bucket, objective) (llm_slo_target_ratio)",
                    "target",
                    unit="percentunit",
                ),
                Query(
                    "sum by (cluster, namespace, lane, prompt_bucket, objective) (increase(llm_slo_misses_total[W]))"
                    " / sum by (cluster, namespace, lane, prompt_bucket, objective) (increase(llm_slo_allowed_misses_total[W])) >= 0",
                    "burn",
                    unit=TIMES,
                    colours=((1, WARN), (10, RED)),
                    decimals=1,
                ),
            ),
            width=24,
            order=("lane", "objective", "prompt_bucket", "cluster", "namespace"),
            sorted_by="burn",
        ),
        Panel(
            Kind.TABLE,
            "Error budget of 30 days",
            f"Misses that the target allowed in the last {BUDGET_DAYS} days, misses that there were, and the share of the budget that is left;"
            " below 0 it is overspent. Of fewer days where Prometheus remembers fewer. A fleet of more than a few pods needs the"
            " optional rules (llm-dashboards.yml) for it.",
            COUNTED,
            "short",
            (
                Query(
                    f"1 - {_BUDGET_MISSES} / {_BUDGET_ALLOWED} <= 1",
                    "budget left",
                    unit="percentunit",
                    colours=((-1e9, RED), (0, WARN), (0.25, FINE)),
                    decimals=0,
                ),
                Query(_BUDGET_MISSES, "missed in 30 days", decimals=0),
                Query(_BUDGET_ALLOWED, "allowed in 30 days", decimals=0),
            ),
            width=24,
            height=7,
            order=("lane", "objective", "model", "cluster", "namespace"),
        ),
    ),
)

_CACHED, _UNCACHED = (
    f"sum by (WHO) (increase(llm_{which}_prompt_tokens_total[W]))" for which in ("cached", "uncached")
)

_SUMS = Row(
    "Prompts, answers and delivery, over the time shown",
    (
        Panel(
            Kind.TABLE,
            "Prompts and answers by lane",
            "Longer prompts are the silent cause of most queues, and longer answers hold their slots for longer. The cached share of"
            " prompt tokens: after a fall the same prompts cost more. Reasoning: the part of an answer that is, where the engine counts it. At arrival: before any request is served, an estimate from the text."
            " On time: of all output events, each due a TPOT threshold after the one before.",
            f"{OK}; at arrival: inference requests whose body arrived whole",
            "short",
            (
                _mean("llm_prompt_tokens", "prompt"),
                _mean("llm_prompt_tokens", "a week ago", " offset 1w"),
                Query(
                    "sum by (WHO) (increase(llm_received_prompt_tokens_total[W]))"
                    " / sum by (WHO) (increase(llm_received_measured_requests_total[W])) >= 0",
                    "at arrival",
                ),
                Query(f"{_CACHED} / ({_CACHED} + {_UNCACHED}) >= 0", "cached", unit="percentunit", decimals=0),
                _mean("llm_output_tokens", "answer"),
                Query(f"{_REASONING} / {_OF_ANSWERS} >= 0", "reasoning"),
                Query(
                    over_range(0.95, "llm_request_seconds", by="WHO", selector='{streaming="true"}'),
                    "request p95",
                    unit="s",
                ),
                Query(
                    "sum by (WHO) (increase(llm_good_output_tokens_total[W])) > 0",
                    "good tokens",
                    decimals=1,
                ),
                Query(
                    "1 - sum by (WHO) (increase(llm_token_deadline_misses_total[W]))"
                    " / sum by (WHO) (increase(llm_token_deadlines_total[W])) >= 0",
                    "on time",
                    unit="percentunit",
                ),
                Query(
                    "sum by (WHO) (increase(llm_answers_held_back_total[W]))"
                    ' / sum by (WHO) (increase(llm_requests_total{outcome!="accepted"}[W])) >= 0',
                    "at once",
                    unit="percentunit",
                ),
                Query("sum by (WHO) (increase(llm_requests_total[W])) > 0", "requests"),
            ),
            width=24,
            height=6,
            order=("lane", "model", "cluster", "namespace"),
            sorted_by="requests",
        ),
    ),
)


_DRAWN = (0.5, 0.95, 0.99)


def _quantiles(histogram: str) -> tuple[Query, ...]:
    return (
        *(Query(quantile_of(q, histogram), f"p{q * 100:g}", exemplars=True) for q in _DRAWN),
        *(samples_behind(histogram, of=q, legend=f"p{q * 100:g}") for q in _DRAWN),
    )


_EACH = Row(
    "Each lane",
    (
        Panel(
            Kind.LINES,
            "$lane: time to first token p50, p95, p99",
            f"Over the last five minutes at each point, each where the requests carry it. {POINT_AT_IT}",
            FIRST_TOKENS,
            "s",
            (
                *_quantiles(_TTFT),
                Query(
                    f"{_answer_began('sum')} / {_answer_began('count')} >= 0", "mean, to output that is no reasoning"
                ),
                Query(f"{_REASONED[0]} / {_REASONED[1]} >= 0", "mean seconds of reasoning, by the engine"),
            ),
            per_lane=True,
            logarithmic=True,
            empty="too few requests",
        ),
        phase_stack("$lane: mean seconds by phase", "Where a streamed request's time goes.", per_lane=True),
        Panel(
            Kind.HEATMAP,
            "$lane: time to first token, distribution",
            "How many requests fell into which bucket; a second band is a second kind of request, which no quantile shows.",
            FIRST_TOKENS,
            "s",
            distribution(_TTFT),
            per_lane=True,
        ),
        phase_stack(
            "Mean seconds by phase, not streamed",
            "Where the time of a request goes that is answered at once. What the engine does not report is unattributed.",
            streaming="false",
        ),
        Panel(
            Kind.BARS,
            "Requests by outcome",
            "Every request has one outcome; a client's cancel is neither a success nor an error.",
            ENDED,
            "reqps",
            (Query("sum by (outcome) (rate(llm_requests_total[R])) > 0", "{{outcome}}"),),
        ),
    ),
)

BOARD = Board(
    "llm-lanes",
    "LLM lanes and prompt lengths",
    "TTFT, queue and prefill by lane and prompt length; objectives and budgets of 30 days; how prompts, answers and the cached share drift. Never a"
    " number over all lanes.",
    (_LENGTHS, _SUMS, _EACH),
    runbooks=("LLMPromptsGrowing", "LLMPrefixCacheCollapsed"),
)
