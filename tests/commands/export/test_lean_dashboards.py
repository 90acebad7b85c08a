"""Dashboards for lean pods have no panel that shows nothing of them, and the others say what they lack."""

import json

from sidecar.commands.export.dashboards import dashboard_files
from sidecar.commands.export.lean_dashboards import idle_panels, lean_dashboard, left_out
from sidecar.commands.export.parameters import Parameters
from sidecar.metrics.catalogue import CATALOGUE, LEAN
from tests.grafana.boards import Json, panels, targets


def boards(given: Parameters) -> dict[str, Json]:
    return {name: json.loads(text) for name, text in dashboard_files(given).items() if name.endswith(".json")}


def test_what_is_left_out_is_read_from_the_expression_alone() -> None:
    """The parts of a histogram are its own; what stands in quotes, or is recorded, is no metric; a label counts where it groups."""
    assert left_out('sum(rate(llm_request_seconds_bucket{lane="llm_output_tokens"}[5m]))') == ["llm_request_seconds"]
    assert left_out("lane:llm_time_to_first_token_seconds:p95_rate5m > llm_engine_up") == []
    assert left_out("sum by (lane, prompt_bucket) (llm_slo_misses_total)") == ["prompt_bucket"]
    assert left_out('llm_slo_misses_total{prompt_bucket=~"$prompt_bucket"}') == []
    assert {metric.name for metric in CATALOGUE if left_out(metric.name)} == {
        metric.name for metric in CATALOGUE if metric not in LEAN
    }


def test_a_lean_export_has_no_idle_panel_and_loses_no_other() -> None:
    full, lean = boards(Parameters()), boards(Parameters(profile="lean"))
    idle = {name: idle_panels(board) for name, board in full.items()}

    assert sum(map(len, idle.values())) > 20
    assert [idle_panels(board) for board in lean.values()] == [[]] * len(lean)
    for name, board in full.items():
        titles = [panel["title"] for panel in panels(board) if panel["title"] not in idle[name]]
        assert titles == [panel["title"] for panel in panels(lean[name])]


def test_a_row_without_panels_goes_with_them() -> None:
    row, idle, drawn = (
        {"type": "row", "title": "a"},
        {"type": "stat", "title": "b", "targets": [{"expr": "llm_request_seconds_count"}]},
        {"type": "stat", "title": "c", "targets": [{"expr": "llm_engine_up"}, {"expr": "llm_request_seconds_count"}]},
    )
    kept = json.loads(lean_dashboard(json.dumps({"panels": [row, idle, row, idle, drawn]})))

    assert kept["panels"] == [row, drawn]


def test_a_panel_names_what_it_lacks_of_lean_pods_and_says_so_where_it_shows_nothing() -> None:
    """In its description, and in the words that stand where there is no value."""
    for board in boards(Parameters()).values():
        idle = idle_panels(board)
        asked: dict[str, set[str]] = {}
        for panel, target in targets(board):
            asked.setdefault(panel["title"], set()).update(left_out(target["expr"]))
        for panel in panels(board):
            lacks = asked[panel["title"]]
            defaults = panel["fieldConfig"]["defaults"]
            assert ("Empty for pods of metrics.profile lean" in panel["description"]) == bool(lacks), panel["title"]
            assert ("profile lean" in defaults["noValue"]) == (panel["title"] in idle and defaults["noValue"] != "")
