"""From our boards to Grafana's classic JSON, through the typed models of grafana-foundation-sdk 0.0.21.

Knows the JSON: options, overrides, transformations, the grid. Refuses to know what is measured. The schema version is 39: Grafana
10 reads it as it stands, later versions migrate it when they load it. Nothing here needs more than 10.0; what the SDK adds for
version 12.4 and later (where a link's place is a menu) is taken out again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from grafana_foundation_sdk.builders import (
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

from grafana.colours import FINE
from grafana.drawing_tables import drawn_table, letter, prop
from grafana.panel import RATIO, SAMPLES_UNIT, Board, Kind, Panel
from grafana.pod_names import SHOWN_POD, with_shown_pod
from grafana.query import Query
from grafana.surroundings import annotations, links, variables
from sidecar.admin.page.phase_colours import PHASE_COLOURS
from sidecar.commands.export.rules.annotations import RUNBOOKS
from sidecar.commands.export.rules.dashboard_rules import parts_read


SCHEMA_VERSION = 39
GRID = 24
DATASOURCE = common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")

Drawn = timeseries.Panel | table.Panel | stat.Panel | heatmap.Panel | statetimeline.Panel


def written(board: Board, runbook_base: str) -> str:
    """One dashboard as it is committed; its links to runbooks begin with `runbook_base`."""
    return json.dumps(drawn(board), indent=2, ensure_ascii=False).replace(RUNBOOKS, runbook_base) + "\n"


def drawn(board: Board) -> dict[str, Any]:
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
        .variables([*variables(board.choices, parts_read(_asked(board)))])
        .annotations([*annotations()])
        .links([*links(board)])
    )
    made = builder.build()
    made.schema_version = SCHEMA_VERSION
    made.panels = _laid_out(board)
    text = json.dumps(made, cls=JSONEncoder)
    return cast("dict[str, Any]", _without_places(json.loads(text)))


def _asked(board: Board) -> Iterator[str]:
    return (query.text for row in board.rows for panel in row.panels for query in panel.queries)


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
        if row.title:
            place = models.GridPos(h=1, w=GRID, x=0, y=y)
            made.append(models.RowPanel(title=row.title, id_val=len(made) + 1, panels=[], grid_pos=place))
            y += 1
        x, tallest = 0, 0
        for panel in row.panels:
            # Grafana puts the repetitions of a panel over what stands beside it.
            width = GRID if panel.per_lane else panel.width
            if x + width > GRID:
                y, x, tallest = y + tallest, 0, 0
            one = _panel(panel)
            one.id_val = len(made) + 1
            one.grid_pos = models.GridPos(h=panel.height, w=width, x=x, y=y)
            made.append(one)
            x, tallest = x + width, max(tallest, panel.height)
        y += tallest
    return made


def _panel(panel: Panel) -> models.Panel:
    made = _KINDS[panel.kind](panel)
    made.title(panel.title).description(panel.description).datasource(DATASOURCE)
    # What a heatmap counts are requests; its unit is that of the axis.
    made.unit("short" if panel.kind is Kind.HEATMAP else panel.unit).no_value(panel.nothing).mappings(
        _mappings(panel)
    ).thresholds(_thresholds(panel))
    made.targets([_target(query, letter(number), panel) for number, query in enumerate(panel.queries)])
    if panel.decimals is not None:
        made.decimals(panel.decimals)
    if panel.per_lane:
        made.repeat("lane").repeat_direction("h").max_per_row(3)
    return made.build()


def _target(query: Query, ref: str, panel: Panel) -> prometheus.Dataquery:
    expr, legend = query.expr, query.legend
    if panel.has_pods or "{{pod}}" in legend:
        expr, legend = with_shown_pod(expr), legend.replace("{{pod}}", f"{{{{{SHOWN_POD}}}}}")
    target = prometheus.Dataquery().expr(expr).ref_id(ref).datasource(DATASOURCE)
    if panel.kind in {Kind.TABLE, Kind.STAT}:
        target.instant()
    else:
        target.range()
    if panel.kind is Kind.TABLE:
        return target.format(prometheus_models.PromQueryFormat.TABLE)
    if panel.kind is Kind.HEATMAP:
        return target.format(prometheus_models.PromQueryFormat.HEATMAP).legend_format(legend).exemplar(query.exemplars)
    return target.legend_format(legend).exemplar(query.exemplars)


def _mappings(panel: Panel) -> list[models.ValueMapping]:
    words = {
        f"{value:g}": models.ValueMappingResult(text=word, color=colour, index=index)
        for index, (value, word, colour) in enumerate(panel.words)
    }
    nothing = models.SpecialValueMap(
        models.DashboardSpecialValueMapOptions(
            models.SpecialValueMatch.NULL_AND_NAN,
            # Without a colour of its own it would have that of the first threshold.
            models.ValueMappingResult(text=_no_value(panel), color=FINE, index=len(words)),
        )
    )
    ranges = [
        models.RangeMap(
            models.DashboardRangeMapOptions(low, high, models.ValueMappingResult(text=word, color=colour, index=index))
        )
        for query in panel.queries
        for index, (low, high, word, colour) in enumerate(query.ranges if panel.kind is Kind.STAT else ())
    ]
    return [*([models.ValueMap(words)] if words else []), *ranges, nothing]


def _no_value(panel: Panel) -> str:
    """In a table some rows lack some columns: such a cell is blank."""
    return "" if panel.kind is Kind.TABLE else panel.nothing


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    made = [
        models.Threshold(value=None, color=panel.base),
        *(models.Threshold(value, colour) for value, colour in panel.steps),
    ]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(made)


def _legend() -> common.VizLegendOptions:
    # Beside the lines: below them Grafana shows three rows and hides the others.
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(common_models.LegendDisplayMode.TABLE)
        .placement(common_models.LegendPlacement.RIGHT)
        .calcs(["lastNotNull"])
    )


def _timeseries(panel: Panel) -> timeseries.Panel:
    tooltip = (
        common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI).sort(common_models.SortOrder.DESCENDING)
    )
    by_name = dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC_BY_NAME)
    made = timeseries.Panel().legend(_legend()).tooltip(tooltip).color_scheme(by_name)
    made.show_points(common_models.VisibilityMode.AUTO)  # a point between two gaps is no line
    if panel.kind is Kind.LINES:
        made.line_width(2).fill_opacity(0)
        if panel.steps:
            made.thresholds_style(
                common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED)
            )
    else:
        stacking = common.StackingConfig().mode(common_models.StackingMode.NORMAL).group("A")
        made.fill_opacity(80).line_width(0).stacking(stacking)
        if panel.kind is Kind.BARS:
            made.draw_style(common_models.GraphDrawStyle.BARS)
    _axis(made, panel)
    _overridden(made, panel)
    return made


def _axis(made: timeseries.Panel, panel: Panel) -> None:
    if panel.logarithmic:
        made.scale_distribution(common.ScaleDistributionConfig().type(common_models.ScaleDistribution.LOG).log(10))
    elif panel.unit == RATIO and not panel.beyond_one:
        made.min(0).max(1)
    else:
        made.axis_soft_min(0)
        if panel.unit == RATIO:
            made.axis_soft_max(1)


def _overridden(made: timeseries.Panel, panel: Panel) -> None:
    if panel.by_phase:
        behind = any(query.legend.endswith(" {{phase}}") for query in panel.queries)
        for phase, colour in PHASE_COLOURS.items():
            properties = [prop("color", {"mode": "fixed", "fixedColor": colour})]
            if behind:
                made.override_by_regexp(f"/ {phase}$/", properties)
            else:
                made.override_by_name(phase, properties)
    if panel.total:
        line = [
            prop("custom.stacking", {"mode": "none", "group": "B"}),
            prop("custom.fillOpacity", 0),
            prop("custom.lineWidth", 2),
            prop("color", {"mode": "fixed", "fixedColor": "text"}),
        ]
        made.override_by_name(panel.total, line)
    for number, query in enumerate(panel.queries):
        properties = [prop("unit", query.unit)] if query.unit else []
        if query.dashed:
            properties += [
                prop("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}),
                prop("custom.lineWidth", 1),
                prop("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}),
            ]
        if query.counts:
            properties += [
                prop("unit", SAMPLES_UNIT),
                prop("decimals", 0),
                # Grafana drops a series from the tooltip that is hidden from the picture: so it is drawn with nothing.
                prop("custom.lineWidth", 0),
                prop("custom.fillOpacity", 0),
                prop("custom.showPoints", "never"),
                prop("custom.pointSize", 1),
                prop("custom.axisPlacement", "hidden"),
                prop("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}),
            ]
        if properties:
            made.override_by_query(letter(number), properties)


def _has_a_background(panel: Panel) -> bool:
    """True for a tile that is painted in its value's colour: without a value it has none."""
    return panel.kind is Kind.STAT and bool(panel.steps or panel.words or panel.queries[0].ranges)


def _stat(panel: Panel) -> stat.Panel:
    mode = common_models.BigValueColorMode
    coloured = mode.BACKGROUND if _has_a_background(panel) else mode.NONE
    return (
        stat.Panel()
        .color_mode(coloured)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .text_mode(common_models.BigValueTextMode.VALUE_AND_NAME)
        .reduce_options(_last())
    )


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
    Kind.TABLE: drawn_table,
    Kind.STAT: _stat,
    Kind.HEATMAP: _heatmap,
    Kind.TIMELINE: _timeline,
}
