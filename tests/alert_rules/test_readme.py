"""Everything that alert_rules/README.md names exists: files, links, flags, tiers, receivers, and configuration that Prometheus takes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sidecar.commands.export.rules import burn
from tests.alert_rules.alert_table import ALERTS, PHASES
from tests.support.alertmanager import CONFIG, shipped
from tests.support.tools import need_tool


FOLDER = CONFIG.parent
TEXT = (FOLDER / "README.md").read_text()
BLOCKS = [
    "\n".join(line.removeprefix(indent) for line in body.splitlines())
    for indent, body in re.findall(r"^( *)```yaml\n(.*?)^ *```$", TEXT, re.MULTILINE | re.DOTALL)
]
PROMETHEUS = [block for block in BLOCKS if block.startswith(("scrape_configs", "rule_files"))]


@pytest.mark.parametrize("block", PROMETHEUS, ids=lambda block: block.splitlines()[1].strip())
def test_prometheus_takes_what_is_shown(block: str, tmp_path: Path) -> None:
    file = tmp_path / "prometheus.yml"
    # Debian builds Prometheus without the discovery of Kubernetes; what is done with its targets can be checked all the same.
    file.write_text(block.replace("kubernetes_sd_configs:\n      - role: pod", "static_configs: []"))
    checked = subprocess.run(
        [str(need_tool("promtool")), "check", "config", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_way_to_scrape_adds_namespace_job_and_pod() -> None:
    """The rules keep all three, and Alertmanager groups and mutes by them."""
    added = []
    for document in map(yaml.safe_load, BLOCKS):
        if "scrape_configs" in document:
            (job,) = document["scrape_configs"]
            static = [label for one in job.get("static_configs", []) for label in one["labels"]]
            relabelled = [rule["target_label"] for rule in job["relabel_configs"] if "target_label" in rule]
            added.append({*static, *relabelled})
        elif document.get("kind") == "PodMonitor":
            (endpoint,) = document["spec"]["podMetricsEndpoints"]
            job = {"job"} if document["spec"].get("jobLabel") else set()
            added.append(job | {rule["targetLabel"] for rule in endpoint["relabelings"]})

    assert added == [{"namespace", "job", "pod"}] * 3


def test_every_file_is_named_and_every_named_file_exists() -> None:
    named = set(re.findall(r"^\| `([\w./-]+\.\w+)` \|", TEXT, re.MULTILINE))
    shipped_files = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*")
        if path.suffix in (".yml", ".yaml", ".tmpl") and path.is_file()
    }

    assert named == shipped_files


def test_every_link_and_path_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    paths = re.findall(r"(?:alert_rules|sidecar|tests)/[\w./-]+[\w/]", TEXT)

    assert links
    assert [link for link in links if not (FOLDER / link).exists()] == []
    assert [path for path in paths if not (FOLDER.parent / path).exists()] == []


def test_the_flags_are_those_of_the_command() -> None:
    command = [sys.executable, "-m", "sidecar", "export", "--help"]
    explained = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, cwd=FOLDER.parent
    ).stdout
    shown = {
        *re.findall(r"export rules (--[\w-]+)[= ]", TEXT),
        *re.findall(r" (--[\w-]+-base)=", TEXT),
        "--out",
        "--no-keep-firing",
    }

    assert len(shown) == 5
    assert [flag for flag in shown if flag not in explained] == []


def test_the_tiers_are_those_of_the_rules() -> None:
    """Each number of each row stands in the text of its tier."""
    told = dict(re.findall(r"^\| (\w+) \| (.+?) \| `(?:page|ticket)` \|", TEXT, re.MULTILINE))
    shares = {0.5: "half", 0.33: "0.33", 0.9: "nine tenths"}
    wanted = {
        tier: {
            word
            for row in burn.TIERS
            if row.tier == tier
            for word in (
                shares.get(row.at_least, f"burn of {row.at_least:g}" if tier != "slow" else f"of {row.at_least:g}"),
                row.window[:-1],
            )
        }
        for tier in {row.tier for row in burn.TIERS}
    }

    assert set(told) >= set(wanted)
    assert [(tier, word) for tier, words in wanted.items() for word in words if word not in told[tier]] == []
    assert {row.fewest_misses for row in burn.TIERS} == {4, 10, 20, 30}
    assert "Each needs at least 10 misses in its window, and 20 for the window of 1 minute" in TEXT


GONE = {"LLMOutlierReplica"}
"""Old names, in the table from old to new."""


def test_phases_alerts_and_receivers_on_the_page_are_the_shipped_ones() -> None:
    (sentence,) = re.findall(r"^Phases are (.*?), and `(\w+)`", TEXT, re.MULTILINE)
    receivers = {one["name"] for one in shipped()["receivers"]}

    assert [*re.findall(r"`(\w+)`", sentence[0]), sentence[1]] == list(PHASES)
    assert set(re.findall(r"`(LLM\w+)`", TEXT)) - {one.name for one in ALERTS} == GONE
    assert {"default-page", "default-ticket", "watchdog"} <= receivers


def test_the_times_on_the_page_are_those_of_the_file() -> None:
    root = shipped()["route"]
    (page,) = root["routes"][1]["routes"]
    said = dict(re.findall(r"^\| (first message|changes[^|]*|again[^|]*) \| (.+) \|$", TEXT, re.MULTILINE))

    assert [(route["group_wait"], route["group_interval"], route["repeat_interval"]) for route in (page, root)] == [
        ("15s", "5m", "4h"),
        ("2m", "10m", "24h"),
    ]
    assert list(said.values()) == [
        "after 15 s, one evaluation | after 2 minutes, so that a page can mute it first",
        "within 5 minutes | within 10 minutes",
        "every 4 hours | every day",
    ]
