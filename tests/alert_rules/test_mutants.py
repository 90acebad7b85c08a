"""The check of the scenarios (`make mutants`) in small: mistakes of every kind are made, and promtool notices those that it should."""

from pathlib import Path

import pytest

from tests.alert_rules.mutants import record
from tests.alert_rules.mutants.excuses import EQUIVALENT, excuse, objections
from tests.alert_rules.mutants.mistakes import Mutant, mistakes, mutants
from tests.alert_rules.mutants.play import candidates, noticed, seek
from tests.alert_rules.mutants.reach import reach
from tests.alert_rules.promtool import ALERTS, Scenario, Suite
from tests.alert_rules.suites import SUITES, engine_state
from tests.alert_rules.syntax import FILES, FOLDER, rules
from tests.support.tools import need_tool


RULES = [str(rule) for rule in rules()]
REJECTED = RULES.index("LLMRequestsRejected{ticket,queue}")
RELOAD = RULES.index("LLMConfigReloadFailed{ticket,sidecar}")


def mutant(place: int, old: str = "", new: str = "") -> Mutant:
    """The rule with one text in its expression replaced by another; without texts, the rule as it is."""
    rule = rules()[place]
    assert not old or rule.expr.count(old) == 1
    return Mutant(rule, f"{new} for {old}", rule.expr.replace(old, new))


# --- the mistakes -----------------------------------------------------------------------------------------------------------


def test_there_are_mutants_of_every_kind() -> None:
    """Or the check would be empty."""
    made = [mutant.mistake for mutant in mutants()]
    kinds = {
        kind: sum(mistake.startswith(kind) for mistake in made)
        for kind in ("x2", "x0.5", "<", ">", "!=", "without", "and for")
    }

    assert [kind for kind, count in kinds.items() if count < 5] == []
    assert len(made) > 300


def test_comparisons_are_flipped_numbers_doubled_and_halved_and_guards_left_out() -> None:
    """Windows, names, labels and matchers stay as they are."""
    made = [expr for _, expr in mistakes('rate(b5{c="1 > 0"}[5m]) > 3 unless on (c) d')]

    assert made == [
        'rate(b5{c="1 > 0"}[5m]) <= 3 unless on (c) d{}',
        'rate(b5{c="1 > 0"}[5m]) > 6 unless on (c) d{}',
        'rate(b5{c="1 > 0"}[5m]) > 1.5 unless on (c) d{}',
        'rate(b5{c="1 > 0"}[5m]) > 3',
        'rate(b5{c="1 > 0"}[5m]) > 3 and on (c) d{}',
    ]


# --- the scenarios that may notice one ----------------------------------------------------------------------------------------


def test_a_question_reaches_the_rules_that_it_reads_and_those_that_they_read() -> None:
    """With the number of rules in between: a mistake that is near changes the answer more often."""
    (tiers,) = [suite for suite in SUITES if suite.name == "tiers"]
    reached = reach(tiers, {"expr": 'max(lane:llm_slo_burn:ratio_rate2m{namespace="a"}) + up'})

    assert {RULES[place]: steps for place, steps in reached.items()} == {
        "lane:llm_slo_burn:ratio_rate2m{}": 0,
        "lane:llm_slo_misses:increase2m{}": 1,
        "lane:llm_slo_allowed_misses:increase2m{}": 1,
        "pod:llm_slo:odd{}": 2,
        "instance:llm_slo_misses:sum{}": 2,
        "instance:llm_slo_allowed_misses:sum{}": 2,
        "instance:llm_slo_requests:sum{}": 3,
    }


@pytest.mark.parametrize(
    ("expr", "alerts"),
    [
        ('ALERTS{alertname="Watchdog",alertstate="firing"}', {"Watchdog"}),
        ('ALERTS{alertname!="Watchdog",severity="none"}', set()),
        (
            'count by (pod) (ALERTS{severity="page",phase="engine",namespace="a"})',
            {"LLMEngineBurn", "LLMNothingComesBack", "LLMEngineDown", "LLMPodBurn"},
        ),
    ],
)
def test_a_question_for_alerts_reaches_those_that_its_matchers_let_through(expr: str, alerts: set[str]) -> None:
    """By name, severity and phase; a label that is not static may have any value."""
    reached = reach(engine_state.TURNED_AWAY, {"expr": expr})

    assert {rules()[place].name for place in reached} == alerts


@pytest.mark.long
def test_every_mutant_has_a_scenario_that_may_notice_it() -> None:
    places = {rules().index(one.rule) for one in mutants()}

    assert [RULES[place] for place in sorted(places) if not candidates(SUITES, place)] == []


# --- who notices ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_mistake_in_one_rule_is_noticed() -> None:
    """By some scenario of the suite that is about this rule."""
    some = [one for one in mutants() if one.rule == rules()[REJECTED]]
    found = seek([engine_state.TURNED_AWAY], some)

    assert len(found) == len(some) > 5
    assert [str(mutant) for mutant, scenario in found if scenario is None] == []


def test_mistakes_that_are_played_together_are_told_apart() -> None:
    """The rule as it is, and one with a number that does not matter, are not noticed beside one that is."""
    (first, *_) = candidates([engine_state.TURNED_AWAY], REJECTED)
    some = [mutant(REJECTED), mutant(REJECTED, ">= 10", ">= 1e6"), mutant(REJECTED, "> 0)", "> 0.0001)")]

    assert (first.scenario.name, list(noticed([first], some))) == ("one-request-in-twenty-is-turned-away", [1])


def test_a_rule_that_cannot_be_evaluated_is_noticed_and_no_other_for_its_sake() -> None:
    """promtool judges nothing after it, so that the others are played again without it."""
    (first, *_) = candidates([engine_state.TURNED_AWAY], REJECTED)
    broken = mutant(REJECTED, ">= 10", ">= on (namespace, model, lane) llm_requests_total")

    assert list(noticed([first], [mutant(REJECTED), broken])) == [1]


def test_a_scenario_without_a_namespace_notices_too() -> None:
    """It is played for each mistake alone: nothing would tell two copies of it apart."""
    suite = Suite("toy", rules=(ALERTS,), evaluation_seconds=60, plain=True)

    @suite.scenario(15)
    def a_config_that_is_refused(scenario: Scenario) -> None:
        """A ticket."""
        scenario.shows("llm_sidecar_config_last_reload_successful", 0)
        scenario.shows("llm_sidecar_build_info", 1, version="1")
        scenario.alerts(12, "LLMConfigReloadFailed ticket")

    found = seek([suite], [mutant(RELOAD), mutant(RELOAD, "== 0", "!= 0")])

    assert [(one.mistake, scenario and scenario.name) for one, scenario in found] == [
        ("!= 0 for == 0", "a-config-that-is-refused"),
        (" for ", None),
    ]


# --- the judgement ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", EQUIVALENT, ids=lambda key: key[0])
def test_an_excuse_fits_a_mutant(key: tuple[str, str]) -> None:
    """Or the rule has changed, and the excuse with it."""
    assert key in {excuse(one) for one in mutants()}


def test_a_search_is_good_when_the_excused_alone_are_unnoticed() -> None:
    scenario = engine_state.TURNED_AWAY.scenarios[0]
    good = [(one, None if excuse(one) else scenario) for one in mutants()]

    assert objections(good) == []


def test_a_search_objects_to_a_missing_scenario_and_to_a_wrong_or_idle_excuse() -> None:
    scenario = engine_state.TURNED_AWAY.scenarios[0]
    unnoticed = next(one for one in mutants() if excuse(one) is None)
    watchdog = [one for one in mutants() if one.rule.name == "Watchdog"]
    others = [(one, None) for one in mutants() if excuse(one) and one not in watchdog]

    assert objections([(unnoticed, None), (watchdog[0], scenario), *others]) == [
        f"no scenario notices {unnoticed}",
        f"{scenario.name} notices {watchdog[0]}, which has an excuse",
        f"the excuse {excuse(watchdog[1])} fits no mutant",
    ]


# --- the record of a run ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_run_is_left_out_only_where_its_result_would_be_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A changed rule is another digest, and so is a changed scenario."""
    need_tool("promtool")
    for name in FILES:
        (tmp_path / name).write_text((FOLDER / name).read_text())
    monkeypatch.setattr(record, "RULES", tmp_path)
    monkeypatch.setattr(record, "RECORD", tmp_path / "record.json")
    record.write(1)
    recorded = [record.is_recorded()]
    rules_file = tmp_path / FILES[1]

    rules_file.write_text(rules_file.read_text().replace("> 0", "> 1", 1))
    recorded.append(record.is_recorded())
    monkeypatch.setattr(record, "RULES", FOLDER)
    recorded.append(record.is_recorded())
    monkeypatch.setattr(record, "SUITES", SUITES[1:])
    recorded.append(record.is_recorded())

    assert recorded == [True, False, True, False]
