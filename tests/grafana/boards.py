"""The committed dashboards as dicts, and the ways through them. Knows Grafana's JSON; judges nothing."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any


Json = dict[str, Any]

GRAFANA = Path(__file__).parents[2] / "grafana"
UIDS = (
    *("llm-anatomy", "llm-lanes", "llm-queue", "llm-prefill", "llm-decode"),
    *("llm-stream", "llm-canary", "llm-sidecar", "llm-fleet"),
)
MAGIC = {"$__rate_interval": "244s", "$__range": "3571s"}
"""What the parser is given for Grafana's own durations: nobody writes these."""
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.*), (?P<label>\w+)\)")


@cache
def _text(uid: str) -> str:
    return (GRAFANA / "dashboards" / f"{uid}.json").read_text()


def board(uid: str) -> Json:
    """A fresh copy: whoever mutates it harms nobody."""
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
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == "query"]


def label_values(variable: Json) -> tuple[str, str]:
    """Selector and label of a variable's query. Raises ValueError for another kind of query."""
    match = _LABEL_VALUES.fullmatch(variable["query"]["query"])
    if match is None:
        raise ValueError(f"{variable['name']}: {variable['query']['query']!r} is no label_values(series, label)")
    return match["series"], match["label"]


def with_durations(expr: str) -> str:
    """Grafana's durations as literals, so that it parses."""
    for name, duration in MAGIC.items():
        expr = expr.replace(name, duration)
    return expr


def column_of(panel: Json, ref: str) -> str:
    """What a table calls the values of one target."""
    original = f"Value #{ref}" if len(panel["targets"]) > 1 else "Value"
    renamed = [step["options"]["renameByName"] for step in panel["transformations"] if step["id"] == "organize"]
    return str(renamed[0].get(original, original)) if renamed else original


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
