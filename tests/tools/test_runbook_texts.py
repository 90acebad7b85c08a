"""A runbook's fixes and warnings are generated from its data file."""

import pytest

from sidecar.diagnosis.interventions import CHAPTERS, Chapter, Intervention, Unhelpful, chapters
from sidecar.diagnosis.levers import QUALITY_FLOOR, Cost, Lever, QualityRisk
from sidecar.pod.causes import ROOTS
from tools.runbook_texts import blocks


FIX = Intervention("x", "Do x", ("queue", "load"), Cost.MINUTES, "both", {"vllm": "`--x`"}, None, None)
PULLED = Intervention(
    *("z", "Do z: it helps", ("kv",), Cost.RESTART, "both", {}, None, None),
    lever=Lever.KV_8_BITS,
    needs=("a kernel", "x"),
    conflicts=("elsewhere",),
    quality_risk=QualityRisk.CHECK,
    load="low",
)
ELSEWHERE = Intervention("elsewhere", "Do more (a lot)", ("kv",), Cost.RESTART, "both", {}, None, None)


def test_a_chapter_becomes_its_first_steps_a_table_of_fixes_and_a_list_of_what_not_to_do() -> None:
    """An engine without a flag for a fix has a dash."""
    made = blocks("LLMX", {"LLMX": Chapter((FIX,), (Unhelpful("Do y", "It hurts."),))})

    fixes = (
        "| fix | targets | cost | works when | vLLM | SGLang | TensorRT-LLM | TGI |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| Do x | queue, load | minutes | both | `--x` | - | - | - |\n"
    )
    assert [(block.heading, block.text) for block in made] == [
        ("## First steps", "- Do x\n"),
        ("## Fixes", fixes),
        ("## What not to do", "- **Do y.** It hurts.\n"),
    ]


@pytest.mark.parametrize("phase", CHAPTERS)
def test_the_first_steps_of_a_phase_are_one_for_each_of_its_causes(phase: str) -> None:
    first, *_ = blocks(CHAPTERS[phase], chapters())

    assert [line.split(": ")[0] for line in first.text.splitlines()] == [
        f"- `{cause}`" for of, cause in ROOTS if of == phase
    ]


def test_what_a_lever_needs_excludes_and_risks_stands_below_the_table() -> None:
    """Other fixes are named by their titles, with a link where they stand in another runbook."""
    chapters = {"LLMX": Chapter((FIX, PULLED), ()), "LLMY": Chapter((ELSEWHERE,), ())}

    *_, conditions, _ = blocks("LLMX", chapters)

    line = (
        '- **Do z** (`kv_8_bits`, while the batch is small): Needs a kernel; "Do x". Not with "Do more" ([LLMY](LLMY.md)).'
        " Answers change: hold them against a quality floor."
    )
    assert (conditions.heading, conditions.text.splitlines()) == (
        "## Fixes",
        [line, f"- **A quality floor** is {QUALITY_FLOOR}."],
    )
