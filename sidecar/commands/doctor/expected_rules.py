"""The rules that must be loaded, from the shipped files.

Knows YAML. It refuses to know durations and thresholds: who changes them has still loaded the rules.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sidecar.commands.export.shipped_files import ALERT_RULES, DASHBOARD_RULES, shipped
from sidecar.config.quick_yaml import read_yaml


WATCHDOG = "Watchdog"
PAGES_GROUP = "llm-phase-pages"
"""The group of the lanes' pages: their severity is the one that pages."""
_FILES = "llm-*.yml"


@dataclass(frozen=True, slots=True)
class Expected:
    """The shipped rules, without those for pictures alone. `counts`: name of an alert or of a recorded series to the number of rules with it;
    `alerts`: name of an alert to the phases of its rules, empty for one that has it from its series; `severities`: to their severities.
    """

    counts: Mapping[str, int]
    alerts: Mapping[str, set[str]]
    severities: Mapping[str, Counter[str]]


@cache
def expected() -> Expected:
    """The rules of the shipped files. Raises NothingShippedError where the package has none."""
    groups = [
        group
        for path in sorted(shipped(ALERT_RULES).glob(_FILES))
        if path.name != DASHBOARD_RULES
        for group in read_yaml(path.read_text("utf-8"))["groups"]
    ]
    rules = [rule for group in groups for rule in group["rules"]]
    names = Counter(rule.get("alert") or rule["record"] for rule in rules)
    phases: dict[str, set[str]] = {}
    for rule in rules:
        if "alert" in rule:
            phases.setdefault(rule["alert"], set()).add(rule["labels"].get("phase", ""))
    return Expected(
        names, phases, severities_of((rule.get("alert", ""), rule["labels"]) for rule in rules if "alert" in rule)
    )


def severities_of(alerts: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, Counter[str]]:
    """Name of an alert to the severities of its rules; `alerts`: the name and the labels of each rule."""
    found: dict[str, Counter[str]] = {}
    for name, labels in alerts:
        found.setdefault(name, Counter())[labels.get("severity", "")] += 1
    return found


def ours(groups: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The loaded rules that have the name of a shipped one, each with its group's `interval` and `group`.

    `WATCHDOG` is a name of other packages too, such as kube-prometheus-stack's: only the shipped one has a phase.
    """
    names = expected().counts
    return [
        {**rule, "interval": float(group["interval"]), "group": group["name"]}
        for group in groups
        for rule in group["rules"]
        if rule["name"] in names and (rule["name"] != WATCHDOG or "phase" in rule["labels"])
    ]
