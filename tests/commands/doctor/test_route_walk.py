"""Routes are walked as Alertmanager walks them: matchers in three spellings, order, `continue`, inhibition, silences."""

import subprocess
from pathlib import Path

import pytest
import yaml

from sidecar.commands.doctor.route_walk import Labels, integrations, muted_by, read_matchers, silenced_by, ways
from tests.alert_rules.alert_table import ALERTS
from tests.support.alertmanager import CONFIG, shipped
from tests.support.tools import need_tool


@pytest.mark.parametrize(
    ("text", "labels", "held"),
    [
        ('phase="queue"', {"phase": "queue"}, True),
        ("phase=queue", {"phase": "queue"}, True),
        ('phase=~"queue|pre.*"', {"phase": "prefill"}, True),
        ('phase=~"pre"', {"phase": "prefill"}, False),
        ('lane!=""', {}, False),
        ('lane!~"a|b"', {}, True),
        ('{a="1", b="2,\\"3\\""}', {"a": "1", "b": '2,"3"'}, True),
    ],
)
def test_a_matcher_is_read_and_holds_as_in_alertmanager(text: str, labels: Labels, held: bool) -> None:
    assert all(one.holds(labels) for one in read_matchers(text)) is held


def test_a_text_that_is_no_matcher_is_refused() -> None:
    with pytest.raises(ValueError, match="no matcher"):
        read_matchers(["phase"])


@pytest.mark.parametrize("text", [r'team=~"\\pL+"', 'team!~"ops(?i)x"'])
def test_an_expression_that_only_alertmanager_can_read_is_refused(text: str) -> None:
    (matcher,) = read_matchers(text)
    with pytest.raises(ValueError, match="cannot be read here"):
        matcher.holds({"team": "ops"})


TREE = {
    "route": {
        "receiver": "root",
        "group_wait": "1m30s",
        "routes": [
            {"match": {"team": "a"}, "receiver": "a", "continue": True, "mute_time_intervals": ["nights"]},
            {
                "match_re": {"team": "a|b"},
                "routes": [{"matchers": ["severity=page"], "receiver": "b", "group_wait": "5s"}],
            },
        ],
    },
    "receivers": [{"name": "root"}, {"name": "a", "slack_configs": [{}, {}], "email_configs": [{}]}, {"name": "b"}],
    "inhibit_rules": [{"source_match": {"up": "no"}, "target_match_re": {"up": ".*"}, "equal": ["cluster"]}],
}


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({}, [("root", 90.0, ())]),
        ({"team": "a"}, [("a", 90.0, ("nights",)), ("root", 90.0, ())]),
        ({"team": "b", "severity": "page"}, [("b", 5.0, ())]),
        ({"team": "b"}, [("root", 90.0, ())]),
    ],
)
def test_the_first_route_takes_an_alert_unless_it_says_continue(labels: Labels, receivers: list[object]) -> None:
    found = [(way.receiver, way.group_wait_seconds, way.muted_by) for way in ways(TREE, labels)]

    assert found == receivers


def test_each_entry_of_a_receiver_is_an_integration() -> None:
    assert [integrations(TREE, name) for name in ("a", "b", "unheard-of")] == [["slack", "slack", "email"], [], []]


def test_an_alert_is_muted_by_others_with_the_same_labels_and_not_by_its_own_kind() -> None:
    others = [{"up": "no", "cluster": "1"}, {"up": "no", "cluster": "2"}]

    assert list(muted_by(TREE, {"up": "yes", "cluster": "1"}, others)) == [others[0]]
    assert list(muted_by(TREE, {"up": "no", "cluster": "1"}, others)) == []


def test_only_an_active_silence_holds() -> None:
    matcher = {"name": "phase", "value": "que.*", "isRegex": True}
    silences = [{"status": {"state": state}, "matchers": [matcher]} for state in ("expired", "active")]

    assert list(silenced_by(silences, {"phase": "queue"})) == [silences[1]]
    assert list(silenced_by(silences, {"phase": "decode"})) == []


@pytest.mark.long
def test_every_shipped_alert_takes_the_route_that_amtool_says(tmp_path: Path) -> None:
    """amtool of Alertmanager itself is the judge, on the shipped routes."""
    amtool = need_tool("amtool")
    config = shipped() | {"templates": []}
    file = tmp_path / CONFIG.name
    file.write_text(yaml.safe_dump(config))
    examples = {(one.name, one.severity, one.phase): one.example() for one in ALERTS}
    expected = {}
    for key, labels in examples.items():
        command = [
            str(amtool),
            "config",
            "routes",
            "test",
            f"--config.file={file}",
            *(f"{k}={v}" for k, v in labels.items()),
        ]
        expected[key] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert {key: ",".join(way.receiver for way in ways(config, labels)) for key, labels in examples.items()} == expected
