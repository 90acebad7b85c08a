"""What can be done: every text is there, in the runbooks as well, and the order in which it is advised."""

from collections import Counter

import pytest

from sidecar.admin.runbooks import INDEX, read
from sidecar.diagnosis.interventions import CHAPTERS, Chapter, Cost, Intervention, Unhelpful, chapters, ranked
from sidecar.diagnosis.measured import Regime
from sidecar.diagnosis.verdict import Cause
from sidecar.objectives.blame import Blame
from tools.runbook_texts import written


RUNBOOKS = {name: text for name, text in read().items() if name != INDEX}


@pytest.mark.parametrize("name", RUNBOOKS)
def test_a_runbook_says_what_its_data_file_says(name: str) -> None:
    """Else run `python -m sidecar.diagnosis.runbook_texts`; edit the data file, not the runbook's table or list."""
    assert written(RUNBOOKS[name], chapters()[name]) == RUNBOOKS[name]


def test_every_runbook_has_a_data_file_and_every_data_file_a_runbook() -> None:
    assert chapters().keys() == RUNBOOKS.keys()
    assert set(CHAPTERS) == set(Blame)


def test_a_change_of_the_data_changes_the_runbook_in_its_two_places_alone() -> None:
    """Or the test above would hold whatever the data says."""
    fix = Intervention("x", "Do x", ("queue",), Cost.MINUTES, "both", {"vllm": "`--x`"}, None, None)
    text = "# A\n\n## Fixes\n\n| old |\n|---|\n| row |\n\nAfter.\n\n## What not to do\n\n- **Old.** Bullet.\n\n## End\n\n- **Stay.**\n"

    assert written(text, Chapter((fix,), (Unhelpful("Do y", "It hurts."),))) == (
        "# A\n\n## Fixes\n\n"
        "| fix | targets | cost | works when | vLLM | SGLang | TensorRT-LLM | TGI |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| Do x | queue | minutes | both | `--x` | - | - | - |\n"
        "\nAfter.\n\n## What not to do\n\n- **Do y.** It hurts.\n\n## End\n\n- **Stay.**\n"
    )


def test_a_runbook_without_its_places_is_refused() -> None:
    with pytest.raises(ValueError, match="'Fixes'"):
        written("# A\n\n## What not to do\n\n- **Old.** Bullet.\n", chapters()["Watchdog"])


@pytest.mark.parametrize("phase", CHAPTERS)
def test_whatever_is_advised_says_how_much_to_expect(phase: Blame) -> None:
    silent = [fix.name for fix in chapters()[CHAPTERS[phase]].fixes if not fix.effect]

    assert silent == []


def test_a_fix_has_one_name_and_the_same_text_under_it() -> None:
    """Where runbooks share a fix, only what it targets there may differ."""
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


def test_what_comes_too_late_in_a_spike_comes_last_and_stays() -> None:
    fixes = [fix("capacity", "load", works_when="steady"), fix("shed", "load", works_when="spike", cost=Cost.RESTART)]

    orders = [
        [one.name for one in ranked(fixes, Blame.QUEUE, [Cause.LOAD], regime, None)] for regime in (*Regime, None)
    ]

    assert orders == [["shed", "capacity"], ["capacity", "shed"], ["capacity", "shed"]]


def test_what_this_engine_has_no_flag_for_is_left_out() -> None:
    """A fix that needs no flag is everybody's; of an engine whose flags nobody wrote down nothing is left out."""
    fixes = [fix("gateway", "load"), fix("theirs", "load", sglang="--x"), fix("ours", "load", vllm="--y")]

    known = {
        engine: [one.name for one in ranked(fixes, Blame.QUEUE, [], None, engine)]
        for engine in ("vllm", "llama_cpp", None)
    }

    assert known["vllm"] == ["gateway", "ours"]
    assert known["llama_cpp"] == known[None] == ["gateway", "theirs", "ours"]
