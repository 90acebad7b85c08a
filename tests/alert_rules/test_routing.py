"""The shipped Alertmanager file, as amtool reads it and as the table of alerts is held against it. No server runs here."""

import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from alert_rules.operator import alertmanager_config
from sidecar.demo.shipped import seconds_of
from tests.alert_rules.alert_table import ALERTS, PHASES, alert, matching
from tests.support.alertmanager import CONFIG, shipped
from tests.support.tools import need_tool


RULES = CONFIG.parent / "llm-alerts.yml"
INHIBITIONS = alertmanager_config(shipped())["spec"]["inhibitRules"]
"""The shipped inhibition rules with their matchers taken apart."""


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(need_tool("amtool")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def receivers_of(labels: Mapping[str, str]) -> str:
    """Who hears of an alert with these labels, by Alertmanager's own judgement; several are joined with commas."""
    words = [f"{name}={value}" for name, value in labels.items()]
    return amtool("config", "routes", "test", f"--config.file={CONFIG}", *words).stdout.strip()


def test_alertmanager_takes_the_file_and_its_templates() -> None:
    checked = amtool("check-config", str(CONFIG))

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 templates" in checked.stdout


# --- who hears it --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("severity", ["page", "ticket"])
@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_has_its_own_receiver_for_pages_and_for_tickets(phase: str, severity: str) -> None:
    labels = [f"phase={phase}", f"severity={severity}", "alertname=LLMAny", "lane=interactive"]
    judged = amtool(
        *("config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={phase}-{severity}", *labels)
    )

    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_a_wrong_receiver_would_be_seen() -> None:
    """Or the promise above would be empty."""
    judged = amtool(
        *("config", "routes", "test", f"--config.file={CONFIG}", "--verify.receivers=queue-page"),
        *("phase=prefill", "severity=page"),
    )

    assert judged.returncode == 1


def test_no_alert_that_we_ship_ends_with_the_default_receivers() -> None:
    heard = {(one.name, one.severity): receivers_of(one.example()) for one in ALERTS}
    expected = {
        (one.name, one.severity): "watchdog" if one.name == "Watchdog" else f"{one.phase}-{one.severity}"
        for one in ALERTS
    }

    assert heard == expected


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        pytest.param({"phase": "warp", "severity": "page"}, "default-page", id="a phase that nobody knows"),
        pytest.param({"phase": "warp", "severity": "ticket"}, "default-ticket", id="its ticket"),
        pytest.param({"alertname": "NodeDown", "severity": "page"}, "default-page", id="no phase"),
        pytest.param({"alertname": "NodeDown"}, "default-ticket", id="neither phase nor severity"),
        pytest.param({"phase": "queue", "severity": "warning"}, "queue-ticket", id="a severity that nobody knows"),
        pytest.param({"phase": "queue"}, "queue-ticket", id="no severity"),
    ],
)
def test_what_the_file_does_not_know_is_still_heard(labels: dict[str, str], receiver: str) -> None:
    """A page stays a page, and nothing else wakes anybody."""
    assert receivers_of(labels) == receiver


def test_pages_ring_and_tickets_do_not() -> None:
    """Each page goes to the pager, the chat and the webhook, each ticket to the chat and the webhook, none into the void."""
    kinds = {
        receiver["name"]: {kind.removesuffix("_configs") for kind in receiver if kind != "name"}
        for receiver in shipped()["receivers"]
    }
    owners = ["default", *PHASES]
    pages = {f"{owner}-page": {"pagerduty", "slack", "webhook"} for owner in owners}
    tickets = {f"{owner}-ticket": {"slack", "webhook"} for owner in owners}

    assert kinds == {"watchdog": {"webhook"}, **pages, **tickets}


def test_no_two_phases_share_a_channel_or_a_pager_or_a_webhook() -> None:
    addresses: dict[str, set[str]] = {owner: set() for owner in ["default", *PHASES]}
    for receiver in shipped()["receivers"]:
        if receiver["name"] != "watchdog":
            owner = receiver["name"].rpartition("-")[0]
            addresses[owner] |= {slack["channel"] for slack in receiver["slack_configs"]}
            addresses[owner] |= {pager["routing_key_file"] for pager in receiver.get("pagerduty_configs", [])}
            addresses[owner] |= {hook["url"].rpartition("/")[0] for hook in receiver["webhook_configs"]}
    everything = [address for mine in addresses.values() for address in mine]

    assert {owner: len(mine) for owner, mine in addresses.items()} == dict.fromkeys(addresses, 3)
    assert len(everything) == len(set(everything))


# --- when it is heard ----------------------------------------------------------------------------------------------------


def test_a_message_is_about_one_alert_of_one_lane() -> None:
    """Nothing below the root groups in another way: one incident never mixes phases."""
    assert shipped()["route"]["group_by"] == ["alertname", "phase", "namespace", "model", "lane"]
    assert "group_by" not in yaml.safe_dump(shipped()["route"]["routes"])


def test_a_page_takes_one_evaluation_from_the_two_minutes_and_a_ticket_waits_for_its_page() -> None:
    root = shipped()["route"]
    pages = [
        route
        for outer in root["routes"]
        for route in (outer, *outer.get("routes", []))
        if route["receiver"].endswith("-page")
    ]

    assert len(pages) == len(PHASES) + 1
    assert {seconds_of(page["group_wait"]) for page in pages} == {15}
    assert seconds_of(root["group_wait"]) > 4 * 15


# --- who is silenced by whom ---------------------------------------------------------------------------------------------


def carried(one: Any) -> set[str]:
    return {"alertname", "severity", "phase", *one.labels}


@pytest.mark.parametrize("rule", INHIBITIONS, ids=lambda rule: rule["sourceMatch"][0]["value"].partition("|")[0])
def test_every_alert_that_mutes_or_is_muted_has_the_labels_that_must_be_equal(rule: dict[str, Any]) -> None:
    """Missing on both sides is equal for Alertmanager: one alert without `pod` would mute all others without it."""
    sources, targets = matching(rule["sourceMatch"]), matching(rule["targetMatch"])
    lacking = [one.name for one in (*sources, *targets) if not set(rule["equal"]) <= carried(one)]

    assert sources
    assert targets
    assert lacking == []


@pytest.mark.parametrize("rule", INHIBITIONS, ids=lambda rule: rule["sourceMatch"][0]["value"].partition("|")[0])
def test_each_rule_asks_both_sides_for_the_label_that_tells_alerts_apart(rule: dict[str, Any]) -> None:
    """Whatever the alerts carry one day: without that label neither mutes nor is muted."""
    asked = [{one["name"] for one in rule[side] if one["matchType"] == "!="} for side in ("sourceMatch", "targetMatch")]

    assert asked[0] == asked[1]
    assert asked[0] in ({"pod"}, {"lane", "objective"})


def test_every_alert_that_a_rule_names_exists() -> None:
    named = {
        name
        for rule in INHIBITIONS
        for one in (*rule["sourceMatch"], *rule["targetMatch"])
        if one["name"] == "alertname"
        for name in one["value"].split("|")
    }

    assert named - {one.name for one in ALERTS} == set()


def test_who_mutes_whom_and_nobody_else() -> None:
    """The whole relation, as names; the pod's or the lane's labels must be equal besides."""
    muted = {
        (source.name, source.severity): sorted(
            {
                target.name
                for rule in INHIBITIONS
                if source in matching(rule["sourceMatch"])
                for target in matching(rule["targetMatch"])
                if "alertname" not in rule["equal"] or target.name == source.name
            }
        )
        for source in ALERTS
    }
    of_the_pods_phases = ["LLMEventsInBursts", "LLMPrefixCacheCollapsed"]
    engine_faults = ["LLMEngineKvCacheFull", "LLMEnginePreempting", "LLMEngineRestarted", "LLMNothingComesBack"]
    burns = {one.name: [one.name] for one in ALERTS if one.name.endswith("Burn")}
    sidecar = [
        one.name for one in ALERTS if one.phase == "sidecar" and one.severity == "ticket" and "pod" in one.labels
    ]

    assert {name: targets for (name, _), targets in muted.items() if targets} == {
        **burns,
        **dict.fromkeys(engine_faults, of_the_pods_phases),
        "LLMEngineDown": sorted([*of_the_pods_phases, *engine_faults, "LLMOutlierReplica"]),
        "LLMSidecarDown": sorted(sidecar),
    }


def test_no_page_of_a_lane_is_ever_muted() -> None:
    """It has no pod. What a broken pod adds to a lane is taken out by the recording rules, not by silence."""
    lane_pages = [alert(one.name, "page") for one in ALERTS if one.name.endswith("Burn") and one.severity == "page"]
    targets = [one for rule in INHIBITIONS for one in matching(rule["targetMatch"])]

    assert len(lane_pages) == 7
    assert [one for one in lane_pages if one in targets] == []


# --- the table is the rules' own -----------------------------------------------------------------------------------------


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_the_table_says_what_the_alert_rules_say() -> None:
    """Name, severity and phase of each alert."""
    ruled = {(rule["alert"], rule["labels"]["severity"], rule["labels"]["phase"]) for rule in rules()}

    assert ruled == {(one.name, one.severity, one.phase) for one in ALERTS}


def test_the_alerts_carry_the_labels_that_the_table_says() -> None:
    """Comparisons, `and` and `unless` keep the labels of their left side, which is the first aggregation that stands there."""
    kept = {rule["alert"]: set(re.findall(r"\w+", first_by(rule["expr"]))) - {"le"} for rule in rules()}

    assert kept == {one.name: set(one.labels) for one in ALERTS}


def first_by(expr: str) -> str:
    found = re.search(r"\bby \(([^)]*)\)", expr)
    return found[1] if found else ""
