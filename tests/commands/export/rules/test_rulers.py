"""The limits of each ruler: the rules that are written for it keep its limits, each of which stands with its source in the table."""

import re
from typing import Any

import pytest
import yaml

from sidecar.commands.export.manifests import all_files, rule_texts
from sidecar.commands.export.parameters import Parameters
from sidecar.commands.export.rules.evaluation import in_seconds
from sidecar.commands.export.rules.rulers import GMP, RULERS, Ruler
from sidecar.config.quick_yaml import read_yaml


each_ruler = pytest.mark.parametrize("ruler", RULERS.values(), ids=lambda ruler: ruler.name)
RULES_OF_GMP = {"record", "alert", "expr", "for", "labels", "annotations"}
"""The fields of `Rule` in prometheus-engine's rules_types.go; a field that it does not know is refused by kubectl."""


def groups_of(ruler: Ruler) -> list[dict[str, Any]]:
    texts = rule_texts(Parameters(ruler=ruler.name))
    return [group for name, text in texts.items() if "/" not in name for group in read_yaml(text)["groups"]]


@each_ruler
def test_the_rules_keep_the_limits_of_their_ruler(ruler: Ruler) -> None:
    groups = groups_of(ruler)
    rules = [rule for group in groups for rule in group["rules"]]
    holds = [in_seconds(rule["for"].replace("2h", "120m")) for rule in rules if "for" in rule]
    annotations = [text for rule in rules for text in rule.get("annotations", {}).values()]
    found = {
        "rules in a group": (max(len(group["rules"]) for group in groups), ruler.most_rules),
        "groups": (len(groups), ruler.most_groups),
        "characters of a text": (max(map(len, annotations)), ruler.most_text_characters),
    }

    assert {what: numbers for what, numbers in found.items() if numbers[1] and numbers[0] > numbers[1]} == {}
    assert min(in_seconds(group["interval"]) for group in groups) >= ruler.least_interval_seconds
    assert min(holds) >= ruler.least_hold_seconds
    assert any("keep_firing_for" in rule for rule in rules) is ruler.keeps_firing


@each_ruler
def test_every_alert_and_every_series_is_there_for_each_ruler(ruler: Ruler) -> None:
    def names(groups: list[dict[str, Any]]) -> list[str]:
        return sorted(rule.get("alert") or rule["record"] for group in groups for rule in group["rules"])

    assert names(groups_of(ruler)) == names(groups_of(RULERS["prometheus"]))


def test_the_object_for_google_has_its_kind_and_no_other_field() -> None:
    made = yaml.safe_load(rule_texts(Parameters(ruler=GMP.name))["kubernetes/prometheus-rule.yaml"])
    groups = made["spec"]["groups"]

    assert (made["apiVersion"], made["kind"]) == ("monitoring.googleapis.com/v1", "ClusterRules")
    assert "namespace" not in made["metadata"]
    assert {key for group in groups for key in group} == {"name", "interval", "rules"}
    assert {key for group in groups for rule in group["rules"] for key in rule} == RULES_OF_GMP


@each_ruler
def test_a_kustomization_lists_the_rules_only_where_they_are_an_object(ruler: Ruler) -> None:
    texts = all_files(Parameters(ruler=ruler.name))
    listed = re.search(
        r"^  - (kubernetes/prometheus-rule\.yaml)$", texts["alert_rules/kustomization.yaml"], re.MULTILINE
    )

    assert (listed is not None) is ruler.reads_objects is ("alert_rules/kubernetes/prometheus-rule.yaml" in texts)


@each_ruler
def test_the_commands_that_load_the_rules_name_files_that_are_written(ruler: Ruler) -> None:
    texts = rule_texts(Parameters(ruler=ruler.name))
    named = {name for command in ruler.load for name in re.findall(r"\{rules\}/(\S+)", command)}

    assert named - {*texts} == set()
    assert named >= {"llm-recording.yml", "llm-alerts.yml"} or named == {"kubernetes/prometheus-rule.yaml"}
