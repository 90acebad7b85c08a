"""Exported dashboards differ from the committed ones where a flag says so, and nowhere else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sidecar.commands.export.dashboards import dashboard_files
from sidecar.commands.export.parameters import Parameters
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.rules.rule_files import files
from sidecar.commands.export.rules.severity import Severities
from sidecar.commands.export.shipped_files import DASHBOARD_RULES
from sidecar.config.quick_yaml import read_yaml
from tests.commands.export.written import export
from tests.support.shipped_rules import shipped_rules


NATIVE_FUNCTIONS = r"histogram_(?:sum|count)\("


def boards(given: Parameters) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in dashboard_files(given).items() if name.endswith(".json")}


def differences(one: Any, other: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Path to the two values, of everything that differs."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other})
        found = [differences(one.get(key), other.get(key), f"{path}.{key}") for key in keys]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = [differences(*pair, f"{path}[{at}]") for at, pair in enumerate(zip(one, other, strict=True))]
    else:
        return {} if one == other else {path: (one, other)}
    return {key: value for part in found for key, value in part.items()}


def test_the_base_of_runbooks_changes_in_links_alone() -> None:
    changed = differences(boards(Parameters()), boards(Parameters(runbook_base="https://r.example")))

    assert len(changed) > 10
    assert {after for _, after in changed.values()} == {
        before.replace(RUNBOOKS, "https://r.example") for before, _ in changed.values()
    }


def test_severities_change_in_the_annotations_of_every_dashboard() -> None:
    named = boards(Parameters(severities=Severities("critical", "warning")))
    asked = {
        name: [
            query["expr"].split('severity="')[1].split('"')[0]
            for query in board["annotations"]["list"]
            if "ALERTS" in query.get("expr", "")
        ]
        for name, board in named.items()
    }

    assert {tuple(severities) for severities in asked.values()} == {("critical", "warning")}


def test_a_chosen_data_source_is_the_one_that_every_dashboard_opens_with() -> None:
    changed = differences(boards(Parameters()), boards(Parameters(datasource="mimir")))

    assert len(changed) == len(boards(Parameters()))
    assert {json.dumps(after) for _, after in changed.values()} == {'{"text": "mimir", "value": "mimir"}'}


def test_the_folder_is_the_same_for_the_loader_and_for_the_provisioning(tmp_path: Path) -> None:
    texts = export(tmp_path, "dashboards")
    (provider,) = read_yaml(texts["provisioning/dashboards/llm.yml"])["providers"]
    kustomization = read_yaml(texts["dashboards/kustomization.yaml"])

    assert provider["folder"] == kustomization["generatorOptions"]["annotations"]["grafana_folder"] == "LLM"


@pytest.mark.parametrize("name", sorted(boards(Parameters())))
def test_every_dashboard_is_listed_in_the_kustomization(name: str, tmp_path: Path) -> None:
    kustomization = export(tmp_path, "dashboards")["dashboards/kustomization.yaml"]

    assert f"files: [{Path(name).name}]" in kustomization


def test_classic_histograms_alone_leave_the_native_ones_out_of_the_queries() -> None:
    """And out of nothing else; the rules for pictures ask in the same way."""
    changed = differences(boards(Parameters()), boards(Parameters(classic_histograms=True)))
    text = files(classic_histograms=True)[DASHBOARD_RULES]

    assert len(changed) > 50
    assert {path.rpartition(".")[2] for path in changed} == {"expr"}
    assert [after for _, after in changed.values() if re.search(NATIVE_FUNCTIONS, after)] == []
    assert re.search(NATIVE_FUNCTIONS, text) is None
    assert text.count("- record:") == shipped_rules()[DASHBOARD_RULES].count("- record:")
