"""The links in an alert: Prometheus itself writes the labels into them, and the sidecar's runbook takes every one of them."""

import re
import subprocess
from pathlib import Path
from urllib.parse import parse_qsl, quote_plus, urlsplit

import pytest
import yaml

from sidecar.admin.runbook_labels import LINK_LABELS, asked
from sidecar.commands.export.rules.pages import BURN_ALERTS
from tests.alert_rules.alert_table import ALERTS
from tests.alert_rules.promtool import filled_in
from tests.alert_rules.syntax import rules
from tests.support.tools import need_tool


LINKS = {rule.name: rule.fields["annotations"]["runbook_url"] for rule in rules() if not rule.is_record}
CARRIED = {one.name: one.labels for one in ALERTS}
LABELS_OF_ONE = {
    "cluster": "arn:aws:eks:eu-west-1:1:cluster/llm",
    "namespace": "llm-prod",
    "job": "monitoring/vllm",
    "model": "meta-llama/Llama 3.1:8b+awq & more",
    "lane": "a lane / of 100 %",
    "pod": "vllm-0",
    "objective": "ttft",
}
"""Names that break a link unless they are encoded."""


def told(name: str) -> dict[str, str]:
    """The labels in the link of this alert, with the values above."""
    pod = {"pod"} if name in BURN_ALERTS.values() else set()
    carried = {*CARRIED[name], *pod}
    return {label: LABELS_OF_ONE[label] for label in LINK_LABELS if label in carried}


def link(name: str) -> str:
    """The link as it must come out of Prometheus."""
    return re.sub(r"{{\$m := .*{{ end }}$", quote_plus(LABELS_OF_ONE["pod"]), filled_in(LINKS[name], LABELS_OF_ONE))


@pytest.mark.parametrize("name", LINKS)
def test_the_link_of_an_alert_fills_its_runbook_in(name: str) -> None:
    """Each label that the alert carries is in the link, and the runbook of a sidecar with this lane and model takes it."""
    url = urlsplit(link(name))

    found = asked(parse_qsl(url.query), (LABELS_OF_ONE["lane"], "x", "other"), (LABELS_OF_ONE["model"], "x", "other"))

    assert url.path == f"/runbooks/{name}"
    assert (found.given, found.refused) == (told(name), ())


def test_prometheus_writes_the_links_so(tmp_path: Path) -> None:
    """`urlquery` is a function of Go's templates: promtool would refuse, or print, one that there is not."""
    matchers = ",".join(f'{label}="{value}"' for label, value in LABELS_OF_ONE.items())
    played = [
        {"alert": name, "expr": "up + 0 == 0", "annotations": {"runbook_url": template}}
        for name, template in LINKS.items()
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "links", "rules": played}]}))
    series = [
        {"series": f"up{{{matchers}}}", "values": "0x10"},
        {"series": f'lane:llm_page:facts{{is="n_pod",{matchers}}}', "values": "2x10"},
    ]
    expected = [
        {
            "eval_time": "10m",
            "alertname": name,
            "exp_alerts": [{"exp_labels": LABELS_OF_ONE, "exp_annotations": {"runbook_url": link(name)}}],
        }
        for name in LINKS
    ]
    test = {
        "rule_files": ["rules.yml"],
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": expected}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))

    answer = subprocess.run(
        [need_tool("promtool"), "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True, check=False
    )

    assert (answer.returncode, len(LINKS) > 25) == (0, True), answer.stdout + answer.stderr
