"""Names of models, lanes and jobs with any sign in them: Prometheus itself writes the words of every alert about them.

A model's name is what the engine says, such as a path of Windows; a lane's is what the config says.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.commands.export.rules.burn import WHO
from sidecar.commands.export.rules.page_facts import LANE_FACTS
from sidecar.metrics.target_labels import ONE_PROCESS
from tests.alert_rules.promtool import run
from tests.alert_rules.syntax import rules
from tests.support.tools import need_newer, need_tool


NAMES = (
    r"C:\models\x.gguf",
    'the "large" one',
    r'a\"b"\\',
    r"100% of %s, %d and %q",
    '{{ $labels.lane }} {a="b"}',
    "two\nlines\tand a tab",
    "`Qwen\u200b模型` & 'more'\x07",
)
SIGNS = "\\\"'`{}[]()<>&|%$#@!*_~?=+;:,./- \n\r\t\x07\x00é\u202e\u6a21\N{GRINNING FACE}ab0"
"""Signs that break a quote, a matcher, a template, a link or a terminal."""
drawn_names = st.lists(st.text(SIGNS, min_size=1, max_size=30), min_size=12, max_size=12, unique=True)
LABELS = (*ONE_PROCESS, "model", "lane", "objective", "phase")
QUEUE_PAGE = next(rule for rule in rules() if str(rule) == "LLMQueueBurn{page,queue}")
FOUND = {"cause": "load", "confidence": "0.80", "rank": "first"}
"""The text that each annotation gets from its query; the worst pod has the name itself."""


def written(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items())


def series(name: str) -> list[dict[str, str]]:
    """Everything that the queries of a lane's page read, with this name in every label."""
    told = dict.fromkeys(LABELS, name) | {"phase": "queue"}  # of a closed set
    of_lane = {label: name for label in told if label not in ("pod", "phase", "instance")}
    root = {**of_lane, "phase": "queue"}
    facts: tuple[dict[str, str], ...] = (
        {**root, "is": "a_root", "cause": "load"},
        {**root, "is": "p_sure", "ratio": "0.80"},
        {**of_lane, "is": "n_pod", "pod": name},
        {**of_lane, "is": "_first"},
    )
    page = [("up", told, "0x5"), *((LANE_FACTS.name, fact, "1x5") for fact in facts)]
    return [{"series": f"{metric}{{{written(labels)}}}", "values": text} for metric, labels, text in page]


def played(
    folder: Path, rules_file: list[dict[str, Any]], names: tuple[str, ...], expected: Callable[[str], list[Any]]
) -> Path:
    """A test of promtool: each name in a world of its own, and the alerts that must fire in it after two minutes."""
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "names", "rules": rules_file}]}))
    tests = [{"interval": "1m", "input_series": series(name), "alert_rule_test": expected(name)} for name in names]
    test_file = folder / "test.yml"
    test_file.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}))
    return test_file


@pytest.mark.long
def test_no_name_breaks_the_words_of_an_alert(tmp_path: Path) -> None:
    """Each annotation of each alert comes out, whatever its labels say; a broken one would say `error expanding template`."""
    alerts = [rule for rule in rules() if not rule.is_record]
    told = [
        {"alert": f"alert_{at}", "expr": "up + 0 == 0", "annotations": rule.fields["annotations"]}
        for at, rule in enumerate(alerts)
    ]
    # Nothing is expected, so that promtool prints what came.
    nothing = [{"eval_time": "2m", "alertname": one["alert"], "exp_alerts": []} for one in told]

    said = run(played(tmp_path, told, NAMES, lambda _: nothing))

    came = re.findall(r"Labels:\{alertname=\"alert_\d+\"", said)
    broken = re.findall(r"error expanding.{,300}", said)
    assert (len(came), broken) == (len(NAMES) * len(alerts), [])


@pytest.mark.parametrize("needed", [need_tool, need_newer])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=drawn_names)
def test_the_queries_of_a_page_find_what_they_ask_for_by_any_name(
    needed: Callable[[str], Path], drawn: list[str], tmp_path: Path
) -> None:
    """A query with the wrong name would find nothing, and be silent. The link carries the pod, which is asked for too."""
    names = (*NAMES, *drawn)
    told = [
        {
            "alert": key,
            "expr": f"max by ({WHO}) (up == 0)",
            "annotations": {"said": QUEUE_PAGE.fields["annotations"][key]},
        }
        for key in (*FOUND, "worst_pod", "runbook_url")
    ]
    base = QUEUE_PAGE.fields["annotations"]["runbook_url"].partition("?")[0]

    def expected(name: str) -> list[Any]:
        labels = dict.fromkeys(WHO.split(", "), name)
        link = "&".join(
            f"{label}={quote_plus(name)}" for label in ("cluster", "namespace", "job", "model", "lane", "pod")
        )
        return [
            {
                "eval_time": "2m",
                "alertname": key,
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": {"said": value}}],
            }
            for key, value in {**FOUND, "worst_pod": name, "runbook_url": f"{base}?{link}"}.items()
        ]

    assert run(played(tmp_path, told, names, expected), needed("promtool")) == ""
