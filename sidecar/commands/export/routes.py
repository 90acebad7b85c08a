"""Alertmanager's routes, receivers and messages: as they are shipped, or pruned to the kinds of notification that a team has.

Pruned: one receiver for pages and one for tickets, the messages inlined, one file for each secret. The phase stays in the grouping and
in every message. Both come out as a file and as an AlertmanagerConfig. It knows the shipped file's names, and opens no socket.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from sidecar.commands.export.inlined import definitions, inlined
from sidecar.commands.export.parameters import OLDEST_ALERTMANAGER, SECRETS, Parameters
from sidecar.commands.export.rules.operator import alertmanager_config, as_yaml, plain_yaml
from sidecar.commands.export.shipped_files import ALERT_RULES, shipped
from sidecar.commands.export.substitution import Substitution, same, substituted
from sidecar.config.quick_yaml import read_yaml


ROUTES = "alertmanager.yml"
MESSAGES = "templates/llm.tmpl"
ROUTES_OBJECT = "kubernetes/alertmanager-config.yaml"
PAGE_RECEIVER, TICKET_RECEIVER, WATCHDOG_RECEIVER = "default-page", "default-ticket", "watchdog"
"""Receivers of the shipped file: of pages and tickets without a phase of their own, and of the alert that always fires."""
PAGER_KEY = "pagerduty-key"
"""The file in the folder of secrets, and the key of the secret, with PagerDuty's integration key."""

_KINDS = {
    "slack": "slack_configs",
    "pagerduty": "pagerduty_configs",
    "webhook": "webhook_configs",
    "opsgenie": "opsgenie_configs",
    "teams": "msteamsv2_configs",
}
_NOT_SHIPPED: Mapping[str, Mapping[str, Any]] = {
    "opsgenie": {
        "api_key_file": f"{SECRETS}/opsgenie-key",
        "message": '{{ template "llm.headline" . }}',
        "description": '{{ template "llm.pagerduty.firing" . }}',
        "priority": "P1",
        "update_alerts": True,
        "details": {
            "phase": "{{ .CommonLabels.phase }}",
            "runbook": '{{ template "llm.runbook" . }}',
            "dashboard": '{{ template "llm.dashboard" . }}',
        },
    },
    "teams": {
        "webhook_url_file": f"{SECRETS}/teams-url",
        "send_resolved": True,
        "title": '{{ template "llm.title" . }}',
        "text": '{{ template "llm.teams.text" . }}',
    },
}
"""Entries of kinds that the shipped file does not have: Alertmanager 0.25 would refuse Teams, and a team has one pager."""
_PAGERS: Mapping[str, Mapping[str, str]] = {"pagerduty": {"severity": "warning"}, "opsgenie": {"priority": "P3"}}
"""Kinds that wake a person, and how a ticket is marked there."""
TOP_LEVEL_TEXT_SINCE = (0, 31)
"""Alertmanager's first version with `message_text` of Slack."""
_SLACK_TITLE = """title: '{{ template "llm.slack.title" . }}'"""
_SLACK_FALLBACK = """fallback: '{{ template "llm.slack.headline" . }}'"""
_WATCHDOG_URL = "https://watchdog.example.com/llm"


def route_files(given: Parameters) -> dict[str, str]:
    """Path below alert_rules/ to text."""
    folder = shipped(ALERT_RULES)
    names = (ROUTES, MESSAGES, "templates/kustomization.yaml")
    texts = substituted({name: (folder / name).read_text() for name in names}, _changes(given))
    config = read_yaml(texts[ROUTES])
    command = "sidecar export routes"
    if given.receivers:
        config = pruned(config, definitions(texts[MESSAGES]), given)
        command += f" --receivers={','.join(given.receivers)}"
        texts = {ROUTES: _file(config, command, given.alertmanager)}
    made = as_yaml(alertmanager_config(config), source="alert_rules/alertmanager.yml", command=command)
    return texts | {ROUTES_OBJECT: made}


def _changes(given: Parameters) -> list[Substitution]:
    named = given.severities.named
    # The top-level text has title and summary, so that the title is said once.
    above = [
        same("--alertmanager", _SLACK_TITLE, "title: ''"),
        same(
            "--alertmanager",
            _SLACK_FALLBACK,
            f"{_SLACK_FALLBACK}\n        message_text: {_SLACK_FALLBACK.partition(': ')[2]}",
        ),
    ]
    return [
        *(above if given.alertmanager_version >= TOP_LEVEL_TEXT_SINCE else []),
        same(
            "--alertmanager",
            f"Works with Alertmanager {OLDEST_ALERTMANAGER}",
            f"Works with Alertmanager {given.alertmanager}",
        ),
        # In one pass, so that a name may be exchanged with the other.
        Substitution("--severity", r'(?<=\bseverity=")(page|ticket)(?=")', lambda match: named(match[0])),
        Substitution("--severity", r'(?<=\.severity ")(page|ticket)(?=")', lambda match: named(match[0])),
        same("--secrets", SECRETS, given.secrets),
        same("--watchdog-url", _WATCHDOG_URL, given.watchdog_url or _WATCHDOG_URL),
        *given.identity.in_routes(),
    ]


def pruned(config: Mapping[str, Any], bodies: Mapping[str, str], given: Parameters) -> dict[str, Any]:
    """The shipped configuration without the phases' own routes and receivers, and with the given kinds of notification alone."""
    ours = deepcopy(dict(config))
    del ours["templates"]
    if "slack" not in given.receivers:
        del ours["global"]["slack_api_url_file"]
    kept = (PAGE_RECEIVER, WATCHDOG_RECEIVER)
    ours["route"]["routes"] = [route for route in ours["route"]["routes"] if route["receiver"] in kept]
    by_name = {receiver["name"]: receiver for receiver in ours["receivers"]}
    shipped_page = by_name[PAGE_RECEIVER]
    page = {
        kind: [deepcopy(dict(_NOT_SHIPPED[kind]))] if kind in _NOT_SHIPPED else shipped_page[_KINDS[kind]]
        for kind in given.receivers
    }
    _fitted(page, given)
    # A ticket can wait: it goes to a pager only where there is nothing else, as a warning.
    ticket = {kind: entries for kind, entries in page.items() if kind not in _PAGERS}
    if not ticket:
        ticket = {kind: [{**entry, **_PAGERS[kind]} for entry in entries] for kind, entries in page.items()}
    watchdog = by_name[WATCHDOG_RECEIVER] if given.watchdog_url else {"name": WATCHDOG_RECEIVER}
    receivers = [
        {"name": name, **{_KINDS[kind]: entries for kind, entries in kinds.items()}}
        for name, kinds in ((PAGE_RECEIVER, page), (TICKET_RECEIVER, ticket))
    ]
    ours["receivers"] = [watchdog, *inlined(receivers, bodies)]
    return ours


def _fitted(entries: Mapping[str, list[dict[str, Any]]], given: Parameters) -> None:
    """The team's own addresses, in place."""
    for pager in entries.get("pagerduty", []):
        pager["routing_key_file"] = f"{given.secrets}/{PAGER_KEY}"
    for chat in entries.get("slack", []):
        chat["channel"] = given.slack_channel or chat["channel"]
    for hook in entries.get("webhook", []):
        hook["url"] = given.webhook_url
    for kind in _NOT_SHIPPED.keys() & entries.keys():
        for entry in entries[kind]:
            entry |= {
                key: value.replace(SECRETS, given.secrets) for key, value in entry.items() if key.endswith("_file")
            }


def secret_files(config: Mapping[str, Any]) -> list[str]:
    """The files with secrets that a configuration names, each once."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                if key.endswith("_file") and one not in found:
                    found.append(one)
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(config)
    return found


def _file(config: Mapping[str, Any], command: str, alertmanager: str) -> str:
    secrets = ", ".join(secret_files(config)) or "none"
    watched = any("webhook_configs" in one for one in config["receivers"] if one["name"] == WATCHDOG_RECEIVER)
    silent = (
        ""
        if watched
        else "# Nothing hears the Watchdog: --watchdog-url names a service that calls you when it falls silent.\n"
    )
    return (
        f"# Written by `{command}`; write it anew, do not change it. Works with Alertmanager {alertmanager} and newer.\n"
        f"# Files with secrets that it reads: {secrets}.\n{silent}{plain_yaml(config)}"
    )
