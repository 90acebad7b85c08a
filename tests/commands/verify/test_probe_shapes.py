"""Twelve probes, small ones, and no two prompts that a prefix cache could take for one."""

import json

from sidecar.commands.verify.probe_shapes import MOST_OUTPUT_TOKENS, VERIFY_PROBES, WARM_UP_PROBE


def test_there_are_twelve_of_several_sizes_and_none_asks_for_much() -> None:
    bodies = [json.loads(probe.body("run", "engine", "tiny")) for probe in VERIFY_PROBES]

    assert len({probe.name for probe in VERIFY_PROBES}) == 12
    assert max(body["max_tokens"] for body in bodies) == MOST_OUTPUT_TOKENS == 64
    assert {(body["model"], body["stream"], body["stream_options"]["include_usage"]) for body in bodies} == {
        ("tiny", True, True)
    }
    assert VERIFY_PROBES[0].name == WARM_UP_PROBE
    # Tokens of a prompt are fewer than its bytes: it fits the smallest context that engines are run with for a test.
    assert max(len(probe.prompt("run", "engine").split()) for probe in VERIFY_PROBES) < 2048 - MOST_OUTPUT_TOKENS


def test_each_prompt_begins_with_words_of_its_own() -> None:
    beginnings = {
        probe.prompt("run", place).partition(".")[0] for probe in VERIFY_PROBES for place in ("engine", "entry")
    }

    assert len(beginnings) == 2 * len(VERIFY_PROBES)
