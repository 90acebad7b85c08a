"""How fast each lane spends its error budget, and which tier that is. Recording rules.

The verdict on each request is the sidecar's own (`llm_slo_*`), so these rules only add and divide: no bucket edges, the same text
for every config, target and Prometheus from 2.42 on. An idle lane divides nothing by nothing; NaN is above no threshold.
"""

from alert_rules.rule import Record


WHO = "namespace, model, lane, objective"
"""Whom a verdict is about."""

OUTAGE_RATIO = 0.5
FEWEST_MISSES = 10
FAST_BURN = 10
SLOW_BURN = 2
LONG_BURN = 1

_RATIOS = (
    Record(
        f"lane:llm_slo_burn:ratio_rate{window}",
        f"sum by ({WHO}) (rate(llm_slo_misses_total[{window}])) / sum by ({WHO}) (rate(llm_slo_allowed_misses_total[{window}]))",
        f"Error budget spent over error budget earned, {window}: 1 is what the target allows.",
    )
    for window in ("2m", "5m", "30m", "6h")
)
_MISS_RATIOS = (
    Record(
        f"lane:llm_slo_miss:ratio_rate{window}",
        f"sum by ({WHO}) (rate(llm_slo_misses_total[{window}])) / sum by ({WHO}) (rate(llm_slo_requests_total[{window}]))",
        f"Share of the requests that missed, {window}.",
    )
    for window in ("2m", "5m")
)
_MISSES = (
    Record(
        f"lane:llm_slo_misses:increase{window}",
        f"sum by ({WHO}) (increase(llm_slo_misses_total[{window}]))",
        f"How many missed, {window}: a ratio of few requests pages nobody.",
    )
    for window in ("2m", "5m", "30m", "6h")
)

_OUTAGE = Record(
    "lane:llm_slo_burn:tier",
    f"""
    (
        lane:llm_slo_miss:ratio_rate2m >= {OUTAGE_RATIO}
        and on ({WHO}) lane:llm_slo_misses:increase2m >= {FEWEST_MISSES}
      or
        lane:llm_slo_miss:ratio_rate5m >= {OUTAGE_RATIO}
        and on ({WHO}) lane:llm_slo_misses:increase5m >= {FEWEST_MISSES}
        unless on ({WHO}) lane:llm_slo_miss:ratio_rate2m < {OUTAGE_RATIO / 2}
    ) * 0 + 1
    """,
    "Half of the requests miss: reachable for every target. The second window is for lanes with little traffic.",
    {"tier": "outage"},
)
_FAST = Record(
    "lane:llm_slo_burn:tier",
    f"""
    (
        lane:llm_slo_burn:ratio_rate2m >= {FAST_BURN}
        and on ({WHO}) lane:llm_slo_misses:increase2m >= {FEWEST_MISSES}
      or
        lane:llm_slo_burn:ratio_rate5m >= {FAST_BURN}
        and on ({WHO}) lane:llm_slo_misses:increase5m >= {FEWEST_MISSES}
        unless on ({WHO}) lane:llm_slo_burn:ratio_rate2m < {FAST_BURN / 5}
    ) * 0 + 1
    """,
    "A month's budget gone in three days. At a target of 0.95 this is half of the requests, below that the outage comes first.",
    {"tier": "fast"},
)
_SLOW = Record(
    "lane:llm_slo_burn:tier",
    f"""
    (
        lane:llm_slo_burn:ratio_rate30m >= {SLOW_BURN}
        and on ({WHO}) lane:llm_slo_misses:increase30m >= {FEWEST_MISSES}
        unless on ({WHO}) lane:llm_slo_burn:ratio_rate5m < {LONG_BURN}
      or
        lane:llm_slo_burn:ratio_rate6h >= {LONG_BURN}
        and on ({WHO}) lane:llm_slo_misses:increase6h >= {FEWEST_MISSES}
        unless on ({WHO}) lane:llm_slo_burn:ratio_rate30m < {LONG_BURN}
    ) * 0 + 1
    """,
    "Twice what the target allows for half an hour and still, or all of it for six hours.",
    {"tier": "slow"},
)

_PAGING = Record(
    "lane:llm_slo_burn:paging",
    f'max by ({WHO}) (lane:llm_slo_burn:tier{{tier=~"outage|fast"}})',
    "It burns fast enough to page.",
)

BURN = (*_RATIOS, *_MISS_RATIOS, *_MISSES, _OUTAGE, _FAST, _SLOW, _PAGING)
