"""The queries of the runbooks ask for series and labels that exist, and Prometheus understands them."""

import re
import subprocess
from pathlib import Path

import promql_parser as promql
import pytest
import yaml

from sidecar.admin.runbook_labels import PLACE
from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.confirming import CHECKS
from sidecar.metrics.catalogue import CATALOGUE
from sidecar.metrics.declaration import Histogram
from tests.admin.runbook_parts import CHECKED, NAMES, TEXTS, each_runbook, fenced, sections
from tests.grafana.forms import of_classic_alone
from tests.support.tools import need_tool


RULE_FILES = [Path(__file__).parents[2] / "alert_rules" / name for name in ("llm-recording.yml", "llm-alerts.yml")]
TARGET_LABELS = {"namespace", "job", "pod"}
"""Labels that Prometheus adds."""
CONSTANT_LABELS = {"quantization", "gpu_type"}
NOT_OURS = {"up": set(), "ALERTS": {"alertname", "alertstate"}, "prometheus_notifications_dropped_total": set()}
RECORDED = {
    "lane:llm_slo_waited_in:ratio": {"namespace", "job", "model", "lane", "objective", "phase"},
    "workload:llm_sidecar:wanted": {"namespace", "job", "workload"},
}
"""Series that `alert_rules/` record, with their labels."""


def declared() -> dict[str, set[str]]:
    """Series name to labels, for every series that the sidecar exposes."""
    found: dict[str, set[str]] = {}
    for metric in CATALOGUE:
        labels = {label.name for label in metric.labels} | TARGET_LABELS | CONSTANT_LABELS
        if isinstance(metric, Histogram):
            found |= {f"{metric.name}{suffix}": labels for suffix in ("", "_sum", "_count")}
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.name] = labels
    return found


KNOWN = declared() | RECORDED | {other: labels | TARGET_LABELS for other, labels in NOT_OURS.items()}
"""Series name to labels, for every series that a query may use."""


def queries(name: str) -> list[str]:
    """The queries under Confirm, with example values in place of the page's labels."""
    fences = fenced(sections(TEXTS[name])["Confirm"])
    return [re.sub(r"\$(namespace|job|model|lane|pod)\b", "x", query) for _, query in fences]


def nodes_of(query: str) -> list[promql.Expr]:
    """All nodes of the query's parsed expression."""
    return inside(promql.parse(query))


def inside(expression: promql.Expr) -> list[promql.Expr]:
    """This expression and all expressions inside it."""
    found: list[promql.Expr] = []

    def visit_one(node: promql.Expr) -> bool:
        found.append(node)
        return True

    promql.walk(expression, visit_one)
    return found


@each_runbook
def test_two_queries_confirm_and_each_says_what_to_expect(name: str) -> None:
    """There is no third query, and none outside of Confirm."""
    confirm = sections(TEXTS[name])["Confirm"]
    after = re.split(r"^```$", confirm, flags=re.MULTILINE)[1:]

    assert TEXTS[name].count("```promql") == len(queries(name)) == 2
    assert [text.strip().startswith("Expect ") for text in after] == [True, True]


@each_runbook
def test_every_query_asks_for_series_and_labels_that_exist(name: str) -> None:
    """Metrics are in the catalogue and have these labels; recorded series are in the contract of the rules."""
    unknown = []
    for query in queries(name):
        for node in nodes_of(query):
            if isinstance(node, promql.VectorSelector):
                series = node.name or ""
                labels = {matcher.name for matcher in node.matchers.matchers}
                unknown += [series] if series not in KNOWN else [f"{series}: {x}" for x in labels - KNOWN[series]]

    assert unknown == []


@each_runbook
def test_every_query_groups_by_labels_that_its_series_carry(name: str) -> None:
    lost = []
    for query in queries(name):
        for node in nodes_of(query):
            if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
                names = [n.name or "" for n in inside(node.expr) if isinstance(n, promql.VectorSelector)]
                lost += [f"{name}: {x}" for name in names for x in set(node.modifier.labels) - KNOWN[name]]

    assert lost == []


@each_runbook
def test_what_is_read_of_a_classic_histogram_is_read_of_a_native_one_too(name: str) -> None:
    """Prometheus may have stored either: with the same labels, by the function that reads the same."""
    assert [str(one) for query in queries(name) for one in of_classic_alone(promql.parse(query), [])] == []


@pytest.mark.parametrize(
    "query",
    [
        "rate(llm_request_seconds_sum[5m]) or histogram_count(rate(llm_request_seconds[5m]))",
        'rate(llm_request_seconds_sum{lane="x"}[5m]) or histogram_sum(rate(llm_request_seconds{lane=~"x"}[5m]))',
        "sum(rate(llm_request_seconds_bucket[5m])) or sum(rate(llm_request_seconds[5m]))",
    ],
)
def test_another_function_or_label_is_noticed(query: str) -> None:
    assert [one.name for one in of_classic_alone(promql.parse(query), [])] != []


@each_runbook
def test_a_bucket_that_is_named_is_an_edge(name: str) -> None:
    """A wrong `le` is no error for Prometheus: the query returns nothing."""
    edges = {f"{m.name}_bucket": {float(edge) for edge in m.buckets} for m in CATALOGUE if isinstance(m, Histogram)}
    wrong = []
    for query in queries(name):
        for series, value in re.findall(r'(\w+)\{[^}]*\ble=~?"([^"]+)"', query):
            wrong += [f"{series} {le}" for le in value.split("|") if float(le) not in edges[series]]

    assert wrong == []


def test_prometheus_itself_understands_every_query(tmp_path: Path) -> None:
    promtool = need_tool("promtool")
    rules = [
        {"record": f"shown:{name}:{number}", "expr": query}
        for name in NAMES
        for number, query in enumerate(queries(name))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))

    answer = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)

    assert f"{2 * len(NAMES)} rules found" in answer.stdout, answer.stdout + answer.stderr


def test_the_recorded_series_are_recorded() -> None:
    recorded = {
        rule.get("record")
        for file in RULE_FILES
        for group in read_yaml(file.read_text())["groups"]
        for rule in group["rules"]
    }
    mentioned = {series for text in TEXTS.values() for series in re.findall(r"\b\w+:llm_\w+:\w+", text)}

    assert RECORDED.keys() <= mentioned
    assert mentioned - recorded == set()


@pytest.mark.parametrize("name", TEXTS)
def test_every_metric_that_is_mentioned_exists(name: str) -> None:
    mentioned = set(re.findall(r"\bllm_[a-z_]+\b", re.sub(r"\w+:llm_\w+", "", TEXTS[name])))
    known = {metric.name for metric in CATALOGUE} | declared().keys()

    assert mentioned - known == set()


@each_runbook
def test_a_query_about_a_namespace_asks_for_one_engine_of_it(name: str) -> None:
    """Two engines of one namespace differ by job; a query without it would mix them."""
    assert [query for query in queries(name) if "namespace=" in query and "job=" not in query] == []


# --- checks --------------------------------------------------------------------------------------------------------------

ONLY_PROMETHEUS = {
    "LLMPromptsGrowing": "a week",
    "LLMSidecarAbsent": "the targets of Prometheus",
    "LLMSidecarDown": "the target, and an engine whose sidecar does not answer",
    "LLMSidecarNeverScraped": "the target",
    "Watchdog": "Prometheus itself",
}
"""Runbooks whose queries a sidecar cannot answer: it knows its own last half hour, and these ask about something else."""


def test_every_query_names_its_check_and_every_check_is_used() -> None:
    """Else a query would be without the answer of the pod, or a function without a reader."""
    unnamed = {name for name in NAMES for check, _ in fenced(TEXTS[name]) if not check}

    assert unnamed == {*ONLY_PROMETHEUS}
    assert {name for _, name, _ in CHECKED} & unnamed == set()
    assert {check for check, _, _ in CHECKED} == {*CHECKS}


def test_a_place_for_a_label_stands_in_a_query_and_between_quotes() -> None:
    """Values are escaped for that place; in a shell command or a sentence they would not be."""
    unquoted = [name for name in NAMES if PLACE.search(re.sub(rf'"{PLACE.pattern}"', "", TEXTS[name]))]
    outside = [
        name
        for name in NAMES
        if PLACE.search(re.sub(r"^```promql.*?^```$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL))
    ]

    assert (unquoted, outside) == ([], [])
