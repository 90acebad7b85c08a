"""The objects that `kubectl apply -k` creates hold the committed files, as the kustomize inside kubectl makes them."""

import json
from pathlib import Path

from sidecar.config.quick_yaml import read_yaml
from tests.support.kustomize import keyed, made


CHECKOUT = Path(__file__).parents[1]
DASHBOARDS = CHECKOUT / "grafana" / "dashboards"
ALERT_RULES = CHECKOUT / "alert_rules"
CONFIG_MAP_BYTES = 1 << 20
"""The most bytes that Kubernetes takes in one ConfigMap."""


def test_each_dashboard_is_a_config_map_that_grafanas_loader_finds() -> None:
    """Grafana's loader looks for this label, and the annotation names the folder that the provisioning uses."""
    provisioning = read_yaml((DASHBOARDS.parent / "provisioning" / "dashboards" / "llm.yml").read_text())
    (provider,) = provisioning["providers"]

    assert made(DASHBOARDS) == {
        ("ConfigMap", f"grafana-dashboard-{file.stem}"): {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"grafana-dashboard-{file.stem}",
                "labels": {"app.kubernetes.io/name": "llm-phase-sidecar", "grafana_dashboard": "1"},
                "annotations": {"grafana_folder": provider["folder"]},
            },
            "data": {file.name: file.read_text()},
        }
        for file in DASHBOARDS.glob("*.json")
    }


def test_each_dashboard_fits_into_its_config_map() -> None:
    sizes = {name: len(json.dumps(config_map)) for (_, name), config_map in made(DASHBOARDS).items()}

    assert {name: size for name, size in sizes.items() if size >= CONFIG_MAP_BYTES} == {}


def test_the_operator_gets_the_objects_as_they_are_committed() -> None:
    """All but the one that is optional, the rules for pictures."""
    files = {file for file in (ALERT_RULES / "kubernetes").glob("*.yaml") if file.name != "dashboard-rule.yaml"}

    assert len(files) == 2
    assert made(ALERT_RULES) == keyed([read_yaml(file.read_text()) for file in files])


def test_the_messages_are_a_config_map_for_the_alertmanager() -> None:
    """The README mounts the ConfigMap by this name."""
    templates = {file.name: file.read_text() for file in (ALERT_RULES / "templates").glob("*.tmpl")}

    assert made(ALERT_RULES / "templates") == {
        ("ConfigMap", "llm-alertmanager-templates"): {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "llm-alertmanager-templates"},
            "data": templates,
        }
    }
    assert "spec.configMaps: [llm-alertmanager-templates]" in (ALERT_RULES / "README.md").read_text()
