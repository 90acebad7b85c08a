"""The front page: the two numbers apart, the verdict, where the time goes, blame, goodput and budget; in the order of the questions."""

from grafana.panel import GREEN, ORANGE, RED, Board, Kind, Panel, Row
from grafana.query import ENGINE_OF, LANE, Query, quantiles, rates, share
from grafana.shapes import (
    COUNTED,
    ENDED,
    FIRST_TOKENS,
    GAPS,
    MISSES,
    OK,
    burn,
    evidence,
    phase_stack,
    verdict_table,
    verdict_timeline,
    waited_in,
)


_TWO_NUMBERS = Row(
    "Two numbers, never one",
    (
        Panel(
            Kind.LINES,
            "Time to first token p50, p95, p99 by lane",
            "From the last byte of the request to the first output. Queue, prefill or front end: the verdict below says which.",
            FIRST_TOKENS,
            "s",
            quantiles("llm_time_to_first_token_seconds", exemplars=True),
        ),
        Panel(
            Kind.LINES,
            "Between tokens p50, p95, p99 by lane",
            "From one output event to the next; an event may carry several tokens. Decode or delivery: other causes, other fixes.",
            GAPS,
            "s",
            quantiles("llm_inter_token_seconds", exemplars=True),
        ),
    ),
)

_VERDICT = Row("Verdict", (verdict_table(), verdict_timeline(), burn(("5m",)), evidence()))

_TIME = Row(
    "Where the time goes",
    (
        phase_stack("$lane: mean seconds by phase, streamed", "Where a streamed request's time goes.", streaming=True),
        phase_stack(
            "Mean seconds by phase, not streamed",
            "Where the time of a request goes that is answered at once. What the engine does not report is unattributed.",
            streaming=False,
            width=24,
            per_lane=False,
        ),
    ),
)

_BLAME = Row(
    "Blame",
    (
        Panel(
            Kind.BARS,
            "Misses by the phase that they are blamed on",
            "Votes of the missed requests: where they waited. What broke is the verdict above, which weighs the evidence too.",
            MISSES,
            "short",
            (Query("sum by (objective, phase) (increase(llm_slo_blamed_misses_total[R]))", "{{objective}} {{phase}}"),),
            width=8,
            empty="no misses",
            by_phase=True,
        ),
        waited_in("ttft", width=8),
        Panel(
            Kind.LINES,
            "Misses whose phase is known",
            "Below a fifth the verdict is unattributed: the engine does not report on these requests, or they were given up.",
            MISSES,
            "percentunit",
            (
                Query(
                    '1 - sum by (WHO, objective) (rate(llm_slo_blamed_misses_total{phase="unattributed"}[R]))'
                    " / sum by (WHO, objective) (rate(llm_slo_blamed_misses_total[R]))",
                    "{{lane}} {{objective}} ({{model}} {{namespace}})",
                ),
            ),
            width=8,
            empty="no misses",
        ),
    ),
)

_GOODPUT = Row(
    "Goodput and error budget",
    (
        Panel(
            Kind.LINES,
            "Good requests",
            "Requests that met every objective of their lane and length. A lane without objectives has none.",
            OK,
            "reqps",
            (rates("llm_good_requests_total"),),
            width=6,
        ),
        Panel(
            Kind.LINES,
            "Good requests, of all that ended",
            "Failed, rejected and cancelled ones are in the denominator: nobody is served by them.",
            ENDED,
            "percentunit",
            (share("llm_good_requests_total", "llm_requests_total"),),
            width=6,
        ),
        Panel(
            Kind.LINES,
            "Good output tokens",
            "Generated tokens of the good requests, by the engine's usage where it states one.",
            f"{OK} that met every objective",
            "cps",
            (rates("llm_good_output_tokens_total"),),
            width=6,
        ),
        Panel(
            Kind.LINES,
            "Token deadlines met",
            "Each output event has a deadline: the TTFT threshold, then a TPOT threshold after the one before. Early ones bank slack.",
            "output events of streams that have both objectives, counted when the stream ends",
            "percentunit",
            (
                Query(
                    "1 - sum by (WHO) (rate(llm_token_deadline_misses_total[R])) / sum by (WHO) (rate(llm_token_deadlines_total[R]))",
                    LANE,
                ),
            ),
            width=6,
        ),
        Panel(
            Kind.BAR_GAUGE,
            "Error budget left, of the time shown",
            "What is left of the misses that the targets allowed to the requests of the time shown. Below 0 it is overspent.",
            COUNTED,
            "percentunit",
            (
                Query(
                    "1 - sum by (WHO, objective) (increase(llm_slo_misses_total[W]))"
                    " / sum by (WHO, objective) (increase(llm_slo_allowed_misses_total[W]))",
                    "{{lane}} {{objective}} ({{model}} {{namespace}})",
                ),
            ),
            width=12,
            steps=((0, ORANGE), (0.25, GREEN)),
            base=RED,
        ),
        Panel(
            Kind.LINES,
            "Requests that miss",
            "The share of the counted requests that missed, on the recorded window of five minutes; from half on it is an outage.",
            COUNTED,
            "percentunit",
            (Query("lane:llm_slo_miss:ratio_rate5m", f"{{{{lane}}}} {{{{objective}}}} {ENGINE_OF}"),),
            steps=((0.05, ORANGE), (0.5, RED)),
        ),
    ),
)

BOARD = Board(
    "llm-anatomy",
    "LLM anatomy: which phase, which lane",
    "The front page. TTFT and inter-token latency apart, the verdict that pages, where the time goes, and what is left of the budget.",
    (_TWO_NUMBERS, _VERDICT, _TIME, _BLAME, _GOODPUT),
    runbooks=("LLMFirstTokenBurn", "LLMUnattributedBurn", "LLMEngineBurn"),
)
