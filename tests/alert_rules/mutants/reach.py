"""How a rule reaches the question of a scenario: through which other rules, and how many of them lie between.

A rule reads the series that its expression names; a question reads what its expression names, or the alerts that its matchers
let through. Knows names and static labels, and no value of anything.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import promql_parser as promql

from tests.alert_rules.promtool import Suite
from tests.alert_rules.syntax import recorded, rules, selectors


Place = int
"""A rule, by its place in the order in which all are evaluated."""


def reach(suite: Suite, question: Mapping[str, Any]) -> Mapping[Place, int]:
    """Every rule of the suite that the answer depends on, with its steps from the question: 0 for one that is asked for."""
    if "alertname" in question:
        return _steps(_alerts({"alertname": ("=", question["alertname"])}), frozenset(suite.groups), in_words=True)
    return _steps(_read(question["expr"]), frozenset(suite.groups), in_words=False)


def above(place: Place) -> Mapping[Place, int]:
    """The rule itself and every rule that it depends on, with its steps from it."""
    return _steps(frozenset({place}), frozenset(rule.group for rule in rules()), in_words=False)


@cache
def _steps(asked: frozenset[Place], groups: frozenset[str], *, in_words: bool) -> Mapping[Place, int]:
    found: dict[Place, int] = {}
    edge, step = asked, 0
    while edge:
        edge = frozenset(place for place in edge if place not in found and rules()[place].group in groups)
        found |= dict.fromkeys(edge, step)
        edge = frozenset().union(*(_sources(place, in_words=in_words) for place in edge))
        step += 1
    return found


@cache
def _sources(place: Place, *, in_words: bool) -> frozenset[Place]:
    """The rules that this one reads. `in_words`: in the queries of its annotations too."""
    rule = rules()[place]
    told = " ".join(rule.fields.get("annotations", {}).values()) if in_words else ""
    return _read(rule.expr) | _recorders(frozenset(name for name in recorded() if name in told))


@cache
def _read(expr: str) -> frozenset[Place]:
    nodes = selectors(promql.parse(expr))
    found = _recorders(frozenset(node.name or "" for node in nodes))
    for node in nodes:
        if node.name == "ALERTS":
            found |= _alerts({one.name: (str(one.op), one.value) for one in node.matchers.matchers})
    return found


def _recorders(names: frozenset[str]) -> frozenset[Place]:
    return frozenset(place for place, rule in enumerate(rules()) if rule.is_record and rule.name in names)


def _alerts(matchers: Mapping[str, tuple[str, str]]) -> frozenset[Place]:
    """The alerts that matchers let through, as far as static labels can say; a regular expression lets through all."""
    return frozenset(
        place
        for place, rule in enumerate(rules())
        if not rule.is_record
        for labels in [{**rule.labels, "alertname": rule.name}]
        if all(_lets_through(matchers[label], value) for label, value in labels.items() if label in matchers)
    )


def _lets_through(matcher: tuple[str, str], value: str) -> bool:
    match matcher:
        case ("=" | "MatchOp.Equal", wanted):
            return value == wanted
        case ("MatchOp.NotEqual", wanted):
            return value != wanted
    return True
