"""The same rules and routes as objects of prometheus-operator: what is written for files comes out for Kubernetes.

It knows the field names of two objects, PrometheusRule (monitoring.coreos.com/v1) and AlertmanagerConfig (v1alpha1), read in
the operator's `pkg/apis/monitoring` of 2026, and only those kinds of notification that alertmanager.yml uses: a field that
it does not know is an error, never left out silently. It reads and writes no file.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml

from sidecar.commands.export.rules.rulers import PROMETHEUS
from sidecar.config.quick_yaml import QuickDumper


Object = dict[str, Any]
"""A mapping as `yaml.safe_load` reads it."""

RELEASE = "kube-prometheus-stack"
"""By default kube-prometheus-stack picks up only what carries the name of its Helm release in the label `release`."""
OBJECT_LABELS = {"app.kubernetes.io/name": "llm-phase-sidecar", "release": RELEASE}

SECRET = "llm-alert-receivers"  # noqa: S105  the secret's name
"""In the same namespace. Its keys are the names of the files that alertmanager.yml expects under secrets/."""

OURS = {"name": "alertname", "matchType": "=~", "value": "LLM.+|Watchdog"}
"""The root of a file gets every alert of its Alertmanager; an object is one root among others and must not."""

_MATCHER = re.compile(r'(?P<name>\w+)(?P<matchType>=~|!~|!=|=)"(?P<value>[^"\\]*)"')
_SHORT = 100
"""Characters of keys and values up to which a mapping stands in one line."""
_DROPPED = {"links"}
"""Operator 0.88 refuses templates in PagerDuty's links (its issue 8291 is the same for Slack); `details` has both links."""


def prometheus_rule(
    rule_files: Iterable[Mapping[str, Any]],
    *,
    name: str = "llm-phase-sidecar",
    of: tuple[str, str] = PROMETHEUS.rules_object,
) -> Object:
    """The groups of all rule files, as `yaml.safe_load` read them, in one PrometheusRule; rules have the same fields there.

    `of`: `apiVersion` and `kind` of another ruler's object, whose groups are written alike.

    Raises ValueError for two groups of one name: files may have them, an object may not.
    """
    groups = [group for rule_file in rule_files for group in rule_file["groups"]]
    names = [group["name"] for group in groups]
    if twice := sorted({group for group in names if names.count(group) > 1}):
        raise ValueError(f"rule groups with the same name: {', '.join(twice)}")
    return {
        "apiVersion": of[0],
        "kind": of[1],
        "metadata": {"name": name, "labels": dict(OBJECT_LABELS)},
        "spec": {"groups": groups},
    }


def alertmanager_config(config: Mapping[str, Any], *, name: str = "llm-phase-sidecar") -> Object:
    """An Alertmanager configuration file, as `yaml.safe_load` read it, as an AlertmanagerConfig.

    What an object cannot say stays out: `templates` (they are mounted at the Alertmanager itself) and `global`, whose Slack
    address goes into every receiver that uses Slack. Raises ValueError for a field that is not known here.
    """
    _known("the file", config, "global", "templates", "route", "inhibit_rules", "receivers")
    _known("global", config["global"], "resolve_timeout", "slack_api_url_file")
    root = _route(config["route"])
    return {
        "apiVersion": "monitoring.coreos.com/v1alpha1",
        "kind": "AlertmanagerConfig",
        "metadata": {"name": name, "labels": dict(OBJECT_LABELS)},
        "spec": {
            "route": {"matchers": [dict(OURS)], **root},
            "inhibitRules": [_inhibit_rule(rule) for rule in config["inhibit_rules"]],
            "receivers": [_receiver(receiver, config["global"]) for receiver in config["receivers"]],
        },
    }


def as_yaml(made: Object, *, source: str, command: str) -> str:
    """The text of the file that holds the object `made`; `source` names the files it was made from, `command` what made it."""
    return f"# Generated from {source} by `{command}`; change those and run it again.\n{plain_yaml(made)}"


def plain_yaml(made: Mapping[str, Any]) -> str:
    """The same text, without the line that says where it comes from."""
    return yaml.dump(made, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=4096)


# --- parts ---------------------------------------------------------------------------------------------------------------


def _route(route: Mapping[str, Any]) -> Object:
    made: Object = {}
    for key, value in route.items():
        match key:
            case "receiver":
                made["receiver"] = value
            case "group_by" | "group_wait" | "group_interval" | "repeat_interval":
                made[_camel(key)] = value
            case "matchers":
                made["matchers"] = [_matcher(matcher) for matcher in value]
            case "routes":
                made["routes"] = [_route(child) for child in value]
            case _:
                raise ValueError(f"a route has the field {key!r}, which is not known here")
    return made


def _inhibit_rule(rule: Mapping[str, Any]) -> Object:
    _known("an inhibition rule", rule, "source_matchers", "target_matchers", "equal")
    return {
        "sourceMatch": [_matcher(matcher) for matcher in rule["source_matchers"]],
        "targetMatch": [_matcher(matcher) for matcher in rule["target_matchers"]],
        "equal": rule["equal"],
    }


def _matcher(text: str) -> Object:
    """`phase="queue"` in its three parts."""
    if (parts := _MATCHER.fullmatch(text)) is None:
        raise ValueError(f'{text!r} is no matcher of the form name="value"')
    return {"name": parts["name"], "matchType": parts["matchType"], "value": parts["value"]}


def _receiver(receiver: Mapping[str, Any], defaults: Mapping[str, Any]) -> Object:
    kinds = {
        "pagerduty_configs": _pagerduty,
        "slack_configs": _slack,
        "webhook_configs": _webhook,
        "opsgenie_configs": _opsgenie,
        "msteamsv2_configs": _teams,
    }
    _known(f"receiver {receiver.get('name')}", receiver, "name", *kinds)
    made: Object = {"name": receiver["name"]}
    for kind, make in kinds.items():
        if kind in receiver:
            made[_camel(kind)] = [make(entry, defaults) for entry in receiver[kind]]
    return made


def _pagerduty(entry: Mapping[str, Any], _defaults: Mapping[str, Any]) -> Object:
    plain = ("severity", "description", "class", "component", "group")
    _known("a PagerDuty entry", entry, "routing_key_file", "details", *plain, *_DROPPED)
    details = [{"key": key, "value": value} for key, value in entry["details"].items()]
    return {
        "routingKey": _secret(entry["routing_key_file"]),
        **{key: entry[key] for key in plain},
        "details": details,
    }


def _slack(entry: Mapping[str, Any], defaults: Mapping[str, Any]) -> Object:
    plain = ("channel", "send_resolved", "color", "title", "text", "fallback", "message_text")
    _known("a Slack entry", entry, *plain)
    given = {_camel(key): entry[key] for key in plain if key in entry}
    return {"apiURL": _secret(defaults["slack_api_url_file"]), **given}


def _webhook(entry: Mapping[str, Any], _defaults: Mapping[str, Any]) -> Object:
    _known("a webhook entry", entry, "url", "send_resolved")
    return {_camel(key): value for key, value in entry.items()}


def _opsgenie(entry: Mapping[str, Any], _defaults: Mapping[str, Any]) -> Object:
    plain = ("message", "description", "priority", "update_alerts")
    _known("an Opsgenie entry", entry, "api_key_file", "details", *plain)
    details = [{"key": key, "value": value} for key, value in entry["details"].items()]
    return {"apiKey": _secret(entry["api_key_file"]), **{_camel(key): entry[key] for key in plain}, "details": details}


def _teams(entry: Mapping[str, Any], _defaults: Mapping[str, Any]) -> Object:
    plain = ("send_resolved", "title", "text")
    _known("a Teams entry", entry, "webhook_url_file", *plain)
    return {"webhookURL": _secret(entry["webhook_url_file"]), **{_camel(key): entry[key] for key in plain}}


def _secret(path: str) -> Object:
    """The key of the secret that holds what the file holds."""
    return {"name": SECRET, "key": PurePosixPath(path).name}


def _camel(name: str) -> str:
    """`group_wait` as Kubernetes writes it: `groupWait`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _known(what: str, has: Mapping[str, Any], *fields: str) -> None:
    if strangers := sorted(set(has) - set(fields)):
        raise ValueError(f"{what} has fields that are not known here: {', '.join(strangers)}")


class _Plain(QuickDumper):
    """Long expressions stay readable: a text of several lines stands as a block, and nothing is shortened to an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the hook's shape
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        """A short mapping, such as a matcher, stands in one line."""
        node = super().represent_mapping(tag, mapping, flow_style)
        parts = [one for pair in node.value for one in pair]
        if all(isinstance(one, yaml.ScalarNode) and "\n" not in one.value for one in parts):
            node.flow_style = sum(len(one.value) for one in parts) < _SHORT
        return node

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        """A list of texts, such as matchers, stands in one line, whatever its length: they are read as one condition."""
        node = super().represent_sequence(tag, sequence, flow_style)
        node.flow_style = all(isinstance(one, yaml.ScalarNode) for one in node.value)
        return node


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _block)
