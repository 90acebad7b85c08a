"""Every dashboard goes through the typed models of grafana-foundation-sdk and loses nothing: no key that Grafana does not know."""

import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.grafana.boards import GRAFANA, UIDS, Json, board


register_default_plugins()


def lost_keys(dashboard: Json) -> list[str]:
    """Paths of what the models do not know, or changed. What they add is a default of theirs."""
    through = json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))
    return _lost(dashboard, through, "")


def _lost(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            one
            for key, value in before.items()
            for one in ([f"{path}/{key}"] if key not in after else _lost(value, after[key], f"{path}/{key}"))
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            one
            for number, pair in enumerate(zip(before, after, strict=True))
            for one in _lost(*pair, f"{path}/{number}")
        ]
    return [] if before == after else [path]


@pytest.mark.parametrize("uid", UIDS)
def test_nothing_is_lost_on_the_way_through_the_models(uid: str) -> None:
    assert lost_keys(board(uid)) == []


@pytest.mark.parametrize("place", ["panel", "target", "link", "variable", "annotation", "options", "defaults"])
def test_a_key_that_grafana_does_not_know_is_noticed(place: str) -> None:
    """Or the round trip would prove nothing."""
    dashboard = board("llm-anatomy")
    panel = next(one for one in dashboard["panels"] if one["type"] == "timeseries")
    places = {
        "panel": panel,
        "target": panel["targets"][0],
        "link": dashboard["links"][0],
        "variable": dashboard["templating"]["list"][1],
        "annotation": dashboard["annotations"]["list"][0],
        "options": panel["options"],
        "defaults": panel["fieldConfig"]["defaults"],
    }
    places[place]["mistyped"] = 1

    assert [path.rsplit("/", 1)[1] for path in lost_keys(dashboard)] == ["mistyped"]


def test_the_files_are_strict_json() -> None:
    """No NaN, no conflict marker, no key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs), pairs
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    for path in (GRAFANA / "dashboards").glob("*.json"):
        assert json.loads(path.read_text(), object_pairs_hook=once, parse_constant=refuse)["uid"] == path.stem


@pytest.mark.parametrize("uid", UIDS)
def test_nothing_is_newer_than_grafana_10(uid: str) -> None:
    """Panels, transformations and colours of that version; and no place in a menu, which 12.4 brought."""
    dashboard = board(uid)
    types = {panel["type"] for panel in dashboard["panels"]}
    steps = {step["id"] for panel in dashboard["panels"] for step in panel.get("transformations", [])}

    assert types - {"row", "timeseries", "table", "stat", "heatmap", "state-timeline"} == set()
    assert steps - {"merge", "organize", "sortBy", "groupBy", "convertFieldType"} == set()
    assert '"placement": "inControlsMenu"' not in json.dumps(dashboard)
    assert "elements" not in dashboard
