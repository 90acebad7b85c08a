"""The demo and the end-to-end tests run the shipped rules and routes faster: only durations and addresses differ."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.commands.demo.shipped import DEMO, FASTEST, NAMESPACE, Pace, Shipped, find, prometheus_config, seconds_of
from sidecar.commands.export import shipped_files
from sidecar.config.quick_yaml import read_yaml


DURATION = re.compile(r"(?<![\w.])\d+[smhdw](?!\w)")


@pytest.fixture(params=[DEMO, FASTEST], ids=lambda pace: f"{pace.times:g} times")
def ours(request: pytest.FixtureRequest) -> Shipped:
    found = find(request.param)
    assert found == Shipped(shipped_files.shipped(shipped_files.ALERT_RULES), request.param)
    return found


def test_a_pace_makes_whole_seconds_of_a_scrape_or_is_refused() -> None:
    assert [pace.seconds(15) for pace in (DEMO, FASTEST)] == ["2s", "1s"]
    with pytest.raises(ValueError, match="whole seconds"):
        Pace(10)


def test_a_package_that_was_built_without_rules_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shipped_files, "CARRIED", tmp_path)
    monkeypatch.setattr(shipped_files, "AROUND", tmp_path)

    assert find(DEMO) is None


def without_durations(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [DURATION.sub("?", line) for line in lines]


def test_rules_differ_in_their_durations_alone(ours: Shipped) -> None:
    for name, text in ours.rules().items():
        original = (ours.folder / name).read_text()
        # Durations in sentences are not scaled: they state the shipped windows.
        assert without_durations(text) == without_durations(original), name
        groups = read_yaml(original)["groups"]
        hurried = read_yaml(text)["groups"]
        intervals = [
            (seconds_of(one["interval"]), seconds_of(other["interval"]))
            for one, other in zip(groups, hurried, strict=True)
        ]
        # Prometheus evaluates at most once a second here: the groups of 5 s cannot be hurried by as much.
        hurried_to = [max(1.0, one * ours.pace.factor) for one, _ in intervals]
        assert hurried_to == pytest.approx([other for _, other in intervals]), name


def test_links_to_runbooks_lead_to_the_demos_own_sidecar(ours: Shipped) -> None:
    text = ours.rules("http://127.0.0.1:9901/runbooks")["llm-alerts.yml"]
    alerts = [rule for group in read_yaml(text)["groups"] for rule in group["rules"]]

    links = {rule["alert"]: rule["annotations"]["runbook_url"].partition("?")[0] for rule in alerts if "alert" in rule}
    assert links == {name: f"http://127.0.0.1:9901/runbooks/{name}" for name in links}


def routes_of(route: dict[str, Any]) -> list[dict[str, Any]]:
    return [route, *(below for child in route.get("routes", []) for below in routes_of(child))]


def test_routes_wait_a_fraction_and_tell_the_sink_alone(ours: Shipped, tmp_path: Path) -> None:
    original = read_yaml((ours.folder / "alertmanager.yml").read_text())
    hurried = ours.routes("http://127.0.0.1:7", tmp_path)

    waits = ("group_wait", "group_interval", "repeat_interval")
    for one, other in zip(routes_of(original["route"]), routes_of(hurried["route"]), strict=True):
        assert {key: value for key, value in one.items() if key not in (*waits, "routes")} == {
            key: value for key, value in other.items() if key not in (*waits, "routes")
        }
        for wait in waits:
            if wait in one:
                milliseconds = int(other[wait].removesuffix("ms"))
                assert milliseconds == pytest.approx(seconds_of(one[wait]) * 1000 * ours.pace.factor, abs=1)
    assert hurried["inhibit_rules"] == original["inhibit_rules"]
    assert set(re.findall(r"https?://[^/']+", yaml.safe_dump(hurried["receivers"]))) == {"http://127.0.0.1:7"}
    assert "example.com" not in yaml.safe_dump(hurried)


def test_each_pod_is_scraped_with_the_labels_that_the_rules_group_by() -> None:
    config = prometheus_config(["a.yml"], "127.0.0.1:1", {"one": "127.0.0.1:2", "two": "127.0.0.1:3"}, DEMO)
    (job,) = config["scrape_configs"]

    assert job["static_configs"] == [
        {"targets": ["127.0.0.1:2"], "labels": {"namespace": NAMESPACE, "pod": "one"}},
        {"targets": ["127.0.0.1:3"], "labels": {"namespace": NAMESPACE, "pod": "two"}},
    ]
    assert config["global"]["evaluation_interval"] == config["global"]["scrape_interval"] == "2s"
