"""Whether exported rules and exported routes fit: each alert walked through the routes, each matcher held against what alerts carry.

It knows the YAML of rule files and of Alertmanager's configuration, and takes both as texts. It is no Alertmanager: amtool walks the
same routes in test_routes.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sidecar.config.quick_yaml import read_yaml
from sidecar.export.routes import PAGE_RECEIVER, TICKET_RECEIVER, WATCHDOG_RECEIVER


Labels = Mapping[str, str]
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')


def alerts(rules: str) -> Iterator[dict[str, str]]:
    """The fixed labels of each alert of a rule file, with its name."""
    for group in read_yaml(rules)["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                yield {"alertname": rule["alert"], **rule["labels"]}


def _fits(matcher: str, labels: Labels) -> bool:
    name, how, value = _MATCHER.fullmatch(matcher).groups()  # type: ignore[union-attr]  # each matcher has this form
    own = labels.get(name, "")
    equal = re.fullmatch(value, own) is not None if "~" in how else own == value
    return equal is not how.startswith("!")


def receiver_of(route: Mapping[str, Any], labels: Labels) -> str:
    """The receiver of the first route that matches, as Alertmanager walks them: down, and never on to the next."""
    for child in route.get("routes", []):
        if all(_fits(one, labels) for one in child.get("matchers", [])):
            return receiver_of({"receiver": route["receiver"], **child}, labels)
    return str(route["receiver"])


def disagreements(rules: str, routes: str, page: str, ticket: str) -> list[str]:
    """Pages that reach no receiver of pages, tickets alike, and matchers on a severity that no alert has."""
    config = read_yaml(routes)
    shipped_alerts = list(alerts(rules))
    found = []
    for labels in shipped_alerts:
        wanted = {page: "page", ticket: "ticket"}.get(labels["severity"])
        heard = receiver_of(config["route"], labels)
        if wanted and not heard.endswith(f"-{wanted}"):
            found.append(f"{labels['alertname']}: severity {labels['severity']} goes to {heard}")
        if labels["alertname"] == "Watchdog" and heard != WATCHDOG_RECEIVER:
            found.append(f"Watchdog goes to {heard}")
    carried = {labels["severity"] for labels in shipped_alerts}
    asked = set(re.findall(r'\bseverity="([^"]+)"', routes))
    found += [f"the routes ask for severity {severity}, which no alert has" for severity in sorted(asked - carried)]
    return found + [f"no alert has severity {one}" for one in (page, ticket) if one not in carried]


PRUNED = {PAGE_RECEIVER, TICKET_RECEIVER, WATCHDOG_RECEIVER}
"""The receivers that remain where a team names its kinds of notification."""
