"""The dashboard of prefill, and of the front end around it: the two parts of TTFT that are no queue."""

from grafana.panel import ORANGE, YELLOW, Board, Kind, Panel, Row
from grafana.query import LANE, Query, quantiles
from grafana.shapes import (
    OK,
    STREAMED_OK,
    TIMES,
    burn,
    engine_cost,
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
from sidecar.slo.step_model import Part


_PROMPTS = f"prompts of {STREAMED_OK} of which a cost can be expected: by the engine's report, or those that waited for nobody by their TTFT"

_CONFIRM = Row(
    "Confirm: prompts got dearer",
    (
        evidence(),
        Panel(
            Kind.LINES,
            "Seconds of prefill for each that was expected, by pod",
            "What the prompts took over what the same prompts take alone, by a cost that is learned while objectives are met."
            " One pod only: its GPU. All at once: a change of model, engine or traffic.",
            _PROMPTS,
            TIMES,
            (
                Query(
                    "sum by (POD) (rate(llm_prefill_own_seconds_total[R])) / sum by (POD) (rate(llm_prefill_expected_seconds_total[R]))",
                    "{{pod}} {{namespace}}",
                ),
                Query(
                    "sum by (namespace) (rate(llm_prefill_own_seconds_total[R] offset 1h))"
                    " / sum by (namespace) (rate(llm_prefill_expected_seconds_total[R] offset 1h))",
                    "all pods an hour ago {{namespace}}",
                ),
            ),
            decimals=2,
        ),
        engine_cost(Part.PREFILL, width=24),
    ),
)

_REGIME = Row("Spike or steady state", (burn(objective="ttft"), waited_in("ttft")))

_WHY = Row(
    "What made it dearer",
    (
        prefix_hits(width=8),
        Panel(
            Kind.LINES,
            "Uncached prompt tokens per second",
            "What the engine had to compute.",
            f"{OK} whose usage states how many tokens were cached",
            "cps",
            (Query("sum by (WHO) (rate(llm_uncached_prompt_tokens_total[R]))", LANE),),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Time with a prompt in prefill, by pod",
            "Seconds of prefill in each second. Near 1 the engine is prefilling almost always, and answers wait for chunks.",
            _PROMPTS,
            "percentunit",
            (Query("sum by (POD) (rate(llm_prefill_own_seconds_total[R]))", "{{pod}} {{namespace}}"),),
            width=8,
            steps=((0.5, YELLOW), (0.9, ORANGE)),
        ),
        Panel(
            Kind.LINES,
            "Mean prompt tokens by lane",
            "This lane's own prompts may just be longer: then the engine is as fast as ever.",
            f"{OK} whose usage the engine stated",
            "short",
            (
                Query(
                    "sum by (WHO) (rate(llm_prompt_tokens_sum[R])) / sum by (WHO) (rate(llm_prompt_tokens_count[R]))",
                    LANE,
                ),
            ),
            width=8,
        ),
        waiting(width=8),
        kv_usage(width=8),
    ),
)

_PREFILL = Row(
    "Prefill itself",
    (
        phase_quantiles("prefill", "The prompt's passes up to the first token."),
        phase_by_length("prefill"),
        phase_heatmap("prefill", width=12),
        Panel(
            Kind.LINES,
            "KV transfer p50, p95",
            "Where prefill and decode run on workers of their own: the move of the KV cache between them, a part of a phase.",
            f"{OK} whose engine reported a transfer",
            "s",
            quantiles("llm_kv_transfer_seconds", of=(0.5, 0.95)),
            empty="no transfer reported",
        ),
    ),
)

_REFUTE = Row(
    "What would prove it wrong: the front end, and estimates",
    (
        phase_quantiles(
            "first_token", "Tokenise, template, IPC, detokenise, network: on a busy API server it is large.", width=8
        ),
        Panel(
            Kind.LINES,
            "Connect to the engine p95, by lane",
            "Opening a connection to the engine on this host takes microseconds, unless its listen queue is full.",
            "inference requests that needed a new connection",
            "s",
            quantiles(
                "llm_engine_connect_seconds", by="namespace, lane", legend="{{lane}} ({{namespace}})", of=(0.95,)
            ),
            width=8,
        ),
        Panel(
            Kind.LINES,
            "Splits that are estimates, by lane",
            "An estimate holds the front end's time too, and knows nothing of one slow prompt.",
            OK,
            "percentunit",
            (
                Query(
                    'sum by (namespace, lane) (rate(llm_phase_attribution_total{source="estimated"}[R]))'
                    " / sum by (namespace, lane) (rate(llm_phase_attribution_total[R]))",
                    "{{lane}} ({{namespace}})",
                ),
            ),
            width=8,
        ),
        preemptions(width=8),
    ),
)

BOARD = Board(
    "llm-prefill",
    "LLM prefill and first token",
    "Prompts take longer to compute, or the front end around them does. What confirms it, what made it dearer, what would prove it wrong.",
    (_CONFIRM, _REGIME, _WHY, _PREFILL, _REFUTE),
    runbooks=("LLMPrefillBurn", "LLMPrefixCacheCollapsed", "LLMFirstTokenBurn"),
)
