"""The check of the scenarios (`make mutants`) in small: mistakes of every kind are made, and promtool notices those that it should."""

from pathlib import Path

import pytest

from tests.alert_rules.mutants import record
from tests.alert_rules.mutants.excuses import EQUIVALENT, excuse, objections
from tests.alert_rules.mutants.mistakes import Mutant, mutants
from tests.alert_rules.mutants.play import candidates, noticed, seek
from tests.alert_rules.suites import SUITES, engine_state
from tests.alert_rules.syntax import FILES, FOLDER, rules
from tests.support.tools import need_tool


RULES = [str(rule) for rule in rules()]
REJECTED = RULES.index("LLMRequestsRejected{ticket,queue}")


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


# --- the scenarios that may notice one ----------------------------------------------------------------------------------------


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


# --- the judgement ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", EQUIVALENT, ids=lambda key: key[0])
def test_an_excuse_fits_a_mutant(key: tuple[str, str]) -> None:
    """Or the rule has changed, and the excuse with it."""
    assert key in {excuse(one) for one in mutants()}


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
