"""PromQL's way with labels: which an expression's result carries, read from its tree.

Knows the labels of every series (the catalogue, the recording rules' own text, and what Prometheus adds). Refuses to know dashboards.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as promql

from sidecar.config.quick_yaml import read_yaml
from sidecar.export.shipped_files import DASHBOARD_RULES
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram, Info
from sidecar.metrics.target_labels import ONE_POD


ALERT_RULES = Path(__file__).parents[2] / "alert_rules"
RECORDING = ("llm-recording.yml", DASHBOARD_RULES)
"""Files of rules that record; the second is optional."""
TARGET = frozenset(ONE_POD)
VERSION = "app_version"
"""On a target whose pod says its version; only the canary's queries ask for it."""
CONSTANT = frozenset({"quantization", "gpu_type"})
FOREIGN = {
    "process_cpu_seconds_total": TARGET,
    "process_resident_memory_bytes": TARGET,
    "process_start_time_seconds": TARGET | {VERSION},
    "ALERTS": TARGET | {"alertname", "alertstate", "severity", "phase", "model", "lane", "objective"},
}
Labels = frozenset[str]
NATIVE = frozenset(metric.name for metric in CATALOGUE if isinstance(metric, Histogram))
"""Series of native histograms: each holds what the classic ones have in `_sum`, `_count` and `_bucket`."""
FORM = "form"
"""A label that tells a native histogram's quantile from a classic one's, and nothing else."""


@cache
def exposed() -> dict[str, Labels]:
    """Every series of the sidecar's own page, with the labels that Prometheus stores."""
    found: dict[str, Labels] = dict(FOREIGN)
    for metric in CATALOGUE:
        constant = frozenset() if metric.name.startswith("llm_sidecar_") else CONSTANT
        labels = TARGET | constant | {label.name for label in metric.labels} | {VERSION}
        if isinstance(metric, Histogram):
            found |= {
                metric.name: labels,
                f"{metric.name}_sum": labels,
                f"{metric.name}_count": labels,
                f"{metric.name}_bucket": labels | {"le"},
            }
        else:
            found[metric.name] = labels
    assert any(isinstance(metric, Info) for metric in CATALOGUE)
    return found


@cache
def recorded() -> dict[str, Labels]:
    """Every recorded series, with the labels that its rule's expression leaves and those that the rule adds."""
    texts = [(ALERT_RULES / name).read_text() for name in RECORDING]
    rules = [rule for text in texts for group in read_yaml(text)["groups"] for rule in group["rules"]]
    found: dict[str, Labels] = {rule["record"]: frozenset() for rule in rules}
    # Twice: a rule may read its own last value.
    for _ in range(2):
        for rule in rules:
            left = labels_of(promql.parse(rule["expr"]), exposed() | found) | frozenset(rule.get("labels", {}))
            found[rule["record"]] |= left
    return {name: labels - {VERSION} for name, labels in found.items()}


@cache
def known() -> dict[str, Labels]:
    return exposed() | recorded()


def children(node: Any) -> list[Any]:
    """The operands of a node, left to right."""
    match node:
        case promql.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql.Call():
            return list(node.args)
        case promql.AggregateExpr():
            return [*([node.param] if node.param is not None else []), node.expr]
        case promql.MatrixSelector():
            return [node.vector_selector]
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return [node.expr]
        case _:
            return []


def walk(node: Any) -> Iterator[Any]:
    """A tree, root first, left to right."""
    waiting = [node]
    while waiting:
        yield (one := waiting.pop())
        waiting += reversed(children(one))


def selectors(node: Any) -> list[promql.VectorSelector]:
    return [one for one in walk(node) if isinstance(one, promql.VectorSelector)]


def operands(node: Any) -> list[promql.VectorSelector]:
    """The selectors that give a result its values: not those that only decide which samples stay."""
    if isinstance(node, promql.VectorSelector):
        return [node]
    below = children(node)
    if isinstance(node, promql.BinaryExpr) and (str(node.op) in {"and", "unless"} or grouped_left(node)):
        below = below[:1]
    return [one for child in below for one in operands(child)]


def matched(selector: promql.VectorSelector) -> dict[str, str]:
    """Label to matcher, as written: `=~"$lane"`; a second one of the same label after it, with its name: `="v1",app_version!="v2"`."""
    signs = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
    said: dict[str, str] = {}
    for one in selector.matchers.matchers:
        how = f'{signs[str(one.op).removeprefix("MatchOp.")]}"{one.value}"'
        said[one.name] = f"{said[one.name]},{one.name}{how}" if one.name in said else how
    return said


def inner(node: Any) -> Any:
    """Without brackets around it."""
    while isinstance(node, promql.ParenExpr):
        node = node.expr
    return node


def grouping(node: promql.AggregateExpr) -> Labels:
    """The labels of `by`; none for an aggregate over everything. Raises ValueError for `without`."""
    if node.modifier is None:
        return frozenset()
    if node.modifier.type != promql.AggModifierType.By:
        raise ValueError("`without` leaves labels that cannot be read off")
    return frozenset(node.modifier.labels)


def on_labels(node: promql.BinaryExpr) -> Labels | None:
    """The labels of `on`, None without it."""
    modifier = node.modifier
    matching = modifier.matching if modifier is not None else None
    if matching is None or matching.type != promql.LabelModifierType.Include:
        return None
    return frozenset(matching.labels)


def is_scalar(node: Any) -> bool:
    node = inner(node)
    if isinstance(node, promql.BinaryExpr):
        return is_scalar(node.lhs) and is_scalar(node.rhs)
    if isinstance(node, promql.Call):
        return node.func.name in {"time", "scalar"}
    return isinstance(node, promql.NumberLiteral)


def grouped_left(node: promql.BinaryExpr) -> bool:
    return node.modifier is not None and node.modifier.card == promql.VectorMatchCardinality.ManyToOne


def labels_of(node: Any, of: dict[str, Labels]) -> Labels:
    """The labels of an expression's result. Raises KeyError for an unknown series."""
    match node:
        case promql.VectorSelector():
            return of[node.name or ""]
        case promql.AggregateExpr():
            below = labels_of(node.expr, of)
            return below if str(node.op) in {"topk", "bottomk"} else grouping(node) & below
        case promql.BinaryExpr():
            return _joined(node, of)
        case promql.Call():
            return _called(node, of)
        case promql.NumberLiteral() | promql.StringLiteral():
            return frozenset()
        case _:
            return labels_of(children(node)[0], of)


def _called(node: promql.Call, of: dict[str, Labels]) -> Labels:
    if node.func.name in {"time", "vector", "scalar"}:
        return frozenset()
    if node.func.name == "histogram_quantile":
        return labels_of(node.args[1], of) - {"le"}
    if node.func.name == "quantile_over_time":
        return labels_of(node.args[1], of)
    if node.func.name == "label_join":
        return labels_of(node.args[0], of) | {inner(node.args[1]).val}
    if node.func.name == "label_replace":
        target, replacement = inner(node.args[1]).val, inner(node.args[2]).val
        below = labels_of(node.args[0], of)
        return below | {target} if replacement else below - {target}
    return labels_of(node.args[0], of)


def _joined(node: promql.BinaryExpr, of: dict[str, Labels]) -> Labels:
    left = labels_of(node.lhs, of)
    if is_scalar(node.lhs):
        return labels_of(node.rhs, of)
    if is_scalar(node.rhs) or str(node.op) in {"and", "unless"}:
        return left
    right = labels_of(node.rhs, of)
    if str(node.op) == "or":
        return left | right
    modifier = node.modifier
    if modifier is not None and modifier.card == promql.VectorMatchCardinality.OneToMany:
        return right | frozenset(modifier.group_labels or ())
    if modifier is not None and grouped_left(node):
        return left | frozenset(modifier.group_labels or ())
    on = on_labels(node)
    return left if on is None else on
