"""The rules of Grafana's dashboard-linter (0.2.0) and our own, on every dashboard, by real PromQL parsing."""

import re
from collections.abc import Callable, Iterator

import pytest

from grafana.anatomy import ROWS_OF_A_SCREEN
from sidecar.commands.export.expression_names import left_out
from sidecar.config.quick_yaml import read_yaml
from tests.grafana.boards import GRAFANA, UIDS, Json, board, panels, targets
from tests.grafana.forms import reads_any_form
from tests.grafana.query_rules import where
from tests.grafana.rules import RULES, has_whole_tables


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_dashboard_keeps_the_rule(rule: Callable[[Json], Iterator[str]], uid: str) -> None:
    assert list(rule(board(uid))) == []


def test_these_are_all_dashboards() -> None:
    """A file without lint would not be noticed."""
    assert sorted(path.stem for path in (GRAFANA / "dashboards").glob("*.json")) == sorted(UIDS)


def test_every_dashboard_that_an_alert_links_to_exists() -> None:
    """A page whose link leads nowhere costs the minutes that it was meant to save."""
    rules = read_yaml((GRAFANA.parent / "alert_rules" / "llm-alerts.yml").read_text())
    links = [
        rule["annotations"]["dashboard_url"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule
    ]
    leads = {link.split("/d/", 1)[1].split("?", 1)[0] for link in links}
    asked = {name for link in links for name in _variables(link)}

    assert leads - set(UIDS) == set()
    assert asked - {variable["name"] for variable in board("llm-anatomy")["templating"]["list"]} == set()


def _variables(link: str) -> list[str]:
    return [
        part.split("=", 1)[0].removeprefix("var-")
        for part in link.partition("?")[2].split("&")
        if part.startswith("var-")
    ]


def test_the_first_screen_answers_without_scrolling() -> None:
    """The verdict and what to do first, the two numbers, the burn, where the time goes, the pods: all within one window's height."""
    first = [
        one for one in panels(board("llm-anatomy")) if one["gridPos"]["y"] + one["gridPos"]["h"] <= ROWS_OF_A_SCREEN
    ]

    assert [one["title"].split(":")[0].split(",")[0] for one in first] == [
        "Verdict",
        "Time to first token p95 by lane",
        "Between tokens p95 by lane",
        "Error budget burn by lane",
        "Mean seconds by phase",
        "Pods",
    ]


def test_there_are_few_enough_panels_to_know_them() -> None:
    """Seven dashboards, seventy-two panels, twelve on the first: everything else is behind a link."""
    counts = {uid: len(panels(board(uid))) for uid in UIDS}

    assert (len(counts) <= 7, sum(counts.values()) <= 72, counts["llm-anatomy"] <= 12) == (True, True, True), counts


def test_exemplars_are_asked_for_on_each_dashboard_about_latency() -> None:
    """From a slow point to its trace."""
    without = [uid for uid in UIDS if not any(target.get("exemplar") for _, target in targets(board(uid)))]

    assert without == ["llm-sidecar", "llm-fleet"]


@pytest.mark.parametrize("uid", UIDS)
def test_a_panel_names_what_it_lacks_of_lean_pods_and_says_so_where_it_shows_nothing(uid: str) -> None:
    """One set of dashboards is for pods of either profile: in a panel's description, and in place of its value."""
    asked: dict[str, list[list[str]]] = {}
    for panel, target in targets(board(uid)):
        asked.setdefault(panel["title"], []).append(left_out(target["expr"]))
    for panel in panels(board(uid)):
        lacks, empty = asked[panel["title"]], panel["fieldConfig"]["defaults"]["noValue"]
        assert ("Empty for pods of metrics.profile lean" in panel["description"]) == any(lacks), panel["title"]
        assert ("profile lean" in empty) == (all(lacks) and empty != ""), panel["title"]


@pytest.mark.parametrize("uid", [uid for uid in UIDS if uid != "llm-sidecar"])
def test_no_number_of_a_latency_is_about_all_lanes(uid: str) -> None:
    """A p99 over lanes hides the lanes. What has no lane in its result is the engine's, a pod's, or drawn once for each lane."""
    mixed = [
        panel["title"]
        for panel, target in targets(board(uid))
        if "histogram_quantile" in target["expr"]
        and panel.get("repeat") != "lane"
        and "lane" not in target["expr"].split("by (", 1)[1].split(")", 1)[0]
    ]

    assert mixed == []


def test_stacks_of_phases_are_means_and_have_the_whole_drawn_over_them() -> None:
    """Means add up; the line shows that they do."""
    stacks = [
        panel
        for uid in UIDS
        for panel in panels(board(uid))
        if any("llm_request_phase_seconds_sum" in target["expr"] for target in panel["targets"])
        and panel["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode") == "normal"
    ]
    drawn_apart = [
        override["matcher"]["options"]
        for panel in stacks
        for override in panel["fieldConfig"]["overrides"]
        if {"id": "custom.stacking", "value": {"mode": "none", "group": "B"}} in override["properties"]
    ]

    assert len(stacks) == 5
    assert drawn_apart == ["whole request"] * 5


@pytest.mark.parametrize("uid", UIDS)
def test_a_query_of_classic_histograms_alone_is_noticed(uid: str) -> None:
    """A fleet with native ones would see nothing, or the classic part of itself."""
    dashboard = board(uid)
    cut = 0
    for panel, target in targets(dashboard):
        shorter = re.sub(
            r" or (?:histogram_(?:sum|count)\(\w+\([^()]*\)\)|label_replace\(histogram_quantile\(.*?, \"\"\))",
            "",
            target["expr"],
        )
        if shorter != (whole := target["expr"]):
            target["expr"], cut = shorter, cut + 1
            assert any(where(panel, target) in one for one in reads_any_form(dashboard))
            target["expr"] = whole

    assert cut > 0


def test_a_column_that_a_link_needs_stays_in_the_data() -> None:
    """Out of sight is enough: a link of a column that is taken out has an empty name."""
    dashboard = board("llm-anatomy")
    table = next(panel for panel in panels(dashboard) if panel["title"] == "Pods, worst first")
    (organize,) = [step["options"] for step in table["transformations"] if step["id"] == "organize"]
    organize["excludeByName"]["pod"] = True

    assert [one for one in has_whole_tables(dashboard) if "a link needs" in one] != []
