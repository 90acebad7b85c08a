"""Rules that are evaluated seldom: the same pages come, at most as late as the command says, and texts that ask nothing still say something."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.commands.export.rules.annotations import MEANING
from sidecar.commands.export.rules.evaluation import in_seconds, latest_seconds, told
from sidecar.commands.export.rules.rule_files import files
from sidecar.commands.export.rules.rulers import AMP, AZURE, GMP, MIMIR, PROMETHEUS, Ruler
from sidecar.config.quick_yaml import read_yaml
from tests.alert_rules.promtool import ALERTS, RECORDING, Scenario, Suite, run
from tests.alert_rules.world import WELL, Traffic, broken, causes, engine, lane, undecided


@cache
def written(ruler: Ruler = PROMETHEUS, seconds: int = 0) -> Mapping[str, str]:
    return files(ruler=ruler, interval_seconds=seconds, keep_firing=ruler.keeps_firing)


def rules_of(texts: Mapping[str, str]) -> dict[str, list[Any]]:
    return {group["name"]: group["rules"] for name in (RECORDING, ALERTS) for group in read_yaml(texts[name])["groups"]}


# --- the same rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [30, 60])
def test_seldom_evaluated_rules_are_the_same_rules_in_other_groups(seconds: int) -> None:
    """Names, labels and texts; and what a recorded growth was taken of is all that differs in an expression."""
    raw = re.compile(r"sum by \([\w, ]+, pod, instance\) \(increase\(llm_slo_(\w+)_total\[(\w+)\]\)\)")

    def told_apart(texts: Mapping[str, str]) -> list[str]:
        every = [rule for rules in rules_of(texts).values() for rule in rules]
        return sorted(
            raw.sub(r"increase(instance:llm_slo_\1:sum[\2])", yaml.safe_dump(rule, width=9999)) for rule in every
        )

    assert told_apart(written(seconds=seconds)) == told_apart(written())


@pytest.mark.parametrize("seconds", [1, 5, 15])
def test_up_to_the_shipped_interval_of_sums_the_groups_stay(seconds: int) -> None:
    assert rules_of(written(seconds=seconds)) == rules_of(written())


def test_all_pages_stand_in_one_group_so_that_one_incident_is_sent_at_once() -> None:
    pages = {
        group
        for group, rules in rules_of(written(seconds=60)).items()
        for rule in rules
        if rule.get("labels", {}).get("severity") == "page"
    }

    assert pages == {"llm-phase-pages"}


# --- what promtool says ----------------------------------------------------------------------------------------------------


SELDOM = Suite("seldom", step_seconds=30, evaluation_seconds=60)
"""A scrape every 30 s. Each group is evaluated before the groups that it reads, which is the worst that a ruler may do."""


@SELDOM.scenario(10, 6)
def an_outage(scenario: Scenario) -> None:
    """Paged with its root within two minutes, and all the time from then on."""
    lane(scenario, WELL, broken("prefill"))
    causes(scenario, WELL, broken("prefill"))

    for minute in (12, 13, 14, 15, 16):
        scenario.pages(minute, "LLMPrefillBurn")


@SELDOM.scenario(10, 6)
def one_of_two_pods(scenario: Scenario) -> None:
    """The odd one is named, and its lane is quiet."""
    lane(scenario, WELL, broken("decode"))
    causes(scenario, WELL, broken("decode"))
    lane(scenario, WELL, WELL, pod="engine-1")

    for minute in (13, 14, 15, 16):
        scenario.pages(minute, "LLMPodBurn", phase="decode")


@SELDOM.scenario(10, 6)
def an_outage_without_a_root(scenario: Scenario) -> None:
    """A minute later."""
    lane(scenario, WELL, undecided())

    for minute in (13, 14, 15, 16):
        scenario.pages(minute, "LLMUnattributedBurn")


@SELDOM.scenario(10, 6)
def an_engine_that_is_down(scenario: Scenario) -> None:
    """Its own page comes with that of its lane, in one evaluation."""
    lane(scenario, WELL, broken("engine"))
    causes(scenario, WELL, broken("engine"))
    engine(scenario, up=(1, 0))

    for minute in (12, 13, 14, 15, 16):
        scenario.pages(minute, "LLMEngineBurn", "LLMEngineDown")


@SELDOM.scenario(10, 10)
def one_request_a_minute(scenario: Scenario) -> None:
    """All are missed: a page within six minutes."""
    lane(scenario, Traffic(per_minute=1), broken("queue", 1.0, 1))

    scenario.pages(16, "LLMQueueBurn")


@SELDOM.scenario(30)
def a_healthy_lane(scenario: Scenario) -> None:
    """No alert."""
    lane(scenario, Traffic(0.02, {"queue": 1}))

    for minute in (5, 12, 20, 30):
        scenario.alerts(minute)


@SELDOM.scenario(40)
def a_lane_that_burns_slowly(scenario: Scenario) -> None:
    """A ticket, and no page."""
    lane(scenario, Traffic(0.13, {"queue": 1}))

    scenario.alerts(40, "LLMQueueBurn ticket")


def asked(ruler: Ruler, seconds: int, scenarios: list[Scenario], folder: Path) -> dict[str, Any]:
    """A test of promtool about the rules of this ruler."""
    for name in (RECORDING, ALERTS):
        (folder / name).write_text(written(ruler, seconds)[name])
    groups = [*rules_of(written(ruler, seconds))]
    document = SELDOM.document([RECORDING, ALERTS], groups[::-1], scenarios)
    return document | {"evaluation_interval": f"{seconds}s"}


@pytest.mark.long
@pytest.mark.parametrize(("ruler", "seconds"), [(AZURE, 60), (AMP, 30)], ids=lambda one: str(getattr(one, "name", one)))
def test_the_pages_come_at_the_interval_of_the_ruler(ruler: Ruler, seconds: int, tmp_path: Path) -> None:
    (tmp_path / "test.yml").write_text(yaml.safe_dump(asked(ruler, seconds, SELDOM.scenarios, tmp_path)))

    assert run(tmp_path / "test.yml") == ""


# --- texts that ask nothing ------------------------------------------------------------------------------------------------


def texts_of(ruler: Ruler, one: str, phase: str) -> dict[str, str]:
    """The annotations of a page."""
    pages = rules_of(written(ruler, 60))["llm-phase-pages"]
    found: dict[str, str] = next(
        rule["annotations"]
        for rule in pages
        if (rule.get("alert"), rule.get("labels", {}).get("phase")) == (one, phase)
    )
    return found


def test_a_text_that_asks_nothing_says_the_phase_in_words_and_the_lane() -> None:
    texts = texts_of(AZURE, "LLMQueueBurn", "queue")

    assert "$labels.lane" in texts["summary"]
    assert texts["description"].startswith("Phase queue")
    assert texts["description"].endswith(f": {MEANING['queue']}.")
    assert {*texts} == {"summary", "description", "confidence", "status_url", "runbook_url", "dashboard_url"}


def test_no_text_asks_anything_and_every_block_is_closed() -> None:
    texts = [
        text
        for rules in rules_of(written(AZURE, 60)).values()
        for rule in rules
        for text in rule.get("annotations", {}).values()
    ]

    assert [text for text in texts if "| query" in text] == []
    assert [
        text
        for text in texts
        if len(re.findall(r"{{-? (?:with|if|range)\b", text)) != len(re.findall(r"{{-? end\b", text))
    ] == []


# --- what it costs ---------------------------------------------------------------------------------------------------------


def test_two_steps_of_an_interval_or_the_three_shipped_ones() -> None:
    assert [latest_seconds(seconds) for seconds in (0, 5, 10, 15, 30, 60)] == [25, 25, 35, 45, 60, 120]


@pytest.mark.parametrize(
    ("ruler", "seconds", "keep_firing", "begin"),
    [
        (PROMETHEUS, 0, True, []),
        (PROMETHEUS, 30, True, ["Prometheus: a page comes at most 60 s"]),
        (PROMETHEUS, 0, False, ["Without keep_firing_for"]),
        (MIMIR, 0, True, ["Grafana Mimir: a page comes at most 85 s"]),
        (
            GMP,
            30,
            False,
            ["Google", "Without keep_firing_for", "ClusterRules have no namespace", "Google's collection"],
        ),
        (
            AZURE,
            60,
            False,
            [
                "Azure Monitor managed",
                "Without keep_firing_for",
                "Texts ask no queries",
                "az-prom-rules-converter gives every alert severity 3",
                "Watchdog always fires",
            ],
        ),
    ],
)
def test_each_cost_is_told(ruler: Ruler, seconds: int, keep_firing: bool, begin: list[str]) -> None:
    said = told(ruler, seconds, keep_firing=keep_firing)

    assert [line.startswith(words) for line, words in zip(said, begin, strict=True)] == [True] * len(begin)


@pytest.mark.parametrize("interval", ["", "0s", "1", "1.5m", "1h", "-5s", "30 s", "99999s"])
def test_what_is_no_interval_is_refused(interval: str) -> None:
    with pytest.raises(ValueError, match="is no interval: a whole number of seconds or minutes, such as 30s or 1m"):
        in_seconds(interval)
