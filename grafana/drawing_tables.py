"""Tables in Grafana's JSON: several queries merged into rows, columns named, ordered, sized, coloured, mapped and linked.

Knows the transformations and overrides of a table. Refuses to know what is measured. A column's width is said by its name, once for
all tables, wide enough for its heading.
"""

from collections.abc import Iterator, Mapping

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from grafana.colours import FINE
from grafana.panel import Panel
from grafana.pod_names import SHOWN_POD, WHOLE_POD
from grafana.query import Query


WIDTHS: Mapping[str, int] = {
    "namespace": 110,
    "pod": 150,
    "model": 110,
    "lane": 105,
    "lanes": 155,
    "objective": 85,
    "objectives": 98,
    "prompt_bucket": 145,
    "phase": 95,
    "cause": 118,
    "waited_in": 85,
    "where": 97,
    "scope": 75,
    "age": 100,
    "severity": 80,
    "burn": 60,
    "missed": 70,
    "confidence": 95,
    "p95 of threshold": 155,
}
"""Pixels; the columns that are not named share what is left."""
LEAST_WIDTH = 60
TEXT_COLUMNS = frozenset({"do_first", "lanes", "objectives", "waited_in", "where"})
"""Columns of several words, which may need the second line of a tall row."""
_HASHED = "Value #"


def letter(number: int) -> str:
    """The refId of a panel's target."""
    return chr(ord("A") + number)


def prop(name: str, value: object) -> models.DynamicConfigValue:
    """One property of an override."""
    return models.DynamicConfigValue(id_val=name, value=value)


def drawn_table(panel: Panel) -> table.Panel:
    """The table, without what all panels have."""
    made = table.Panel().min_width(LEAST_WIDTH)
    if panel.tall:
        made.cell_height(common_models.TableCellHeight.LG)
    renamed = {_value_column(panel, number): query.legend for number, query in enumerate(panel.queries)} | dict(
        panel.headings
    )
    taken_out = {"Time": True}
    if panel.has_pods:
        renamed |= {SHOWN_POD: "pod"}
        if _leads_to_a_pod(panel):
            renamed |= {"pod": WHOLE_POD}
        else:
            taken_out |= {"pod": True}
    if len(panel.queries) > 1:
        made.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    if panel.rows_by:
        for step in _folded(panel):
            made.with_transformation(step)
        renamed = {
            **{
                own if own in panel.rows_by else _in_a_row(own, _reducer(panel, own)): shown
                for own, shown in renamed.items()
            },
            **{_in_a_row(label, _LISTED): shown for label, shown in panel.listed.items()},
            **{_in_a_row(label, _FIRST): label for label in _worsts(panel) if label not in renamed},
        }
    original = {shown: own for own, shown in renamed.items()}
    places = {original.get(column, column): place for place, column in enumerate(panel.order)}
    organize = {"excludeByName": taken_out, "indexByName": places, "renameByName": renamed}
    made.with_transformation(models.DataTransformerConfig(id_val="organize", options=organize))
    for column in dict.fromkeys(
        [*(query.legend for query in panel.queries), *WIDTHS, *panel.order, *_told(panel), *_hidden(panel)]
    ):
        properties = _column(panel, column)
        if properties:
            made.override_by_name(column, properties)
    if panel.sorted_by:
        made.sort_by([common.TableSortByFieldState().display_name(panel.sorted_by).desc(True)])
    return made


_FIRST, _LISTED = "firstNotNull", "uniqueValues"
"""Grafana's names of what it makes of several values. Their order is that of the rows, which are sorted before."""


def _value_column(panel: Panel, number: int) -> str:
    """Grafana's name of a query's values: `Value` of a table's only query, and `Value #A` and so on of several."""
    return f"{_HASHED}{letter(number)}" if len(panel.queries) > 1 else "Value"


def _in_a_row(column: str, reducer: str) -> str:
    """Grafana's name of a column that was folded."""
    return f"{column} ({reducer})"


def _worsts(panel: Panel) -> list[str]:
    """Labels of which a row has the worst one's value."""
    return [*panel.of_the_worst, *([SHOWN_POD, "pod"] if panel.has_pods else [])]


def _reducer(panel: Panel, column: str) -> str:
    folded = {_value_column(panel, number): query.folded for number, query in enumerate(panel.queries)}
    return folded.get(column, _FIRST)


def _folded(panel: Panel) -> Iterator[models.DataTransformerConfig]:
    """Several answers as one row: sorted, so that the worst is the first of each row, grouped, and lists made text."""
    worst = next(number for number, query in enumerate(panel.queries) if query.legend == panel.sorted_by)
    by_worst = {"fields": {}, "sort": [{"field": _value_column(panel, worst), "desc": True}]}
    yield models.DataTransformerConfig(id_val="sortBy", options=by_worst)
    columns: dict[str, list[str]] = {}
    for label in panel.listed:
        columns.setdefault(label, []).append(_LISTED)
    for label in _worsts(panel):
        columns.setdefault(label, []).append(_FIRST)
    for number in range(len(panel.queries)):
        column = _value_column(panel, number)
        columns[column] = [_reducer(panel, column)]
    fields = {label: {"operation": "groupby", "aggregations": []} for label in panel.rows_by} | {
        column: {"operation": "aggregate", "aggregations": reducers} for column, reducers in columns.items()
    }
    yield models.DataTransformerConfig(id_val="groupBy", options={"fields": fields})
    texts = [
        {"targetField": _in_a_row(label, _LISTED), "destinationType": "string", "joinWith": ", "}
        for label in panel.listed
    ]
    yield models.DataTransformerConfig(id_val="convertFieldType", options={"fields": {}, "conversions": texts})


def _hidden(panel: Panel) -> list[str]:
    return [*panel.hidden, *([WHOLE_POD] if _leads_to_a_pod(panel) else [])]


def _leads_to_a_pod(panel: Panel) -> bool:
    leading = ("${__data.fields.pod}", f"${{__data.fields.{WHOLE_POD}}}")
    return any(field in address for *_, address in panel.links for field in leading)


def _told(panel: Panel) -> list[str]:
    return [*panel.texts, *(column for column, *_ in (*panel.text_colours, *panel.links))]


def _column(panel: Panel, column: str) -> list[models.DynamicConfigValue]:
    """All that is said about one column; nothing of one that the panel does not have."""
    query = next((one for one in panel.queries if one.legend == column), None)
    hidden = column in _hidden(panel)
    properties = _value(panel, query) if query is not None else []
    if column in WIDTHS and (column in panel.order or query is not None) and not hidden:
        properties.append(prop("custom.width", WIDTHS[column]))
    properties += _cell(panel, column)
    if hidden:
        # Out of sight only: a link may still need its value, so it must stay in the data.
        properties.append(prop("custom.hidden", True))
    return properties


def _value(panel: Panel, query: Query) -> list[models.DynamicConfigValue]:
    properties = [prop("unit", query.unit or panel.unit)]
    if query.decimals is not None:
        properties.append(prop("decimals", query.decimals))
    if query.colours:
        steps: list[dict[str, object]] = [{"value": None, "color": panel.base}]
        steps += [{"value": value, "color": colour} for value, colour in query.colours]
        properties.append(prop("thresholds", {"mode": "absolute", "steps": steps}))
        properties.append(prop("custom.cellOptions", {"type": "color-background", "mode": "basic"}))
    if query.ranges:
        properties.append(prop("mappings", [*ranges_of(query), *_NOTHING]))
        properties.append(prop("custom.cellOptions", {"type": "color-background", "mode": "basic"}))
    return properties


def ranges_of(query: Query) -> list[dict[str, object]]:
    """The words that stand for a query's numbers, as Grafana's mappings."""
    return [
        {
            "type": "range",
            "options": {"from": low, "to": high, "result": {"text": word, "color": colour, "index": index}},
        }
        for index, (low, high, word, colour) in enumerate(query.ranges)
    ]


_NOTHING = tuple(
    {"type": "special", "options": {"match": match, "result": {"text": "", "color": FINE, "index": 99}}}
    for match in ("null+nan", "empty")
)
"""An empty cell: no text and no colour."""


def _cell(panel: Panel, column: str) -> list[models.DynamicConfigValue]:
    shown = panel.texts.get(column, {})
    colours = {text: colour for of, text, colour in panel.text_colours if of == column}
    mapped = {
        text: {"text": shown.get(text, text), "index": index} | ({"color": colours[text]} if text in colours else {})
        for index, text in enumerate(dict.fromkeys([*shown, *colours]))
    }
    leading = [
        {"title": title, "url": address, "targetBlank": False} for of, title, address in panel.links if of == column
    ]
    properties = []
    if mapped:
        properties.append(prop("mappings", [{"type": "value", "options": mapped}, *_NOTHING]))
    if colours:
        properties.append(prop("custom.cellOptions", {"type": "color-background", "mode": "basic"}))
    if column in TEXT_COLUMNS and panel.tall and not colours:
        properties.append(prop("custom.cellOptions", {"type": "auto", "wrapText": True}))
    if leading:
        properties.append(prop("links", leading))
    return properties
