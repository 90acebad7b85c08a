"""The rules of Grafana's dashboard-linter (0.2.0) and our own, on every dashboard, by real PromQL parsing."""

from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.grafana.boards import GRAFANA, UIDS, Json, board, panels, targets
from tests.grafana.rules import RULES


@pytest.mark.parametrize("uid", UIDS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_dashboard_keeps_the_rule(rule: Callable[[Json], Iterator[str]], uid: str) -> None:
    assert list(rule(board(uid))) == []


def test_these_are_all_dashboards() -> None:
    """A file that nobody lints would not be noticed."""
    assert sorted(path.stem for path in (GRAFANA / "dashboards").glob("*.json")) == sorted(UIDS)


def test_every_dashboard_that_an_alert_links_to_exists() -> None:
    """A page whose link leads nowhere costs the minutes that it was meant to save."""
    rules = yaml.safe_load((GRAFANA.parent / "alert_rules" / "llm-alerts.yml").read_text())
    links = [rule["annotations"]["dashboard_url"] for group in rules["groups"] for rule in group["rules"]]
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


def test_the_front_page_asks_in_the_order_of_the_questions() -> None:
    """The two numbers, the verdict, where the time goes, blame, goodput: at three in the morning nobody scrolls."""
    rows = [panel["title"] for panel in board("llm-anatomy")["panels"] if panel["type"] == "row"]

    assert rows == [
        "Two numbers, never one",
        "Verdict",
        "Where the time goes",
        "Blame",
        "Goodput and error budget",
    ]


def test_exemplars_are_asked_for_on_each_dashboard_about_latency() -> None:
    """From a slow point to its trace."""
    without = [uid for uid in UIDS if not any(target.get("exemplar") for _, target in targets(board(uid)))]

    assert without == ["llm-sidecar"]


@pytest.mark.parametrize("uid", [uid for uid in UIDS if uid != "llm-sidecar"])
def test_no_number_of_a_latency_is_about_all_lanes(uid: str) -> None:
    """A p99 over lanes hides the lanes. What has no lane in its result is the engine's, a pod's, or drawn once for each lane."""
    mixed = []
    rows_per_lane = False
    for panel in board(uid)["panels"]:
        if panel["type"] == "row":
            rows_per_lane = panel.get("repeat") == "lane"
            continue
        for target in panel["targets"]:
            quantile = "histogram_quantile" in target["expr"] and "llm_sidecar_" not in target["expr"]
            if quantile and "lane" not in target["expr"].split("by (", 1)[1].split(")", 1)[0] and not rows_per_lane:
                mixed.append(panel["title"])

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

    assert len(stacks) == 4
    assert drawn_apart == ["whole request"] * 4
