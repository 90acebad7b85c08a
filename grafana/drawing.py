"""From our boards to Grafana's classic JSON, through the typed models of grafana-foundation-sdk 0.0.21.

Knows the JSON: options, overrides, transformations, the grid. Refuses to know what is measured. The schema version is 39: Grafana
9.5 reads it as it stands, later versions migrate it when they load it. Nothing here is newer than 9.5; what the SDK adds for
version 12.4 and later (where a link's place is a menu) is taken out again.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

from grafana.panel import GREEN, PHASE_COLOURS, Board, Kind, Panel
from grafana.query import Query
from grafana.surroundings import annotations, links, variables


SCHEMA_VERSION = 39
GRID = 24
DATASOURCE = common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_HASHED = "Value #"

Drawn = timeseries.Panel | table.Panel | stat.Panel | bargauge.Panel | heatmap.Panel | statetimeline.Panel


def written(board: Board, runbook_base: str) -> str:
    """One dashboard as it is committed."""
    return json.dumps(drawn(board, runbook_base), indent=2, ensure_ascii=False) + "\n"


def drawn(board: Board, runbook_base: str) -> dict[str, Any]:
    """One dashboard as JSON."""
    builder = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.about)
        .tags(["llm", "llm-phase-sidecar"])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time(f"now-{board.hours}h", "now")
        .refresh("30s")
        .variables([*variables(board.choices)])
        .annotations([*annotations()])
        .links([*links(board, runbook_base)])
    )
    made = builder.build()
    made.schema_version = SCHEMA_VERSION
    made.panels = _laid_out(board)
    text = json.dumps(made, cls=JSONEncoder)
    return cast("dict[str, Any]", _without_places(json.loads(text)))


def _without_places(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _without_places(value)
            for key, value in node.items()
            if (key, value) != ("placement", "inControlsMenu")
        }
    return [_without_places(value) for value in node] if isinstance(node, list) else node


def _laid_out(board: Board) -> list[models.Panel | models.RowPanel]:
    """Panels from left to right, a new line where one does not fit; ids count from 1."""
    made: list[models.Panel | models.RowPanel] = []
    y = 0
    for row in board.rows:
        made.append(
            models.RowPanel(
                title=row.title,
                id_val=len(made) + 1,
                panels=[],
                grid_pos=models.GridPos(h=1, w=GRID, x=0, y=y),
                repeat="lane" if row.per_lane else None,
            )
        )
        y, x, tallest = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > GRID:
                y, x, tallest = y + tallest, 0, 0
            one = _panel(panel)
            one.id_val = len(made) + 1
            one.grid_pos = models.GridPos(h=panel.height, w=panel.width, x=x, y=y)
            made.append(one)
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return made


def _panel(panel: Panel) -> models.Panel:
    made = _KINDS[panel.kind](panel)
    made.title(panel.title).description(panel.description).datasource(DATASOURCE)
    # What a heatmap counts are requests; its unit is that of the axis.
    made.unit("short" if panel.kind is Kind.HEATMAP else panel.unit).no_value(panel.empty).mappings(
        _mappings(panel)
    ).thresholds(_thresholds(panel))
    made.targets([_target(query, chr(ord("A") + number), panel) for number, query in enumerate(panel.queries)])
    if panel.decimals is not None:
        made.decimals(panel.decimals)
    if panel.per_lane:
        made.repeat("lane").repeat_direction("h").max_per_row(3)
    return made.build()


def _target(query: Query, ref: str, panel: Panel) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(ref).datasource(DATASOURCE)
    if panel.kind in {Kind.TABLE, Kind.STAT, Kind.BAR_GAUGE}:
        target.instant()
    else:
        target.range()
    if panel.kind is Kind.TABLE:
        return target.format(prometheus_models.PromQueryFormat.TABLE)
    if panel.kind is Kind.HEATMAP:
        return (
            target.format(prometheus_models.PromQueryFormat.HEATMAP).legend_format("{{le}}").exemplar(query.exemplars)
        )
    return target.legend_format(query.legend).exemplar(query.exemplars)


def _mappings(panel: Panel) -> list[models.ValueMapping]:
    words = {
        f"{value:g}": models.ValueMappingResult(text=word, color=colour, index=index)
        for index, (value, word, colour) in enumerate(panel.words)
    }
    nothing = models.SpecialValueMap(
        models.DashboardSpecialValueMapOptions(
            models.SpecialValueMatch.NULL_AND_NAN, models.ValueMappingResult(text=panel.empty, index=len(words))
        )
    )
    return [*([models.ValueMap(words)] if words else []), nothing]


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    made = [
        models.Threshold(value=None, color=panel.base),
        *(models.Threshold(value, colour) for value, colour in panel.steps),
    ]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


def _property(name: str, value: object) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val=name, value=value)


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(common_models.LegendDisplayMode.TABLE)
        .placement(common_models.LegendPlacement.BOTTOM)
        .calcs(["lastNotNull", "max"])
    )


def _timeseries(panel: Panel) -> timeseries.Panel:
    tooltip = (
        common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI).sort(common_models.SortOrder.DESCENDING)
    )
    made = timeseries.Panel().legend(_legend()).tooltip(tooltip).show_points(common_models.VisibilityMode.NEVER)
    stacking = common.StackingConfig()
    if panel.kind is Kind.LINES:
        made.line_width(1).fill_opacity(0)
        if panel.steps:
            made.thresholds_style(
                common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
            )
    else:
        made.fill_opacity(70).line_width(0).stacking(stacking.mode(common_models.StackingMode.NORMAL).group("A"))
        if panel.kind is Kind.BARS:
            made.draw_style(common_models.GraphDrawStyle.BARS)
    if panel.logarithmic:
        made.scale_distribution(common.ScaleDistributionConfig().type(common_models.ScaleDistribution.LOG).log(10))
    else:
        made.axis_soft_min(0)
    if panel.by_phase:
        for phase, colour in PHASE_COLOURS.items():
            fixed = _property("color", {"mode": "fixed", "fixedColor": colour})
            made.override_by_regexp(f"/(^|[ :]){phase}$/", [fixed])
    if panel.total:
        line = [
            _property("custom.stacking", {"mode": "none", "group": "B"}),
            _property("custom.fillOpacity", 0),
            _property("custom.lineWidth", 2),
            _property("color", {"mode": "fixed", "fixedColor": "text"}),
        ]
        made.override_by_name(panel.total, line)
    for number, query in enumerate(panel.queries):
        if query.unit:
            made.override_by_query(chr(ord("A") + number), [_property("unit", query.unit)])
    return made


def _table(panel: Panel) -> table.Panel:
    made = table.Panel().filterable(True)
    # Grafana calls the value of a table's only query `Value`, and those of several `Value #A` and so on.
    several = len(panel.queries) > 1
    renamed = {
        (f"{_HASHED}{chr(ord('A') + number)}" if several else "Value"): query.legend
        for number, query in enumerate(panel.queries)
    }
    organize = {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": renamed}
    if several:
        made.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    made.with_transformation(models.DataTransformerConfig(id_val="organize", options=organize))
    for query in panel.queries:
        properties = [_property("unit", query.unit or panel.unit)]
        if query.colours:
            steps: list[dict[str, object]] = [{"value": None, "color": GREEN}]
            steps += [{"value": value, "color": colour} for value, colour in query.colours]
            properties.append(_property("thresholds", {"mode": "absolute", "steps": steps}))
            properties.append(_property("custom.cellOptions", {"type": "color-background"}))
        made.override_by_name(query.legend, properties)
    for column in panel.hidden:
        # Out of sight only: a link may still need its value, so it must stay in the data.
        made.override_by_name(column, [_property("custom.hidden", True)])
    for column in dict.fromkeys([column for column, *_ in (*panel.text_colours, *panel.links)]):
        made.override_by_name(column, _cell(panel, column))
    if panel.sorted_by:
        made.sort_by([common.TableSortByFieldState().display_name(panel.sorted_by).desc(True)])
    return made


def _cell(panel: Panel, column: str) -> list[models.DynamicConfigValue]:
    colours = {
        text: {"text": text, "color": colour, "index": index}
        for index, (of, text, colour) in enumerate(panel.text_colours)
        if of == column
    }
    leading = [
        {"title": title, "url": address, "targetBlank": False} for of, title, address in panel.links if of == column
    ]
    properties = []
    if colours:
        properties.append(_property("mappings", [{"type": "value", "options": colours}]))
        properties.append(_property("custom.cellOptions", {"type": "color-background"}))
    if leading:
        properties.append(_property("links", leading))
    return properties


def _stat(panel: Panel) -> stat.Panel:
    coloured = (
        common_models.BigValueColorMode.BACKGROUND
        if panel.steps or panel.words
        else common_models.BigValueColorMode.NONE
    )
    return (
        stat.Panel()
        .color_mode(coloured)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .text_mode(common_models.BigValueTextMode.VALUE_AND_NAME)
        .reduce_options(_last())
    )


def _bar_gauge(_panel: Panel) -> bargauge.Panel:
    return bargauge.Panel().orientation(common_models.VizOrientation.HORIZONTAL).reduce_options(_last()).min(0).max(1)


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"])


def _heatmap(panel: Panel) -> heatmap.Panel:
    # A classic histogram's buckets are cells already. The axis has the bounds as they are, which are nearly logarithmic.
    return heatmap.Panel().calculate(False).y_axis(heatmap.YAxisConfig().unit(panel.unit)).cell_gap(0)


def _timeline(_panel: Panel) -> statetimeline.Panel:
    return (
        statetimeline.Panel()
        .legend(_legend().show_legend(False))
        .show_value(common_models.VisibilityMode.AUTO)
        .line_width(0)
    )


_KINDS: Mapping[Kind, Callable[[Panel], Drawn]] = {
    Kind.LINES: _timeseries,
    Kind.STACK: _timeseries,
    Kind.BARS: _timeseries,
    Kind.TABLE: _table,
    Kind.STAT: _stat,
    Kind.BAR_GAUGE: _bar_gauge,
    Kind.HEATMAP: _heatmap,
    Kind.TIMELINE: _timeline,
}
