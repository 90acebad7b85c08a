"""Rules that a dashboard keeps so that its picture can be read: axes, colours, legends, columns. Judged on the JSON.

Each rule takes a dashboard as a dict and returns its complaints, as those of `rules.py` do. What only a drawing shows is looked at in
`tests/drawn`. Knows the colours' names; refuses to know queries' meaning.
"""

from collections.abc import Callable, Iterator, Mapping

import promql_parser as promql

from grafana.colours import FINE
from grafana.pod_names import SHOWN_POD
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from tests.grafana.boards import Json, column_of, names_of, numbers_of, panels, targets, unit_of
from tests.grafana.dimensions import STATE, UnknownDimensionError, dimension_of
from tests.grafana.query_rules import tree_of
from tests.grafana.series import inner, known, labels_of


Complaints = Iterator[str]
Rule = Callable[[Json], Complaints]

SCREEN_WIDTH = 1330
"""Pixels between the edges of a window of 1366, as laptops have."""
GRAFANAS: Mapping[str, str] = {"light-red": "#FF7383", "red": "#F2495C", "dark-red": "#C4162A"} | {
    "orange": "#FF9830",
    "yellow": "#FADE2A",
    "green": "#73BF69",
    "blue": "#5794F2",
    "purple": "#B877D9",
}
"""Grafana's names of colours, in its dark theme."""
COMPARES = "llm-canary"
"""The dashboard that compares two versions, whose lines need two words."""


def ends_its_axes(dashboard: Json) -> Complaints:
    """A share's axis goes from 0 to 100 %, also when all is at 0; where it may exceed 1, at least to there."""
    for panel in _lines(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        units = {unit_of(panel, target["refId"]) for target in panel["targets"]}
        ends = (defaults.get("min"), defaults.get("max")) == (0, 1) or defaults["custom"].get("axisSoftMax") == 1
        if "percentunit" in units and not ends:
            yield f"panel {panel['title']!r}: its ratio's axis has no end"


def paints_no_absence(dashboard: Json) -> Complaints:
    """NaN and no traffic have no colour: neither that of the first threshold nor one of their own."""
    for panel in panels(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        nothing = [one["options"]["result"] for one in defaults["mappings"] if one["type"] == "special"]
        if [one.get("color") for one in nothing] != [FINE]:
            yield f"panel {panel['title']!r}: nothing has a colour"
        for override in panel["fieldConfig"]["overrides"]:
            for one in override["properties"]:
                if one["id"] == "mappings" and {
                    shown["options"]["match"]: shown["options"]["result"]["color"]
                    for shown in one["value"]
                    if shown["type"] == "special"
                } != {"null+nan": FINE, "empty": FINE}:
                    yield f"panel {panel['title']!r}: an empty cell of {override['matcher']['options']} has a colour"
        if defaults["thresholds"]["steps"][0] != {"value": None, "color": FINE}:
            yield f"panel {panel['title']!r}: what is below every threshold has a colour"


def keeps_phases_from_judgement(dashboard: Json) -> Complaints:
    """A threshold has no phase's colour; a series or a cell of a phase has its phase's."""
    for panel in panels(dashboard):
        for colour in _judging(panel):
            if colour in PHASE_COLOURS.values():
                yield f"panel {panel['title']!r}: it judges in a phase's colour, {colour}"
        for phase, colour in (*_of_phases(panel), *_of_phases(panel, behind=True)):
            if colour != PHASE_COLOURS[phase]:
                yield f"panel {panel['title']!r}: {phase} in {colour}"
        legends = [target.get("legendFormat", "") for target in panel["targets"]]
        named = any(legend.endswith("{{phase}}") or legend in PHASE_COLOURS for legend in legends)
        behind = any(legend.endswith(" {{phase}}") for legend in legends)
        if named and {phase for phase, _ in _of_phases(panel, behind=behind)} != set(PHASE_COLOURS):
            yield f"panel {panel['title']!r}: a phase without its colour"


def _judging(panel: Json) -> Iterator[str]:
    steps = list(panel["fieldConfig"]["defaults"]["thresholds"]["steps"])
    for override in panel["fieldConfig"]["overrides"]:
        for one in override["properties"]:
            steps += one["value"]["steps"] if one["id"] == "thresholds" else []
    yield from (step["color"] for step in steps)


def _of_phases(panel: Json, *, behind: bool = False) -> Iterator[tuple[str, str]]:
    """Each phase that has a colour, with it. `behind`: of lines whose names end with the phase, and not of those that it names alone."""
    for override in panel["fieldConfig"]["overrides"]:
        name = override["matcher"]["options"]
        if behind:
            name = name.removeprefix("/ ").removesuffix("$/") if override["matcher"]["id"] == "byRegexp" else ""
        for one in override["properties"]:
            if one["id"] == "color" and name in PHASE_COLOURS:
                yield name, one["value"]["fixedColor"]
            if one["id"] == "mappings" and name == "phase":
                yield from ((text, shown.get("color", "")) for text, shown in one["value"][0]["options"].items())
    for mapping in panel["fieldConfig"]["defaults"]["mappings"]:
        for shown in mapping["options"].values() if mapping["type"] == "value" else ():
            if shown["text"] in PHASE_COLOURS:
                yield shown["text"], shown["color"]


def colours_by_name(dashboard: Json) -> Complaints:
    """One name has one colour on all dashboards."""
    for panel in _lines(dashboard):
        if panel["fieldConfig"]["defaults"]["color"] != {"mode": "palette-classic-by-name"}:
            yield f"panel {panel['title']!r}: its colours depend on the order of its lines"


def shows_its_legend(dashboard: Json) -> Complaints:
    """Beside the lines, where rows fit: below them Grafana shows three."""
    for panel in _lines(dashboard):
        legend = panel["options"]["legend"]
        if (legend["showLegend"], legend["displayMode"], legend["placement"]) != (True, "table", "right"):
            yield f"panel {panel['title']!r}: its legend's rows may be out of sight"
        hidden = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"] if _hides(one)} - numbers_of(
            panel
        )
        legends = {target["refId"]: target["legendFormat"] for target in panel["targets"]}
        for ref in hidden:
            if legends[ref] not in {text for other, text in legends.items() if other not in hidden}:
                yield f"panel {panel['title']!r} {ref}: no row of the legend has its name"


def _hides(override: Json) -> bool:
    return any(one["id"] == "custom.hideFrom" and one["value"]["legend"] for one in override["properties"])


def leaves_flat_zero_out(dashboard: Json) -> Complaints:
    """A line is drawn where it says something: its query ends in a condition."""
    for panel, target in targets(dashboard):
        if panel["type"] != "timeseries" or dashboard["uid"] == COMPARES:
            continue
        tree = inner(tree_of(target))
        while isinstance(tree, promql.Call) and tree.func.name == "label_replace":
            tree = inner(tree.args[0])
        if not isinstance(tree, promql.BinaryExpr) or str(tree.op) not in {">", ">=", "and"}:
            yield f"panel {panel['title']!r} {target['refId']}: it draws 0 and NaN of whatever there is"


def stands_against_what_is_promised(dashboard: Json) -> Complaints:
    """A latency beside its threshold: on a log axis, where both can be read however far apart they are, and the threshold is dashed."""
    for panel in _lines(dashboard):
        promised = {target["refId"] for target in panel["targets"] if "llm_slo_threshold_seconds" in target["expr"]}
        dashed = {
            override["matcher"]["options"]
            for override in panel["fieldConfig"]["overrides"]
            if any(one["id"] == "custom.lineStyle" and one["value"]["fill"] == "dash" for one in override["properties"])
        }
        if not promised and "thresholds" in panel["title"]:
            yield f"panel {panel['title']!r}: no line is what is promised"
        if promised - dashed:
            yield f"panel {panel['title']!r}: the threshold looks as what was measured"
        if promised and panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"]["type"] != "log":
            yield f"panel {panel['title']!r}: the axis is linear"


def has_no_constant_column(dashboard: Json) -> Complaints:
    """A column of 1 only carries labels: it is out of sight."""
    for panel in panels(dashboard):
        for target in panel["targets"] if panel["type"] == "table" else ():
            tree = tree_of(target)
            column = column_of(panel, target["refId"])
            try:
                constant = tree is not None and dimension_of(tree) == STATE and "group" in target["expr"].split("(")[0]
            except UnknownDimensionError:
                constant = False
            if constant and column not in _hidden(panel):
                yield f"panel {panel['title']!r}: column {column} is 1 in every row"


def has_room_for_its_columns(dashboard: Json) -> Complaints:
    """The widths that are said fit into the panel."""
    for panel in panels(dashboard):
        said = sum(
            one["value"]
            for override in panel["fieldConfig"]["overrides"]
            for one in override["properties"]
            if one["id"] == "custom.width"
        )
        room = SCREEN_WIDTH * panel["gridPos"]["w"] / 24
        if said > room:
            yield f"panel {panel['title']!r}: its columns need {said} of {room:.0f} pixels"


def shows_where_pods_differ(dashboard: Json) -> Complaints:
    """A long name of a pod is cut at its front, in columns and in names of lines; and a link has it whole, from a column out of sight."""
    for panel in panels(dashboard):
        if any("{{pod}}" in target.get("legendFormat", "") for target in panel["targets"]):
            yield f"panel {panel['title']!r}: its lines have pods' whole names"
        organized = [step["options"] for step in panel.get("transformations", []) if step["id"] == "organize"]
        names = names_of(panel)
        out = {own for options in organized for own in options["excludeByName"]}
        by_pod = panel["type"] == "table" and "pod" in set().union(
            *(labels_of(tree_of(target), known()) for target in panel["targets"])
        )
        if by_pod and (names.get(SHOWN_POD) != "pod" or not ({"pod"} & out or names.get("pod") in _hidden(panel))):
            yield f"panel {panel['title']!r}: its column has pods' whole names"


def _hidden(panel: Json) -> set[str]:
    return {
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if {"id": "custom.hidden", "value": True} in override["properties"]
    }


def _lines(dashboard: Json) -> list[Json]:
    return [panel for panel in panels(dashboard) if panel["type"] == "timeseries"]


PICTURE_RULES: tuple[Rule, ...] = (
    ends_its_axes,
    paints_no_absence,
    keeps_phases_from_judgement,
    colours_by_name,
    shows_its_legend,
    leaves_flat_zero_out,
    stands_against_what_is_promised,
    has_no_constant_column,
    has_room_for_its_columns,
    shows_where_pods_differ,
)
