"""The smoke script for people who have Docker: it cannot be run here, but what it names is there."""

import subprocess

from sidecar.config.quick_yaml import read_yaml
from tests.grafana.boards import GRAFANA


SMOKE = GRAFANA / "smoke"


def test_the_script_is_bash() -> None:
    checked = subprocess.run(["bash", "-n", str(SMOKE / "smoke.sh")], capture_output=True, check=False, timeout=30)

    assert (checked.returncode, checked.stderr) == (0, b"")


def test_everything_that_is_mounted_exists() -> None:
    compose = read_yaml((SMOKE / "docker-compose.yml").read_text())
    mounted = [volume.split(":")[0] for service in compose["services"].values() for volume in service["volumes"]]

    assert [path for path in mounted if not (SMOKE / path).exists()] == []
    assert len(mounted) == 5


def test_dashboards_are_mounted_where_the_provider_looks() -> None:
    compose = read_yaml((SMOKE / "docker-compose.yml").read_text())
    provider = read_yaml((GRAFANA / "provisioning" / "dashboards" / "llm.yml").read_text())["providers"][0]
    targets = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]

    assert provider["options"]["path"] in targets


def test_the_linters_rules_that_are_excluded_say_why() -> None:
    """Job and instance only: their place is taken by namespace and pod."""
    excluded = read_yaml((GRAFANA / "dashboards" / ".lint").read_text())["exclusions"]

    assert set(excluded) == {"template-job-rule", "template-instance-rule", "target-job-rule", "target-instance-rule"}
    assert all(rule["reason"] for rule in excluded.values())
