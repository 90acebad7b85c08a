"""A mistake in the data files is refused with file, fix, key and the values that are allowed; all mistakes come at once."""

from typing import Any

import pytest

from sidecar.diagnosis.intervention_errors import errors
from sidecar.diagnosis.interventions import chapters_of


ENGINES = ("vllm",)
PLAIN = {"name": "a", "fix": "Do a", "targets": ["load"], "cost": "minutes", "works_when": "both"}
PULLED = PLAIN | {
    "lever": "routing",
    "needs": [],
    "conflicts": [],
    "synergies": [],
    "quality_risk": "none",
    "load": "both",
}
TARGETS = (
    "load, slots, kv, preemption, longer_outputs, prefill_cost, uncached, prompt_mix, front_end, decode_cost, kv_transfer,"
    " hop, client, down, restart, silence, errors, sidecar_late, sidecar_budget,"
    " queue, prefill, first_token, unattributed, decode, stream, engine, sidecar"
)


def file(*fixes: object, not_to_do: object = ()) -> dict[str, Any]:
    return {"LLMX": {"fixes": list(fixes), "not_to_do": not_to_do}}


def without(fix: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in fix.items() if name != key}


@pytest.mark.parametrize("fix", [PLAIN, PULLED, PLAIN | {"vllm": "`--x`", "effect": "much", "after": "so"}])
def test_a_good_file_has_no_errors(fix: dict[str, Any]) -> None:
    assert errors(file(fix, {"same_as": "a", "targets": ["kv"]}), ENGINES) == []


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        (without(PLAIN, "cost"), "cost: is missing"),
        (PLAIN | {"cost": "free"}, "cost: 'free' is none of minutes, restart, replicas, project"),
        (PLAIN | {"works_when": "always"}, "works_when: 'always' is none of spike, steady, both"),
        (PLAIN | {"targets": ["lode"]}, f"targets: 'lode' is none of {TARGETS}"),
        (PLAIN | {"targets": "load"}, "targets: 'load' is no list of texts"),
        (PLAIN | {"fix": ""}, "fix: '' is no text"),
        (PULLED | {"load": "small"}, "load: 'small' is none of low, high, both"),
        (PULLED | {"load": ["low"]}, "load: ['low'] is none of low, high, both"),
        (PULLED | {"quality_risk": "some"}, "quality_risk: 'some' is none of none, check"),
        (PULLED | {"needs": ["x"]}, "needs: 'x' is neither a sentence nor the name of a fix"),
        (PULLED | {"conflicts": ["x"]}, "conflicts: no fix is called 'x'"),
        (PULLED | {"synergies": None}, "synergies: None is no list of texts"),
        (
            without(PULLED, "load"),
            "load: is missing; a fix with a lever has needs, conflicts, synergies, quality_risk, load",
        ),
        ({"same_as": "b"}, "same_as: no fix is called 'b'"),
        ({"same_as": "a", "cost": "minutes"}, "cost: a fix with same_as has nothing of its own but targets"),
    ],
)
def test_a_mistake_names_file_fix_key_and_what_is_allowed(fix: dict[str, Any], said: str) -> None:
    fixes = [PLAIN, fix] if "same_as" in fix else [fix]
    name = fix.get("name", fix.get("same_as"))

    assert errors(file(*fixes), ENGINES) == [f"LLMX.yml: fix {name!r}: {said}"]


def test_an_unknown_key_is_answered_with_the_keys() -> None:
    (said,) = errors(file(PLAIN | {"leaver": "routing"}), ENGINES)

    assert said.startswith("LLMX.yml: fix 'a': leaver: is no key; the keys are name, same_as, fix, ")
    assert "vllm" in said
    assert "lever" in said


def test_an_unknown_lever_is_answered_with_the_levers() -> None:
    (said,) = errors(file(PULLED | {"lever": "flash"}), ENGINES)

    assert said.startswith("LLMX.yml: fix 'a': lever: 'flash' is none of flash_attention, fp8_weights, ")


def test_a_conflict_that_only_one_side_names_is_a_mistake() -> None:
    one, other = PULLED | {"conflicts": ["b"]}, PULLED | {"name": "b"}

    assert errors(file(one, other), ENGINES) == ["LLMX.yml: fix 'a': conflicts: 'b' does not name this fix in turn"]
    assert errors(file(one, other | {"conflicts": ["a"]}), ENGINES) == []


def test_a_fix_that_is_both_conflict_and_synergy_is_a_mistake() -> None:
    one = PULLED | {"conflicts": ["b"], "synergies": ["b"]}
    other = PULLED | {"name": "b", "conflicts": ["a"], "synergies": ["a"]}

    assert errors(file(one, other), ENGINES) == [
        "LLMX.yml: fix 'a': synergies: 'b' is among the conflicts too",
        "LLMX.yml: fix 'b': synergies: 'a' is among the conflicts too",
    ]


def test_a_name_that_two_fixes_have_is_a_mistake() -> None:
    assert errors(file(PLAIN, PLAIN), ENGINES) == ["LLMX.yml: fix 'a': name: another fix has this name"]


def test_a_non_fix_is_held_to_its_form_too() -> None:
    items = [{"do": "x", "why": "y", "lever": "gqa"}, {"do": "x", "lever": "gqua", "how": "z"}]
    said = errors(file(not_to_do=items), ENGINES)

    assert said[:2] == [
        "LLMX.yml: not_to_do 'x': why: None is no text",
        "LLMX.yml: not_to_do 'x': how: is no key; the keys are do, why, lever",
    ]
    assert said[2].startswith("LLMX.yml: not_to_do 'x': lever: 'gqua' is none of flash_attention, ")


def test_all_mistakes_of_all_files_come_at_once() -> None:
    said: dict[str, dict[str, Any]] = {
        "LLMX": {"fixes": [PLAIN | {"cost": "free"}]},
        "LLMY": {"fixes": [{"name": "b"}], "not_to_do": []},
    }

    with pytest.raises(ValueError, match=r"LLMX\.yml: not_to_do: is missing\n") as caught:
        chapters_of(said)

    assert len(str(caught.value).splitlines()) == 6
