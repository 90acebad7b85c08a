"""The queue's dashboard, in the order of its runbook: confirm, spike or steady state, what takes the room, what would refute it."""

from grafana.panel import ORANGE, RED, Board, Kind, Panel, Row
from grafana.query import LANE, Query, gauge, rates, share
from grafana.shapes import (
    ARRIVALS,
    ENDED,
    ENGINE,
    INSIDE,
    burn,
    evidence,
    kv_usage,
    phase_by_length,
    phase_heatmap,
    phase_quantiles,
    preemptions,
    prefix_hits,
    waited_in,
    waiting,
)


_CONFIRM = Row(
    "Confirm: the misses wait in the queue",
    (
        waited_in("ttft"),
        Panel(
            Kind.LINES,
            "KV cache of the pods that have a queue",
            "Above 0.9: memory is what is missing (kv). Well below, with running flat: the batch limit (slots). Below and running not"
            " flat: the token budget (load, prompts). Empty: no queue now.",
            "pods whose engine has waiting requests now",
            "percentunit",
            (
                Query(
                    "max by (POD) (llm_engine_kv_cache_usage_ratio) and on (POD) max by (POD) (llm_engine_requests_waiting) > 0",
                    "{{pod}} {{namespace}}",
                ),
            ),
            steps=((0.9, ORANGE), (0.95, RED)),
            empty="no queue",
        ),
    ),
)

_REGIME = Row("Spike or steady state", (burn(objective="ttft"), waiting()))

_ROOM = Row(
    "What takes the room",
    (
        evidence(),
        kv_usage(),
        Panel(
            Kind.LINES,
            "Arrivals by lane",
            "One lane that jumps is a noisy tenant; all together is load.",
            ARRIVALS,
            "reqps",
            (rates("llm_requests_received_total"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Prompt tokens that arrive, by lane",
            "The work that comes in. It can double while the requests do not.",
            f"{ARRIVALS}, whose prompt length was known or could be estimated",
            "cps",
            (rates("llm_received_prompt_tokens_total"),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Inside the sidecar, by lane",
            "Waiting for their first output, and streaming. Streaming flat while waiting grows: no slot is freed.",
            INSIDE,
            "short",
            (
                gauge(
                    "llm_requests_in_flight",
                    by="WHO, state",
                    legend="{{lane}} {{state}} ({{model}} {{namespace}})",
                    how="sum",
                ),
            ),
            width=8,
        ),
    ),
)

_QUEUE = Row(
    "The queue itself",
    (
        phase_quantiles("queue", "What the engine's scheduler made requests wait."),
        phase_by_length("queue"),
        phase_heatmap("queue", width=12),
        Panel(
            Kind.LINES,
            "Overdue and oldest",
            "How many are past their TTFT threshold with no token yet, and how old the oldest waiting one is: a queue that no finished"
            " request shows yet.",
            INSIDE,
            "short",
            (
                gauge("llm_requests_overdue", by="WHO", legend=f"overdue {LANE}", how="sum"),
                Query('max by (WHO) (llm_oldest_request_seconds{state="waiting"})', f"oldest waiting {LANE}", unit="s"),
            ),
        ),
    ),
)

_REFUTE = Row(
    "What would prove it wrong",
    (
        Panel(
            Kind.LINES,
            "Rejected requests",
            "They count as misses of the queue and never were in one: the engine's own limit, or proxy.max_in_flight.",
            ENDED,
            "percentunit",
            (share('llm_requests_total{outcome="rejected"}', "llm_requests_total"),),
            width=8,
            steps=((0.05, ORANGE),),
        ),
        Panel(
            Kind.LINES,
            "Clients that leave while they wait",
            "Who leaves before the threshold is no miss: the objective may look better than the users' day.",
            f"cancelled inference requests, over {ARRIVALS}",
            "percentunit",
            (share('llm_client_cancels_total{stage="waiting"}', "llm_requests_received_total"),),
            width=8,
            steps=((0.05, ORANGE),),
        ),
        Panel(
            Kind.LINES,
            "Each pod's part of all that waits",
            "One pod with nearly all of it, among several: an outlier or the balancing, and no lack of room.",
            ENGINE,
            "percentunit",
            (
                Query(
                    "sum by (POD) (llm_engine_requests_waiting)"
                    " / on (namespace) group_left () (sum by (namespace) (llm_engine_requests_waiting) > 0)",
                    "{{pod}} {{namespace}}",
                ),
            ),
            width=8,
            empty="no queue",
        ),
        Panel(
            Kind.LINES,
            "Misses that are not decided yet",
            "What broke is decided at most 15 s after a miss: until then the shares above speak of earlier ones.",
            "requests that missed an objective and whose root is not decided",
            "short",
            (
                gauge(
                    "llm_slo_undecided_misses",
                    by="WHO, objective",
                    legend="{{lane}} {{objective}} ({{model}} {{namespace}})",
                    how="sum",
                ),
            ),
            width=8,
        ),
        preemptions(width=8),
        prefix_hits(width=8),
    ),
)

BOARD = Board(
    "llm-queue",
    "LLM queue",
    "Requests wait for the engine's scheduler. What confirms it, what takes the room, and what would prove it wrong.",
    (_CONFIRM, _REGIME, _ROOM, _QUEUE, _REFUTE),
    runbooks=("LLMQueueBurn", "LLMClientsGiveUp", "LLMRequestsRejected"),
)
