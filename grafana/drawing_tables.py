"""Tables in Grafana's JSON: several queries merged into rows, columns named, ordered, sized, coloured, mapped and linked.

Knows the transformations and overrides of a table. Refuses to know what is measured. A column's width is said by its name, once for
all tables, wide enough for its heading.
"""

from collections.abc import Mapping

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

from grafana.colours import FINE
from grafana.panel import Panel
from grafana.pod_names import SHOWN_POD, WHOLE_POD
from grafana.query import Query


WIDTHS: Mapping[str, int] = {
    "namespace": 110,
    "pod": 170,
    "model": 120,
    "lane": 105,
    "objective": 85,
    "prompt_bucket": 130,
    "phase": 100,
    "cause": 110,
    "do_first": 440,
    "since": 170,
    "severity": 80,
    "runbook": 150,
    "burn": 70,
    "missed": 80,
    "confidence": 100,
}
"""Pixels; the columns that are not named share what is left."""
LEAST_WIDTH = 60
TEXT_COLUMNS = frozenset({"do_first"})
"""Columns of sentences, which may need the second line of a tall row."""
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
    # Grafana calls the value of a table's only query `Value`, and those of several `Value #A` and so on.
    several = len(panel.queries) > 1
    renamed = {
        (f"{_HASHED}{letter(number)}" if several else "Value"): query.legend
        for number, query in enumerate(panel.queries)
    }
    taken_out = {"Time": True}
    if panel.has_pods:
        renamed |= {SHOWN_POD: "pod"}
        if _leads_to_a_pod(panel):
            renamed |= {"pod": WHOLE_POD}
        else:
            taken_out |= {"pod": True}
    original = {shown: own for own, shown in renamed.items()}
    places = {original.get(column, column): place for place, column in enumerate(panel.order)}
    organize = {"excludeByName": taken_out, "indexByName": places, "renameByName": renamed}
    if several:
        made.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    made.with_transformation(models.DataTransformerConfig(id_val="organize", options=organize))
    for column in dict.fromkeys([*(query.legend for query in panel.queries), *WIDTHS, *_told(panel), *_hidden(panel)]):
        properties = _column(panel, column)
        if properties:
            made.override_by_name(column, properties)
    if panel.sorted_by:
        made.sort_by([common.TableSortByFieldState().display_name(panel.sorted_by).desc(True)])
    return made


def _hidden(panel: Panel) -> list[str]:
    return [*panel.hidden, *([WHOLE_POD] if _leads_to_a_pod(panel) else [])]


def _leads_to_a_pod(panel: Panel) -> bool:
    return any("${__data.fields.pod}" in address for *_, address in panel.links)


def _told(panel: Panel) -> list[str]:
    return [*panel.texts, *(column for column, *_ in (*panel.text_colours, *panel.links))]


def _column(panel: Panel, column: str) -> list[models.DynamicConfigValue]:
    """All that is said about one column; nothing of one that the panel does not have."""
    query = next((one for one in panel.queries if one.legend == column), None)
    hidden = column in _hidden(panel)
    properties = _value(panel, query) if query is not None else []
    if column in WIDTHS and column in panel.order and not hidden:
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
    return properties


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
        absent = {"text": "", "color": FINE, "index": len(mapped)}
        nothing = [
            {"type": "special", "options": {"match": match, "result": absent}} for match in ("null+nan", "empty")
        ]
        properties.append(prop("mappings", [{"type": "value", "options": mapped}, *nothing]))
    if colours:
        properties.append(prop("custom.cellOptions", {"type": "color-background", "mode": "basic"}))
    if column in TEXT_COLUMNS and shown:
        properties.append(prop("custom.cellOptions", {"type": "auto", "wrapText": True}))
    if leading:
        properties.append(prop("links", leading))
    return properties
