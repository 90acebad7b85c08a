"""Routes for the kinds of notification that a team has: Alertmanager takes them, and every phase's page reaches its receiver."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.commands.export.parameters import RECEIVERS, SECRETS, Parameters
from sidecar.commands.export.routes import (
    PAGE_RECEIVER,
    ROUTES,
    ROUTES_OBJECT,
    TICKET_RECEIVER,
    route_files,
    secret_files,
)
from sidecar.commands.export.rules.operator import SECRET
from sidecar.commands.export.rules.rule_files import files
from sidecar.commands.export.rules.severity import Severities
from sidecar.config.quick_yaml import read_yaml
from sidecar.pod.causes import ROOT_PHASES
from tests.alert_rules.alert_table import PHASES
from tests.commands.export.receiver_sets import NEEDS_NEWER, SETS, SHIPPED_AND_SETS, URL, flags_of
from tests.commands.export.walk import PRUNED, disagreements
from tests.commands.export.written import export
from tests.support.tools import need_newer, need_tool


def given(kinds: tuple[str, ...], **more: Any) -> Parameters:
    newest = {"alertmanager": "0.28"} if NEEDS_NEWER in kinds else {}
    return Parameters(receivers=kinds, webhook_url=URL if "webhook" in kinds else "", **newest | more)


def config_of(parameters: Parameters) -> dict[str, Any]:
    config: dict[str, Any] = read_yaml(route_files(parameters)[ROUTES])
    return config


def amtool(*arguments: str, newer: bool = False) -> str:
    command = [str(need_newer("amtool") if newer else need_tool("amtool")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- what Alertmanager says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", SHIPPED_AND_SETS.values(), ids=SHIPPED_AND_SETS)
def test_alertmanager_takes_the_routes_of_every_set_of_receivers(kinds: tuple[str, ...], tmp_path: Path) -> None:
    flags = ["--severity.page=critical", "--severity.ticket=warning", "--watchdog-url=https://dead.example.org/x"]
    texts = export(tmp_path, "routes", *flags, *flags_of(kinds))

    assert "SUCCESS" in amtool("check-config", str(tmp_path / ROUTES), newer=NEEDS_NEWER in kinds)
    assert {name for name in texts if name.endswith(".tmpl")} == (set() if kinds else {"templates/llm.tmpl"})


@pytest.mark.parametrize("kinds", [(), ("slack",)], ids=["shipped", "slack"])
def test_a_newer_alertmanager_gets_slacks_top_level_text_which_a_push_notification_shows(
    kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """The title is said there, and not twice. An older one would refuse the field, and shows the fallback."""
    export(tmp_path, "routes", "--alertmanager=0.31", *flags_of(kinds))
    receivers = read_yaml((tmp_path / ROUTES).read_text())["receivers"]
    chats = [chat for one in receivers for chat in one.get("slack_configs", [])]
    made = read_yaml((tmp_path / ROUTES_OBJECT).read_text())["spec"]["receivers"]

    assert "SUCCESS" in amtool("check-config", str(tmp_path / ROUTES), newer=True)
    assert len(chats) >= 2
    assert [chat for chat in chats if chat["message_text"] != chat["fallback"] or chat["title"]] == []
    assert all(chat["messageText"] for one in made for chat in one.get("slackConfigs", []))
    assert "message_text" not in config_of(given(kinds))["receivers"][1]["slack_configs"][0]


@pytest.mark.long
@pytest.mark.parametrize("severity", ["critical", "warning"])
@pytest.mark.parametrize("kinds", SETS[:4], ids="+".join)
def test_a_page_of_each_phase_walks_to_the_receiver_of_pages(
    kinds: tuple[str, ...], severity: str, tmp_path: Path
) -> None:
    """And a ticket to that of tickets, as amtool walks them."""
    path = tmp_path / ROUTES
    path.write_text(route_files(given(kinds, severities=Severities("critical", "warning")))[ROUTES])
    receiver = PAGE_RECEIVER if severity == "critical" else TICKET_RECEIVER
    heard = {
        phase: amtool(
            "config", "routes", "test", f"--config.file={path}", f"phase={phase}", f"severity={severity}"
        ).strip()
        for phase in PHASES
    }

    assert set(ROOT_PHASES) <= set(PHASES)
    assert heard == dict.fromkeys(PHASES, receiver)


# --- what they hold --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", SETS, ids="+".join)
def test_only_the_kinds_that_the_team_has_are_left_with_one_secret_each(kinds: tuple[str, ...]) -> None:
    config = config_of(given(kinds))
    receivers = {one.pop("name"): set(one) for one in config["receivers"]}
    secrets = {"slack": "slack-url", "pagerduty": "pagerduty-key", "opsgenie": "opsgenie-key", "teams": "teams-url"}
    quiet = [kind for kind in kinds if kind not in ("pagerduty", "opsgenie")] or kinds

    assert receivers == {
        "watchdog": set(),
        PAGE_RECEIVER: {f"{kind}_configs".replace("teams", "msteamsv2") for kind in kinds},
        TICKET_RECEIVER: {f"{kind}_configs".replace("teams", "msteamsv2") for kind in quiet},
    }
    assert receivers.keys() == PRUNED
    assert secret_files(config) == [f"{SECRETS}/{secrets[kind]}" for kind in kinds if kind in secrets]
    assert "templates" not in config


def test_where_the_pager_is_all_there_is_a_ticket_is_a_warning() -> None:
    receivers = {one["name"]: one for one in config_of(given(("pagerduty",)))["receivers"]}

    assert [receivers[name]["pagerduty_configs"][0]["severity"] for name in (PAGE_RECEIVER, TICKET_RECEIVER)] == [
        "critical",
        "warning",
    ]
    receivers = {one["name"]: one for one in config_of(given(("opsgenie",)))["receivers"]}
    assert [receivers[name]["opsgenie_configs"][0]["priority"] for name in (PAGE_RECEIVER, TICKET_RECEIVER)] == [
        "P1",
        "P3",
    ]


def test_the_teams_own_addresses_are_in_the_file() -> None:
    config = config_of(
        given(RECEIVERS, slack_channel="#on-call", watchdog_url="https://dead.example.org/x", secrets="/run/secrets")
    )
    receivers = {one["name"]: one for one in config["receivers"]}
    page = receivers[PAGE_RECEIVER]

    assert page["slack_configs"][0]["channel"] == "#on-call"
    assert page["webhook_configs"] == [{"url": URL}]
    assert receivers["watchdog"]["webhook_configs"] == [{"url": "https://dead.example.org/x", "send_resolved": False}]
    keys = ("slack-url", "pagerduty-key", "opsgenie-key", "teams-url")
    assert secret_files(config) == [f"/run/secrets/{key}" for key in keys]
    assert "example.com" not in yaml.safe_dump(config)


def test_each_message_names_the_phase_and_one_phase_is_one_message() -> None:
    config = config_of(given(RECEIVERS))
    page = next(one for one in config["receivers"] if one["name"] == PAGE_RECEIVER)
    texts = [
        page["slack_configs"][0]["title"],
        page["pagerduty_configs"][0]["class"],
        page["pagerduty_configs"][0]["description"],
    ]

    assert [text for text in texts if ".CommonLabels.phase" not in text] == []
    assert config["route"]["group_by"] == ["cluster", "namespace", "job", "phase"]
    assert [route for route in config["route"]["routes"] if "group_by" in route] == []


def test_the_timings_and_the_inhibition_are_the_shipped_ones() -> None:
    shipped, own = config_of(Parameters()), config_of(given(("slack",)))
    timings = [
        {key: value for key, value in config["route"].items() if key not in ("routes", "receiver")}
        for config in (shipped, own)
    ]

    assert timings[0] == timings[1]
    assert own["inhibit_rules"] == shipped["inhibit_rules"]
    assert own["route"]["routes"] == [shipped["route"]["routes"][0], shipped["route"]["routes"][-1]]


def test_the_object_for_the_operator_is_pruned_alike() -> None:
    """One secret, whose keys are the names of the files, and no template that would have to be mounted."""
    made = read_yaml(route_files(given(("slack", "pagerduty")))[ROUTES_OBJECT])
    receivers = {one["name"]: one for one in made["spec"]["receivers"]}
    page = receivers[PAGE_RECEIVER]

    assert receivers.keys() == PRUNED
    assert page["slackConfigs"][0]["apiURL"] == {"name": SECRET, "key": "slack-url"}
    assert page["pagerdutyConfigs"][0]["routingKey"] == {"name": SECRET, "key": "pagerduty-key"}
    assert 'template "llm.slack.text"' not in yaml.safe_dump(made)


# --- rules and routes fit --------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kinds", [(), ("slack",), RECEIVERS], ids=lambda kinds: "+".join(kinds) or "shipped")
@pytest.mark.parametrize("names", [("page", "ticket"), ("critical", "warning"), ("ticket", "page")])
def test_rules_and_routes_of_one_set_of_names_fit(kinds: tuple[str, ...], names: tuple[str, str]) -> None:
    severities = Severities(*names)
    rules = files(severities=severities)["llm-alerts.yml"]
    routes = route_files(given(kinds, severities=severities))[ROUTES]

    assert disagreements(rules, routes, *names) == []


def test_renamed_rules_beside_shipped_routes_do_not() -> None:
    """The mistake that the flags prevent: every page would be a ticket."""
    rules = files(severities=Severities("critical", "warning"))["llm-alerts.yml"]
    found = disagreements(rules, route_files(Parameters())[ROUTES], "critical", "warning")

    assert "LLMQueueBurn: severity critical goes to queue-ticket" in found
    assert "the routes ask for severity page, which no alert has" in found
