"""A message that is inlined says what the shipped template says, character by character, as amtool renders both."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.commands.export.inlined import definitions, inlined
from sidecar.commands.export.routes import MESSAGES
from sidecar.commands.export.shipped_files import ALERT_RULES, shipped
from sidecar.config.quick_yaml import read_yaml
from tests.support.tools import need_tool


TEXT = (shipped(ALERT_RULES) / MESSAGES).read_text()
BODIES = definitions(TEXT)


def group(count: int, *, over: bool) -> dict[str, Any]:
    """A group of alerts as Alertmanager hands it to a template; the second of three burns most."""
    labels = {"alertname": "LLMQueueBurn", "phase": "queue", "severity": "page", "job": "llama", "lane": "chat"}
    alerts = [
        {
            "status": "resolved" if over or one == 0 else "firing",
            "labels": labels | {"pod": f"llama-{one}"},
            "annotations": {
                "summary": f"<{one}> & more",
                "description": "They waited." if one else "",
                "rank": "first" if one == 1 else "",
                "runbook_url": f"https://r.example/{one}",
                "dashboard_url": f"https://g.example/{one}",
            },
        }
        for one in range(count)
    ]
    status = "resolved" if over or count == 1 else "firing"
    return {"receiver": "x", "status": status, "alerts": alerts, "groupLabels": {}, "commonLabels": labels,
            "commonAnnotations": {}, "externalURL": "http://a"}  # fmt: skip


def rendered(text: str, alerts: dict[str, Any], folder: Path, *templates: str) -> str:
    data = folder / "group.json"
    data.write_text(json.dumps(alerts))
    command = [str(need_tool("amtool")), "template", "render", *templates, f"--template.data={data}"]
    done = subprocess.run(
        [*command, f"--template.text={text}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


OF_ONE = re.compile(r"\.(labels|alert|also|escaped|name|line|far|mutes)$")
"""Ends of the names of templates that are about one alert, or a part of a text."""


@pytest.mark.parametrize("name", sorted(name for name in BODIES if OF_ONE.search(name) is None))
def test_an_inlined_message_is_the_shipped_one(name: str, tmp_path: Path) -> None:
    """Also after a way through YAML, which could take white space at the ends of a block."""
    field = f'{{{{ template "{name}" . }}}}'
    text = read_yaml(yaml.safe_dump(inlined(field, BODIES)))
    shipped_templates = f"--template.glob={shipped(ALERT_RULES) / MESSAGES}"
    empty = tmp_path / "empty.tmpl"
    empty.write_text("")
    groups = [group(1, over=True), group(3, over=False), group(13, over=False), group(13, over=True)]

    own = [rendered(text, one, tmp_path, f"--template.glob={empty}") for one in groups]

    assert own == [rendered(field, one, tmp_path, shipped_templates) for one in groups]
    assert len(set(own)) > 1


def test_every_template_of_the_file_is_found() -> None:
    assert list(BODIES) == [line.split('"')[1] for line in TEXT.splitlines() if line.startswith("{{ define")]


def test_a_field_that_is_no_template_stays() -> None:
    entry = {"channel": "#x", "send_resolved": True, "links": [{"href": '{{ template "a" . }}', "text": "b"}]}

    assert inlined(entry, {"a": "{{ .A }}"}) == entry | {"links": [{"href": "{{ .A }}", "text": "b"}]}


def test_a_template_that_is_used_twice_is_defined_once_and_before_its_use() -> None:
    bodies = {"a": '{{ template "b" . }}{{ template "c" . }}', "b": '{{ template "c" . }}', "c": "x"}

    assert inlined('{{ template "a" . }}', bodies) == (
        '{{- define "c" -}}\nx\n{{- end -}}\n'
        '{{- define "b" -}}\n{{ template "c" . }}\n{{- end -}}\n'
        '{{ template "b" . }}{{ template "c" . }}'
    )
