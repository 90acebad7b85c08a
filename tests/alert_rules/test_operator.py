"""The objects for prometheus-operator say what the files say, in the fields that the operator knows. No cluster runs here."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from sidecar.config.quick_yaml import read_yaml
from sidecar.export.rules.operator import SECRET, alertmanager_config, as_yaml, prometheus_rule
from tests.support.alertmanager import CONFIG, shipped


FOLDER = CONFIG.parent
RULE_FILES = [FOLDER / "llm-recording.yml", FOLDER / "llm-alerts.yml"]
KNOWN_FIELDS = {
    "spec": {"route", "receivers", "inhibitRules", "muteTimeIntervals"},
    "route": {"receiver", "groupBy", "groupWait", "groupInterval", "repeatInterval", "matchers", "continue", "routes"},
    "matcher": {"name", "value", "matchType", "regex"},
    "inhibitRule": {"targetMatch", "sourceMatch", "equal"},
    "receiver": {"name", "pagerdutyConfigs", "slackConfigs", "webhookConfigs"},
    "pagerdutyConfigs": {
        *("sendResolved", "routingKey", "serviceKey", "url", "client", "clientURL"),
        *("description", "severity", "class", "group", "component", "details"),
    },
    "slackConfigs": {
        *("sendResolved", "apiURL", "channel", "username", "color"),
        *("title", "titleLink", "text", "fallback", "footer"),
    },
    "webhookConfigs": {"sendResolved", "url", "urlSecret", "maxAlerts"},
    "secret": {"name", "key", "optional"},
}
"""Fields that the operator's v1alpha1 types name (pkg/apis/monitoring/v1alpha1/alertmanager_config_types.go, 2026), as far as needed."""

MADE = alertmanager_config(shipped())


def routes_of(route: dict[str, Any]) -> list[dict[str, Any]]:
    return [route, *(inner for child in route.get("routes", []) for inner in routes_of(child))]


def as_the_operator_reads_it(made: dict[str, Any]) -> dict[str, Any]:
    """Back to the words of a file, as the operator does it: its keys in snake case, its matchers as text."""

    def matchers(listed: list[dict[str, str]]) -> list[str]:
        return [f'{one["name"]}{one["matchType"]}"{one["value"]}"' for one in listed]

    def snake(mapping: dict[str, Any]) -> dict[str, Any]:
        return {re.sub(r"([A-Z])(?=[a-z])", lambda hump: f"_{hump[1].lower()}", key): mapping[key] for key in mapping}

    def route(one: dict[str, Any]) -> dict[str, Any]:
        read = snake(one)
        if "matchers" in read:
            read["matchers"] = matchers(read["matchers"])
        if "routes" in read:
            read["routes"] = [route(child) for child in read["routes"]]
        return read

    def receiver(one: dict[str, Any]) -> dict[str, Any]:
        read = {kind: [snake(entry) for entry in one[kind]] for kind in one if kind != "name"}
        for slack in read.get("slackConfigs", []):
            del slack["apiURL"]
        for pager in read.get("pagerdutyConfigs", []):
            pager["routing_key_file"] = f"/etc/alertmanager/secrets/{pager.pop('routing_key')['key']}"
            pager["details"] = {detail["key"]: detail["value"] for detail in pager["details"]}
        return {"name": one["name"], **snake(read)}

    spec = made["spec"]
    return {
        "route": route(spec["route"]),
        "inhibit_rules": [
            {
                "source_matchers": matchers(rule["sourceMatch"]),
                "target_matchers": matchers(rule["targetMatch"]),
                "equal": rule["equal"],
            }
            for rule in spec["inhibitRules"]
        ],
        "receivers": [receiver(one) for one in spec["receivers"]],
    }


# --- AlertmanagerConfig --------------------------------------------------------------------------------------------------


def test_the_object_says_what_the_file_says() -> None:
    """Read back, it is the file: but for what an object cannot say, and the root that takes only our own alerts."""
    expected = shipped()
    del expected["global"], expected["templates"]
    expected["route"]["matchers"] = ['alertname=~"LLM.+|Watchdog"']
    for receiver in expected["receivers"]:
        for pager in receiver.get("pagerduty_configs", []):
            del pager["links"]

    assert as_the_operator_reads_it(MADE) == expected


def test_every_field_is_one_that_the_operator_knows() -> None:
    """It refuses the whole object for one that it does not."""
    spec, routes = MADE["spec"], routes_of(MADE["spec"]["route"])
    matchers = [one for route in routes for one in route.get("matchers", [])]
    matchers += [one for rule in spec["inhibitRules"] for one in (*rule["sourceMatch"], *rule["targetMatch"])]
    entries = [(kind, entry) for one in spec["receivers"] for kind in one if kind != "name" for entry in one[kind]]
    secrets = [entry[key] for _, entry in entries for key in ("apiURL", "routingKey") if key in entry]
    used = [
        ("spec", spec),
        *(("route", one) for one in routes),
        *(("matcher", one) for one in matchers),
        *(("inhibitRule", one) for one in spec["inhibitRules"]),
        *(("receiver", one) for one in spec["receivers"]),
        *entries,
        *(("secret", one) for one in secrets),
    ]

    assert {kind for kind, _ in used} == set(KNOWN_FIELDS)
    assert [(kind, field) for kind, one in used for field in one if field not in KNOWN_FIELDS[kind]] == []


def test_every_secret_has_the_name_of_the_file_that_it_stands_for() -> None:
    entries = [
        entry
        for one in MADE["spec"]["receivers"]
        for kind in ("slackConfigs", "pagerdutyConfigs")
        for entry in one.get(kind, [])
    ]
    secrets = [entry["apiURL"] if "apiURL" in entry else entry["routingKey"] for entry in entries]
    files = re.findall(r"/secrets/([\w-]+)", CONFIG.read_text())

    assert {secret["name"] for secret in secrets} == {SECRET}
    assert {secret["key"] for secret in secrets} == set(files)


def test_no_address_is_a_template() -> None:
    """Operator 0.88 refuses those: an address is checked before it is filled in."""
    addresses = [hook["url"] for one in MADE["spec"]["receivers"] for hook in one.get("webhookConfigs", [])]

    assert len(addresses) == len(MADE["spec"]["receivers"])
    assert [address for address in addresses if not re.fullmatch(r"https://[\w./-]+", address)] == []


def break_route(config: dict[str, Any]) -> None:
    config["route"]["routes"][1]["mute_time_intervals"] = ["nights"]


def break_receiver(config: dict[str, Any]) -> None:
    config["receivers"][0]["email_configs"] = [{"to": "oncall@example.com"}]


def break_slack(config: dict[str, Any]) -> None:
    config["receivers"][1]["slack_configs"][0]["username"] = "llm"


def break_matcher(config: dict[str, Any]) -> None:
    config["route"]["routes"][0]["matchers"] = ["alertname=Watchdog"]


def break_file(config: dict[str, Any]) -> None:
    config["time_intervals"] = []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (break_route, "mute_time_intervals"),
        (break_receiver, "email_configs"),
        (break_slack, "username"),
        (break_matcher, "alertname=Watchdog"),
        (break_file, "time_intervals"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_translated_is_refused_by_name(change: Callable[[dict[str, Any]], None], complaint: str) -> None:
    """Left out silently, it would be missing in the cluster alone."""
    config = deepcopy(shipped())
    change(config)

    with pytest.raises(ValueError, match=complaint):
        alertmanager_config(config)


# --- PrometheusRule ------------------------------------------------------------------------------------------------------


def test_all_groups_of_all_files_are_in_one_object_in_order() -> None:
    first = {"groups": [{"name": "a", "rules": [{"record": "x", "expr": "1"}]}]}
    second = {"groups": [{"name": "b", "rules": [{"alert": "X", "expr": "x\n> 1\n"}]}]}
    made = prometheus_rule([first, second])

    assert (made["apiVersion"], made["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert made["spec"]["groups"] == first["groups"] + second["groups"]


def test_two_groups_of_one_name_are_refused() -> None:
    """Files may have them; the operator refuses the object."""
    with pytest.raises(ValueError, match="lanes"):
        prometheus_rule([{"groups": [{"name": "lanes", "rules": []}]}] * 2)


def test_an_expression_of_several_lines_stays_readable() -> None:
    """And reads back as it was."""
    rule = {"groups": [{"name": "a", "rules": [{"record": "x", "expr": "sum(\n  y\n)\n"}]}]}
    text = as_yaml(prometheus_rule([rule]), source="a.yml", command="a command")

    assert "expr: |\n        sum(\n          y\n        )\n" in text
    assert read_yaml(text)["spec"]["groups"] == rule["groups"]


# --- the generated files -------------------------------------------------------------------------------------------------


def test_the_object_for_alertmanager_is_in_step_with_the_file() -> None:
    """`sidecar export routes` writes it anew."""
    generated = (FOLDER / "kubernetes" / "alertmanager-config.yaml").read_text()

    assert generated == as_yaml(MADE, source="alert_rules/alertmanager.yml", command="sidecar export routes")


def test_the_object_for_prometheus_is_in_step_with_the_rules() -> None:
    """`sidecar export rules` writes it anew."""
    generated = (FOLDER / "kubernetes" / "prometheus-rule.yaml").read_text()
    made = prometheus_rule([read_yaml(file.read_text()) for file in RULE_FILES])

    assert generated == as_yaml(made, source="the rule files", command="sidecar export rules")
