"""The dimension of a query's value: seconds, a share, requests a second. Reckoned from the names of the series, through the tree.

Physics for dashboards: a rate takes a second away, a quotient subtracts, a sum keeps. So a unit that does not fit its query is
found without running it: milliseconds on seconds, a percentage on a number of requests.
"""

from typing import Any

import promql_parser as promql

from sidecar.commands.export.rules.dashboard_rules import RECORDED
from tests.grafana.series import inner, is_scalar, operands


Dimension = dict[str, int]

SHARE: Dimension = {}
TIMES: Dimension = {"times": 1}
"""A multiple of itself: 2.5 times."""
STATE: Dimension = {"state": 1}
"""A number that stands for a word, or a 1 that stands for its labels."""

INSTANT: Dimension = {"instant": 1}
"""Seconds since 1970. No panel draws one: people read an age."""

UNIT = {
    "": "percentunit",
    "second": "s",
    "age": "dtdurations",
    "second/request": "s",
    "request": "short",
    "event": "short",
    "token": "short",
    "token/request": "short",
    "request/second": "reqps",
    "event/second": "cps",
    "token/second": "cps",
    "byte": "bytes",
    "times": "none",
    "state": "none",
    "allowed": "short",
    "request/allowed": "none",
    "second/expected": "none",
    "/median": "none",
}
"""The one unit of Grafana's in which each is drawn."""

_EXACT: dict[str, Dimension] = {
    "llm_incident_age_seconds": {"age": 1},
    "llm_prefill_expected_seconds_total": {"expected": 1},
    "llm_slo_allowed_misses_total": {"allowed": 1},
    "llm_token_deadlines_total": {"event": 1},
    "llm_token_deadline_misses_total": {"event": 1},
    "llm_engine_prefix_cache_hits_total": {"token": 1},
    "llm_engine_prefix_cache_queries_total": {"token": 1},
    "llm_engine_preemptions_total": {"request": 1},
    "llm_engine_restarts_total": {"event": 1},
    "llm_sidecar_dropped_total": {"event": 1},
    "llm_sidecar_label_overflow_total": {"event": 1},
    "llm_sidecar_spans_total": {"event": 1},
    "llm_sidecar_exported_spans_total": {"event": 1},
    "llm_sidecar_exported_spans_ended_total": {"event": 1},
    "llm_sidecar_scrapes_total": {"event": 1},
    "llm_engine_scrapes_total": {"event": 1},
    "llm_sidecar_budget_used": {"event": 1},
    "llm_sidecar_budget_limit": {"event": 1},
    "llm_sidecar_budget_exceeded_total": {"event": 1},
    "llm_sidecar_web_config_loads_total": {"event": 1},
    "llm_sidecar_open_connections": {"event": 1},
    "llm_sidecar_open_ledgers": {"event": 1},
    "llm_sidecar_series": {"event": 1},
    "llm_estimator_samples": {"request": 1},
    "llm_requests_overdue": {"request": 1},
    "llm_slo_undecided_misses": {"request": 1},
    "llm_evidence_ratio": TIMES,
    "llm_engine_cost_ratio": TIMES,
    "llm_engine_cost_ratio_low": TIMES,
    "llm_engine_cost_ratio_high": TIMES,
    "llm_engine_cost_unknown": STATE,
    "llm_requests_in_flight": {"request": 1},
    "llm_engine_requests_waiting": {"request": 1},
    "llm_engine_requests_running": {"request": 1},
    "llm_sidecar_prompt_bucket_estimates_total": {"request": 1},
}
_ENDS: tuple[tuple[str, Dimension], ...] = (
    ("_tokens_total", {"token": 1}),
    ("_seconds_total", {"second": 1}),
    ("_total", {"request": 1}),
    ("_seconds_sum", {"second": 1}),
    ("_tokens_sum", {"token": 1}),
    ("_count", {"request": 1}),
    ("_bucket", {"request": 1}),
    ("_timestamp_seconds", INSTANT),
    ("_seconds", {"second": 1}),
    ("_bytes", {"byte": 1}),
    ("_tokens", {"token": 1}),
    ("_ratio", SHARE),
    ("_info", STATE),
    ("_up", STATE),
    ("_ready", STATE),
    ("_draining", STATE),
    ("_successful", STATE),
    ("_mismatch", STATE),
)
_RECORDED: tuple[tuple[str, Dimension], ...] = (
    ("lane:llm_slo_burn:ratio", TIMES),
    ("lane:llm_slo_burn:tier", STATE),
    ("lane:llm_slo_root:share", SHARE),
    ("pod:llm_slo:odd", STATE),
    ("pod:llm_slo:increase", {"request": 1}),
)
_KEEPING = {
    "increase",
    "label_replace",
    "label_join",
    "avg_over_time",
    "max_over_time",
    "min_over_time",
    "sum_over_time",
    "abs",
    "clamp_min",
}


class UnknownDimensionError(ValueError):
    """It is not known what this is: say it in the tables above."""


def of_series(name: str) -> Dimension:
    """The dimension that a series counts or measures."""
    if name in _EXACT:
        return _EXACT[name]
    for beginning, dimension in _RECORDED:
        if name.startswith(beginning):
            return dimension
    if name in RECORDED:
        return _recorded(*name.split(":")[1:])
    for end, dimension in _ENDS:
        if ":" not in name and name.endswith(end):
            return dimension
    raise UnknownDimensionError(name)


def _recorded(metric: str, operation: str) -> Dimension:
    if operation == "count":
        return {"event": 1}
    below = of_series(metric)
    return _times(below, {"second": -1}) if operation.startswith("rate") else below


def observed(series: str) -> Dimension:
    """The dimension of what a histogram observes, by the name of its buckets, or its own where it is a native one."""
    for end, dimension in (
        ("_seconds", {"second": 1}),
        ("_tokens", {"token": 1}),
        ("_per_read", {"event": 1}),
    ):
        if series.removesuffix("_bucket").endswith(end):
            return dimension
    raise UnknownDimensionError(series)


def dimension_of(node: Any) -> Dimension:
    """The dimension of an expression's value. Raises UnknownDimensionError."""
    match node:
        case promql.VectorSelector():
            return of_series(node.name or "")
        case promql.MatrixSelector():
            return of_series(node.vector_selector.name or "")
        case promql.BinaryExpr():
            return _joined(node)
        case promql.Call():
            return _called(node)
        case promql.AggregateExpr():
            below = dimension_of(node.expr)
            match str(node.op):
                case "count":
                    return {"event": 1}
                case "group":
                    return STATE
                case "quantile":
                    return _times(below, {"median": 1})
                case _:
                    return below
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return dimension_of(node.expr)
        case _:
            raise UnknownDimensionError(str(node))


def _called(node: promql.Call) -> Dimension:
    if node.func.name == "rate":
        return _times(dimension_of(node.args[0]), {"second": -1})
    if node.func.name == "histogram_quantile":
        (below,) = operands(node.args[1])
        return observed(below.name or "")
    if node.func.name in {"histogram_sum", "histogram_count"}:
        (below,) = operands(node.args[0])
        whole = {name: -power for name, power in observed(below.name or "").items()}
        part = of_series(f"{below.name}_{node.func.name.removeprefix('histogram_')}")
        return _times(_times(dimension_of(node.args[0]), whole), part)
    if node.func.name == "time":
        return INSTANT
    if node.func.name in _KEEPING:
        return dimension_of(node.args[0])
    raise UnknownDimensionError(node.func.name)


def _joined(node: promql.BinaryExpr) -> Dimension:
    operator = str(node.op)
    if is_scalar(node.lhs) and isinstance(inner(node.lhs), promql.NumberLiteral):
        right = dimension_of(node.rhs)
        # What is left of a budget is a share of it.
        return SHARE if operator == "-" and written(right) == "request/allowed" else right
    if is_scalar(node.rhs) or operator in {"and", "or", "unless", ">", ">=", "<", "<=", "==", "!="}:
        return dimension_of(node.lhs)
    left, right = dimension_of(node.lhs), dimension_of(node.rhs)
    if operator == "/":
        return _times(left, {name: -power for name, power in right.items()})
    if operator == "*":
        # A 1 that stands for its labels only chooses.
        if STATE in (left, right):
            return right if left == STATE else left
        return _times(left, right)
    if operator == "-" and left == right == INSTANT:
        return {"age": 1}
    if left != right:
        raise UnknownDimensionError(f"{written(left)} {operator} {written(right)}")
    return left


def _times(left: Dimension, right: Dimension) -> Dimension:
    powers = {name: left.get(name, 0) + right.get(name, 0) for name in left | right}
    return {name: power for name, power in powers.items() if power}


def written(dimension: Dimension) -> str:
    """`request/second`, as the table of units has it."""
    above = "*".join(sorted(name for name, power in dimension.items() if power > 0))
    below = "*".join(sorted(name for name, power in dimension.items() if power < 0))
    return f"{above}/{below}" if below else above
