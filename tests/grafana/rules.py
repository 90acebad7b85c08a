"""What a dashboard must be: each rule takes one as a dict and returns its complaints. Grafana's dashboard-linter's rules, and ours.

Plain functions, so that a mutation of a dashboard costs milliseconds to judge. Rules about queries are in `query_rules.py`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql

from tests.grafana.boards import UIDS, Json, column_of, label_values, panels, query_variables, targets
from tests.grafana.query_rules import QUERY_RULES, VARIABLES, tree_of
from tests.grafana.series import known, labels_of, matched, operands, selectors


Complaints = Iterator[str]
Rule = Callable[[Json], Complaints]

RUNBOOKS = Path(__file__).parents[2] / "sidecar" / "runbooks"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID = 24
_FIELD = re.compile(r"\$\{__data\.fields\.(\w+)\}")
_LEGEND_LABEL = re.compile(r"\{\{(\w+)\}\}")


def is_of_our_time(dashboard: Json) -> Complaints:
    """Classic JSON that 9.5 to 13 load, with an address of its own."""
    if dashboard.get("uid") not in UIDS:
        yield f"uid {dashboard.get('uid')!r} is none of ours"
    if not 39 <= dashboard.get("schemaVersion", 0) <= 42:
        yield f"schemaVersion {dashboard.get('schemaVersion')}"
    if dashboard.get("id") is not None:
        yield "an id: it belongs to one Grafana's database"
    if dashboard.get("editable") is not False:
        yield "[uneditable-dashboard] what is provisioned is not edited in place"
    if (
        not dashboard.get("title")
        or not dashboard.get("description")
        or "llm-phase-sidecar" not in dashboard.get("tags", [])
    ):
        yield "no title, description or tag"


def has_the_variables(dashboard: Json) -> Complaints:
    """[template-datasource, template-label-promql, template-on-time-change-reload]; ours instead of job and instance."""
    by_name = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    source = by_name.get("datasource", {})
    if (source.get("type"), source.get("query"), source.get("label")) != ("datasource", "prometheus", "Data source"):
        yield "no variable `datasource` of Prometheus, labelled Data source"
    for name in VARIABLES:
        variable = by_name.get(name, {})
        whole = variable.get("multi") and variable.get("includeAll") and variable.get("allValue") == ".*"
        if not whole or variable.get("current", {}).get("value") != ["$__all"]:
            yield f"variable {name}: not several and all of them, or not all at first"
    for variable in query_variables(dashboard):
        if variable.get("refresh") != 2:
            yield f"variable {variable['name']}: not reloaded when the time changes"
        if variable.get("datasource") != DATASOURCE:
            yield f"variable {variable['name']}: another data source"
        try:
            text, label = label_values(variable)
            (selector,) = selectors(promql.parse(text))
        except ValueError as error:
            yield f"variable {variable['name']}: {error}"
            continue
        if label not in known().get(selector.name or "", frozenset()):
            yield f"variable {variable['name']}: {selector.name} has no label {label}"


def has_whole_panels(dashboard: Json) -> Complaints:
    """[panel-datasource, panel-title-description, panel-no-targets], a population, and words for nothing."""
    for panel in panels(dashboard):
        name = panel.get("title")
        if not name or "\n\nPopulation: " not in panel.get("description", ""):
            yield f"panel {name!r}: no title, or no description that states the population"
        if not panel.get("targets"):
            yield f"panel {name!r}: no target"
        if panel.get("datasource") != DATASOURCE or any(
            one.get("datasource") != DATASOURCE for one in panel.get("targets", [])
        ):
            yield f"panel {name!r}: another data source"
        defaults = panel["fieldConfig"]["defaults"]
        if panel["type"] == "heatmap" and defaults.get("unit") != "short":
            yield f"panel {name!r}: its cells are numbers of requests"
        nothing = [one["options"] for one in defaults.get("mappings", []) if one["type"] == "special"]
        if "noValue" not in defaults or [one["match"] for one in nothing] != ["null+nan"]:
            yield f"panel {name!r}: no word for nothing or NaN"
        elif nothing[0]["result"].get("text") != defaults["noValue"]:
            yield f"panel {name!r}: NaN and nothing have different words"


def is_laid_out(dashboard: Json) -> Complaints:
    """Unique ids and refIds, nothing over another, nothing outside."""
    for number, count in Counter(panel.get("id") for panel in dashboard["panels"]).items():
        if count > 1 or not number:
            yield f"id {number} on {count} panels"
    cells: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        if grid["x"] < 0 or grid["x"] + grid["w"] > GRID or grid["w"] < 1 or grid["h"] < 1:
            yield f"panel {panel['title']!r} is outside the grid"
        for cell in (
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        ):
            if cell in cells:
                yield f"panel {panel['title']!r} is over {cells[cell]!r}"
                break
            cells[cell] = panel["title"]
        refs = [target["refId"] for target in panel.get("targets", [])]
        if len(set(refs)) != len(refs):
            yield f"panel {panel['title']!r}: refIds {refs}"


def names_its_lines(dashboard: Json) -> Complaints:
    """A legend names every label of the result: or lines cannot be told apart, or a name stays empty."""
    for panel, target in targets(dashboard):
        tree = tree_of(target)
        if tree is None:
            continue
        left = labels_of(tree, known())
        if panel["type"] == "heatmap":
            expected = {"le"}
        elif panel["type"] == "table":
            continue
        else:
            expected = set(_LEGEND_LABEL.findall(target.get("legendFormat", "")))
        # What every line has in common need not be said.
        pinned = {name for one in selectors(tree) for name, how in matched(one).items() if how.startswith('="')}
        if not left - pinned <= expected <= left:
            yield f"panel {panel['title']!r} {target['refId']}: legend {sorted(expected)}, result {sorted(left)}"


def has_whole_tables(dashboard: Json) -> Complaints:
    """Overrides, hidden columns, sorting and links are about columns that are there; rows of several queries meet."""
    for panel in panels(dashboard):
        if panel["type"] != "table":
            continue
        trees = {target["refId"]: tree_of(target) for target in panel["targets"]}
        labels = {ref: labels_of(tree, known()) for ref, tree in trees.items() if tree is not None}
        every = frozenset().union(*labels.values())
        columns = {"Time", *every, *(column_of(panel, ref) for ref in trees)}
        organize = next(one["options"] for one in panel["transformations"] if one["id"] == "organize")
        named = {
            *organize["excludeByName"],
            *(override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]),
            *(sort["displayName"] for sort in panel["options"].get("sortBy", [])),
            *_FIELD.findall(str(panel["fieldConfig"])),
        }
        for lost in sorted(named - columns):
            yield f"table {panel['title']!r}: no column {lost!r}"
        if len(trees) > 1 and [one["id"] for one in panel["transformations"]] != ["merge", "organize"]:
            yield f"table {panel['title']!r}: its queries are not merged"
        if organize["excludeByName"] != {"Time": True}:
            yield f"table {panel['title']!r}: a column is taken out of the data that a link may need"
        if any(column_of(panel, ref).startswith("Value") for ref in trees):
            yield f"table {panel['title']!r}: a column without a name"
        if "namespace" not in every or not every & {"pod", "lane"}:
            yield f"table {panel['title']!r}: nobody knows whose row it is"
        for ref, left in labels.items():
            carried = frozenset().union(*(known()[one.name or ""] for one in operands(trees[ref])))
            for lost_label in sorted((every & carried & {*VARIABLES, "objective"}) - left):
                yield f"table {panel['title']!r} {ref}: {lost_label} is summed away, the others keep it"


def leads_somewhere(dashboard: Json) -> Complaints:
    """Dashboards that exist, with time and choice kept; runbooks that exist."""
    menus = [link for link in dashboard.get("links", []) if link["type"] == "dashboards"]
    if [(link["tags"], link["keepTime"], link["includeVars"]) for link in menus] != [
        (["llm-phase-sidecar"], True, True)
    ]:
        yield "no menu of our dashboards that keeps time and variables"
    for link in dashboard.get("links", []):
        if link["type"] == "link" and not (RUNBOOKS / f"{link['url'].rsplit('/', 1)[1]}.md").exists():
            yield f"no runbook at {link['url']}"
    for panel in panels(dashboard):
        for address in _addresses(panel):
            uid = address.removeprefix("/d/").split("?")[0]
            if uid not in {*UIDS, "${__data.fields.dashboard}"}:
                yield f"panel {panel['title']!r} leads to {uid}"
            lost = [
                name
                for name in ("datasource", *VARIABLES)
                if f"{name}:queryparam" not in address and f"var-{name}=" not in address
            ]
            if "${__url_time_range}" not in address or lost:
                yield f"panel {panel['title']!r}: its link loses the time or {lost}"


def _addresses(panel: Json) -> list[str]:
    properties: list[Any] = [one for override in panel["fieldConfig"]["overrides"] for one in override["properties"]]
    return [link["url"] for one in properties if one["id"] == "links" for link in one["value"]]


def shows_the_alerts(dashboard: Json) -> Complaints:
    """As annotations, pages and tickets, with the phase in the title, for what is chosen."""
    found = {}
    for annotation in dashboard["annotations"]["list"]:
        (selector,) = selectors(promql.parse(annotation["expr"]))
        said = matched(selector)
        found[said.get("severity")] = annotation
        if selector.name != "ALERTS" or said.get("alertstate") != '="firing"' or said.get("alertname") != '=~"LLM.*"':
            yield f"annotation {annotation['name']}: not our firing alerts"
        for name in ("namespace", "pod", "model", "lane"):
            if said.get(name) != f'=~"(|${name})"':
                yield f"annotation {annotation['name']}: not chosen by {name}, or lost without it"
        if (
            "{{phase}}" not in annotation["titleFormat"]
            or annotation["datasource"] != DATASOURCE
            or not annotation["enable"]
        ):
            yield f"annotation {annotation['name']}: without its phase, switched off, or from elsewhere"
    if set(found) != {'="page"', '="ticket"'}:
        yield "not pages and tickets"


def offers_traces(dashboard: Json) -> Complaints:
    """Exemplars are asked for where a histogram's buckets are, and nowhere else."""
    for panel, target in targets(dashboard):
        tree = tree_of(target)
        if (
            tree is not None
            and target.get("exemplar")
            and not any((one.name or "").endswith("_bucket") for one in selectors(tree))
        ):
            yield f"panel {panel['title']!r}: exemplars of what has none"


RULES: tuple[Rule, ...] = (
    is_of_our_time,
    has_the_variables,
    has_whole_panels,
    is_laid_out,
    names_its_lines,
    has_whole_tables,
    leads_somewhere,
    shows_the_alerts,
    offers_traces,
    *QUERY_RULES,
)


def complaints(dashboard: Json) -> list[str]:
    """All of them."""
    return [complaint for rule in RULES for complaint in rule(dashboard)]
