"""The gaps between tokens tell the cost of decode where steps say nothing: an estimate, and only if nothing else makes
them longer.
"""

from typing import Any

import pytest

from sidecar.pod.causes import Cause
from sidecar.pod.pod import Costs
from tests.pod.pod_readings import DEAR, USUAL, Story, grown


def test_where_steps_say_nothing_gaps_tell_dear_decodes_from_dear_prompts() -> None:
    """Reported prefills hold the decodes of the steps that they share: both look dearer, and the gaps more so."""
    story = Story()
    story.costs = Costs()
    decode = story.reads(gap=0.1, own=3.0)
    assert grown(decode) >= {Cause.DECODE_COST}
    assert decode.grown[Cause.DECODE_COST].value == pytest.approx(5.0, rel=0.2)

    story = Story()
    story.costs = Costs()
    assert grown(story.reads(gap=0.03, own=3.0)) == {Cause.PREFILL_COST}


def test_where_it_is_open_which_of_the_two_is_dear_reported_prefills_do_not_decide() -> None:
    """They hold the decodes of the steps that they share, so dear decodes were paged as prefill. What steps or gaps tell counts."""
    story = Story()
    story.costs = Costs(is_open=True)
    assert grown(story.reads(own=3.0)) == set()

    story.costs = Costs((None, None), (DEAR, DEAR), is_open=True)
    assert grown(story.reads(own=3.0)) == {Cause.PREFILL_COST}

    story.costs = Costs((DEAR, DEAR), (None, None), is_open=True)
    assert grown(story.reads(20, own=6.0)) == {Cause.DECODE_COST, Cause.PREFILL_COST}, "decodes are known"

    story.costs = Costs(is_open=True)
    assert grown(story.reads(20, gap=0.1, own=3.0)) == {Cause.DECODE_COST}


@pytest.mark.parametrize(("own", "told"), [(1.0, True), (2.5, False)])
def test_without_reports_gaps_tell_dear_decodes_if_the_guess_at_prefills_is_far_below(own: float, told: bool) -> None:
    """The first token of a request that did not queue is a guess at its prefill, and may be wrong by half."""
    story = Story()
    story.costs = Costs()
    story.reads(14, reported=False)

    assert (Cause.DECODE_COST in story.reads(14, gap=0.06, own=own, reported=False).grown) is told


def test_a_few_very_long_gaps_are_no_dearer_decode() -> None:
    """Prompts that take far longer hold up all streams: their steps are few, and the typical gap is as it was. What they cost
    is told when their answers end."""
    story = Story()
    story.costs = Costs()

    assert Cause.DECODE_COST not in story.reads(12, gap=0.06, typical=0.02).grown
    assert Cause.DECODE_COST in story.reads(12, gap=0.06, typical=0.06).grown


def test_gaps_of_which_fewer_are_empty_are_no_dearer_decode() -> None:
    """Something that collected tokens has gone: the typical gap is longer, and the mean as it was."""
    story = Story()
    story.costs = Costs()

    assert Cause.DECODE_COST not in story.reads(12, gap=0.02, typical=0.06).grown


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"requests": 30.0}, Cause.LOAD),
        ({"output": 150.0}, Cause.LONGER_OUTPUTS),
        ({"prompt": 300.0, "cached": 120.0}, Cause.PROMPT_MIX),
    ],
)
def test_gaps_that_grow_with_the_work_are_no_dearer_decode(more: dict[str, Any], cause: Cause) -> None:
    """A step has more sequences, or holds more of a prompt."""
    story = Story()
    story.costs = Costs()

    assert grown(story.reads(12, gap=0.05, **more)) == {cause}


def test_gaps_that_grow_by_far_more_than_the_work_are_a_dearer_decode() -> None:
    """Three times the gaps, with a fifth more uncached prompt tokens: these explain 1.2 x 1.2 of them at most."""
    story = Story()
    story.costs = Costs()
    found = story.reads(12, gap=0.06, cached=28.0).grown

    assert found[Cause.UNCACHED].value == pytest.approx(1.2)
    assert found[Cause.DECODE_COST].value == pytest.approx(3.0 / 1.44, rel=0.05)


def test_gaps_say_nothing_while_a_long_prompt_is_computed() -> None:
    """Each step of that time holds a chunk of it."""
    story = Story()
    story.costs = Costs()

    assert Cause.DECODE_COST not in story.reads(8, gap=0.06, long_prompts=True).grown
    assert Cause.DECODE_COST in story.reads(8, gap=0.06, long_prompts=False).grown


def test_gaps_that_were_long_for_a_moment_only_are_no_dearer_decode() -> None:
    """The last twenty seconds are as usual, whatever the forty before were; gaps scatter more than steps."""
    story = Story()
    story.costs = Costs()
    story.reads(8, gap=0.06)

    assert Cause.DECODE_COST not in story.reads(4).grown


@pytest.mark.parametrize("before", [{"requests": 25.0}, {"prompt": 300.0}], ids=["a burst", "long prompts"])
def test_gaps_say_nothing_until_a_queue_is_worked_off(before: dict[str, Any]) -> None:
    """The cause of the queue is over for two minutes, but a hundred requests still wait: the batch is full, or each step
    holds a chunk of a prompt.
    """
    story = Story()
    story.costs = Costs()
    grows = story.reads(14, gap=0.06, waiting=100.0, **before)
    drains = story.reads(26, gap=0.06, waiting=100.0)
    dear = story.reads(gap=0.06, waiting=0.0)

    assert Cause.DECODE_COST not in {*grows.grown, *drains.grown}
    assert dear.grown[Cause.DECODE_COST].value > 2.0


def test_where_steps_are_known_the_cost_of_decode_is_no_estimate_from_gaps() -> None:
    story = Story()
    story.costs = Costs((DEAR, DEAR), (USUAL, USUAL))

    found = story.reads(gap=0.2)

    assert found.grown[Cause.DECODE_COST] == DEAR
