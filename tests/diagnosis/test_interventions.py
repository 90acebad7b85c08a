"""Fixes: every text is there, in the runbooks as well, they are advised in the right order, and each mistake in a file is named."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from sidecar.admin.runbook_drawing import INDEX
from sidecar.admin.runbooks import read
from sidecar.config.quick_yaml import read_yaml
from sidecar.diagnosis.interventions import CHAPTERS, Gain, Intervention, chapters, ranked
from sidecar.diagnosis.interventions import ENGINES as OF_RUNBOOKS
from sidecar.diagnosis.levers import Cost, Lever, LoadLevel, QualityRisk, Sign
from sidecar.diagnosis.measured import Regime
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import PHASE_OF, ROOT_PHASES, Cause
from tests.diagnosis.intervention_form import errors


RUNBOOKS = {name: text for name, text in read().items() if name != INDEX}


def test_every_runbook_has_a_data_file_and_every_data_file_a_runbook() -> None:
    assert chapters().keys() == RUNBOOKS.keys()
    assert set(CHAPTERS) == set(ROOT_PHASES)


@pytest.mark.parametrize("phase", CHAPTERS)
def test_whatever_is_advised_says_how_much_to_expect(phase: Blame) -> None:
    silent = [fix.name for fix in chapters()[CHAPTERS[phase]].fixes if not fix.effect]

    assert silent == []


def test_a_fix_has_one_name_and_the_same_text_under_it() -> None:
    """If runbooks share a fix, only its targets may differ."""
    texts = Counter(
        name for name, _ in {(fix.name, fix.fix) for chapter in chapters().values() for fix in chapter.fixes}
    )

    assert {name for name, times in texts.items() if times > 1} == set()


@pytest.mark.parametrize("phase", CHAPTERS)
def test_a_fix_that_depends_on_something_names_it_in_words(phase: Blame) -> None:
    """Nothing is "after" a name of ours that a reader would have to look up."""
    depends = [fix.after for fix in chapters()[CHAPTERS[phase]].fixes if fix.after is not None]

    assert [words for words in depends if " " not in words] == []


def fix(
    name: str,
    *targets: str,
    cost: Cost = Cost.MINUTES,
    works_when: str = "both",
    load: str = "both",
    risk: QualityRisk = QualityRisk.NONE,
    **flags: str,
) -> Intervention:
    return Intervention(name, name, targets, cost, works_when, flags, "much", None, load=load, quality_risk=risk)


def test_what_is_aimed_at_the_cause_comes_before_what_is_cheaper() -> None:
    fixes = [
        fix("cheap", "kv"),
        fix("aimed", "load", cost=Cost.REPLICAS),
        fix("of the phase", "queue", cost=Cost.RESTART),
    ]

    order = [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime=None, load=None, engine=None)]

    assert order == ["of the phase", "aimed", "cheap"]


@pytest.mark.parametrize("phase", CHAPTERS)
def test_the_first_advice_for_a_cause_works_against_that_cause(phase: Blame) -> None:
    """A card that says "prefill, because prefill costs more" must not advise first what works against a lost cache."""
    fixes = chapters()[CHAPTERS[phase]].fixes
    beside = {
        cause: first.name
        for cause in Cause
        if any(cause in fix.targets for fix in fixes)
        for first in ranked(fixes, phase, [cause], regime=None, load=None, engine=None)[:1]
        if not {cause, phase} & set(first.targets)
    }

    assert beside == {}


@pytest.mark.parametrize(("phase", "cause"), [(PHASE_OF[cause], cause) for cause in Cause])
def test_every_cause_of_the_closed_table_has_a_fix_under_its_phase(phase: Blame, cause: Cause) -> None:
    """The first advice for a root is never one that works against another root of the phase."""
    first = ranked(chapters()[CHAPTERS[phase]].fixes, phase, [cause], regime=None, load=None, engine=None)[0]

    assert {cause, phase} & {*first.targets}, first.name


def test_a_slow_client_is_not_met_by_a_change_of_the_hop() -> None:
    fixes = chapters()[CHAPTERS[Blame.STREAM]].fixes

    first = {
        cause: ranked(fixes, Blame.STREAM, [cause], regime=None, load=None, engine=None)[0].name
        for cause in (Cause.HOP, Cause.CLIENT)
    }

    assert first == {Cause.HOP: "buffering-off", Cause.CLIENT: "limit-the-slow-reader"}


def test_what_comes_too_late_in_a_spike_comes_last_and_stays() -> None:
    fixes = [fix("capacity", "load", works_when="steady"), fix("shed", "load", works_when="spike", cost=Cost.RESTART)]

    orders = [
        [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime=regime, load=None, engine=None)]
        for regime in (*Regime, None)
    ]

    assert orders == [["shed", "capacity"], ["capacity", "shed"], ["capacity", "shed"]]


def test_what_this_engine_has_no_flag_for_is_left_out() -> None:
    """A fix without a flag is for every engine; for an engine with unknown flags no fix is left out."""
    fixes = [fix("gateway", "load"), fix("theirs", "load", sglang="--x"), fix("ours", "load", vllm="--y")]

    known = {
        engine: [one.name for one in ranked(fixes, Blame.QUEUE, [], regime=None, load=None, engine=engine)]
        for engine in ("vllm", "llama_cpp", None)
    }

    assert known["vllm"] == ["gateway", "ours"]
    assert known["llama_cpp"] == known[None] == ["gateway", "theirs", "ours"]


# --- the expected effect -------------------------------------------------------------------------------------------------


def gaining(name: str, *, cost: Cost = Cost.MINUTES, **more: Any) -> Intervention:
    """A fix with its effects, `load=(0.2, 0.6)`; signs and lever by their keys."""
    gains = {key: Gain(*more.pop(key)) for key in [*more] if key in {"load", "kv", "slots"}}
    return replace(fix(name, *gains, cost=cost), gains=gains, **more)


def order_of(*fixes: Intervention, causes: Sequence[Cause] = (Cause.LOAD,), shown: Collection[str] = ()) -> list[str]:
    found = ranked(fixes, Blame.QUEUE, causes, regime=None, load=None, engine=None, shown={*shown})
    return [one.name for one in found]


def test_the_effect_over_the_effort_decides_and_not_the_order_of_the_file() -> None:
    fixes = (
        gaining("little, now", load=(0.0, 0.2)),
        gaining("much, after a restart", load=(0.6, 1.0), cost=Cost.RESTART),
        gaining("much, with more GPUs", load=(0.6, 1.0), cost=Cost.REPLICAS),
        gaining("all, now", load=(1.0, 1.0)),
    )

    assert order_of(*fixes) == ["all, now", "much, after a restart", "much, with more GPUs", "little, now"]


def test_where_several_causes_are_possible_the_mean_effect_on_them_counts() -> None:
    fixes = (gaining("all of one", load=(0.9, 0.9)), gaining("half of both", load=(0.5, 0.5), kv=(0.5, 0.5)))

    assert order_of(*fixes) == ["all of one", "half of both"]
    assert order_of(*fixes, causes=(Cause.LOAD, Cause.KV)) == ["half of both", "all of one"]


def test_a_sign_says_at_which_end_of_its_range_an_effect_is() -> None:
    fixes = (
        gaining("steady", load=(0.5, 0.5)),
        gaining("swings", load=(0.2, 0.7), stronger=("kv_room",), weaker=("overfull",)),
    )

    assert order_of(*fixes) == order_of(*fixes, shown=["kv_room", "overfull"]) == ["steady", "swings"]
    assert order_of(*fixes, shown=["kv_room"]) == ["swings", "steady"]


def test_what_lacks_its_evidence_comes_last_and_what_is_impossible_not_at_all() -> None:
    fixes = (
        gaining("founded", load=(1.0, 1.0), evidence=("odd_pod",)),
        gaining("only if", load=(0.9, 0.9), only_if=("rejecting",)),
        gaining("never if", load=(0.8, 0.8), never_if=("kv_full",)),
        gaining("plain", load=(0.1, 0.1), cost=Cost.RESTART),
    )

    assert order_of(*fixes) == ["never if", "plain", "founded"]
    assert order_of(*fixes, shown=["odd_pod", "rejecting", "kv_full"]) == ["founded", "only if", "plain"]


def test_a_known_cause_is_evidence_and_a_possible_one_is_not() -> None:
    founded = gaining("founded", load=(1.0, 1.0), evidence=("load",))
    plain = gaining("plain", load=(0.1, 0.1))

    known, possible = (
        ranked((founded, plain), Blame.QUEUE, causes, regime=None, load=None, engine=None)[0].name
        for causes in ([Cause.LOAD], [])
    )

    assert (known, possible) == ("founded", "plain")


def test_a_second_fix_by_the_same_lever_is_worth_half() -> None:
    admission = Lever.ADMISSION
    fixes = (
        gaining("bound", load=(0.6, 0.6), lever=admission),
        gaining("another bound", load=(0.5, 0.5), lever=admission),
        gaining("routing", load=(0.3, 0.3), lever=Lever.ROUTING),
    )

    assert order_of(*fixes) == ["bound", "routing", "another bound"]


@pytest.mark.parametrize("phase", CHAPTERS)
def test_every_fix_of_a_phase_has_a_range_on_each_of_its_targets(phase: Blame) -> None:
    lacking = [
        (one.name, target)
        for one in chapters()[CHAPTERS[phase]].fixes
        for target in one.targets
        if target not in one.gains
    ]

    assert lacking == []


# --- the load level ------------------------------------------------------------------------------------------------------


def test_what_fits_the_load_level_comes_before_what_is_cheaper() -> None:
    fixes = [
        fix("for a full batch", "load", load="high"),
        fix("for a small batch", "load", load="low", cost=Cost.REPLICAS),
        fix("for either", "load", cost=Cost.RESTART),
    ]

    orders = {
        load: [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime=None, load=load, engine=None)]
        for load in (*LoadLevel, None)
    }

    assert orders == {
        LoadLevel.LOW: ["for either", "for a small batch", "for a full batch"],
        LoadLevel.HIGH: ["for a full batch", "for either", "for a small batch"],
        None: ["for a full batch", "for either", "for a small batch"],
    }


def test_the_cause_counts_for_more_than_the_load_level() -> None:
    fixes = [fix("fits", "kv", load="low"), fix("aimed", "load", load="high")]

    order = [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime=None, load=LoadLevel.LOW, engine=None)]

    assert order == ["aimed", "fits"]


def test_among_equals_what_changes_answers_comes_last() -> None:
    risky = QualityRisk.CHECK
    fixes = [
        fix("risky", "load", risk=risky, cost=Cost.RESTART),
        fix("safe", "load", cost=Cost.RESTART),
        fix("dearer", "load", cost=Cost.REPLICAS),
        fix("cheap and risky", "load", risk=risky),
    ]

    order = [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime=None, load=None, engine=None)]

    assert order == ["cheap and risky", "safe", "risky", "dearer"]


UNFOUNDED = {"cordon-the-slow-node"}
"""Fixes that need an odd pod, of which nothing tells here: they come last of all."""


def decode_fixes(load: LoadLevel | None) -> list[Intervention]:
    """The shipped fixes against dearer steps, in the order of the advice."""
    return ranked(
        chapters()[CHAPTERS[Blame.DECODE]].fixes, Blame.DECODE, [Cause.DECODE_COST], regime=None, load=load, engine=None
    )


@pytest.mark.parametrize("load", [LoadLevel.LOW, None])
def test_dear_steps_of_a_small_batch_are_met_by_speculative_decoding_and_later_by_fewer_bits(
    load: LoadLevel | None,
) -> None:
    levers = [one.lever for one in decode_fixes(load)]
    fewer_bits = [Lever.KV_8_BITS, Lever.FP8_WEIGHTS, Lever.QUANTISATION]

    assert Lever.SPECULATIVE_DECODING in levers[:4]
    assert [lever for lever in fewer_bits if levers.index(lever) < levers.index(Lever.SPECULATIVE_DECODING)] == []


def test_dear_steps_of_a_full_batch_are_not() -> None:
    """Drafts are last of what is no project, and fewer bits of weights last of the projects: the batch may become small."""
    aimed = [
        one for one in decode_fixes(LoadLevel.HIGH) if Cause.DECODE_COST in one.targets and one.name not in UNFOUNDED
    ]
    projects = [one.lever for one in aimed if one.cost is Cost.PROJECT]
    others = [one.lever for one in aimed if one.cost is not Cost.PROJECT]

    assert [one.lever for one in aimed] == others + projects
    assert (others[-1], {*projects[-2:]}) == (Lever.SPECULATIVE_DECODING, {Lever.FP8_WEIGHTS, Lever.QUANTISATION})
    assert Lever.SPECULATIVE_DECODING not in others[:4]


def test_a_queue_of_long_prompts_is_bounded_in_tokens_on_the_engine_that_can() -> None:
    """The flag's value is computed from the sidecar's own numbers, so the runbook names their metrics."""
    fixes = chapters()[CHAPTERS[Blame.QUEUE]].fixes
    bound = {
        engine: [
            one
            for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime=Regime.SPIKE, load=None, engine=engine)
            if one.name == "bound-the-engine-queue-by-tokens"
        ]
        for engine in ("vllm", "sglang")
    }

    assert [one.flags["vllm"].split()[0] for one in bound["vllm"]] == ["`--max-num-queued-tokens`"]
    assert bound["sglang"] == []
    runbook = RUNBOOKS[CHAPTERS[Blame.QUEUE]]
    assert {"llm_uncached_prompt_tokens_total", "llm_prefill_own_seconds_total"} <= {
        name for name in runbook.replace("(", " ").replace("[", " ").split() if name.startswith("llm_")
    }


def test_slots_that_dear_steps_hold_are_first_of_all_met_by_a_look_at_the_gpus() -> None:
    """A card that says "queue, because steps got dearer" must not advise more replicas first."""
    fixes = chapters()[CHAPTERS[Blame.QUEUE]].fixes

    first = ranked(fixes, Blame.QUEUE, [Cause.DECODE_COST], regime=None, load=None, engine=None)[0]

    assert (first.name, first.cost) == ("look-for-a-slow-gpu", Cost.MINUTES)


# --- mistakes in the files -----------------------------------------------------------------------------------------------

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
    "load, slots, kv, preemption, longer_outputs, rejected, prefill_cost, uncached, prompt_mix, front_end, decode_cost, kv_transfer,"
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
        (
            PLAIN | {"targets": {"load": [0.6, 0.2]}},
            "targets: load: [0.6, 0.2] is no range of shares such as [0.2, 0.6]",
        ),
        (PLAIN | {"targets": {"load": 0.6}}, "targets: load: 0.6 is no range of shares such as [0.2, 0.6]"),
        (PLAIN | {"targets": {"lode": [0, 1]}}, f"targets: 'lode' is none of {TARGETS}"),
        (PLAIN | {"stronger": ["load"]}, f"stronger: 'load' is none of {', '.join(Sign)}"),
        (PLAIN | {"evidence": ["odd"]}, f"evidence: 'odd' is none of {', '.join((*Sign, *Cause))}"),
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

    assert "LLMX.yml: not_to_do: is missing" in errors(said, ENGINES)
    assert len(errors(said, ENGINES)) == 6


def test_the_shipped_files_have_their_form() -> None:
    folder = files("sidecar").joinpath("diagnosis", "interventions")
    said = {
        file.name.removesuffix(".yml"): read_yaml(file.read_bytes())
        for file in folder.iterdir()
        if file.name.endswith(".yml")
    }

    assert said.keys() >= {*CHAPTERS.values()}
    assert errors(said, OF_RUNBOOKS) == []
