"""Flipping any comparison, number or guard in the rules makes a story end differently (mutants.py).

By hand every fifth mutant is tried; with `MUTANTS=all`, and under CI, all of them. Witnesses that are known (witnesses.yml) make that a
matter of minutes; after a change of rules or stories `python -m tests.alert_rules.mutants` seeks new ones, and takes longer.
"""

import os
import re

import pytest

from tests.alert_rules.mutants import Mutant, each, known_witnesses, mutants
from tests.support.tools import need_tool


_HIDDEN = "where five minutes hold enough, `or` takes them before the thirty anyway"
_OF_TWO = "of one or two pods none can miss three times as often as their median: it is their mean"
_ALWAYS = "its value is nobody's business: it always fires"
_LABELS_ONLY = "a vector that is only asked for its labels"
_HIGHEST = "an engine's fault outranks a settled verdict (1.5) already"
EQUIVALENT = {
    ("lane:llm_slo_verdict:score", r"x2 in .*lane:llm_slo_verdict:engine\{\} \* 0 \+ \[2\]"): _HIGHEST,
    ("lane:llm_slo_verdict:provisional", r"x2 in .*vector\(\[1\]\)"): _LABELS_ONLY,
    ("lane:llm_slo_verdict:provisional", r"x0\.5 in .*vector\(\[1\]\)"): _LABELS_ONLY,
    ("lane:llm_slo_votes:window", r"x2 in .*\[10\]\.\.\.$"): _HIDDEN,
    ("lane:llm_slo_votes:window", "^without unless"): _HIDDEN,
    ("LLMOutlierReplica", r"x0\.5 in .*>= \[3\]\.\.\."): _OF_TWO,
    ("LLMOutlierReplica", r"^without and on \(namespace, model\) count"): _OF_TWO,
    ("Watchdog", r"x2 in"): _ALWAYS,
    ("Watchdog", r"x0\.5 in"): _ALWAYS,
}
"""(rule, what its mistake says) to the reason why nobody can notice it."""

EVERYTHING = "CI" in os.environ or os.environ.get("MUTANTS") == "all"


def excuse(mutant: Mutant) -> tuple[str, str] | None:
    return next((key for key in EQUIVALENT if key[0] == mutant.rule.name and re.search(key[1], mutant.mistake)), None)


def test_there_are_mutants_of_every_kind() -> None:
    """Or the promise below would be empty."""
    mistakes = [mutant.mistake for mutant in mutants()]
    kinds = {
        kind: sum(mistake.startswith(kind) for mistake in mistakes)
        for kind in ("x2", "x0.5", "<", ">", "!=", "without", "and for")
    }

    assert [kind for kind, count in kinds.items() if count < 5] == []
    assert len(mistakes) > 300


@pytest.mark.timeout(3600)
def test_every_mistake_is_noticed() -> None:
    need_tool("promtool")
    some = mutants() if EVERYTHING else mutants()[::5]
    unnoticed = [mutant for mutant, seen_by in each(some, known_witnesses()) if not seen_by]

    assert [str(mutant) for mutant in unnoticed if excuse(mutant) is None] == []
    if EVERYTHING:
        assert {excuse(mutant) for mutant in unnoticed} == set(EQUIVALENT)
