"""Twenty probes, small ones, and no two prompts that a prefix cache could take for one."""

import json

from sidecar.commands.verify.probe_shapes import CHAT, COMPLETIONS, MOST_OUTPUT_TOKENS, VERIFY_PROBES, WARM_UP_PROBE


def test_there_are_twenty_of_several_shapes_and_none_asks_for_much() -> None:
    bodies = [json.loads(probe.body("run", "engine", "tiny")) for probe in VERIFY_PROBES]

    assert len({probe.name for probe in VERIFY_PROBES}) == 20
    assert max(body["max_tokens"] for body in bodies) == MOST_OUTPUT_TOKENS == 64
    assert {probe.path for probe in VERIFY_PROBES} == {CHAT, COMPLETIONS}
    assert {body.get("stream", False) for body in bodies} == {True, False}
    assert {"stream_options" in body for body in bodies if body.get("stream")} == {True, False}
    assert VERIFY_PROBES[0].name == WARM_UP_PROBE
    assert {body["model"] for body in bodies} == {"tiny"}
    # Tokens of a prompt are fewer than its bytes: it fits the smallest context that engines are run with for a test.
    assert max(len(probe.prompt("run", "engine").split()) for probe in VERIFY_PROBES) < 2048 - MOST_OUTPUT_TOKENS


def test_each_prompt_begins_with_words_of_its_own_but_for_the_one_that_is_sent_again() -> None:
    beginnings = [
        probe.prompt("run", place).partition(".")[0] for probe in VERIFY_PROBES for place in ("engine", "entry")
    ]
    again = [probe for probe in VERIFY_PROBES if probe.repeats]

    assert len(set(beginnings)) == len(beginnings) - 2 * len(again)
    (one,) = again
    (first,) = [probe for probe in VERIFY_PROBES if probe.name == one.repeats]
    assert one.body("run", "engine", "tiny") == first.body("run", "engine", "tiny")
