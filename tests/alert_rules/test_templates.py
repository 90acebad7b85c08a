"""The texts that a person reads, rendered by amtool as Alertmanager 0.25 would: each message template with groups of alerts."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.alert_rules.alert_table import ALERTS, Alert, mutes
from tests.support.alertmanager import CONFIG, shipped
from tests.support.tools import need_tool


TEMPLATES = CONFIG.parent / "templates" / "llm.tmpl"
NEWER_FUNCTIONS = (
    "date",
    "tz",
    "since",
    "humanizeDuration",
    "toJson",
    "now",
    "list",
    "append",
    "dict",
    "trimSpace",
    "safeUrl",
)
"""Functions that Alertmanager has since 0.26 or later."""

SUMMARY = "queue (load 2.2x) since 10:16 UTC: lane interactive of llama"
FILLED = "?namespace=prod&job=monitoring%2Fvllm&model=org%2Fllama%3A3&lane=interactive&pod=llama-0"
"""The labels in a link, as Prometheus writes them: templates must neither decode nor encode them again."""
QUEUE = {
    "alertname": "LLMQueueBurn",
    "phase": "queue",
    "severity": "page",
    "namespace": "prod",
    "job": "vllm",
    "model": "llama",
    "lane": "interactive",
    "objective": "ttft",
}
SILENCED = "A silence of this page also mutes the pages of unattributed of this lane and model, and the tickets of queue and of these phases of this engine."
DOWN = {"alertname": "LLMEngineDown", "phase": "engine", "severity": "page", "namespace": "prod", "pod": "llama-0"}


def alert(labels: dict[str, str], status: str = "firing", summary: str = SUMMARY) -> dict[str, Any]:
    return {
        "status": status,
        "labels": labels,
        "annotations": {
            "summary": summary,
            "description": "The requests that missed their objective waited for the scheduler.",
            "status_url": "http://sidecar:9901/",
            "runbook_url": f"http://sidecar:9901/runbooks/{labels['alertname']}{FILLED}",
            "dashboard_url": "http://grafana/d/llm?var-lane=interactive&var-model=llama",
        },
    }


def rendered(template: str, *alerts: dict[str, Any], folder: Path, templates: Path = TEMPLATES) -> str:
    """The text of `template` for one group of alerts, with what Alertmanager derives from them."""
    sets = [set(one["labels"].items()) for one in alerts]
    data = folder / "group.json"
    group = {
        "receiver": "any",
        "status": "firing" if any(one["status"] == "firing" for one in alerts) else "resolved",
        "alerts": list(alerts),
        "groupLabels": {"alertname": alerts[0]["labels"]["alertname"]},
        "commonLabels": dict(sets[0].intersection(*sets[1:])),
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
    }
    data.write_text(json.dumps(group))
    command = [
        str(need_tool("amtool")),
        "template",
        "render",
        f"--template.glob={templates}",
        f"--template.data={data}",
    ]
    text = f'--template.text={{{{ template "{template}" . }}}}'
    done = subprocess.run([*command, text], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the title -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alerts", "title"),
    [
        pytest.param([alert(QUEUE)], "[FIRING:1] LLMQueueBurn queue interactive", id="a lane"),
        pytest.param(
            [alert(QUEUE, "resolved")], "[RESOLVED] LLMQueueBurn queue interactive", id="a lane that is well again"
        ),
        pytest.param(
            [alert(QUEUE), alert(QUEUE | {"objective": "e2e"}), alert(QUEUE | {"objective": "tpot"}, "resolved")],
            "[FIRING:2] LLMQueueBurn queue interactive",
            id="two objectives, a third one over",
        ),
        pytest.param([alert(DOWN)], "[FIRING:1] LLMEngineDown engine llama-0", id="a pod"),
        pytest.param(
            [alert(DOWN), alert(DOWN | {"pod": "llama-1"})], "[FIRING:2] LLMEngineDown engine", id="two pods, so none"
        ),
        pytest.param([alert({"alertname": "NodeDown"})], "[FIRING:1] NodeDown", id="an alert of another product"),
    ],
)
def test_the_title_says_how_many_which_alert_which_phase_and_where(
    alerts: list[dict[str, Any]], title: str, tmp_path: Path
) -> None:
    assert rendered("llm.title", *alerts, folder=tmp_path) == title


def test_alerts_without_a_cluster_read_as_by_templates_that_know_none(tmp_path: Path) -> None:
    others = tmp_path / "llm.tmpl"
    others.write_text(re.sub(r"{{- with [.\w]*\.cluster }}.*?{{ end }}", "", TEMPLATES.read_text()))
    group = [alert(QUEUE), alert(QUEUE | {"objective": "e2e"}), alert(DOWN, "resolved")]
    message = "llm.plain"

    assert ".cluster" not in others.read_text()
    assert rendered(message, *group, folder=tmp_path) == rendered(message, *group, folder=tmp_path, templates=others)


LOCK_SCREEN_CHARACTERS = 110


@pytest.mark.parametrize(
    ("alerts", "headline"),
    [
        pytest.param([alert(QUEUE)], SUMMARY, id="one alert: its title"),
        pytest.param([alert(QUEUE), alert(QUEUE | {"objective": "e2e"})], f"{SUMMARY} (2 alerts)", id="how many"),
        pytest.param([alert(QUEUE, "resolved")], f"Over: {SUMMARY}", id="over"),
        pytest.param(
            [alert(QUEUE | {"cluster": "eu-west"})], f"{SUMMARY}, cluster eu-west", id="a cluster that no link knows"
        ),
        pytest.param([alert({"alertname": "NodeDown"}, summary="")], "[FIRING:1] NodeDown", id="of another product"),
    ],
)
def test_the_headline_is_the_title_of_the_worst(alerts: list[dict[str, Any]], headline: str, tmp_path: Path) -> None:
    assert rendered("llm.headline", *alerts, folder=tmp_path) == headline


def test_a_cluster_that_stands_in_the_title_is_not_said_twice(tmp_path: Path) -> None:
    one = alert(QUEUE | {"cluster": "eu"}, summary="queue 2.0x: interactive, llama, eu, prod")
    one["annotations"]["runbook_url"] = "http://sidecar:9901/runbooks/LLMQueueBurn?cluster=eu&namespace=prod"

    assert rendered("llm.headline", one, folder=tmp_path) == "queue 2.0x: interactive, llama, eu, prod"


@pytest.mark.parametrize("status", ["firing", "resolved"])
@pytest.mark.parametrize("many", [1, 2, 99])
def test_a_lock_screen_shows_the_whole_headline(many: int, status: str, tmp_path: Path) -> None:
    """With names of any length: a pager cuts the rest, and shows it after an unlocking only."""
    alerts = [
        alert(QUEUE | {"cluster": "c" * 300, "objective": str(n)}, status, summary="s" * 300) for n in range(many)
    ]

    assert len(rendered("llm.headline", *alerts, folder=tmp_path)) <= LOCK_SCREEN_CHARACTERS


def test_the_headline_and_the_links_are_of_what_fires(tmp_path: Path) -> None:
    """A line that is over gives them only when nothing fires any more, even where it burnt most."""
    healed = alert(DOWN, "resolved", summary="llama-0 is down")
    healed["annotations"]["rank"] = "first"
    alerts = [healed, alert(QUEUE)]

    assert rendered("llm.headline", *alerts, folder=tmp_path) == SUMMARY
    assert rendered("llm.runbook", *alerts, folder=tmp_path) == f"http://sidecar:9901/runbooks/LLMQueueBurn{FILLED}"
    assert rendered("llm.headline", healed, folder=tmp_path).endswith(": llama-0 is down")
    assert rendered("llm.runbook", healed, folder=tmp_path) == f"http://sidecar:9901/runbooks/LLMEngineDown{FILLED}"


@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_a_dashboard_is_linked_whatever_fires(status: str, tmp_path: Path) -> None:
    alerts = [alert(QUEUE | {"lane": "batch"}, "resolved"), alert(QUEUE, status)]
    alerts[1]["annotations"]["dashboard_url"] = "http://grafana/d/other"
    last = "http://grafana/d/other" if status == "firing" else alerts[0]["annotations"]["dashboard_url"]

    assert rendered("llm.dashboard", *alerts, folder=tmp_path) == last


# --- the chat ------------------------------------------------------------------------------------------------------------


def test_slack_says_what_where_and_what_to_do(tmp_path: Path) -> None:
    assert rendered("llm.slack.text", alert(QUEUE), folder=tmp_path) == (
        f"*{SUMMARY}*\n"
        "The requests that missed their objective waited for the scheduler.\n"
        "phase queue, lane interactive, model llama, objective ttft, namespace prod, job vllm, severity page\n"
        f"{SILENCED}\n"
        f"<http://sidecar:9901/|Status page> | <http://sidecar:9901/runbooks/LLMQueueBurn{FILLED}|Runbook> | "
        "<http://grafana/d/llm?var-lane=interactive&var-model=llama|Dashboard>\n"
    )


def test_slack_tells_every_alert_of_the_group_and_what_is_over(tmp_path: Path) -> None:
    alerts = [
        alert(DOWN, summary="llama-0 is down"),
        alert(DOWN | {"pod": "llama-1"}, "resolved", summary="llama-1 is down"),
    ]
    text = rendered("llm.slack.text", *alerts, folder=tmp_path)

    assert text.startswith("*llama-0 is down*\n")
    assert text.endswith("|Dashboard>\nOver: llama-1 is down\n")


def test_slack_tells_one_alert_in_full_and_of_each_other_what_it_says_and_of_which_model(tmp_path: Path) -> None:
    """The one that burns most: the other labels are those of the group, or stand in the summary."""
    others = [alert(QUEUE | {"model": f"m{n}"}, summary=f"number {n}") for n in range(2)]
    worst = alert(QUEUE, summary="the worst")
    worst["annotations"]["rank"] = "first"
    lines = rendered("llm.slack.text", *others, worst, folder=tmp_path).splitlines()

    assert lines[0] == "*the worst*"
    assert lines[-2:] == ["- number 0, model m0", "- number 1, model m1"]
    assert sum("Runbook" in line for line in lines) == 1


def test_what_means_something_to_slack_is_only_text(tmp_path: Path) -> None:
    """A summary cannot make a link or call a channel."""
    text = rendered("llm.slack.text", alert(QUEUE, summary="p99 > 2 s & <!channel>"), folder=tmp_path)

    assert text.splitlines()[0] == "*p99 &gt; 2 s &amp; &lt;!channel&gt;*"


@pytest.mark.parametrize(
    ("alerts", "color"),
    [
        pytest.param([alert(QUEUE)], "danger", id="a page"),
        pytest.param([alert(QUEUE | {"severity": "ticket"})], "warning", id="a ticket"),
        pytest.param([alert(QUEUE, "resolved")], "good", id="well again"),
    ],
)
def test_the_color_says_how_urgent_it_is(alerts: list[dict[str, Any]], color: str, tmp_path: Path) -> None:
    assert rendered("llm.slack.color", *alerts, folder=tmp_path) == color


# --- what a silence takes with it ----------------------------------------------------------------------------------------


def test_every_page_says_what_a_silence_of_it_also_mutes(tmp_path: Path) -> None:
    """As the inhibition rules of the shipped file have it: Alertmanager mutes by an alert that is silenced, too."""
    pages = [one for one in ALERTS if one.severity == "page"]
    said = {one: rendered("llm.plain", alert(one.example()), folder=tmp_path) for one in pages}

    assert {one: words_of(text) for one, text in said.items()} == {one: muted_by(one) for one in pages}
    assert [one.name for one in pages if not any(muted_by(one))] == ["LLMSidecarAbsent"]


Muted = tuple[frozenset[str], str, frozenset[str], str]
"""Phases or names of the pages, of which lanes or pod, phases of the tickets, and of an engine or a pod."""


def words_of(text: str) -> Muted:
    """Those that the line in a message names."""
    line = re.search(
        r"A silence of this page also mutes (?:(?:the pages of )?(.*) of (.*), and )?the tickets of (.*) of this (.*)\.",
        text,
    )
    if line is None:
        return frozenset(), "", frozenset(), ""
    pages = frozenset(re.split(", | and ", line[1])) if line[1] else frozenset()
    tickets = {
        phase for part in re.split(", | and of ", line[3]) for phase in (pages if part == "these phases" else [part])
    }
    return pages, line[2] or "", frozenset(tickets), line[4]


def muted_by(page: Alert) -> Muted:
    """Those that the inhibition rules mute."""
    of_lanes = "lane" in page.labels
    others = [one for one in ALERTS if mutes(page, one)]
    pages = {one.phase if of_lanes else one.name for one in others if one.severity == "page"}
    across = any(mutes(page, one, "lane", "model") for one in others if one.severity == "page")
    where = ("all lanes" if across else "this lane and model") if of_lanes else "this pod"
    free = {
        one.phase
        for one in ALERTS
        if one.severity == "ticket" and (of_lanes or "pod" in one.labels) and not mutes(page, one)
    }
    tickets = {one.phase for one in others if one.severity == "ticket"} - free
    return (
        frozenset(pages),
        where if pages else "",
        frozenset(tickets),
        ("engine" if of_lanes else "pod") if tickets else "",
    )


# --- the pager, and plain text -------------------------------------------------------------------------------------------


def test_plain_text_needs_no_markup(tmp_path: Path) -> None:
    assert rendered("llm.plain", alert(QUEUE), alert(QUEUE | {"objective": "e2e"}, "resolved"), folder=tmp_path) == (
        "[FIRING:1] LLMQueueBurn queue interactive\n"
        f"{SUMMARY}\n"
        "The requests that missed their objective waited for the scheduler.\n"
        "phase queue, lane interactive, model llama, objective ttft, namespace prod, job vllm, severity page\n"
        f"{SILENCED}\n"
        "Status page: http://sidecar:9901/\n"
        f"Runbook: http://sidecar:9901/runbooks/LLMQueueBurn{FILLED}\n"
        "Dashboard: http://grafana/d/llm?var-lane=interactive&var-model=llama\n"
        f"Over: {SUMMARY} (phase queue, lane interactive, model llama, objective e2e, namespace prod, job vllm, severity page)\n"
    )


def test_the_pager_gets_what_fires_and_what_is_over_apart(tmp_path: Path) -> None:
    alerts = [alert(QUEUE, summary="still slow"), alert(QUEUE | {"objective": "e2e"}, "resolved", summary="fast again")]
    firing, resolved = (
        rendered(f"llm.pagerduty.{which}", *alerts, folder=tmp_path) for which in ("firing", "resolved")
    )

    assert firing.startswith("still slow\n")
    assert "fast again" not in firing
    assert resolved.startswith("Over: fast again (")
    assert "still slow" not in resolved


@pytest.mark.parametrize("link", ["runbook", "dashboard"])
def test_a_link_is_never_empty_even_where_the_alerts_of_a_group_differ(link: str, tmp_path: Path) -> None:
    """Common annotations would be: PagerDuty refuses an event with an empty link."""
    alerts = [alert(DOWN), alert(DOWN | {"pod": "llama-1"})]
    alerts[1]["annotations"][f"{link}_url"] = "http://elsewhere"

    assert rendered(f"llm.{link}", *alerts, folder=tmp_path) == alerts[0]["annotations"][f"{link}_url"]


@pytest.mark.parametrize("status", ["firing", "resolved"])
@pytest.mark.parametrize("template", ["llm.slack.text", "llm.plain"])
def test_of_a_hundred_alerts_ten_are_told_and_the_rest_is_a_number(template: str, status: str, tmp_path: Path) -> None:
    alerts = [alert(DOWN | {"pod": f"llama-{n}"}, status, summary=f"number {n} is down") for n in range(100)]
    text = rendered(template, *alerts, folder=tmp_path)

    assert re.findall(r"number (\d+) is down", text) == [str(n) for n in range(10)]
    assert f"The first 10 of 100 that {'fire' if status == 'firing' else 'are over'}.\n" in text


# --- the file ------------------------------------------------------------------------------------------------------------


def test_only_functions_that_alertmanager_0_25_has() -> None:
    """The amtool at hand may be newer than the one in production."""
    actions = " ".join(re.findall(r"{{.*?}}", TEMPLATES.read_text()))

    assert [name for name in NEWER_FUNCTIONS if re.search(rf"(?<![.\w$]){name}\b(?!\.)", actions)] == []


def test_a_newer_function_would_be_seen() -> None:
    """Or the promise above would be empty."""
    assert re.search(r"(?<![.\w$])since\b(?!\.)", "{{ since .StartsAt }}")


def test_every_template_that_a_receiver_names_is_defined() -> None:
    """Alertmanager finds out at the first page, which is late."""
    defined = set(re.findall(r'{{ define "([\w.]+)"', TEMPLATES.read_text()))
    named = set(re.findall(r'template "([\w.]+)"', json.dumps(shipped()).replace('\\"', '"')))
    inside = set(re.findall(r'{{ template "([\w.]+)"', TEMPLATES.read_text()))

    assert len(named) > 5
    assert (named | inside) - defined == set()
