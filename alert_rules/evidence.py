"""What the whole engine shows, against what it showed when all was well. Recording rules.

A vote says where the missed requests waited. On a shared engine a slower prefill turns up as other requests' queue, so what broke
is read from five numbers per model (reference: blame.md), each over its own median of the last hour without misses.
"""

from alert_rules.burn import WHO
from alert_rules.rule import Record
from sidecar.slo.causes import Cause


MODEL = "namespace, model"
WORTH_NAMING = 1.25
"""By how much a number must have grown to be called a cause (blame.md 4: 1.1 to 1.3 is flat, 1.5 costs two points)."""

_POD_MODEL = 'group by (namespace, pod, model) (llm_requests_received_total{model!="other"})'


def _now(evidence: str, expr: str, why: str) -> Record:
    return Record("model:llm_evidence:now", expr, why, {"evidence": str(evidence)})


NOW = (
    _now(
        Cause.PREFILL_COST,
        f"""
        sum by ({MODEL}) (rate(llm_prefill_own_seconds_total[2m]))
          / (sum by ({MODEL}) (rate(llm_prefill_expected_seconds_total[2m])) > 0)
        """,
        "What prefill costs over what the same prompts are expected to cost alone.",
    ),
    _now(
        "uncached_by_engine",
        f"""
        1 - sum by ({MODEL}) (sum by (namespace, pod) (rate(llm_engine_prefix_cache_hits_total[2m])) * on (namespace, pod) group_right () {_POD_MODEL})
          / (sum by ({MODEL}) (sum by (namespace, pod) (rate(llm_engine_prefix_cache_queries_total[2m])) * on (namespace, pod) group_right () {_POD_MODEL}) > 0)
        """,
        "Share of the prompts that is not cached, by the engine's own counters.",
    ),
    _now(Cause.LOAD, f"sum by ({MODEL}) (rate(llm_requests_received_total[2m])) > 0", "Arrivals a second."),
    _now(
        Cause.PROMPT_MIX,
        f"""
        sum by ({MODEL}) (rate(llm_received_prompt_tokens_total[2m]))
          / (sum by ({MODEL}) (rate(llm_received_measured_requests_total[2m])) > 0)
        """,
        "Prompt tokens per arriving request.",
    ),
    _now(
        Cause.DECODE_COST,
        f"histogram_quantile(0.1, sum by ({MODEL}, le) (rate(llm_inter_token_seconds_bucket[2m]))) > 0",
        "The quiet gap between tokens: its tenth percentile, which no prefill in between stretches.",
    ),
)

DISTURBED = Record(
    "model:llm_slo:disturbed",
    f"max by ({MODEL}) (lane:llm_slo_burn:ratio_rate2m >= 2 and on ({WHO}) lane:llm_slo_misses:increase2m >= 3) * 0 + 1",
    "Some lane of the model burns.",
)
CHRONIC = Record(
    "lane:llm_slo_burn:chronic",
    """
    (
      min_over_time(lane:llm_slo_burn:ratio_rate30m[6h]) >= 2 and count_over_time(lane:llm_slo_burn:ratio_rate30m[6h]) >= 1200
    ) * 0 + 1
    """,
    "Lanes that have burned for six hours without a break: a threshold that does not fit must not keep the others without a baseline.",
)
ACUTE = Record(
    "model:llm_slo:acute",
    f"""
    max by ({MODEL}) (
      lane:llm_slo_burn:ratio_rate2m >= 2 and on ({WHO}) lane:llm_slo_misses:increase2m >= 3
      unless on ({WHO}) lane:llm_slo_burn:chronic
    ) * 0 + 1
    """,
    "Some lane of the model burns that did not always do so: what is seen now is no baseline.",
)
LANE = "namespace, model, lane"
LANE_NOW = (
    Record(
        "lane:llm_prompt_tokens:now",
        f"""
        sum by ({LANE}) (rate(llm_received_prompt_tokens_total[2m]))
          / (sum by ({LANE}) (rate(llm_received_measured_requests_total[2m])) > 0)
        """,
        "Prompt tokens per arriving request of a lane.",
        {"of": "received"},
    ),
    Record(
        "lane:llm_prompt_tokens:now",
        f"""
        sum by ({LANE}) (rate(llm_cached_prompt_tokens_total[2m])) / (sum by ({LANE}) (rate(llm_prompt_tokens_count[2m])) > 0)
        and on ({LANE}) sum by ({LANE}) (llm_cached_prompt_tokens_total) > 0
        """,
        "Cached ones per finished request, where usage states them.",
        {"of": "cached"},
    ),
)


def _calm(level: str, on: str) -> tuple[Record, Record]:
    return (
        Record(
            f"{level}:calm", f"{level}:now unless on ({MODEL}) model:llm_slo:acute", "The same while nothing burns."
        ),
        Record(
            f"{level}:baseline",
            f"""
              quantile_over_time(0.5, {level}:calm[1h]) and count_over_time({level}:calm[1h]) >= 12
            or
              last_over_time({level}:baseline[1h])
            """,
            f"Its median over the last hour's calm, by {on}; frozen while it burns, for as long as that lasts.",
        ),
    )


RATIO = Record(
    "model:llm_evidence:ratio",
    'model:llm_evidence:now{evidence!="uncached_by_engine"} / (model:llm_evidence:baseline > 0)',
    "How many times its usual self each has become.",
)
_UNCACHED = f"sum by ({MODEL}) (rate(llm_uncached_prompt_tokens_total[2m]))"
UNCACHED = Record(
    "model:llm_evidence:ratio",
    f"""
      {_UNCACHED} / clamp_min(
        {_UNCACHED} - sum by ({MODEL}) (
          clamp_min(lane:llm_prompt_tokens:baseline{{of="cached"}} - lane:llm_prompt_tokens:now{{of="cached"}}, 0)
            * on ({LANE}) sum by ({LANE}) (rate(llm_prompt_tokens_count[2m]))
        ),
        0.01
      )
    or on ({MODEL})
      sum by ({MODEL}) (
        model:llm_evidence:now{{evidence="uncached_by_engine"}} / (model:llm_evidence:baseline{{evidence="uncached_by_engine"}} > 0)
      )
    """,
    """
    How many times more has to be computed than if each lane's prompts were cached as they used to be. Longer prompts, or more
    requests of a lane that never was cached, are no loss of the cache.
    """,
    {"evidence": Cause.UNCACHED.value},
)
TOP = Record(
    "model:llm_evidence:top",
    f"topk by ({MODEL}) (1, model:llm_evidence:ratio >= {WORTH_NAMING})",
    "The one that has grown most, if any is worth naming.",
)
LONGER = Record(
    "lane:llm_prompt_tokens:longer",
    f"""
    lane:llm_prompt_tokens:now{{of="received"}} / (lane:llm_prompt_tokens:baseline{{of="received"}} > 0) >= {WORTH_NAMING}
    """,
    "Lanes whose own prompts have grown.",
)

EVIDENCE = (
    *NOW,
    *LANE_NOW,
    DISTURBED,
    CHRONIC,
    ACUTE,
    *_calm("model:llm_evidence", "model"),
    *_calm("lane:llm_prompt_tokens", "lane"),
    RATIO,
    UNCACHED,
    TOP,
    LONGER,
)
