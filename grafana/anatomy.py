"""The first screen: what broke, where, since when and what to do; the two numbers against their promises; where the time goes; pods.

It fits 1366 x 960 without scrolling (`ROWS_OF_A_SCREEN`); three panels below it say what went before. All else is behind links.
"""

from grafana.panel import RATIO, Board, Kind, Panel, Row
from grafana.query import Query, rates, share
from grafana.shapes import ARRIVALS, ENDED, FIRST_TOKENS, GAPS, burn, phase_stack, tail
from grafana.verdict import pods_table, verdict_table, verdict_timeline


ROWS_OF_A_SCREEN = 22
"""Grafana's rows of 38 px that a window of 960 px shows below the heading and the variables."""

_FIRST = Row(
    "",
    (
        verdict_table(height=7),
        tail(
            "ttft",
            "llm_time_to_first_token_seconds",
            "Time to first token",
            "From the last byte of the request to the first output. Queue, prefill or front end: the verdict says which.",
            FIRST_TOKENS,
            height=7,
        ),
        tail(
            "tpot",
            "llm_inter_token_seconds",
            "Between tokens",
            "From one output event to the next; an event may carry several tokens, and the promise is about the mean gap of an answer."
            " Decode or delivery: other causes, other fixes.",
            GAPS,
            height=7,
        ),
        burn(height=7),
        phase_stack("Mean seconds by phase, of the lanes chosen", "Where a streamed request's time goes.", width=10),
        pods_table(width=14, height=8),
    ),
)

_BEFORE = Row(
    "What went before",
    (
        verdict_timeline(),
        Panel(
            Kind.BARS,
            "Seconds of the latencies that missed, by phase",
            "What the misses are made of, over all pods: the phases within each latency that missed add up to it. The slowest 1 % of"
            " one pod are on its status page.",
            "requests with outcome ok that missed an objective, counted when their ledgers close",
            "s",
            (
                Query(
                    "sum by (objective, phase) (increase(llm_slo_missed_phase_seconds_total[R])) > 0",
                    "{{objective}} {{phase}}",
                ),
            ),
            width=24,
            empty="no misses",
            by_phase=True,
        ),
        Panel(
            Kind.LINES,
            "Arrivals by lane",
            "The load, when it comes; what ends follows late. One lane that jumps is a noisy tenant; all together is load.",
            ARRIVALS,
            "reqps",
            (rates("llm_requests_received_total"),),
        ),
        Panel(
            Kind.LINES,
            "Good requests by lane, of all that ended",
            "Requests that met every objective of their lane and length; a lane without objectives has none. Failed, rejected and"
            " cancelled ones are in the denominator: they served no user.",
            ENDED,
            RATIO,
            (share("llm_good_requests_total", 'llm_requests_total{outcome!="accepted"}'),),
        ),
    ),
)

BOARD = Board(
    "llm-anatomy",
    "LLM: what broke, where, since when",
    "The first screen: the verdict that pages and what to do first; TTFT and the gaps between tokens against their promises; where the"
    " time goes; the pods, worst first.",
    (_FIRST, _BEFORE),
    runbooks=("LLMFirstTokenBurn", "LLMUnattributedBurn", "LLMEngineBurn"),
)
