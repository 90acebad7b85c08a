"""The shipped rules as trees: what each expression reads, by which labels, and which labels come out of it.

Labels are worked out as Prometheus does it, from the catalogue's declarations upwards through every operator, so that a join on a
label that one side has lost is found without a single sample. Knows PromQL's matching rules and nothing of latency.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser as promql

from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Counter, Histogram, Metric
from sidecar.metrics.target_labels import CLUSTER, ONE_POD, ONE_PROCESS


FOLDER = Path(__file__).parents[2] / "alert_rules"
FILES = ("llm-recording.yml", "llm-alerts.yml")
TARGET = frozenset(ONE_PROCESS)
"""Labels that Prometheus adds to all that it scrapes (alert_rules/README.md)."""

RATES = {"rate", "irate", "increase", "resets"}
"""Functions of counters only."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """One rule of the shipped files."""

    group: str
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.fields.get("record") or self.fields["alert"])

    @property
    def is_record(self) -> bool:
        return "record" in self.fields

    @property
    def labels(self) -> Mapping[str, str]:
        """Its static labels."""
        return dict(self.fields.get("labels", {}))

    @property
    def expr(self) -> str:
        return str(self.fields["expr"])

    def __str__(self) -> str:
        return f"{self.name}{{{','.join(self.labels.values())}}}"


def groups(files: tuple[str, ...] = FILES) -> list[dict[str, Any]]:
    """All groups of the shipped files, as they stand there."""
    return [group for name in files for group in read_yaml((FOLDER / name).read_text())["groups"]]


@cache
def rules() -> tuple[Shipped, ...]:
    """All rules, in the order in which they are evaluated."""
    return tuple(Shipped(group["name"], rule) for group in groups() for rule in group["rules"])


def inside(expression: promql.Expr) -> list[promql.Expr]:
    """This expression and all that is inside it."""
    return list(_walk(expression))


def selectors(expression: promql.Expr) -> list[promql.VectorSelector]:
    """All series that are read in it."""
    return [node for node in inside(expression) if isinstance(node, promql.VectorSelector)]


def _walk(node: promql.Expr) -> Iterator[promql.Expr]:
    yield node
    for child in _children(node):
        yield from _walk(child)


def _children(node: promql.Expr) -> list[promql.Expr]:
    match node:
        case promql.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql.AggregateExpr():
            return [node.expr] + ([node.param] if node.param is not None else [])
        case promql.Call():
            return list(node.args)
        case promql.ParenExpr() | promql.SubqueryExpr() | promql.UnaryExpr():
            return [node.expr]
        case promql.MatrixSelector():
            return [node.vector_selector]
    return []


def asked_in(rule: Shipped) -> list[str]:
    """The queries in an alert's annotations, with some value in place of each label. A text may walk over all labels of its alert."""
    return [
        re.sub(
            r"(?<=[{|\"])%s", lambda match: 'cluster="x",' if match.string[match.start() - 1] == "{" else "x", query
        ).replace("%q", '"x"')
        for text in rule.fields.get("annotations", {}).values()
        for query in (
            found.replace('\\"', '"') for found in re.findall(r'printf "((?:[^"\\]|\\.)*)" [^|}]*\| query', text)
        )
    ]


PLATFORM = {
    "kube_pod_owner": frozenset({"namespace", "pod", "owner_kind", "owner_name", "owner_is_controller"}),
    "kube_replicaset_owner": frozenset({"namespace", "replicaset", "owner_kind", "owner_name", "owner_is_controller"}),
    "kube_pod_status_phase": frozenset({"namespace", "pod", "phase"}),
    "kube_deployment_spec_replicas": frozenset({"namespace", "deployment"}),
    "kube_statefulset_replicas": frozenset({"namespace", "statefulset"}),
    "kube_daemonset_status_desired_number_scheduled": frozenset({"namespace", "daemonset"}),
    "rollout_info_replicas_desired": frozenset({"namespace", "name", "exported_namespace"}),
}
"""Series of kube-state-metrics 2.x (its `docs/metrics`) and of Argo Rollouts 1.x (`controller/metrics/prometheus.go`), with their own labels."""


def exposed(metrics: Iterable[Metric] = CATALOGUE) -> dict[str, frozenset[str]]:
    """Every series that the sidecar and the platform can expose, as far as rules may ask, and `up`: name to labels."""
    known = {"up": TARGET | {"container", "endpoint"}, "process_start_time_seconds": TARGET}
    known |= {name: labels | {CLUSTER} for name, labels in PLATFORM.items()}
    for metric in metrics:
        own = {label.name for label in metric.labels} | ({"quantization", "gpu_type"} if metric.constant else set())
        if isinstance(metric, Histogram):
            known[f"{metric.name}_bucket"] = TARGET | own | {"le"}
            known[f"{metric.name}_sum"] = known[f"{metric.name}_count"] = TARGET | own
        else:
            known[metric.name] = TARGET | own
    return known


def counters() -> set[str]:
    """Series that only rise."""
    risen = {metric.name for metric in CATALOGUE if isinstance(metric, Counter)}
    histograms = [metric.name for metric in CATALOGUE if isinstance(metric, Histogram)]
    return risen | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


@cache
def recorded() -> dict[str, frozenset[str]]:
    """Every recorded series: name to the labels that come out of its rules. A rule may read what comes after it."""
    found: dict[str, frozenset[str]] = {}
    for _ in range(3):  # what is read before it is recorded is known in the next round
        for rule in rules():
            if rule.is_record:
                known = {**exposed(), **found}
                labels = Labels(known).of(promql.parse(rule.expr)) | set(rule.labels)
                found[rule.name] = found.get(rule.name, frozenset()) | labels
    return found


class Labels:
    """Works out which labels an expression has, where `known` says what its series have."""

    def __init__(self, known: Mapping[str, frozenset[str]]) -> None:
        self._known = known
        self.lost: list[str] = []
        """Labels that are grouped, joined or taken over where they do not exist."""

    def of(self, node: promql.Expr) -> frozenset[str]:
        """The labels that can come out; a number has none."""
        match node:
            case promql.VectorSelector():
                return self._known.get(node.name or "", frozenset())
            case promql.MatrixSelector():
                return self.of(node.vector_selector)
            case promql.AggregateExpr():
                return self._aggregated(node)
            case promql.BinaryExpr():
                return self._joined(node)
            case promql.Call():
                return self._called(node)
            case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
                return self.of(node.expr)
        return frozenset()

    def _aggregated(self, node: promql.AggregateExpr) -> frozenset[str]:
        inner = self.of(node.expr)
        by = frozenset(node.modifier.labels) if node.modifier is not None else frozenset()
        self._need(by, inner, node)
        ranked = str(node).startswith(("topk", "bottomk"))
        if str(node).startswith("count_values"):
            return by | {re.findall(r'"([^"]*)"', str(node.param))[0]}
        return inner if ranked else by

    def _joined(self, node: promql.BinaryExpr) -> frozenset[str]:
        left, right = self.of(node.lhs), self.of(node.rhs)
        modifier = node.modifier
        on = frozenset(modifier.matching.labels) if modifier is not None and modifier.matching is not None else None
        if on is not None:
            for side, labels in ((node.lhs, left), (node.rhs, right)):
                if not is_number(side):
                    self._need(on, labels, side)
        op = operator(node)
        if op in {"and", "unless"}:
            return left
        if op == "or":
            return left | right
        if is_number(node.rhs) or is_number(node.lhs):
            return left | right
        taken = frozenset(modifier.group_labels or ()) if modifier is not None else frozenset()
        card = str(modifier.card) if modifier is not None else ""
        if "ManyToOne" in card:
            self._need(taken, right, node.rhs)
            return left | taken
        if "OneToMany" in card:
            self._need(taken, left, node.lhs)
            return right | taken
        return left if on is None else left & on

    def _called(self, node: promql.Call) -> frozenset[str]:
        name = str(node).split("(", maxsplit=1)[0]
        vectors = [argument for argument in node.args if not is_number(argument)]
        labels = frozenset().union(*(self.of(argument) for argument in vectors)) if vectors else frozenset()
        if name in ("label_replace", "label_join"):
            return labels | {str(node.args[1]).strip('"')}
        if name == "absent":
            return frozenset()
        return labels - {"le"} if name == "histogram_quantile" else labels

    def _need(self, wanted: frozenset[str], there: frozenset[str], node: promql.Expr) -> None:
        self.lost += [f"{label} in {node}" for label in sorted(wanted - there)]


def operator(node: promql.BinaryExpr) -> str:
    """As it is written: `+`, `and`, `>=`."""
    after = str(node)[len(str(node.lhs)) :].lstrip()
    return re.match(r"[a-z]+|[<>=!+*/%^-]+", after)[0]  # type: ignore[index]  # there is one


def is_number(node: promql.Expr) -> bool:
    """A literal, arithmetic of literals, or the time."""
    if str(node) == "time()":
        return True
    return all(isinstance(one, promql.NumberLiteral | promql.StringLiteral | promql.ParenExpr) for one in inside(node))


OF_ALERTS = "ALERTS"
"""The series in which Prometheus and vmalert keep every alert that fires or waits."""
KNOWN = {
    **exposed(),
    **recorded(),
    OF_ALERTS: frozenset({*ONE_POD, "model", "lane", "objective", "alertname", "alertstate", "phase", "severity"}),
}
"""Every series that a rule may read, with its labels."""
