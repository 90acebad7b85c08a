"""The optional rule file for pictures: few rules in a group, one level deep, read by dashboards and by no alert.

Read from the shipped files as trees. That it records what dashboards compute is shown by test_dashboard_rules_live.py.
"""

import re
from collections.abc import Iterator

import promql_parser as promql
import pytest

from sidecar.config.quick_yaml import read_yaml
from sidecar.export.rules.dashboard_rules import DRAWN_PHASES, RECORDED
from sidecar.export.rules.rule_files import files
from sidecar.export.shipped_files import DASHBOARD_RULES
from sidecar.metrics.histogram_forms import SAMPLES_NEEDED, classic_only
from sidecar.metrics.target_labels import ONE_ENGINE, ONE_PROCESS
from tests.alert_rules.syntax import FOLDER, KNOWN, Labels, Shipped, exposed, groups, recorded, rules, selectors
from tests.grafana.boards import UIDS, board, query_variables, switch, targets
from tests.support.shipped_rules import shipped_rules


GROUPS = groups((DASHBOARD_RULES,))
RULES = [Shipped(group["name"], rule) for group in GROUPS for rule in group["rules"]]
MOST_RULES = 15
LEVELS = {
    "instance": {*ONE_PROCESS, "model", "lane"},
    "job": {*ONE_ENGINE},
    "lane": {*ONE_ENGINE, "model", "lane"},
}
"""The labels that the level of a name stands for; a lane's phases and objectives have more."""
PHASES = {"phase", "streaming"}

each_rule = pytest.mark.parametrize("rule", RULES, ids=str)


def test_its_groups_are_small_and_hold_recording_rules_alone() -> None:
    sizes = {group["name"]: len(group["rules"]) for group in GROUPS}

    assert max(sizes.values()) <= MOST_RULES
    assert sum(sizes.values()) == len([rule for rule in RULES if rule.is_record])
    # The mark stands once in each group.
    assert sum(sizes.values()) - len(GROUPS) == len(RECORDED) - 1
    assert {field for group in GROUPS for field in group} == {"name", "interval", "rules"}


@each_rule
def test_a_rule_reads_raw_series_alone_by_labels_that_they_have(rule: Shipped) -> None:
    """One level deep: no recorded series is read, this file's or the other's. Each form of a histogram is judged by itself."""
    raw = exposed() | {name.removesuffix("_count"): held for name, held in exposed().items() if name.endswith("_count")}
    labels = Labels(exposed())
    labels.of(promql.parse(classic_only(rule.expr)))
    read = selectors(promql.parse(rule.expr))

    assert {one.name or "" for one in read} - set(raw) == set()
    assert [name for one in read for name in {m.name for m in one.matchers.matchers} - raw[one.name or ""]] == []
    assert labels.lost == []


@each_rule
def test_a_recorded_name_says_its_level(rule: Shipped) -> None:
    left = Labels(KNOWN).of(promql.parse(rule.expr))
    level, metric, operation = rule.name.split(":")

    assert left - LEVELS[level] in (set(), {"streaming"}, {"objective"}, PHASES)
    assert LEVELS[level] - left == set()
    assert re.fullmatch(r"llm_[a-z0-9_]+:[a-z0-9_]+", f"{metric}:{operation}") is not None


def test_a_quantile_is_recorded_only_where_its_samples_carry_it() -> None:
    """The condition is a part of the rule, for each form of the histogram, so that a line ends where its samples do."""
    least = {
        rule.name: [(float(of), int(count)) for of, count in found]
        for rule in RULES
        if (found := re.findall(r"histogram_quantile\(([\d.]+), .*?>= (\d+)", rule.expr))
    }

    assert {name for name in RECORDED if re.search(r":p\d+_", name)} == set(least)
    assert {len(found) for found in least.values()} == {2}
    assert [name for name, found in least.items() for of, count in found if SAMPLES_NEEDED[of] != count] == []


def test_no_alert_and_no_other_rule_reads_it() -> None:
    """Without the file, pictures are slower, and nothing else changes."""
    texts = [rule.expr + " ".join(rule.fields.get("annotations", {}).values()) for rule in rules()]

    assert [name for name in RECORDED if any(name in text for text in texts)] == []
    assert set(recorded()) & RECORDED == set()


def _asked() -> Iterator[str]:
    for uid in UIDS:
        dashboard = board(uid)
        yield from (query for _, query, _ in switch(dashboard))
        yield from (target["expr"] for _, target in targets(dashboard))
        yield from (variable["definition"] for variable in query_variables(dashboard))


def test_all_that_it_records_is_drawn() -> None:
    """A series that is never asked for only costs."""
    text = " ".join(_asked())

    assert [name for name in RECORDED if f"{name}{{" not in text] == []


@pytest.mark.parametrize("uid", UIDS)
def test_a_dashboard_waits_for_the_groups_that_it_reads_and_for_no_other(uid: str) -> None:
    """With one group loaded, the dashboards that read that group alone read it; those that read none have no switch."""
    text = " ".join(target["expr"] for _, target in targets(board(uid)))
    read = [
        group["rules"][0]["labels"]["part"]
        for group in GROUPS
        if any(f"{rule['record']}{{" in text for rule in group["rules"])
    ]

    asked = [set(re.findall(r'part=~"([^"]+)"', query)) for _, query, _ in switch(board(uid))]

    assert asked == ([{"|".join(read)}] if read else [])


def test_the_phases_whose_quantiles_are_recorded_are_those_that_are_drawn() -> None:
    """Another one would be blank where the rules are loaded."""
    name = "lane:llm_request_phase_seconds:p95_rate5m"
    drawn = {phase for text in _asked() for phase in re.findall(rf'{name}{{[^}}]*phase="(\w+)"', text)}

    assert drawn == set(DRAWN_PHASES)


def test_the_object_for_the_operator_has_the_same_groups() -> None:
    """An object of its own, so that it can be left out."""
    made = read_yaml((FOLDER / "kubernetes" / "dashboard-rule.yaml").read_text())

    assert made["spec"]["groups"] == GROUPS
    assert made["metadata"]["name"] == "llm-phase-sidecar-dashboards"
    kustomization = (FOLDER / "kustomization.yaml").read_text()
    assert "kubernetes/dashboard-rule.yaml" not in read_yaml(kustomization)["resources"]
    assert "  # - kubernetes/dashboard-rule.yaml\n" in kustomization


def test_a_file_without_keep_firing_for_has_it_as_well() -> None:
    """An old vmalert takes it unchanged."""
    assert files(keep_firing=False)[DASHBOARD_RULES] == shipped_rules()[DASHBOARD_RULES]
