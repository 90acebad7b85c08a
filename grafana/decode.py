"""The dashboard of decode: tokens after the first. Longer steps, or steps spent on other people's prompts."""

from grafana.panel import ORANGE, YELLOW, Board, Kind, Panel, Row
from grafana.query import LANE, Query, gauge, quantiles
from grafana.shapes import (
    GAPS,
    OK,
    TPOTS,
    burn,
    engine_cost,
    kv_usage,
    phase_quantiles,
    preemptions,
    waited_in,
    waiting,
)
from sidecar.slo.step_model import Part


_CONFIRM = Row(
    "Confirm: the engine makes tokens slowly",
    (
        Panel(
            Kind.LINES,
            "The quiet gap: p10 between tokens, by lane",
            "A tenth of all gaps is shorter than this. Grown against an hour ago: each step got longer. Unchanged while p99 grew: prompts"
            " are computed in between.",
            GAPS,
            "s",
            (
                *quantiles("llm_inter_token_seconds", of=(0.1,)),
                Query(
                    "histogram_quantile(0.1, sum by (WHO, le) (rate(llm_inter_token_seconds_bucket[R] offset 1h)))",
                    f"an hour ago {LANE}",
                ),
            ),
        ),
        Panel(
            Kind.LINES,
            "Time with a prompt in prefill, by pod",
            "Seconds of prefill in each second. Below 0.5 prompts leave room for answers; near 1 every answer waits for chunks.",
            "prompts of streamed inference requests with outcome ok of which a cost can be expected",
            "percentunit",
            (Query("sum by (POD) (rate(llm_prefill_own_seconds_total[R]))", "{{pod}} {{namespace}}"),),
            steps=((0.5, YELLOW), (0.9, ORANGE)),
        ),
    ),
)

_REGIME = Row("Spike or steady state", (burn(objective="tpot"), waiting()))

_DECODE = Row(
    "Decode itself",
    (
        Panel(
            Kind.LINES,
            "Time per output token p50, p95, p99 by lane",
            "What the objective is about: one number for each answer. A stall of seconds in a long answer hardly shows in it.",
            TPOTS,
            "s",
            quantiles("llm_time_per_output_token_seconds", exemplars=True),
        ),
        Panel(
            Kind.LINES,
            "Between tokens p50, p95, p99 by lane",
            "Every gap as it happens: stalls show here.",
            GAPS,
            "s",
            quantiles("llm_inter_token_seconds", exemplars=True),
        ),
        Panel(
            Kind.HEATMAP,
            "Between tokens, distribution",
            "Two bands: plain steps, and steps that carry prompt chunks.",
            GAPS,
            "s",
            (Query("sum by (le) (increase(llm_inter_token_seconds_bucket[R]))", "{{le}}", exemplars=True),),
        ),
        phase_quantiles(
            "decode", "Tokens 2 to n. It grows with the answer's length, so read it beside time per output token."
        ),
        Panel(
            Kind.LINES,
            "Output tokens per second, by pod",
            "What the engine gets done. Flat while the batch grows: it is at its limit.",
            f"{OK} whose usage the engine stated, counted when they end",
            "cps",
            (Query("sum by (POD) (rate(llm_output_tokens_sum[R]))", "{{pod}} {{namespace}}"),),
        ),
        engine_cost(Part.DECODE),
    ),
)

_ENGINE = Row(
    "The engine",
    (
        kv_usage(width=8),
        preemptions(width=8),
        Panel(
            Kind.LINES,
            "Streaming now, by lane",
            "Answers that share each step.",
            "streamed inference requests inside the sidecar that have had their first token",
            "short",
            (gauge('llm_requests_in_flight{state="streaming"}', by="WHO", legend=LANE, how="sum"),),
            width=8,
        ),
    ),
)

_REFUTE = Row(
    "What would prove it wrong",
    (
        waited_in("tpot", width=8),
        Panel(
            Kind.LINES,
            "Paused for slow clients, by pod",
            "Seconds in each second, summed over streams. Growing with the misses: the client does not read, the engine is fine.",
            "streamed inference requests, when they end",
            "percentunit",
            (Query("sum by (POD) (rate(llm_stream_paused_seconds_total[R]))", "{{pod}} {{namespace}}"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Time per output token p95, by pod",
            "One pod only: that machine, not the load.",
            TPOTS,
            "s",
            quantiles(
                "llm_time_per_output_token_seconds", by="POD, lane", legend="{{lane}} {{pod}} {{namespace}}", of=(0.95,)
            ),
            width=8,
        ),
    ),
)

BOARD = Board(
    "llm-decode",
    "LLM decode",
    "Tokens after the first come too slowly. Longer steps, or steps spent on prompts; and what would prove it wrong.",
    (_CONFIRM, _REGIME, _DECODE, _ENGINE, _REFUTE),
    runbooks=("LLMDecodeBurn",),
)
