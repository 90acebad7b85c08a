"""Other names of the labels that tell clusters apart: every place that names `cluster` names them, and nothing else changes."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml

from sidecar.commands.export.dashboards import dashboard_files
from sidecar.commands.export.identity_labels import Identity
from sidecar.commands.export.parameters import Parameters, errors
from sidecar.commands.export.routes import ROUTES, route_files
from sidecar.commands.export.rules.rule_files import files
from sidecar.config.quick_yaml import read_yaml
from tests.alert_rules.promtool import Scenario, Suite, run
from tests.alert_rules.suites import clusters, words
from tests.grafana.boards import with_durations
from tests.grafana.series import matched, selectors


RENAMED = Identity("k8s_cluster")
WIDER = Identity("k8s_cluster", ("region", "zone"))


def exported(identity: Identity, kinds: tuple[str, ...] = ()) -> dict[str, str]:
    """Rules, routes, messages and dashboards."""
    given = Parameters(identity=identity, receivers=kinds)
    return files(identity=identity) | route_files(given) | dashboard_files(given)


def content(name: str, text: str) -> Any:
    """The text; of an object for Kubernetes its data, because a longer name may need another line."""
    return read_yaml(text) if name.startswith("kubernetes/") else text


def with_shipped_names(text: str) -> str:
    """A text of `RENAMED` as it would be without the flag."""
    return text.replace("label.k8s_cluster=", "cluster=").replace("k8s_cluster", "cluster")


@pytest.mark.parametrize("kinds", [(), ("slack", "pagerduty")], ids=["shipped", "pruned"])
def test_another_name_changes_the_name_and_nothing_else(kinds: tuple[str, ...]) -> None:
    """The words of a message still call it a cluster."""
    shipped, renamed = exported(Identity(), kinds), exported(RENAMED, kinds)
    kept = {name for name in shipped if shipped[name] == renamed[name]}

    assert {name: content(name, with_shipped_names(text)) for name, text in renamed.items()} == {
        name: content(name, text) for name, text in shipped.items()
    }
    assert {name.partition("/")[0] for name in kept if not name.endswith("kustomization.yaml")} == {
        "provisioning",
        "canary",
    }


def test_no_place_is_left_that_asks_for_the_shipped_name() -> None:
    """`cluster` is then a word of sentences, of titles, and of comments alone."""
    left = {found[0] for text in exported(RENAMED).values() for found in re.finditer(r".{6}\bcluster\b.{5}", text)}

    assert left == {"r }}, cluster {{ .", "r }}, cluster {{ t", ". The cluster is l"}


def expressions(texts: Mapping[str, str]) -> list[str]:
    """Every expression of rules and panels."""
    rules = [
        rule["expr"]
        for name, text in texts.items()
        if name.startswith("llm-")
        for group in read_yaml(text)["groups"]
        for rule in group["rules"]
    ]
    boards = [json.loads(text) for name, text in texts.items() if name.endswith(".json")]
    panels = [target["expr"] for board in boards for panel in board["panels"] for target in panel.get("targets", ())]
    return rules + panels


def test_further_labels_stand_beside_the_name_in_every_expression() -> None:
    """Each list of labels and each selector has all of them, or none; whether there are several namespaces is asked of that label alone."""
    found = expressions(exported(WIDER))
    lists = [one for expr in found for one in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr) if "namespace" in one]
    chosen = [matched(one) for expr in found for one in selectors(promql.parse(with_durations(expr)))]
    narrowed = [one for one in chosen if "namespace" in one]

    assert {one.startswith("k8s_cluster, region, zone, namespace") for one in lists if one != "namespace"} == {True}
    assert {tuple(one.get(name) for name in WIDER.names) for one in narrowed} == {
        ('=~"$k8s_cluster"', '=~"$region"', '=~"$zone"')
    }
    assert (len(found) > 300, len(lists) > 1000, len(narrowed) > 500) == (True,) * 3


def test_each_label_is_a_variable_and_stays_in_links_of_every_dashboard() -> None:
    boards = [json.loads(text) for name, text in exported(WIDER).items() if name.endswith(".json")]
    variables = [[one["name"] for one in board["templating"]["list"]][1:4] for board in boards]
    titles = {one["label"] for board in boards for one in board["templating"]["list"] if one["name"] in WIDER.names}
    texts = [json.dumps(board) for board in boards]

    assert variables == [[*WIDER.names]] * len(boards)
    assert titles == {"Cluster", "Region", "Zone"}
    assert {text.count("var-k8s_cluster=") == text.count("var-zone=") for text in texts} == {True}
    assert any("?label.k8s_cluster=${__data.fields.k8s_cluster}&label.region=" in text for text in texts)


def test_routes_group_and_mute_within_all_of_them() -> None:
    config = read_yaml(route_files(Parameters(identity=WIDER))[ROUTES])
    equal = {tuple(rule["equal"]) for rule in config["inhibit_rules"]}

    assert config["route"]["group_by"] == [*WIDER.names, "namespace", "job", "phase"]
    assert equal == {(*WIDER.names, "namespace", "job", *own) for own in ((), ("pod",), ("model", "lane"))}


# --- what Prometheus makes of it --------------------------------------------------------------------------------------------


def played(suite: Suite, names: set[str], rules: Mapping[str, str], renamed: Mapping[str, str], folder: Path) -> str:
    """The complaints of promtool about scenarios under these rules, with the texts of series and expectations changed so."""
    for rule_file in suite.rules:
        (folder / rule_file).write_text(rules[rule_file])
    scenarios: list[Scenario] = [one for one in suite.scenarios if one.name in names]
    assert {one.name for one in scenarios} == names
    document = yaml.safe_dump(suite.document([*suite.rules], suite.groups, scenarios), width=10_000)
    for one, other in renamed.items():
        assert one in document
        document = document.replace(one, other)
    (folder / "test.yml").write_text(document)
    return run(folder / "test.yml")


@pytest.mark.long
def test_four_clusters_by_another_label_are_told_apart(tmp_path: Path) -> None:
    """Which has no `cluster`: only the label that the flag adds tells these four apart."""
    rules = files(identity=Identity(extra=("region",)))
    renamed = {'cluster="': 'region="'}

    assert played(clusters.SUITE, {"one-of-four-clusters-misses-all"}, rules, renamed, tmp_path) == ""


@pytest.mark.long
def test_a_message_names_the_cluster_and_its_links_ask_for_the_fleets_own_label(tmp_path: Path) -> None:
    renamed = {
        'cluster="': 'k8s_cluster="',
        "cluster: us": "k8s_cluster: us",
        "?cluster=us": "?label.k8s_cluster=us",
        "var-cluster=us": "var-k8s_cluster=us",
    }

    assert played(words.SUITE, {"a-queue-of-one-cluster"}, files(identity=RENAMED), renamed, tmp_path) == ""


# --- without the label ------------------------------------------------------------------------------------------------------


def that_know_no_cluster(texts: Mapping[str, str]) -> dict[str, str]:
    """Rules as if there were no such label: it stands in no list, matcher, text and link."""
    parts = (
        r"{{-? with [$.\w]*\.cluster }}.*?{{ end }}",
        r"\bcluster,\s+(?=namespace)",
        r"\bcluster=%q,",
        r'\s+\(or\s+\$labels\.cluster\s+""\)',
    )
    made = {name: re.sub("|".join(parts), "", text) for name, text in texts.items()}
    assert not any(re.search(r"\bcluster[,=]|\.cluster\b", text) for text in made.values())
    return made


@pytest.mark.long
def test_without_the_label_each_alert_has_the_words_that_rules_without_it_give(tmp_path: Path) -> None:
    """The scenarios hold the shipped rules to the same words, labels and links."""
    rules = that_know_no_cluster({name: text for name, text in files().items() if name in words.SUITE.rules})
    names = {"dear-prompts", "roots-that-are-split", "one-pod-of-two", "an-engine-that-rejects"}

    assert played(words.SUITE, names, rules, {}, tmp_path) == ""


# --- what is refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identity", "complaint"),
    [
        (Identity(""), "--cluster-label: '' is no name of a label: letters, digits and _"),
        (Identity("k8s-cluster"), "--cluster-label: 'k8s-cluster' is no name of a label"),
        (Identity(extra=("1st",)), "--extra-labels: '1st' is no name of a label"),
        (Identity(extra=("x" * 65,)), "at most 64"),
        (Identity(extra=("__replica__",)), "--extra-labels: '__replica__' is no name of a label"),
        (Identity(extra=("prometheus_replica",)), "tells the halves of an HA pair apart: both must send the same alert"),
        (Identity("namespace"), "--cluster-label: 'namespace' says something else in these rules"),
        (Identity(extra=("lane",)), "--extra-labels: 'lane' says something else in these rules"),
        (Identity(extra=("severity",)), "allowed is a label that scraping adds, such as region"),
        (Identity(extra=("region", "cluster")), "--cluster-label and --extra-labels name 'cluster' twice"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_refused_with_what_is_allowed(identity: Identity, complaint: str) -> None:
    (said,) = errors(Parameters(identity=identity))

    assert complaint in said


def test_all_wrong_names_are_told_at_once() -> None:
    found = errors(Parameters(identity=Identity("a b", ("pod", "region", "region", "replica"))))

    assert [said.split("'")[1] for said in found] == ["a b", "pod", "replica", "region"]
