"""Messages of ten alerts within the limits of Slack, PagerDuty, Opsgenie and Teams, as amtool renders them, whatever names the alerts have.

The limits are those that each service documents, as of November 2026.
"""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.alertmanager import CONFIG
from tests.support.tools import need_tool


TEMPLATES = CONFIG.parent / "templates" / "llm.tmpl"
SLACK_BLOCK, SLACK_MESSAGE = 3_000, 40_000
"""Characters of a text in a block, and of a message: what is longer is cut, by Slack's reference of chat.postMessage."""
PAGERDUTY_SUMMARY, PAGERDUTY_EVENT_BYTES = 1_024, 512_000
"""By PagerDuty's Events API v2."""
OPSGENIE_MESSAGE, OPSGENIE_DESCRIPTION, OPSGENIE_DETAILS = 130, 15_000, 8_000
"""Characters, by Opsgenie's Alert API."""
TEAMS_BYTES = 28 * 1024
"""The size of a message to a webhook of Teams."""
TEN = 10
BREAK = "\n=====\n"
PARTS = (
    *("llm.title", "llm.headline", "llm.runbook", "llm.dashboard", "llm.pagerduty.firing", "llm.pagerduty.resolved"),
    *("llm.slack.title", "llm.slack.headline", "llm.slack.text", "llm.teams.text", "llm.plain"),
)
SUMMARY = "prefill (prefill_cost 2.2x) since 10:16 UTC: lane {lane} of {model}, {cluster}, {namespace}"
DESCRIPTION = (
    "Phase prefill: prefill costs 2.2x the usual; it began at 10:16 UTC, 6 min ago. TTFT: p95 4.2 s, threshold 1.5 s (prompts of 512-4k tokens);"
    " 44 of 61 requests in 2 min missed (outage: at least half). Most waited in queue, which is no contradiction: prompts that"
    " cost more keep other requests waiting. Pod {pod} misses 1.9x as often as all pods together. Confidence high: 88 %. First: Cordon the"
    " node whose GPU is throttled (nvidia-smi -q -d PERFORMANCE,CLOCK)."
)
USUAL = {
    "alertname": "LLMUnattributedBurn",
    "phase": "unattributed",
    "severity": "page",
    "cluster": "production-eu-west-1",
    "namespace": "inference-production",
    "job": "llama-3-3-70b-instruct",
    "model": "meta-llama/Llama-3.3-70B-Instruct",
    "lane": "interactive",
    "objective": "ttft",
    "pod": "llama-3-3-70b-instruct-7d9f8c6b5-x2v4q",
}


def alert(labels: Mapping[str, str], number: int, status: str) -> dict[str, Any]:
    """With the words and links of a lane's page."""
    query = "&".join(
        f"{name}={quote_plus(labels[name])}" for name in ("cluster", "namespace", "job", "model", "lane", "pod")
    )
    return {
        "status": status,
        "labels": {**labels, "lane": f"{labels['lane']}{number}"},
        "annotations": {
            "summary": SUMMARY.format(**labels),
            "description": DESCRIPTION.format(**labels),
            "rank": "first" if number == 3 else "other",
            "status_url": "http://llm-phase-sidecar.inference.svc:9901/",
            "runbook_url": f"http://llm-phase-sidecar.inference.svc:9901/runbooks/LLMUnattributedBurn?{query}",
            "dashboard_url": f"https://grafana.example.com/d/llm-anatomy?{query}",
        },
    }


def rendered(alerts: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    """Each template's text for this group, in one run of amtool."""
    common = dict(set(alerts[0]["labels"].items()).intersection(*(one["labels"].items() for one in alerts)))
    data = folder / "group.json"
    data.write_text(
        json.dumps(
            {
                "receiver": "any",
                "status": "firing",
                "alerts": alerts,
                "groupLabels": {},
                "commonLabels": common,
                "commonAnnotations": {},
                "externalURL": "http://alertmanager",
            }
        )
    )
    text = BREAK.join(f'{{{{ template "{part}" . }}}}' for part in PARTS)
    command = [
        str(need_tool("amtool")),
        "template",
        "render",
        f"--template.glob={TEMPLATES}",
        f"--template.data={data}",
    ]
    done = subprocess.run([*command, f"--template.text={text}"], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return dict(zip(PARTS, done.stdout.decode().split(BREAK), strict=True))


def too_long(said: Mapping[str, str], *, slack: int) -> dict[str, int]:
    """Each text above its service's limit. `slack`: characters of Slack's text."""
    pager = said["llm.pagerduty.firing"] + said["llm.pagerduty.resolved"] + said["llm.headline"]
    links = said["llm.runbook"] + said["llm.dashboard"]
    counted = {
        "Slack's text": (len(said["llm.slack.text"]), slack),
        "Slack's message": (
            len(said["llm.slack.text"] + said["llm.slack.title"] + said["llm.slack.headline"]),
            SLACK_MESSAGE,
        ),
        "PagerDuty's summary": (len(said["llm.headline"]), PAGERDUTY_SUMMARY),
        "PagerDuty's event": (len((pager + 2 * links).encode()), PAGERDUTY_EVENT_BYTES),
        "Opsgenie's description": (len(said["llm.pagerduty.firing"]), OPSGENIE_DESCRIPTION),
        "Opsgenie's details": (len(links), OPSGENIE_DETAILS),
        "Teams' message": (len(said["llm.teams.text"].encode()), TEAMS_BYTES),
    }
    return {what: length for what, (length, most) in counted.items() if length > most}


def test_ten_alerts_with_usual_names_fit(tmp_path: Path) -> None:
    """Into one block of Slack even; nothing is cut off in them."""
    said = rendered([alert(USUAL, number, "firing") for number in range(TEN)], tmp_path)

    assert too_long(said, slack=SLACK_BLOCK) == {}
    assert len(said["llm.title"]) <= OPSGENIE_MESSAGE
    assert said["llm.slack.text"].count(SUMMARY.format(**USUAL)) == TEN
    assert said["llm.slack.text"].count(DESCRIPTION.format(**USUAL)) == 1


@pytest.mark.parametrize("sign", ["a", "<", "*", "\N{GRINNING FACE}", "\u6a21"], ids=ascii)
def test_ten_alerts_and_ten_that_are_over_fit_whatever_their_names_are(sign: str, tmp_path: Path) -> None:
    """Names of 1,000 characters: words are cut, and a link that nothing opens is left out."""
    labels = {
        name: value if name in ("alertname", "phase", "severity") else sign * 1000 for name, value in USUAL.items()
    }
    alerts = [alert(labels, number, status) for status in ("firing", "resolved") for number in range(TEN)]
    said = rendered(alerts, tmp_path)
    without_links = {part: "" if part in ("llm.runbook", "llm.dashboard") else text for part, text in said.items()}

    assert too_long(without_links, slack=8_000) == {}


# --- any sign in a name ----------------------------------------------------------------------------------------------------


SIGNS = "\\\"'`{}[]()<>&|%$#@!*_~?=+;:,./- \n\r\t\x07é\u202e\u6a21\N{GRINNING FACE}ab0"
names = st.text(SIGNS, min_size=1, max_size=30).map(
    lambda name: f"{{{{ .Name }}}}{name}" if len(name) % 3 == 0 else name
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=names)
def test_a_name_is_only_text_in_every_message(name: str, tmp_path: Path) -> None:
    """It comes out as it is, or escaped for its service; it makes no link, no mention in Slack, and is no template."""
    labels = {label: value if label in ("alertname", "phase", "severity") else name for label, value in USUAL.items()}
    said = rendered([alert(labels, 0, "firing")], tmp_path)
    for_slack = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    slack = said["llm.slack.text"]

    assert f"lane {name}0, model {name}, " in said["llm.plain"]
    assert said["llm.headline"].startswith(f"prefill (prefill_cost 2.2x) since 10:16 UTC: lane {name}"[:85])
    assert f"model {for_slack[:60]}, " in slack
    assert slack.count("<") == sum(slack.count(f"|{link}>") for link in ("Status page", "Runbook", "Dashboard")) == 3
    assert "<" not in said["llm.slack.title"] + said["llm.slack.headline"]
    assert said["llm.teams.text"].count("](http") == 3
