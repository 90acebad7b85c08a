"""Alertmanager's routing, walked as it walks it: matchers, routes, inhibition, silences. Pure; a config and labels in, receivers out.

Follows Alertmanager 0.25 (`dispatch/route.go`, `inhibit/inhibit.go`, `pkg/labels`): a label that is missing equals the empty text,
expressions are anchored, the first route that matches takes the alert unless it says `continue`. It refuses to send anything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sidecar.commands.doctor.gathered import seconds


Labels = Mapping[str, str]
Config = Mapping[str, Any]
GROUP_WAIT = "30s"
"""Alertmanager's default."""
_CONDITION = re.compile(r'\s*([a-zA-Z_:][\w:]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\s]*))\s*')


def fits(expression: str, text: str) -> re.Match[str] | None:
    """The match of an anchored expression. Raises ValueError for one that Python cannot read."""
    try:
        return re.fullmatch(expression, text, re.DOTALL)
    except re.error as error:  # RE2 knows forms that Python does not, such as \pL
        raise ValueError(f"the expression {expression!r} cannot be read here: {error}") from error


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label."""

    name: str
    sign: str
    value: str

    def holds(self, labels: Labels) -> bool:
        """Raises ValueError for an expression that Python cannot read."""
        has = labels.get(self.name, "")
        if self.sign in ("=", "!="):
            return (has == self.value) == (self.sign == "=")
        return (fits(self.value, has) is not None) == (self.sign == "=~")


@dataclass(frozen=True, slots=True)
class Way:
    """One route that takes an alert, with the options that it inherited."""

    receiver: str
    group_wait_seconds: float
    muted_by: tuple[str, ...]
    """Names of time intervals that may hold messages back."""


def read_matchers(texts: str | Iterable[str]) -> list[Matcher]:
    """The conditions of a list such as `[phase="queue", severity=~"page|critical"]`. Raises ValueError."""
    return [one for text in ([texts] if isinstance(texts, str) else texts) for one in _matchers_of(text)]


@cache
def _matchers_of(text: str) -> tuple[Matcher, ...]:
    found = []
    rest = text.strip().removeprefix("{").removesuffix("}")
    while rest.strip():
        one = _CONDITION.match(rest)
        if one is None:
            raise ValueError(f"no matcher: {text}")
        quoted = one[3] is not None
        found.append(Matcher(one[1], one[2], _unescaped(one[3]) if quoted else one[4]))
        rest = rest[one.end() :].removeprefix(",")
    return tuple(found)


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def conditions(told: Config, prefix: str = "") -> list[Matcher]:
    """The conditions of a route, or of one side of an inhibit rule (`prefix` source_ or target_), in all three spellings."""
    plain, expressions = told.get(f"{prefix}match") or {}, told.get(f"{prefix}match_re") or {}
    return [
        *(Matcher(name, "=", str(value)) for name, value in plain.items()),
        *(Matcher(name, "=~", str(value)) for name, value in expressions.items()),
        *read_matchers(told.get(f"{prefix}matchers") or ()),
    ]


def hold(matchers: Iterable[Matcher], labels: Labels) -> bool:
    return all(one.holds(labels) for one in matchers)


def ways(config: Config, labels: Labels) -> list[Way]:
    """The routes that take an alert with these labels, in order. There is at least one: the root takes what no other does."""
    return list(_ways(config["route"], labels, {}, is_root=True) or ())


def _ways(route: Config, labels: Labels, inherited: Config, *, is_root: bool = False) -> list[Way] | None:
    if not is_root and not hold(conditions(route), labels):
        return None
    options = {**inherited, **{key: route[key] for key in ("receiver", "group_wait") if route.get(key)}}
    found: list[Way] = []
    for child in route.get("routes") or ():
        taken = _ways(child, labels, options)
        if taken is not None:
            found += taken
            if not child.get("continue"):
                break
    if found:
        return found
    intervals = (*(route.get("mute_time_intervals") or ()), *(route.get("active_time_intervals") or ()))
    return [Way(options["receiver"], seconds(str(options.get("group_wait", GROUP_WAIT))), tuple(intervals))]


def integrations(config: Config, receiver: str) -> list[str]:
    """The kinds of notification of a receiver, one for each entry: `slack`, `webhook`, ..."""
    told: Config = next((one for one in config.get("receivers") or () if one["name"] == receiver), {})
    return [
        key.removesuffix("_configs") for key, entries in told.items() if key.endswith("_configs") for _ in entries or ()
    ]


def muted_by(config: Config, labels: Labels, others: Iterable[Labels]) -> Iterator[Labels]:
    """The alerts among `others` that inhibit one with these labels."""
    for rule in config.get("inhibit_rules") or ():
        if not hold(conditions(rule, "target_"), labels):
            continue
        source = conditions(rule, "source_")
        for other in others:
            same = all(labels.get(name, "") == other.get(name, "") for name in rule.get("equal") or ())
            # An alert on both sides of a rule mutes no alert that is on both sides too.
            twin = hold(source, labels) and hold(conditions(rule, "target_"), other)
            if same and not twin and hold(source, other):
                yield other


def silenced_by(silences: Iterable[Mapping[str, Any]], labels: Labels) -> Iterator[Mapping[str, Any]]:
    """The active silences that hold for these labels."""
    signs = {(True, False): "=", (True, True): "=~", (False, False): "!=", (False, True): "!~"}
    for silence in silences:
        matchers = [
            Matcher(one["name"], signs[one.get("isEqual", True), one["isRegex"]], one["value"])
            for one in silence["matchers"]
        ]
        if silence["status"]["state"] == "active" and hold(matchers, labels):
            yield silence
