"""Rules, and the files that people read them in: recording rules and alerts in groups, as Prometheus takes them.

Knows YAML and nothing of latency. The files are committed, so that their users need no Python.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import yaml

from sidecar.config.quick_yaml import QuickDumper


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule. `why` becomes a comment above it."""

    name: str
    expr: str
    why: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert rule. `annotations` in full: summary, description, runbook_url, dashboard_url."""

    name: str
    expr: str
    why: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    hold: str = ""
    """The rule's `for`: empty fires at once."""
    kept: str = ""
    """The rule's `keep_firing_for`: empty ends at once."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after another, so that each sees what those before it have just recorded."""

    name: str
    rules: tuple[Record | Alert, ...]
    interval: str = "15s"
    why: str = ""


def tidy(expr: str) -> str:
    """An expression as it stands in the file: no common indent, no blank lines."""
    lines = [line.rstrip() for line in expr.strip("\n").splitlines() if line.strip()]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[indent:] for line in lines)


def written(groups: tuple[Group, ...], header: str) -> str:
    """One rule file."""
    parts = [*(f"# {line}".rstrip() for line in header.strip().splitlines()), "groups:"]
    for group in groups:
        parts += [f"  # {line}" for line in group.why.strip().splitlines()]
        parts += [f"  - name: {group.name}", f"    interval: {group.interval}", "    rules:"]
        for rule in group.rules:
            parts += [f"      # {line.strip()}" for line in rule.why.strip().splitlines()]
            text = yaml.dump([_fields(rule)], Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
            parts += [f"      {line}".rstrip() for line in text.splitlines()]
    return "\n".join(parts) + "\n"


def _fields(rule: Record | Alert) -> dict[str, Any]:
    if isinstance(rule, Record):
        fields: dict[str, Any] = {"record": rule.name, "expr": _Block(tidy(rule.expr))}
        return fields | ({"labels": dict(rule.labels)} if rule.labels else {})
    fields = {"alert": rule.name, "expr": _Block(tidy(rule.expr))}
    if rule.hold:
        fields["for"] = rule.hold
    if rule.kept:
        fields["keep_firing_for"] = rule.kept
    annotations = {
        name: _Block(text) if "{{ " in text and "query" in text else text for name, text in rule.annotations.items()
    }
    return fields | {"labels": dict(rule.labels), "annotations": annotations}


class _Block(str):
    """Text that stands in a block of its own, without escapes."""

    __slots__ = ()


class _Dumper(QuickDumper):
    """Expressions as blocks."""


def _block(dumper: yaml.SafeDumper, text: _Block) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|")


_Dumper.add_representer(_Block, _block)

_RULE_DURATION = re.compile(r"(?<=[\[:\s])(\d+)(s|m|h|d|w)(?=[\]:\s]|$)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


HELD_SECONDS = 20


def scaled(text: str, factor: float) -> str:
    """A rule file with every duration (windows, offsets, `for`, `interval`) multiplied; nothing else changes.

    For tests against live servers, which cannot wait for hours: 1m becomes 6s with 0.1. At least one second remains. Numbers
    of seconds that are compared with (8 s of silence) are the sidecar's own and stay. So does `HELD_SECONDS` of a `for`: a
    sidecar takes its 15 s to decide a miss, however fast rules are.
    """

    def one(match: re.Match[str], least: float = 1) -> str:
        return f"{max(least, round(int(match[1]) * _SECONDS[match[2]] * factor))}s"

    def line_of(line: str) -> str:
        words = line.strip()
        if words.startswith("#"):
            return line
        return _RULE_DURATION.sub(partial(one, least=HELD_SECONDS) if words == "for: 1m" else one, line)

    return "\n".join(map(line_of, text.split("\n")))
