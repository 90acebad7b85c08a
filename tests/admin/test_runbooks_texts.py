"""A person on call can rely on the structure of the runbooks: headings, fixes, causes and links."""

import re

import pytest

from sidecar.admin.runbook_drawing import DETAILS, INDEX
from sidecar.diagnosis.interventions import CHAPTERS
from sidecar.objectives.attribution import SIDECAR
from sidecar.pod.causes import PHASE_OF, ROOT_PHASES, ROOTS, Cause
from tests.admin.runbook_parts import NAMES, TEXTS, each_runbook, sections, tables


HEADINGS = [
    "Meaning",
    "First steps",
    "What not to do",
    "What it may really be",
    DETAILS,
    "Confirm",
    "Spike or steady state",
    "Fixes",
    "What would prove this wrong",
]
MOST_WORDS = 500
"""Words above the details: three minutes at three in the morning."""
COLUMNS = ["fix", "targets", "cost", "works when", "vLLM", "SGLang", "TensorRT-LLM", "TGI"]
COSTS = ["minutes", "restart", "replicas", "project"]
"""Cheapest first: the order of every table of fixes."""
REGIMES = {"spike", "steady", "both"}
MAY_BE = "What it may really be"


def test_there_are_runbooks() -> None:
    """Without any runbook the tests below would pass trivially."""
    assert len(NAMES) >= 27
    assert INDEX in TEXTS


@each_runbook
def test_every_runbook_has_the_same_headings_in_the_same_order(name: str) -> None:
    """A person finds each part under its heading."""
    text = TEXTS[name]

    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == [name, *HEADINGS]
    assert [heading for heading, body in sections(text).items() if not body] == []


@each_runbook
def test_a_meaning_is_one_paragraph_and_a_runbook_is_short(name: str) -> None:
    lines = TEXTS[name].splitlines()

    assert "\n\n" not in sections(TEXTS[name])["Meaning"]
    assert 40 <= len(lines) <= 125
    assert len(TEXTS[name].split(f"## {DETAILS}")[0].split()) <= MOST_WORDS
    assert [line for line in lines if "—" in line] == []


# --- fixes ---------------------------------------------------------------------------------------------------------------


def fixes(name: str) -> list[dict[str, str]]:
    ((head, *rows),) = tables(sections(TEXTS[name])["Fixes"])
    assert head == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@each_runbook
def test_fixes_are_ranked_by_cost_and_say_when_they_work(name: str) -> None:
    costs = [COSTS.index(fix["cost"]) for fix in fixes(name)]

    assert costs == sorted(costs)
    assert len(costs) >= 3
    assert {fix["works when"] for fix in fixes(name)} - REGIMES == set()
    assert [fix for fix in fixes(name) if "" in fix.values()] == []


@each_runbook
def test_the_list_below_the_fixes_speaks_of_fixes_of_the_table(name: str) -> None:
    """`make docs` writes a list anew and takes none away: a list that lost its last fix goes by hand."""
    listed = re.findall(r"^- \*\*(.+?)\*\*", sections(TEXTS[name])["Fixes"], re.MULTILINE)

    assert [
        title
        for title in listed
        if title != "A quality floor" and not any(fix["fix"].startswith(title) for fix in fixes(name))
    ] == []


@each_runbook
def test_every_fix_targets_something_that_a_page_can_name(name: str) -> None:
    targets = {target for fix in fixes(name) for target in fix["targets"].split(", ")}

    assert targets - {*Cause} - {*ROOT_PHASES} == set()


def test_every_burn_runbook_knows_flags_of_all_four_engines() -> None:
    """Every burn runbook has a flag of every engine, except LLMStreamBurn on TGI: TGI has no flag for buffering.

    The sidecar's own burn is mended on no engine.
    """
    silent = [
        (name, engine)
        for phase, name in CHAPTERS.items()
        if phase != SIDECAR
        for engine in COLUMNS[4:]
        if all(fix[engine] == "-" for fix in fixes(name))
    ]

    assert silent == [("LLMStreamBurn", "TGI")]


# --- causes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ROOT_PHASES)
def test_a_burn_runbook_explains_each_cause_that_its_page_can_name_and_no_other(phase: str) -> None:
    """The causes are those of the closed table, in its order; each row says where to go on."""
    ((head, *rows),) = tables(sections(TEXTS[CHAPTERS[phase]])[MAY_BE])

    assert head == ["cause", "what it says", "go on with"]
    assert [row[0] for row in rows] == [f"`{cause}`" for of, cause in ROOTS if of == phase]
    assert [row for row in rows if "" in row] == []


@pytest.mark.parametrize("cause", Cause)
def test_a_burn_runbook_has_a_fix_for_each_of_its_causes(cause: Cause) -> None:
    targets = {target for fix in fixes(CHAPTERS[PHASE_OF[cause]]) for target in fix["targets"].split(", ")}

    assert targets & {cause, PHASE_OF[cause]}


def test_the_runbook_of_one_bad_pod_leads_on_by_the_phase_of_its_page() -> None:
    ((_, *rows),) = tables(sections(TEXTS["LLMPodBurn"])[MAY_BE])

    assert rows == [[f"`{phase}`", f"[{CHAPTERS[phase]}]({CHAPTERS[phase]}.md)"] for phase in CHAPTERS]


# --- links ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_between_runbooks_leads_somewhere(name: str) -> None:
    """Links between runbooks work as files here and on GitHub; the listener turns them into links to pages."""
    links = re.findall(r"\]\(([^)]+)\)", TEXTS[name])

    assert [link for link in links if not link.endswith(".md") or link.removesuffix(".md") not in TEXTS] == []


def test_the_index_lists_every_runbook_once_by_phase() -> None:
    (head, *rows), *_ = tables(TEXTS[INDEX])
    listed = [re.sub(r"\[(\w+)\]\(\1\.md\)", r"\1", row[1]) for row in rows]

    assert head == ["phase", "runbook", "severity", "it fires when"]
    assert sorted(listed) == NAMES
    assert {row[0] for row in rows} == {*ROOT_PHASES}
    assert "sidecar export rules --out=DIR --runbook-base=" in TEXTS[INDEX]
