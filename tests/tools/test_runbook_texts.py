"""A runbook's fixes and warnings are generated from its data file."""

from sidecar.diagnosis.interventions import Chapter, Cost, Intervention, Unhelpful
from tools.runbook_texts import blocks


def test_a_chapter_becomes_a_table_of_fixes_and_a_list_of_what_not_to_do() -> None:
    """An engine without a flag for a fix has a dash."""
    fix = Intervention("x", "Do x", ("queue", "load"), Cost.MINUTES, "both", {"vllm": "`--x`"}, None, None)
    made = blocks(Chapter((fix,), (Unhelpful("Do y", "It hurts."),)))

    assert {block.heading: block.text for block in made} == {
        "## Fixes": (
            "| fix | targets | cost | works when | vLLM | SGLang | TensorRT-LLM | TGI |\n"
            "|---|---|---|---|---|---|---|---|\n"
            "| Do x | queue, load | minutes | both | `--x` | - | - | - |\n"
        ),
        "## What not to do": "- **Do y.** It hurts.\n",
    }
