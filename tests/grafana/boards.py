"""The committed dashboards as dicts, and the ways through them. Knows Grafana's JSON; judges nothing."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any


Json = dict[str, Any]

GRAFANA = Path(__file__).parents[2] / "grafana"
UIDS = ("llm-anatomy", "llm-lanes", "llm-queue", "llm-stream", "llm-canary", "llm-sidecar", "llm-fleet")
HIDDEN = 2
"""Grafana's number of a variable that is not shown."""
MAGIC = {"$__rate_interval": "244s", "$__range": "3571s"}
"""Durations that the parser is given for Grafana's own; no query has these."""
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.*), (?P<label>\w+)\)")
_WITH_TRAFFIC = re.compile(
    r"query_result\((?P<expr>count by \((?P<label>\w+)\) \(increase\((?P<series>.*)\[\$__range\]\) > 0\))\)"
)
_QUERY_RESULT = re.compile(r"query_result\((?P<query>.*)\)")
_FOLDED = re.compile(r" \(\w+\)$")
_ONE_LABEL = re.compile(r'/(?P<label>\w+)="\(\[\^"\]\+\)"/')


@cache
def _text(uid: str) -> str:
    return (GRAFANA / "dashboards" / f"{uid}.json").read_text()


def board(uid: str) -> Json:
    """A fresh copy, to be mutated at will."""
    loaded: Json = json.loads(_text(uid))
    return loaded


def panels(dashboard: Json) -> list[Json]:
    """Without the rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets(dashboard: Json) -> Iterator[tuple[Json, Json]]:
    """Each target with its panel."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel, target


def query_variables(dashboard: Json) -> list[Json]:
    """Those that people choose from."""
    shown = [variable for variable in dashboard["templating"]["list"] if variable.get("hide") != HIDDEN]
    return [variable for variable in shown if variable["type"] == "query"]


def label_values(variable: Json) -> tuple[str, str]:
    """Selector and label of a variable's query. Raises ValueError for another kind of query."""
    text = variable["query"]["query"]
    match = _LABEL_VALUES.fullmatch(text) or _WITH_TRAFFIC.fullmatch(text)
    if match is None:
        return query_result(variable)
    if text.startswith("query_result") and variable.get("regex") != f'/{match["label"]}="([^"]+)"/':
        raise ValueError(f"{variable['name']}: its regex does not take the label out of the result")
    return match["series"], match["label"]


def with_traffic(variable: Json) -> str | None:
    """The query of a variable that offers only what had traffic; None of one that offers all."""
    match = _WITH_TRAFFIC.fullmatch(variable["query"]["query"])
    return match["expr"] if match else None


def query_result(variable: Json) -> tuple[str, str]:
    """PromQL of a variable whose values have an order, and the label that its regex takes. Raises ValueError for another kind."""
    match = _QUERY_RESULT.fullmatch(variable["query"]["query"])
    label = _ONE_LABEL.fullmatch(variable.get("regex", ""))
    if match is None or label is None or variable.get("sort") != 0:
        raise ValueError(
            f"{variable['name']}: {variable['query']['query']!r} has neither values of a label nor an order"
        )
    return match["query"], label["label"]


def switch(dashboard: Json) -> list[tuple[str, str, str]]:
    """The variable that chooses between recorded series and raw ones: name, PromQL, and the label that its regex takes.

    None on a dashboard that reads nothing recorded.
    """
    hidden = [one for one in dashboard["templating"]["list"] if one.get("hide") == HIDDEN]
    return [(str(one["name"]), *query_result(one)) for one in hidden]


def with_durations(expr: str) -> str:
    """Grafana's durations as literals, so that it parses."""
    for name, duration in MAGIC.items():
        expr = expr.replace(name, duration)
    return expr


def column_of(panel: Json, ref: str) -> str:
    """The name that a table gives to the values of one target."""
    original = f"Value #{ref}" if len(panel["targets"]) > 1 else "Value"
    return names_of(panel).get(original, original)


def names_of(panel: Json) -> dict[str, str]:
    """The names that a table gives to labels and to values, by their own names.

    Where several answers are folded into a row, Grafana calls a column `lane (uniqueValues)`; of two of one label, the first shown.
    """
    found: dict[str, str] = {}
    for step in panel.get("transformations", []):
        if step["id"] == "organize":
            for own, shown in step["options"]["renameByName"].items():
                found.setdefault(_FOLDED.sub("", own), shown)
    return found


def unit_of(panel: Json, ref: str) -> str | None:
    """The unit in which a target's values are drawn: the override of its column or query, else the panel's."""
    if panel["type"] == "heatmap":
        unit: str | None = panel["options"]["yAxis"].get("unit")
        return unit
    unit = panel["fieldConfig"]["defaults"].get("unit")
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        by_query = matcher == {"id": "byFrameRefID", "options": ref}
        by_column = panel["type"] == "table" and matcher == {"id": "byName", "options": column_of(panel, ref)}
        for one in override["properties"]:
            if (by_query or by_column) and one["id"] == "unit":
                unit = one["value"]
    return unit


def numbers_of(panel: Json) -> set[str]:
    """The queries whose values stand in the tooltip alone. Grafana leaves a series out of the tooltip that it hides from the picture."""
    return {
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if {(one["id"], str(one["value"])) for one in override["properties"]}
        >= {(name, str(value)) for name, value in _IN_THE_TOOLTIP.items()}
    }


_IN_THE_TOOLTIP = {
    "custom.lineWidth": 0,
    "custom.fillOpacity": 0,
    "custom.showPoints": "never",
    "custom.axisPlacement": "hidden",
    "custom.hideFrom": {"legend": True, "tooltip": False, "viz": False},
}
