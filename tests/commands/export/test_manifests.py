"""Exported objects: kustomize makes them, Prometheus takes the rules, and each flag reaches every file that it concerns."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.export.manifests import kubernetes_files
from sidecar.commands.export.parameters import Parameters
from sidecar.config.quick_yaml import read_yaml
from tests.commands.export.receiver_sets import SHIPPED_AND_SETS, flags_of
from tests.commands.export.written import export, kustomizations
from tests.support.kustomize import Objects, made
from tests.support.schemas import refused
from tests.support.tools import need_newer, need_tool


pytestmark = pytest.mark.long


TEAM = (
    *("--namespace=inference", "--release=prom"),
    *("--receivers=slack", "--severity.page=critical", "--severity.ticket=warning"),
    *("--runbook-base=https://r.example.org", "--grafana-base=https://g.example.org", "--datasource=mimir"),
)
"""Every parameter of a team's own."""
FLAGS = {"default": (), "VictoriaMetrics": ("--no-keep-firing", "--classic-histograms"), "a team's": TEAM}


@pytest.mark.parametrize("tool", [need_tool, need_newer], ids=["Prometheus 2.42", "Prometheus 3"])
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_prometheus_takes_the_rules_of_every_set_of_flags(flags: tuple[str, ...], tool: Any, tmp_path: Path) -> None:
    texts = export(tmp_path, "rules", *flags)
    rule_files = [str(tmp_path / name) for name in texts if name.endswith(".yml")]
    command = [str(tool("promtool")), "check", "rules", *rule_files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (len(rule_files), done.returncode) == (3, 0), done.stdout + done.stderr


def test_flags_of_rules_reach_every_rule(tmp_path: Path) -> None:
    texts = export(tmp_path, "rules", *TEAM, "--no-keep-firing")
    alerts = [
        rule for group in read_yaml(texts["llm-alerts.yml"])["groups"] for rule in group["rules"] if "alert" in rule
    ]

    def links(name: str, beginning: str) -> set[str]:
        return {found for rule in alerts for found in re.findall(rf"^{beginning}", rule["annotations"][name])}

    in_the_object = read_yaml(texts["kubernetes/prometheus-rule.yaml"])

    assert {rule["labels"]["severity"] for rule in alerts} == {"critical", "warning", "none"}
    assert {asked for rule in alerts for asked in re.findall('severity="(.+?)"', rule["expr"])} == {"critical"}
    assert links("runbook_url", r"https://[\w.]+") == {"https://r.example.org"}
    assert links("dashboard_url", r"https://[\w.]+/d/") == {"https://g.example.org/d/"}
    assert [rule["alert"] for rule in alerts if "keep_firing_for" in rule] == []
    assert [rule for group in in_the_object["spec"]["groups"] for rule in group["rules"] if "alert" in rule] == alerts
    assert in_the_object["metadata"]["labels"]["release"] == "prom"


def every_object(folder: Path, *flags: str) -> dict[str, Objects]:
    """The objects of every folder that is exported with these flags, by its path."""
    export(folder, "kubernetes", *flags)
    return {str(each.relative_to(folder)): made(each) for each in kustomizations(folder)}


@pytest.fixture(scope="module")
def a_teams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Objects]:
    return every_object(tmp_path_factory.mktemp("team"), *TEAM)


def test_kubernetes_and_the_operators_take_every_object_of_a_team(a_teams: dict[str, Objects]) -> None:
    assert_all_are_taken(a_teams)


@pytest.mark.thorough
def test_kubernetes_and_the_operators_take_every_object_of_every_folder(tmp_path: Path) -> None:
    """Those are the committed ones (test_the_defaults_are_the_committed_files), which test_manifest_schemas.py judges."""
    assert_all_are_taken(every_object(tmp_path))


def assert_all_are_taken(objects: dict[str, Objects]) -> None:
    """Strictly: a field that a schema does not know is refused."""
    refusals = {
        (folder, *key): found
        for folder, found_in in objects.items()
        for key, one in found_in.items()
        if (found := refused(one))
    }

    assert {"deploy/base", "deploy/monitoring", "deploy/alertmanager", "grafana/dashboards"} <= objects.keys()
    assert [folder for folder, found in objects.items() if not found] == []
    assert refusals == {}


@pytest.mark.parametrize("kinds", SHIPPED_AND_SETS.values(), ids=SHIPPED_AND_SETS)
def test_the_operator_takes_the_routes_of_every_set_of_receivers(kinds: tuple[str, ...], tmp_path: Path) -> None:
    """The rest of what is written does not depend on them (test_export_command_live.py)."""
    export(tmp_path, "kubernetes", *flags_of(kinds))
    (routes,) = made(tmp_path / "deploy/alertmanager").values()

    assert (routes["kind"], refused(routes)) == ("AlertmanagerConfig", [])


def test_a_namespace_and_a_release_of_a_teams_own_are_those_of_all_objects(
    a_teams: dict[str, Objects], tmp_path: Path
) -> None:
    """Namespaces but for the ConfigMap of messages, which belongs to the Alertmanager, wherever that is."""
    export(tmp_path, "kubernetes", "--namespace=inference")
    messages = made(tmp_path / "alert_rules/templates")
    everything = [one for found in a_teams.values() for one in found.values()]
    operators = [one for one in everything if one["apiVersion"].startswith("monitoring.coreos.com/")]

    assert {one["metadata"].get("namespace") for one in everything} == {"inference"}
    assert {one["metadata"].get("namespace") for one in messages.values()} == {None}
    assert {one["kind"] for one in operators} == {"PodMonitor", "PrometheusRule", "AlertmanagerConfig"}
    assert {one["metadata"]["labels"]["release"] for one in operators} == {"prom"}


@pytest.mark.parametrize("name", ["42", "true", "1e3"])
def test_a_name_that_yaml_would_read_as_a_number_or_a_boolean_stays_text(name: str, tmp_path: Path) -> None:
    """A label must be text: `release: 42` was made, which a cluster refuses, and kustomize refuses such a namespace."""
    namespace = name if name != "1e3" else "42"
    export(tmp_path, "all", f"--namespace={namespace}", f"--release={name}")
    objects = made(tmp_path / "deploy/monitoring")
    labels = {one["metadata"]["labels"]["release"] for (kind, _), one in objects.items() if kind == "PodMonitor"}

    assert {one["metadata"]["namespace"] for one in objects.values()} == {namespace}
    assert labels == {name}


def test_the_dashboards_alone_have_the_namespace_too(tmp_path: Path) -> None:
    export(tmp_path, "dashboards", "--namespace=monitoring")

    assert {one["metadata"]["namespace"] for one in made(tmp_path / "dashboards").values()} == {"monitoring"}


def test_the_defaults_are_the_committed_files() -> None:
    texts = kubernetes_files(Parameters())
    root = Path(__file__).parents[3]

    assert texts == {path: (root / path).read_text() for path in texts}
