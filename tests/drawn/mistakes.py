"""Mistakes that a picture can show, each made on the data of one dashboard: what the looks must notice.

Knows Grafana's JSON. Refuses to know the looks.
"""

from collections.abc import Mapping
from typing import Any

from tests.drawn.gallery import Mistake
from tests.grafana.boards import Json


def _panel(data: Json, title: str) -> Json:
    return next(one for one in data["panels"] if one["title"].startswith(title))


def _properties(panel: Json, column: str) -> list[Json]:
    found: list[Json] = [
        one
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == column
        for one in override["properties"]
    ]
    return found


def _set(panel: Json, column: str, name: str, value: Any) -> None:
    overrides = panel["fieldConfig"]["overrides"]
    overrides.append({"matcher": {"id": "byName", "options": column}, "properties": [{"id": name, "value": value}]})


def legend_below(data: dict[str, Json]) -> str:
    """Below the lines there is room for three rows."""
    _panel(data["llm-anatomy"], "Mean seconds")["options"]["legend"]["placement"] = "bottom"
    return "llm-anatomy"


def coloured_absence(data: dict[str, Json]) -> str:
    """An empty cell gets the colour of something."""
    for one in _properties(_panel(data["llm-lanes"], "Time to first token"), "p95 of threshold"):
        if one["id"] == "thresholds":
            one["value"]["steps"][0]["color"] = "green"
    defaults = _panel(data["llm-lanes"], "Time to first token")["fieldConfig"]["defaults"]
    for mapping in defaults["mappings"]:
        mapping["options"]["result"]["color"] = "green"
    return "llm-lanes"


def coloured_tile(data: dict[str, Json]) -> str:
    """A tile without traffic is green, as on the canary of before."""
    panel = _panel(data["llm-canary"], "Canary's TTFT misses")
    for mapping in panel["fieldConfig"]["defaults"]["mappings"]:
        mapping["options"]["result"]["color"] = "green"
    lane = {"lane": "interactive", "model": "m", "namespace": "n"}
    data["llm-canary"]["answers"][f"{panel['id']}:A"] = [{"metric": lane, "value": [0, "NaN"]}]
    return "llm-canary"


def endless_ratio(data: dict[str, Json]) -> str:
    """The axis of a share ends where its largest value is."""
    defaults = _panel(data["llm-queue"], "Rejected")["fieldConfig"]["defaults"]
    del defaults["min"], defaults["max"]
    return "llm-queue"


def narrow_column(data: dict[str, Json]) -> str:
    """A column is narrower than its heading."""
    _set(_panel(data["llm-anatomy"], "Verdict: "), "confidence", "custom.width", 60)
    return "llm-anatomy"


def whole_pods(data: dict[str, Json]) -> str:
    """A pod's name stands whole in a column that is too narrow for it."""
    for step in _panel(data["llm-anatomy"], "Pods, worst first")["transformations"]:
        if step["id"] == "organize":
            step["options"]["renameByName"] |= {"shown_pod": "whole_pod", "pod": "pod"}
    return "llm-anatomy"


def long_title(data: dict[str, Json]) -> str:
    """A title is longer than its panel."""
    _panel(data["llm-queue"], "KV cache")["title"] += (
        " of all pods that are chosen, of the fullest rank of each engine, over time"
    )
    return "llm-queue"


def column_of_ones(data: dict[str, Json]) -> str:
    """The value of an info series is shown."""
    _set(_panel(data["llm-fleet"], "What runs where"), "known", "custom.hidden", False)
    return "llm-fleet"


def green_decode(data: dict[str, Json]) -> str:
    """A phase has the colour of "fine"."""
    for one in _properties(_panel(data["llm-anatomy"], "Mean seconds"), "decode"):
        one["value"] = {"mode": "fixed", "fixedColor": "green"}
    return "llm-anatomy"


def colours_in_order(data: dict[str, Json]) -> str:
    """A lane's colour depends on how many lines stand before it."""
    _panel(data["llm-queue"], "Queue p95")["fieldConfig"]["defaults"]["color"] = {"mode": "palette-classic"}
    return "llm-queue"


MISTAKES: Mapping[str, Mistake] = {
    one.__name__: one
    for one in (
        legend_below,
        coloured_absence,
        coloured_tile,
        endless_ratio,
        narrow_column,
        whole_pods,
        long_title,
        column_of_ones,
        green_decode,
        colours_in_order,
    )
}
