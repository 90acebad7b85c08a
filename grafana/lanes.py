"""Lanes and prompt lengths: who is slow, and whether it is the length of the prompt. Nothing here mixes lanes."""

from grafana.panel import ORANGE, RED, YELLOW, Board, Kind, Panel, Row
from grafana.query import LANE, Query, mean, quantiles, rates
from grafana.shapes import ARRIVALS, COUNTED, ENDED, FIRST_TOKENS, KNOWN_SPLIT, OK, TIMES, phase_heatmap


_BUCKET = "WHO, prompt_bucket"
_CELL = "{{lane}} {{prompt_bucket}} ({{model}} {{namespace}})"


def _p(quantile: float, histogram: str, selector: str = "") -> str:
    return f"histogram_quantile({quantile}, sum by ({_BUCKET}, le) (increase({histogram}_bucket{selector}[W])))"


def _mean(selector: str) -> str:
    return (
        f"sum by ({_BUCKET}) (increase(llm_request_phase_seconds_sum{selector}[W]))"
        f" / sum by ({_BUCKET}) (increase(llm_request_phase_seconds_count{selector}[W])) >= 0"
    )


_QUEUE = '{phase="queue",streaming="true"}'
_PREFILL = '{phase="prefill",streaming="true"}'
_THRESHOLD = 'max by (namespace, lane, prompt_bucket) (llm_slo_threshold_seconds{objective="ttft"})'

_TABLES = Row(
    "Lane by prompt length, over the time shown",
    (
        Panel(
            Kind.TABLE,
            "Time to first token by lane and prompt length",
            "Short prompts are held to tighter thresholds than long ones; p95 of threshold is coloured where a lane has promised a TTFT.",
            FIRST_TOKENS,
            "s",
            (
                Query(_p(0.5, "llm_time_to_first_token_seconds"), "p50"),
                Query(_p(0.95, "llm_time_to_first_token_seconds"), "p95"),
                Query(_p(0.99, "llm_time_to_first_token_seconds"), "p99"),
                Query(
                    f'group by ({_BUCKET}) (increase(llm_slo_requests_total{{objective="ttft"}}[W]) > 0)'
                    f" * on (namespace, lane, prompt_bucket) group_left () {_THRESHOLD}",
                    "threshold",
                ),
                Query(
                    f"{_p(0.95, 'llm_time_to_first_token_seconds')} / on (namespace, lane, prompt_bucket) group_left () {_THRESHOLD}",
                    "p95 of threshold",
                    unit="percentunit",
                    colours=((0.7, YELLOW), (1, RED)),
                ),
                Query(
                    f'sum by ({_BUCKET}) (increase(llm_slo_misses_total{{objective="ttft"}}[W]))'
                    f' / sum by ({_BUCKET}) (increase(llm_slo_requests_total{{objective="ttft"}}[W])) >= 0',
                    "missed",
                    unit="percentunit",
                    colours=((0.05, ORANGE), (0.5, RED)),
                ),
                Query(
                    f"sum by ({_BUCKET}) (increase(llm_time_to_first_token_seconds_count[W])) > 0",
                    "requests",
                    unit="short",
                ),
            ),
            width=24,
            height=9,
            sorted_by="p95 of threshold",
        ),
        Panel(
            Kind.TABLE,
            "Queue and prefill by lane and prompt length",
            "A queue is as long for short prompts as for long ones; prefill grows with the length. Means may be added, quantiles not.",
            KNOWN_SPLIT,
            "s",
            (
                Query(_p(0.95, "llm_request_phase_seconds", _QUEUE), "queue p95"),
                Query(_mean(_QUEUE), "queue mean"),
                Query(_p(0.95, "llm_request_phase_seconds", _PREFILL), "prefill p95"),
                Query(_mean(_PREFILL), "prefill mean"),
            ),
            width=24,
            height=9,
            sorted_by="queue p95",
        ),
    ),
)

_HEAT = Row(
    "$lane: distributions",
    (
        Panel(
            Kind.HEATMAP,
            "Time to first token, distribution",
            "How many requests fell into which bucket; a second band is a second kind of request, which no quantile shows.",
            FIRST_TOKENS,
            "s",
            (Query("sum by (le) (increase(llm_time_to_first_token_seconds_bucket[R]))", "{{le}}", exemplars=True),),
            width=8,
        ),
        phase_heatmap("queue"),
        phase_heatmap("prefill"),
    ),
    per_lane=True,
)

_OVER_TIME = Row(
    "Over time",
    (
        Panel(
            Kind.LINES,
            "Time to first token p95 by lane and prompt length",
            "One line for each lane and bucket. All lengths up together: the engine or its queue. Long ones only: the prompts.",
            FIRST_TOKENS,
            "s",
            quantiles("llm_time_to_first_token_seconds", by=_BUCKET, legend=_CELL, of=(0.95,), exemplars=True),
        ),
        Panel(
            Kind.LINES,
            "Requests by lane and outcome",
            "Every request has one outcome; a client's cancel is neither a success nor an error.",
            ENDED,
            "reqps",
            (
                Query(
                    "sum by (WHO, outcome) (rate(llm_requests_total[R])) > 0",
                    "{{lane}} {{outcome}} ({{model}} {{namespace}})",
                ),
            ),
        ),
        Panel(
            Kind.LINES,
            "Whole request p50, p95 by lane",
            "Until the client had the last byte. It depends on how much was written: no objective of a streamed request is about it.",
            OK,
            "s",
            quantiles(
                "llm_request_seconds",
                by="WHO, streaming",
                legend="{{lane}} streamed {{streaming}} ({{model}} {{namespace}})",
                of=(0.5, 0.95),
            ),
        ),
        Panel(
            Kind.LINES,
            "Requests by prompt length",
            "The share of a lane's requests in each prompt bucket. A drift to longer buckets costs prefill without any fault.",
            ENDED,
            "percentunit",
            (
                Query(
                    f"sum by ({_BUCKET}) (rate(llm_requests_total[R])) / on (WHO) group_left () sum by (WHO) (rate(llm_requests_total[R])) > 0",
                    _CELL,
                ),
            ),
        ),
    ),
)

_PROMPTS = Row(
    "Prompts and answers",
    (
        Panel(
            Kind.LINES,
            "Mean prompt tokens, now and a week ago",
            "Longer prompts are the silent cause of most queues: limits of the engine were set for shorter ones.",
            f"{OK} whose usage the engine stated",
            "short",
            (
                mean("llm_prompt_tokens", legend=f"now {LANE}"),
                Query(
                    "sum by (WHO) (rate(llm_prompt_tokens_sum[R] offset 1w)) / sum by (WHO) (rate(llm_prompt_tokens_count[R] offset 1w))",
                    f"a week ago {LANE}",
                ),
            ),
        ),
        Panel(
            Kind.LINES,
            "Prompt tokens p50, p95 by lane",
            "Cached tokens included. Read it with the share from the cache: only the others are computed.",
            f"{OK} whose usage the engine stated",
            "short",
            quantiles("llm_prompt_tokens", of=(0.5, 0.95)),
        ),
        Panel(
            Kind.LINES,
            "Prompt tokens from the cache, by lane",
            "A fall makes the same prompts dearer: a changed template, a router that no longer sends a prefix where it is cached.",
            f"{OK} whose usage states how many tokens were cached",
            "percentunit",
            (
                Query(
                    "sum by (WHO) (rate(llm_cached_prompt_tokens_total[R]))"
                    " / (sum by (WHO) (rate(llm_cached_prompt_tokens_total[R])) + sum by (WHO) (rate(llm_uncached_prompt_tokens_total[R])))",
                    LANE,
                ),
            ),
        ),
        Panel(
            Kind.LINES,
            "Prompt tokens per arriving request",
            "At arrival, before anybody has been served: it moves minutes before the ended requests do. An estimate from the text"
            " where the request states no token ids.",
            f"{ARRIVALS}, whose prompt length was known or could be estimated",
            "short",
            (
                Query(
                    "sum by (WHO) (rate(llm_received_prompt_tokens_total[R])) / sum by (WHO) (rate(llm_received_measured_requests_total[R]))",
                    LANE,
                ),
            ),
        ),
        Panel(
            Kind.LINES,
            "Output tokens p50, p95 by lane",
            "Longer answers hold their slots for longer; a cap on max_tokens is the cheapest fix of a slot queue.",
            f"{OK} whose usage the engine stated",
            "short",
            quantiles("llm_output_tokens", of=(0.5, 0.95)),
        ),
        Panel(
            Kind.LINES,
            "Arrivals by lane",
            "The load, when it comes; what ends follows late.",
            ARRIVALS,
            "reqps",
            (rates("llm_requests_received_total"),),
        ),
    ),
)

_OBJECTIVES = Row(
    "Objectives in force",
    (
        Panel(
            Kind.TABLE,
            "What is promised to whom",
            "Thresholds and targets by the config in force, and how fast the budget of the time shown was spent (1 is what the target allows).",
            COUNTED,
            "s",
            (
                Query("max by (namespace, lane, prompt_bucket, objective) (llm_slo_threshold_seconds)", "threshold"),
                Query(
                    "max by (namespace, lane, prompt_bucket, objective) (llm_slo_target_ratio)",
                    "target",
                    unit="percentunit",
                ),
                Query(
                    "sum by (namespace, lane, prompt_bucket, objective) (increase(llm_slo_misses_total[W]))"
                    " / sum by (namespace, lane, prompt_bucket, objective) (increase(llm_slo_allowed_misses_total[W])) >= 0",
                    "burn",
                    unit=TIMES,
                    colours=((1, ORANGE), (10, RED)),
                ),
            ),
            width=24,
            height=9,
            sorted_by="burn",
        ),
    ),
)

BOARD = Board(
    "llm-lanes",
    "LLM lanes and prompt lengths",
    "TTFT, queue and prefill by lane and prompt bucket; how prompts, answers and the cached share drift. Never a number over all lanes.",
    (_TABLES, _HEAT, _OVER_TIME, _PROMPTS, _OBJECTIVES),
    runbooks=("LLMPromptsGrowing", "LLMPrefixCacheCollapsed"),
)
