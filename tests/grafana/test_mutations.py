"""The rules catch what goes wrong: a renamed metric, a dropped label, a broken unit, in any query of any panel of any dashboard.

Each mutation is made on a copy, one at a time, and some rule must complain; a mutation that goes unnoticed is a hole in the rules.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.grafana.boards import UIDS, Json, board, column_of, panels
from tests.grafana.rules import complains, complaints, is_laid_out


Mutate = Callable[[str], Iterator[tuple[str, str]]]
UNITS = ("s", "ms", "percentunit", "percent", "short", "reqps", "cps", "bytes", "none", "")
_METRIC = re.compile(r"(?<![\w:$\"])(?:llm_|process_|(?:instance|job|lane|pod):llm_)[\w:]*")
_GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_SELECTOR = re.compile(r"(?<=[\w])\{([^}]*)\}")


def renamed(expr: str) -> Iterator[tuple[str, str]]:
    """The query with one metric's name mistyped, each in turn."""
    for match in _METRIC.finditer(expr):
        yield f"{match[0]} renamed", f"{expr[: match.end()]}x{expr[match.end() :]}"


ALIKE_WITHOUT_IT = re.compile(
    r"""(Verdict: .* H|Pods, worst first D): (objective=~"\.\+"|of="requests") dropped at [0-9]+|Verdict: .* G: phase!="unattributed" dropped at [0-9]+"""
)
"""Labels of the one question which clusters, namespaces, jobs and models there are: misses have the same as requests, and one objective has
the same as all. And the one place of a wait that is none, which no rule can know.
"""


def without_a_label(expr: str) -> Iterator[tuple[str, str]]:
    """The query with one label dropped from a grouping, a join or a selector, each in turn."""
    for pattern, separator in ((_GROUPING, ", "), (_SELECTOR, ",")):
        for match in pattern.finditer(expr):
            parts = match[1].split(separator) if match[1] else []
            for number, part in enumerate(parts):
                rest = separator.join([*parts[:number], *parts[number + 1 :]])
                start, end = match.span(1)
                yield f"{part} dropped at {start}", f"{expr[:start]}{rest}{expr[end:]}"


def alone(dashboard: Json, panel: Json) -> Json:
    """A dashboard of one panel: a mutation of it is judged without all the others again."""
    return {**dashboard, "panels": [panel]}


def units(panel: Json) -> Iterator[tuple[str, Json, str]]:
    """Places of the units that targets are drawn in: (name, holder, key)."""
    columns = {column_of(panel, target["refId"]) for target in panel["targets"]} if panel["type"] == "table" else set()
    refs = {target["refId"] for target in panel["targets"]}
    overridden = set()
    for override in panel["fieldConfig"]["overrides"]:
        for one in override["properties"]:
            if one["id"] == "unit" and override["matcher"]["options"] in columns | refs:
                overridden.add(override["matcher"]["options"])
                yield override["matcher"]["options"], one, "value"
    if panel["type"] == "heatmap":
        yield "axis", panel["options"]["yAxis"], "unit"
    elif len(overridden) < len(refs):
        yield "panel", panel["fieldConfig"]["defaults"], "unit"


def unnoticed(whole: Json, mutate: Mutate) -> tuple[list[str], int]:
    """The mutations of any query of a dashboard of which no rule complains, and the number of those that were tried."""
    found, tried = [], 0
    for panel in panels(whole):
        dashboard = alone(whole, panel)
        assert complaints(dashboard) == []
        for target in panel["targets"]:
            original = target["expr"]
            for name, expr in mutate(original):
                target["expr"] = expr
                tried += 1
                if not complains(dashboard):
                    found.append(f"{panel['title']} {target['refId']}: {name}")
            target["expr"] = original
    return found, tried


@pytest.mark.long
@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("mutate", [renamed, without_a_label], ids=lambda mutate: mutate.__name__)
def test_a_mutated_query_is_noticed(mutate: Mutate, uid: str) -> None:
    whole = board(uid)
    found, tried = unnoticed(whole, mutate)

    assert [one for one in found if not ALIKE_WITHOUT_IT.fullmatch(one)] == []
    assert tried >= len(panels(whole))


def unfounded(expr: str) -> Iterator[tuple[str, str]]:
    """The query with a quantile of too few samples: any number of them, one of them less, or those of four scrapes."""
    if "histogram_quantile" not in expr:
        return
    for match in re.finditer(r" and on \([^)]*\) \S.*? >= (\d+)(?=\)| or )", expr):
        yield f"any number at {match.start()}", expr[: match.start()] + expr[match.end() :]
    for match in re.finditer(r">= (\d{2,})", expr):
        yield f"fewer at {match.start()}", f"{expr[: match.start()]}>= {int(match[1]) - 1}{expr[match.end() :]}"
    for match in re.finditer(r"\[(?:5m|\$__range)\]", expr):
        yield f"four scrapes at {match.start()}", f"{expr[: match.start()]}[$__rate_interval]{expr[match.end() :]}"


@pytest.mark.parametrize("uid", UIDS)
def test_a_quantile_of_too_few_samples_is_noticed(uid: str) -> None:
    whole = board(uid)
    quantiles = str(whole).count("histogram_quantile")
    found, tried = unnoticed(whole, unfounded)

    assert found == []
    assert tried >= 3 * quantiles


@pytest.mark.parametrize("uid", UIDS)
def test_a_broken_unit_is_noticed(uid: str) -> None:
    whole = board(uid)
    unnoticed, seen = [], 0
    for panel in panels(whole):
        dashboard = alone(whole, panel)
        for name, holder, key in units(panel):
            seen += 1
            original = holder[key]
            for unit in UNITS:
                holder[key] = unit
                if unit != original and not complains(dashboard):
                    unnoticed.append(f"{panel['title']} {name}: {original} became {unit}")
            holder[key] = original

    assert unnoticed == []
    assert seen >= len(panels(whole))


@pytest.mark.parametrize("uid", UIDS)
def test_a_panel_that_lost_something_is_noticed(uid: str) -> None:
    """Its description, its title, its data source, its word for nothing, its targets; or it slid over its neighbour."""
    whole = board(uid)
    unnoticed = []
    for number, panel in enumerate(panels(whole)):
        dashboard = alone(whole, panel)
        for key in ("description", "title", "datasource"):
            kept = panel.pop(key)
            if key == "title":
                panel["title"] = ""
            if not complains(dashboard):
                unnoticed.append(f"{kept}: {key}")
            panel[key] = kept
        kept = panel["fieldConfig"]["defaults"].pop("noValue")
        if not complains(dashboard):
            unnoticed.append(f"{panel['title']}: noValue")
        panel["fieldConfig"]["defaults"]["noValue"] = kept
        kept_y = panel["gridPos"]["y"]
        panel["gridPos"]["y"] -= 1
        if not any(is_laid_out(whole)):
            unnoticed.append(f"{panel['title']}: slid up over number {number}")
        panel["gridPos"]["y"] = kept_y

    assert unnoticed == []
