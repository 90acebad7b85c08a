"""Before the first token: queue, prefill and front end, in the order in which their runbooks walk."""

from grafana.colours import RED, WARN
from grafana.panel import RATIO, Board, Kind, Panel, Row
from grafana.query import Query, gauge, summed
from grafana.shapes import ENDED, ENGINE, INSIDE, OK, engine_cost, evidence, phase_tail, waited_in
from sidecar.ledger.phase_parts import REST
from sidecar.pod.costs.cost_names import Part


_CONFIRM = Row(
    "Confirm, or refute: which phase, and what has grown",
    (
        waited_in("ttft"),
        evidence(),
        Panel(
            Kind.LINES,
            "Rejected, and gone while they waited",
            "Rejected ones count as misses of the queue and never were in one. Who leaves before the threshold is no miss: the objective"
            " may look better than the users' day.",
            ENDED,
            RATIO,
            (
                Query(
                    'sum(rate(llm_requests_total{outcome="rejected"}[R])) / sum(rate(llm_requests_total{outcome!="accepted"}[R])) > 0',
                    "rejected",
                ),
                Query(
                    'sum(rate(llm_client_cancels_total{stage="waiting"}[R])) / sum(rate(llm_requests_received_total[R])) > 0',
                    "left while waiting",
                ),
            ),
            steps=((0.05, WARN),),
            empty="none",
        ),
    ),
)

_ROOM = Row(
    "Queue: what takes the room",
    (
        Panel(
            Kind.LINES,
            "Waiting and running",
            "The engine's own queue and batch, and what is inside the sidecar. Waiting above 0 with running flat: the batch limit."
            " Overdue: past its TTFT threshold with no token yet, which no finished request shows.",
            f"waiting and running: {ENGINE}; the others: {INSIDE}",
            "short",
            (
                Query("sum(llm_engine_requests_waiting) > 0", "waiting in the engine"),
                Query("sum(llm_engine_requests_running) > 0", "running"),
                Query('sum(llm_requests_in_flight{state="waiting"}) > 0', "waiting for output"),
                Query('sum(llm_requests_in_flight{state="streaming"}) > 0', "streaming"),
                Query("sum(llm_requests_overdue) > 0", "overdue"),
                Query("sum by (objective) (llm_slo_undecided_misses) > 0", "{{objective}} misses not decided"),
            ),
            empty="nothing waits",
        ),
        Panel(
            Kind.LINES,
            "KV cache in use by pod",
            "Above 0.9 while requests wait, memory is what is missing (kv); near 1 the engine preempts. Well below, with running flat:"
            " the batch limit (slots).",
            "the KV cache of each pod's engine, of its fullest rank",
            RATIO,
            (gauge("llm_engine_kv_cache_usage_ratio"),),
            steps=((0.9, WARN), (0.95, RED)),
            empty="the engine does not say",
        ),
        phase_tail("queue", "What the engine's scheduler made requests wait."),
    ),
)

_PREFILL = Row(
    "Prefill: what made prompts cost more",
    (
        phase_tail("prefill", "The prompt's passes up to the first token."),
        engine_cost(Part.PREFILL),
        Panel(
            Kind.STACK,
            "Prompt tokens a second: computed, cached, arriving",
            "What the engine had to compute and what its prefix cache spared it, of requests that ended; the line is what comes in. Work"
            " can double while requests do not.",
            f"{OK} whose usage states how many tokens were cached; arriving: whose length was known or could be estimated",
            "cps",
            (
                Query("sum(rate(llm_uncached_prompt_tokens_total[R])) > 0", "computed"),
                Query("sum(rate(llm_cached_prompt_tokens_total[R])) > 0", "cached"),
                Query("sum(rate(llm_received_prompt_tokens_total[R])) > 0", "arriving"),
            ),
            total="arriving",
        ),
    ),
)


def _of_parts() -> Query:
    """Mean seconds of each part, over the requests that have a rest of its phase: those with a stated part of it, each of which has one."""
    seconds = summed("rate(llm_request_phase_part_seconds_sum[R])", by="phase, part")
    requests = summed(f'rate(llm_request_phase_part_seconds_count{{part="{REST}"}}[R])', by="phase")
    return Query(f"{seconds} / on (phase) group_left () {requests} > 0", "{{phase}}: {{part}}")


_WITHIN = Row(
    "First token, and the parts of each phase where the engine states them",
    (
        phase_tail("first_token", "Tokenise, template, IPC, detokenise, network: on a busy API server it is large."),
        Panel(
            Kind.LINES,
            "Parts of phases: mean seconds per request",
            "Within a phase, the parts that the engine states, and as rest the time that none of them covers: together the mean of that phase over"
            " the same requests. Of the queue: router (in front of the workers), prefill_queue and decode_admission (at the worker of each; the"
            " second is estimated). Of prefill: compute. Of first_token: kv_transfer (at the most). A part without a line is"
            " not stated, or took no time. The part that is largest need not be the one that grew: look at what it was before.",
            f"{OK} whose engine states a part of the phase",
            "s",
            (_of_parts(),),
            width=16,
            empty="the engine states no parts",
        ),
    ),
)

BOARD = Board(
    "llm-queue",
    "LLM before the first token: queue, prefill, front end",
    "Requests wait for the scheduler, prompts take longer to compute, or the front end around them does. What confirms it, what takes"
    " the room, what made prompts cost more, and what would prove it wrong.",
    (_CONFIRM, _ROOM, _PREFILL, _WITHIN),
    runbooks=("LLMQueueBurn", "LLMPrefillBurn", "LLMFirstTokenBurn", "LLMClientsGiveUp", "LLMRequestsRejected"),
)
