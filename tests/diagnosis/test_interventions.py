"""Fixes: every text is there, in the runbooks as well, and they are advised in the right order."""

from collections import Counter

import pytest

from sidecar.admin.runbooks import INDEX, read
from sidecar.diagnosis.interventions import CHAPTERS, Cost, Intervention, chapters, ranked
from sidecar.diagnosis.measured import Regime
from sidecar.slo.attribution import Blame
from sidecar.slo.causes import Cause


RUNBOOKS = {name: text for name, text in read().items() if name != INDEX}


def test_every_runbook_has_a_data_file_and_every_data_file_a_runbook() -> None:
    assert chapters().keys() == RUNBOOKS.keys()
    assert set(CHAPTERS) == set(Blame)


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


def fix(name: str, *targets: str, cost: Cost = Cost.MINUTES, works_when: str = "both", **flags: str) -> Intervention:
    return Intervention(name, name, targets, cost, works_when, flags, "much", None)


def test_what_is_aimed_at_the_cause_comes_before_what_is_cheaper() -> None:
    fixes = [
        fix("cheap", "kv"),
        fix("aimed", "load", cost=Cost.REPLICAS),
        fix("of the phase", "queue", cost=Cost.RESTART),
    ]

    order = [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], None, None)]

    assert order == ["of the phase", "aimed", "cheap"]


@pytest.mark.parametrize("phase", CHAPTERS)
def test_the_first_advice_for_a_cause_works_against_that_cause(phase: Blame) -> None:
    """A card that says "prefill, because prefill costs more" must not advise first what works against a lost cache."""
    fixes = chapters()[CHAPTERS[phase]].fixes
    beside = {
        cause: first.name
        for cause in Cause
        if any(cause in fix.targets for fix in fixes)
        for first in ranked(fixes, phase, [cause], None, None)[:1]
        if not {cause, phase} & set(first.targets)
    }

    assert beside == {}


def test_what_comes_too_late_in_a_spike_comes_last_and_stays() -> None:
    fixes = [fix("capacity", "load", works_when="steady"), fix("shed", "load", works_when="spike", cost=Cost.RESTART)]

    orders = [
        [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime, None)] for regime in (*Regime, None)
    ]

    assert orders == [["shed", "capacity"], ["capacity", "shed"], ["capacity", "shed"]]


def test_what_this_engine_has_no_flag_for_is_left_out() -> None:
    """A fix without a flag is for every engine; for an engine with unknown flags no fix is left out."""
    fixes = [fix("gateway", "load"), fix("theirs", "load", sglang="--x"), fix("ours", "load", vllm="--y")]

    known = {
        engine: [one.name for one in ranked(fixes, Blame.QUEUE, [], None, engine)]
        for engine in ("vllm", "llama_cpp", None)
    }

    assert known["vllm"] == ["gateway", "ours"]
    assert known["llama_cpp"] == known[None] == ["gateway", "theirs", "ours"]
