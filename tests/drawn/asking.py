"""Asks a Prometheus what Grafana would ask for a dashboard, and writes down panels and answers as `drawing/draw.jsx` reads them.

Knows Grafana's variables, its durations and repeated panels, as far as our dashboards use them. Refuses to know how panels look.
"""

import copy
import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.grafana.boards import Json, label_values, query_variables, switch, with_traffic


ALL = ".*"
GRID = 24
POINTS = 400
SCRAPE_SECONDS = 15
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Look:
    """A look at dashboards: where, and at which time (unix seconds)."""

    url: str
    began_at: int
    ended_at: int
    chosen: Mapping[str, str] = field(default_factory=dict)
    """Variable to its choice; all others are at All, or at their first value."""

    @property
    def step(self) -> int:
        """Seconds between two points."""
        return max(SCRAPE_SECONDS, round((self.ended_at - self.began_at) / POINTS / SCRAPE_SECONDS) * SCRAPE_SECONDS)

    def ask(self, path: str, **parameters: object) -> Any:
        """An answer of the API. Raises AssertionError with Prometheus' own words."""
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=60
            ) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def answers(self, expr: str, *, instant: bool) -> list[Json]:
        """The series of a query, as a panel gets them."""
        if instant:
            found: list[Json] = self.ask("query", query=expr, time=self.ended_at)["result"]
        else:
            found = self.ask("query_range", query=expr, start=self.began_at, end=self.ended_at, step=self.step)[
                "result"
            ]
        return found


def asked(dashboard: Json, look: Look) -> Json:
    """All that is drawn of a dashboard."""
    options, chosen = variables_of(dashboard, look)
    panels = _repeated(dashboard["panels"], options)
    jobs = [
        (f"{panel['id']}:{target['refId']}", filled_in(target["expr"], look, chosen | panel.get("chosen", {})), target)
        for panel in panels
        for target in panel.get("targets", [])
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda job: look.answers(job[1], instant=bool(job[2].get("instant"))), jobs)
        by_name = {job[0]: answer for job, answer in zip(jobs, answers, strict=True)}
    for panel in panels:
        panel["title"] = filled_in(panel["title"], look, chosen | panel.get("chosen", {}))
    return {
        "title": dashboard["title"],
        "variables": {name: "All" if chosen[name] == ALL else chosen[name] for name in options},
        "panels": panels,
        "answers": by_name,
        "annotations": _annotations(dashboard, look, chosen),
        "range": {"from": look.began_at, "to": look.ended_at, "step": look.step},
    }


def _annotations(dashboard: Json, look: Look, chosen: Mapping[str, str]) -> list[Json]:
    """Pages, tickets and changes: each with its colour, from its first sample to its last one before a gap."""
    made: list[Json] = []
    for one in dashboard["annotations"]["list"]:
        for series in look.answers(filled_in(one["expr"], look, chosen), instant=False):
            times = [round(float(at)) for at, _ in series["values"]]
            begins = [at for at, before in zip(times, [-math.inf, *times], strict=False) if at - before > look.step]
            ends = [at for at, after in zip(times, [*times[1:], math.inf], strict=True) if after - at > look.step]
            made += [
                {"name": one["name"], "colour": one["iconColor"], "from": begin, "to": end}
                for begin, end in zip(begins, ends, strict=True)
            ]
    return made


def filled_in(text: str, look: Look, chosen: Mapping[str, str]) -> str:
    """A query with Grafana's durations and our variables put in."""
    durations = {
        "$__rate_interval": max(look.step + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS),
        "$__range": look.ended_at - look.began_at,
    }
    for name, seconds in durations.items():
        text = text.replace(name, f"{seconds}s")
    for name, value in chosen.items():
        text = re.sub(rf"\${name}\b", value.replace("\\", "\\\\"), text)
    return text


def variables_of(dashboard: Json, look: Look) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The values that each variable offers, and those that are chosen, also of the one out of sight."""
    options: dict[str, list[str]] = {}
    chosen: dict[str, str] = {}
    for variable in query_variables(dashboard):
        name = variable["name"]
        selector, label = label_values(variable)
        if had_traffic := with_traffic(variable):
            rows = look.answers(filled_in(had_traffic, look, chosen), instant=True)
            options[name] = sorted({one["metric"][label] for one in rows})
        elif "query_result" in variable["query"]["query"]:  # in Prometheus' order
            rows = look.answers(filled_in(selector, look, chosen), instant=True)
            options[name] = [one["metric"][label] for one in rows]
        else:
            match = filled_in(selector, look, chosen)
            asked_for = {"match[]": match, "start": look.began_at, "end": look.ended_at}
            options[name] = sorted(set(look.ask(f"label/{label}/values", **asked_for)))
        usual = ALL if variable.get("includeAll") else next(iter(options[name]), "")
        chosen[name] = look.chosen.get(name, usual)
    for name, query, label in switch(dashboard):
        (found_one,) = look.answers(filled_in(query, look, chosen), instant=True)
        chosen[name] = found_one["metric"][label]
    return options, chosen


def _repeated(panels: list[Json], options: Mapping[str, list[str]]) -> list[Json]:
    """Panels that stand once for each lane, side by side as Grafana puts them; what is below moves down."""
    made: list[Json] = []
    down, number = 0, 1000
    for panel in panels:
        one = copy.deepcopy(panel)
        one["gridPos"]["y"] += down
        values = options.get(panel.get("repeat") or "", [])
        if not panel.get("repeat"):
            made.append(one)
            continue
        across = min(len(values), panel.get("maxPerRow", 4)) or 1
        width = GRID // across
        for place, value in enumerate(values):
            each = copy.deepcopy(one)
            number += 1
            each["id"], each["chosen"] = number, {panel["repeat"]: value}
            each["gridPos"] |= {
                "w": width,
                "x": place % across * width,
                "y": one["gridPos"]["y"] + place // across * one["gridPos"]["h"],
            }
            made.append(each)
        down += (-(-len(values) // across) - 1) * panel["gridPos"]["h"]
    return made
