"""Each root has words, and each name that a page can contain stands in the glossary."""

import re
from pathlib import Path

import pytest

from sidecar.commands.export.rules.burn import TIERS
from sidecar.commands.export.rules.page_facts import OBJECTIVES
from sidecar.diagnosis.cause_words import SAYS, SIZED, WAITS
from sidecar.diagnosis.wording import phase_name
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import ROOT_PHASES, ROOTS


GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()
TERMS = {line.split("|")[1].strip() for line in GLOSSARY.splitlines() if line.startswith("| ")}


def test_each_root_has_a_clause_that_stands_within_a_sentence() -> None:
    assert set(SAYS) == {cause for _, cause in ROOTS}
    assert set(SIZED) <= set(SAYS)
    assert [text for text in (*SAYS.values(), *WAITS.values()) if not re.fullmatch(r"[a-z].*[^.]", text)] == []


def test_each_phase_that_can_be_named_says_why_its_misses_may_wait_elsewhere() -> None:
    assert set(WAITS) == {phase for phase in ROOT_PHASES if phase != Blame.UNATTRIBUTED}


@pytest.mark.parametrize(
    "name", sorted({phase for phase, _ in ROOTS} | {cause for _, cause in ROOTS} | {row.tier for row in TIERS})
)
def test_each_name_of_a_page_stands_in_the_glossary(name: str) -> None:
    assert re.search(rf"\b({name}|{phase_name(name)})\b", GLOSSARY)


@pytest.mark.parametrize(
    "term",
    [
        "lane",
        "miss",
        "slot",
        "KV cache",
        "hop",
        "front end",
        "uncached",
        "preemption",
        "confidence",
        *OBJECTIVES.values(),
    ],
)
def test_each_term_of_a_page_has_a_row_of_its_own(term: str) -> None:
    assert term.casefold() in {one.casefold() for one in TERMS}
