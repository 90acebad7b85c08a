"""Rules that a dashboard keeps: each takes one as a dict and returns its complaints. Grafana's dashboard-linter's rules, and ours.

Plain functions, so that a mutation of a dashboard costs milliseconds to judge. Rules about queries are in `query_rules.py`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql

from grafana.canary import CANARYS
from grafana.pod_names import SHOWN_POD
from sidecar.commands.export.rules.annotations import RUNBOOKS as RUNBOOK_BASE
from sidecar.commands.export.rules.dashboard_rules import GROUPS, MARK, PART
from sidecar.metrics.vocabulary import LONGEST_SCRAPE_INTERVAL_SECONDS
from tests.grafana.boards import (
    UIDS,
    Json,
    column_of,
    label_values,
    numbers_of,
    panels,
    query_variables,
    switch,
    targets,
    with_traffic,
)
from tests.grafana.forms import reads_any_form
from tests.grafana.gate import is_gate
from tests.grafana.query_rules import QUERY_RULES, VARIABLES, WHO, has_buckets, tree_of
from tests.grafana.series import VERSION, known, labels_of, matched, operands, selectors, walk
from tests.grafana.version_rules import keeps_versions_apart


Complaints = Iterator[str]
Rule = Callable[[Json], Complaints]

RUNBOOKS = Path(__file__).parents[2] / "sidecar" / "runbooks"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID = 24
PARTS = {
    rule.labels[PART]: {one.name for one in group.rules} - {MARK}
    for group in GROUPS
    for rule in group.rules
    if rule.name == MARK
}
"""Part of the optional rule file to what it records."""
MERGING = ["merge", "organize"]
FOLDING = ["merge", "sortBy", "groupBy", "convertFieldType", "organize"]
"""Several answers in a row: the worst first, then one row of each root, whose lists are made text."""
_FIELD = re.compile(r"\$\{__data\.fields\.(\w+)\}")
_LEGEND_LABEL = re.compile(r"\{\{(\w+)\}\}")


def is_of_our_time(dashboard: Json) -> Complaints:
    """Classic JSON that 10 to 13 load, with an address of its own."""
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


def has_the_switch(dashboard: Json) -> Complaints:
    """One variable out of sight, asked anew with the time: all is computed, unless what is read was recorded for the time shown.

    It asks for every group that records something that the dashboard reads.
    """
    read = {selector.name for _, target in targets(dashboard) for selector in selectors(tree_of(target))}
    needed = {part for part, names in PARTS.items() if names & read}
    chosen = {label: f'=~"${label}"' for label in ("cluster", "namespace", "pod", "prompt_bucket")}
    found = switch(dashboard)
    if needed and len(found) != 1:
        yield f"{len(found)} variables out of sight that choose what is read"
    for name, query, label in found:
        asked = selectors(promql.parse(query.replace("$__range", "1h")))
        (variable,) = [one for one in dashboard["templating"]["list"] if one["name"] == name]
        if (name, label, variable.get("refresh"), variable["current"]["value"]) != ("computed", "computed", 2, ".*"):
            yield f"variable {name}: another name or label, not asked anew, or not all at first"
        parts = matched(asked[0]).get(PART, "").removeprefix('=~"').removesuffix('"').split("|")
        told = chosen | {PART: f'=~"{"|".join(parts)}"'}
        if [(one.name, matched(one)) for one in asked] != [(MARK, told)] * 2 or variable["datasource"] != DATASOURCE:
            yield f"variable {name}: it does not ask whether what is chosen was recorded"
        if not needed <= set(parts) <= set(PARTS) or query.count(f" == {len(parts)}") != 2:
            yield f"variable {name}: it asks for {', '.join(parts)}, and read is {', '.join(sorted(needed))}"


def offers_what_had_traffic(dashboard: Json) -> Complaints:
    """The variables of models and lanes do: `other` is there from the start, and no choice while nothing is counted there."""
    for variable in query_variables(dashboard):
        if variable["name"] in {"model", "lane"} and with_traffic(variable) is None:
            yield f"variable {variable['name']}: it offers all values"


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
        elif nothing[0]["result"].get("text") != ("" if panel["type"] == "table" else defaults["noValue"]):
            yield f"panel {name!r}: NaN and nothing have different words"


def is_laid_out(dashboard: Json) -> Complaints:
    """Unique ids and refIds, nothing over another, nothing outside."""
    for number, count in Counter(panel.get("id") for panel in dashboard["panels"]).items():
        if count > 1 or not number:
            yield f"id {number} on {count} panels"
    cells: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        if min(grid["x"], grid["y"]) < 0 or grid["x"] + grid["w"] > GRID or grid["w"] < 1 or grid["h"] < 1:
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
    """A legend names every label of the result: or lines cannot be told apart, or a name stays empty. A lane's line has its bare
    name, from which its colour follows; a dashboard that compares two versions needs a second word.
    """
    compares = any(variable["name"] == "canary" for variable in dashboard["templating"]["list"])
    for panel, target in targets(dashboard):
        tree = tree_of(target)
        if tree is None:
            continue
        left = labels_of(tree, known())
        if panel["type"] == "heatmap":
            expected = {"le"} & left  # a native histogram has its edges within
        elif panel["type"] == "table":
            continue
        else:
            legend = target.get("legendFormat", "")
            expected = set(_LEGEND_LABEL.findall(legend))
            expected |= {"pod"} if SHOWN_POD in expected else set()
            if "lane" in expected and legend != "{{lane}}" and panel["type"] == "timeseries" and not compares:
                yield f"panel {panel['title']!r} {target['refId']}: {legend} has another colour than its lane has elsewhere"
        # What every line has in common need not be said.
        pinned = {name for one in selectors(tree) for name, how in matched(one).items() if how.startswith('="')}
        pinned |= {panel["repeat"]} if panel.get("repeat") else set()
        if not left - pinned <= expected <= left:
            yield f"panel {panel['title']!r} {target['refId']}: legend {sorted(expected)}, result {sorted(left)}"


def says_on_how_many_samples(dashboard: Json) -> Complaints:
    """Beside the quantiles of a histogram stands the number of its samples, of the same requests, in the tooltip: it is drawn with
    nothing, on no axis.
    """
    for panel in panels(dashboard):
        if panel["type"] != "timeseries":
            continue  # a table has a column of it
        numbers, counted, drawn = numbers_of(panel), set(), set()
        for target in panel["targets"]:
            labels = labels_of(tree_of(target), known())
            if target["refId"] in numbers:
                counted |= {(each, labels) for each in _COUNTS.findall(target["expr"])}
            elif "histogram_quantile(" in target["expr"]:
                drawn |= {(each, labels) for each in _BUCKETS.findall(target["expr"])}
        for histogram, labels in drawn ^ counted:
            yield f"panel {panel['title']!r}: quantiles of {histogram} by {sorted(labels)}, and the number of other samples, or none"


_COUNTS = re.compile(r"(llm_\w+)_count\b")
_BUCKETS = re.compile(r"(llm_\w+)_bucket\b")


def has_whole_tables(dashboard: Json) -> Complaints:
    """Overrides, hidden columns, sorting and links are about columns that are there; rows of several queries meet."""
    for panel in panels(dashboard):
        if panel["type"] != "table":
            continue
        trees = {target["refId"]: tree_of(target) for target in panel["targets"]}
        labels = {ref: labels_of(tree, known()) for ref, tree in trees.items() if tree is not None}
        every = frozenset().union(*labels.values())
        organize = next(one["options"] for one in panel["transformations"] if one["id"] == "organize")
        renamed = {shown for own, shown in organize["renameByName"].items() if own.partition(" (")[0] in every}
        columns = {"Time", *every, *renamed, *(column_of(panel, ref) for ref in trees)}
        folded = any(one["id"] == "groupBy" for one in panel["transformations"])
        named = {
            *organize["excludeByName"],
            *(override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]),
            *(sort["displayName"] for sort in panel["options"].get("sortBy", [])),
            *_FIELD.findall(str(panel["fieldConfig"])),
        }
        for lost in sorted(named - columns):
            yield f"table {panel['title']!r}: no column {lost!r}"
        if len(trees) > 1 and [one["id"] for one in panel["transformations"]] != (FOLDING if folded else MERGING):
            yield f"table {panel['title']!r}: its queries are not merged"
        if {*organize["excludeByName"]} & {*_FIELD.findall(str(panel["fieldConfig"]))} or not organize["excludeByName"][
            "Time"
        ]:
            yield f"table {panel['title']!r}: a column is taken out of the data that a link needs"
        if any(column_of(panel, ref).startswith("Value") for ref in trees):
            yield f"table {panel['title']!r}: a column without a name"
        if VERSION not in every and ("namespace" not in every or not every & {"pod", "lane"}):
            yield f"table {panel['title']!r}: it does not say whose row it is"
        # A label that only one of several queries keeps is a column that this query adds, such as the worst pod of a lane.
        shared = {one for one in every if len(labels) < 3 or sum(one in left for left in labels.values()) > 1}
        for ref, left in labels.items():
            carried = frozenset().union(*(known()[one.name or ""] for one in operands(trees[ref])))
            for lost_label in sorted(shared & {VERSION, *carried & {*VARIABLES, *WHO}} - left):
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
            if address.startswith(RUNBOOK_BASE):
                if address.removeprefix(RUNBOOK_BASE).split("?")[0] != "/${__data.fields.runbook}":
                    yield f"panel {panel['title']!r}: no runbook at {address}"
                continue
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


CHANGES = {"Deploys": "llm_engine_info", "Engine restarts": "llm_engine_restarts_total"} | {
    "Config changes": "llm_sidecar_config_last_reload_success_timestamp_seconds"
}
"""Changes that are drawn over every panel: name to the series that tells."""


def shows_what_was_changed(dashboard: Json) -> Complaints:
    """As annotations, for what is chosen, each seen by a scrape that is as slow as is supported."""
    changes = {
        one["name"]: promql.parse(one["expr"]) for one in dashboard["annotations"]["list"] if one["name"] in CHANGES
    }
    for name, series in CHANGES.items():
        asked = selectors(changes[name]) if name in changes else []
        if {one.name for one in asked} != {series} or any(
            matched(one).get(label) != f'=~"${label}"' for one in asked for label in ("cluster", "namespace", "pod")
        ):
            yield f"annotation {name}: not there, or not of what is chosen"
    for name, tree in changes.items():
        for one in walk(tree):
            if (
                isinstance(one, promql.MatrixSelector)
                and one.range.total_seconds() < 3 * LONGEST_SCRAPE_INTERVAL_SECONDS
            ):
                yield f"annotation {name}: {one.range} seldom hold two samples of a slow scrape"


def shows_the_alerts(dashboard: Json) -> Complaints:
    """As annotations, pages and tickets, with the phase in the title, for what is chosen."""
    found = {}
    for annotation in dashboard["annotations"]["list"]:
        if annotation["name"] in CHANGES:
            continue
        (selector,) = selectors(promql.parse(annotation["expr"]))
        said = matched(selector)
        found[said.get("severity")] = annotation
        if selector.name != "ALERTS" or said.get("alertstate") != '="firing"' or said.get("alertname") != '=~"LLM.*"':
            yield f"annotation {annotation['name']}: not our firing alerts"
        for name in ("cluster", "namespace", "pod", "model", "lane"):
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
        if tree is not None and target.get("exemplar") and not any(has_buckets(one) for one in selectors(tree)):
            yield f"panel {panel['title']!r}: exemplars of what has none"


def has_the_gate_word_for_word(dashboard: Json) -> Complaints:
    """A tile that judges the canary has the gate of rollouts, in each character."""
    for panel, target in targets(dashboard):
        if panel.get("title", "").startswith(CANARYS) and not is_gate(target):
            yield f"panel {panel['title']!r}: not the gate"


RULES: tuple[Rule, ...] = (
    has_the_gate_word_for_word,
    *QUERY_RULES,
    is_of_our_time,
    has_the_variables,
    has_the_switch,
    offers_what_had_traffic,
    has_whole_panels,
    is_laid_out,
    names_its_lines,
    says_on_how_many_samples,
    has_whole_tables,
    leads_somewhere,
    shows_the_alerts,
    shows_what_was_changed,
    offers_traces,
    reads_any_form,
    keeps_versions_apart,
)


def complaints(dashboard: Json) -> list[str]:
    """All of them."""
    return [complaint for rule in RULES for complaint in rule(dashboard)]


_quickest = list(RULES)


def complains(dashboard: Json) -> bool:
    """True if there is one, found as soon as it can be: the rule that noticed the last mutation notices the next one most often."""
    for number, rule in enumerate(_quickest):
        if any(True for _ in rule(dashboard)):
            _quickest.insert(0, _quickest.pop(number))
            return True
    return False
