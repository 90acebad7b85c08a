"""The shipped Alertmanager file, as amtool reads it and as the table of alerts is held against it. No server runs here."""

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from sidecar.commands.demo.shipped import seconds_of
from sidecar.config.quick_yaml import read_yaml
from sidecar.metrics.target_labels import ONE_ENGINE
from tests.alert_rules.alert_table import ALERTS, INHIBITIONS, PHASES, Alert, matching, mutes
from tests.support.alertmanager import CONFIG, shipped
from tests.support.tools import need_tool


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(need_tool("amtool")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def receivers_of(labels: Mapping[str, str]) -> str:
    """The receivers of an alert with these labels, by Alertmanager's own judgement; several are joined with commas."""
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


@pytest.mark.long
def test_no_alert_that_we_ship_ends_with_the_default_receivers() -> None:
    heard = {(one.name, one.severity, one.phase): receivers_of(one.example()) for one in ALERTS}
    expected = {
        (one.name, one.severity, one.phase): "watchdog" if one.name == "Watchdog" else f"{one.phase}-{one.severity}"
        for one in ALERTS
    }

    assert heard == expected


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        pytest.param({"phase": "warp", "severity": "page"}, "default-page", id="an unknown phase"),
        pytest.param({"phase": "warp", "severity": "ticket"}, "default-ticket", id="its ticket"),
        pytest.param({"alertname": "NodeDown", "severity": "page"}, "default-page", id="no phase"),
        pytest.param({"alertname": "NodeDown"}, "default-ticket", id="neither phase nor severity"),
        pytest.param({"phase": "queue", "severity": "warning"}, "queue-ticket", id="an unknown severity"),
        pytest.param({"phase": "queue"}, "queue-ticket", id="no severity"),
    ],
)
def test_what_the_file_does_not_know_is_still_heard(labels: dict[str, str], receiver: str) -> None:
    """A page stays a page, and nothing else reaches a pager."""
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


def test_a_message_is_about_one_phase_of_one_engine() -> None:
    """Lanes, objectives, models and pods are its lines. Nothing below the root groups in another way."""
    assert shipped()["route"]["group_by"] == [*ONE_ENGINE, "phase"]
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
    assert {seconds_of(page["group_interval"]) for page in pages} == {300}
    assert seconds_of(root["group_wait"]) > 4 * 15


def test_a_rule_group_with_pages_is_evaluated_within_the_wait_of_a_page() -> None:
    """Else the page of a pod may miss the message of its lanes, and the same incident is told twice."""
    groups = read_yaml((CONFIG.parent / "llm-alerts.yml").read_text())["groups"]
    paging = [one for one in groups if any(rule.get("labels", {}).get("severity") == "page" for rule in one["rules"])]
    page = shipped()["route"]["routes"][1]["routes"][0]

    assert len(paging) == 3
    assert [one["name"] for one in paging if seconds_of(one["interval"]) >= seconds_of(page["group_wait"])] == []


# --- inhibition ----------------------------------------------------------------------------------------------------------


ORDER = ("engine", "sidecar", "stream", "first_token", "prefill", "decode", "queue", "unattributed")
"""The first mutes all that come after it."""
LANE_PAGES = [one for one in ALERTS if one.severity == "page" and "lane" in one.labels]
OF_ALL_LANES = ("engine", "sidecar")
"""The phases whose pages mute pages of other lanes and models too."""
POD_PAGES = [one for one in ALERTS if one.name == "LLMPodBurn" and one.severity == "page"]
each_inhibition = pytest.mark.parametrize("rule", INHIBITIONS, ids=lambda rule: rule["sourceMatch"][0]["value"])


def after(one: Alert, other: Alert) -> bool:
    return ORDER.index(one.phase) > ORDER.index(other.phase)


@each_inhibition
def test_every_alert_that_mutes_or_is_muted_has_the_labels_that_must_be_equal(rule: dict[str, Any]) -> None:
    """Missing on both sides is equal for Alertmanager: one alert without `pod` would mute all others without it."""
    sources, targets = matching(rule["sourceMatch"]), matching(rule["targetMatch"])

    assert sources
    assert targets
    assert [one.name for one in (*sources, *targets) if not set(rule["equal"]) <= set(one.labels)] == []


@each_inhibition
def test_each_rule_asks_both_sides_for_the_labels_that_tell_alerts_apart(rule: dict[str, Any]) -> None:
    """For all labels that alerts may carry one day: without those labels neither mutes nor is muted."""
    of_source, of_target = (
        {one["name"] for one in rule[side] if one["matchType"] == "!="} for side in ("sourceMatch", "targetMatch")
    )

    pages = {"name": "severity", "value": "page", "matchType": "="} in rule["targetMatch"]
    paged = {"lane", "job"} if pages else {"job"}
    (phase,) = [one["value"] for one in rule["sourceMatch"] if one["name"] == "phase"] or [""]
    own = {"lane", "model"} if "lane" in of_source and pages and phase not in OF_ALL_LANES else of_source & {"pod"}
    assert (of_source, of_target) in (({"lane", "job"}, paged), ({"pod", "job"}, {"pod", "job"}))
    assert set(rule["equal"]) == {*ONE_ENGINE} | own


def test_no_alerts_mute_each_other_in_a_circle() -> None:
    """So of every set of alerts at least one is told: what nothing before it mutes."""
    left = list(ALERTS)
    while free := [one for one in left if not any(mutes(other, one) for other in left)]:
        left = [one for one in left if one not in free]

    assert left == []


def test_the_pages_of_lanes_mute_each_other_by_one_strict_order_of_phases() -> None:
    """Within a lane and model all of them, across lanes or models those of the engine and of the sidecar alone."""
    assert sorted(ORDER) == sorted(PHASES)
    assert [
        (source.name, target.name, differ)
        for source in LANE_PAGES
        for target in LANE_PAGES
        for differ in ("", "lane", "model")
        if mutes(source, target, differ) != (after(target, source) and (not differ or source.phase in OF_ALL_LANES))
    ] == []


def test_a_lanes_page_mutes_no_pods_page() -> None:
    """Lanes leave the misses of an odd pod out, so that its page is about another fault."""
    pods = [one for one in ALERTS if one.severity == "page" and "pod" in one.labels]

    assert [(lane.phase, pod.name) for lane in LANE_PAGES for pod in pods if mutes(lane, pod)] == []


def test_a_pods_alert_mutes_only_what_carries_the_same_pod() -> None:
    pods = [one for one in ALERTS if "pod" in one.labels]

    assert [
        (one.name, other.name) for one in pods for other in ALERTS if mutes(one, other) and "pod" not in other.labels
    ] == []


def test_a_page_mutes_tickets_of_its_phase_and_of_later_ones() -> None:
    """On the same engine, in whatever lane; a pod's page only those of this pod. What a sidecar without CPU measures names no phase. No ticket
    mutes a page.
    """
    pages = [one for one in ALERTS if one.severity == "page" and {"lane", "pod"} & {*one.labels}]
    tickets = [one for one in ALERTS if one.severity == "ticket"]

    starved = {"LLMSidecarStarved", "LLMPodBurn"}

    assert [
        (page.name, ticket.name)
        for page in pages
        for ticket in tickets
        if mutes(page, ticket, "lane", "model")
        != (
            {page.name, ticket.name} == starved
            or (not after(page, ticket) and ("pod" not in page.labels or "pod" in ticket.labels))
        )
    ] == []
    assert [
        (one.name, page.name) for one in tickets for page in ALERTS if page.severity == "page" and mutes(one, page)
    ] == []


def test_pages_of_state_are_muted_by_what_explains_them_and_by_nothing_else() -> None:
    state = [one for one in ALERTS if one.severity == "page" and not one.name.endswith("Burn")]
    muted = {one.name: sorted({other.name for other in ALERTS if mutes(other, one)}) for one in state}
    muted["LLMPodBurn"] = sorted({one.name for one in state for pod in POD_PAGES if mutes(one, pod)})

    assert {name: others for name, others in muted.items() if others} == {
        "LLMNothingComesBack": ["LLMEngineDown", "LLMSidecarStarved"],
        "LLMPodBurn": ["LLMEngineDown", "LLMNothingComesBack", "LLMSidecarStarved"],
    }


def test_every_alert_that_a_rule_names_exists() -> None:
    named = {
        name
        for rule in INHIBITIONS
        for one in (*rule["sourceMatch"], *rule["targetMatch"])
        if one["name"] == "alertname" and "+" not in one["value"]
        for name in one["value"].split("|")
    }

    assert named - {one.name for one in ALERTS} == set()
