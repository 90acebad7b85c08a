"""The cost of decodes from steps that may hold prompts: by those that are alike, unless prompts explain that."""

from collections.abc import Collection

import pytest

from sidecar.pod.costs.alike_steps import (
    ALIKE,
    CHEAPEST_PROMPTS,
    DEARER_THAN_PROMPTS,
    DEAREST_PROMPT,
    FEWEST_SEEN,
    FULL,
    LIKE_USUAL,
    OVER_PARTS,
    AlikeSteps,
)
from sidecar.pod.costs.linear_costs import Compared, Costs
from sidecar.pod.costs.steps import Prompt, Step


USUAL_SECONDS = 0.01
"""The cost of the decodes of each step."""
USUAL = Costs(step=0.0, per_sequence=USUAL_SECONDS / 2, per_context_token=0.0)


def steps(
    *seconds: float, prompt_seconds: float = 0.0, begun_seconds: float = 0.0, ends: Collection[int] = range(1000)
) -> AlikeSteps:
    """A step a second, of these lengths. A prompt, of which so many seconds are expected, ends with each of the steps in `ends`;
    beside them there is a prompt that has not ended.
    """
    found = AlikeSteps()
    for number, length in enumerate(seconds):
        prompts = (Prompt(100.0, 100.0),) if prompt_seconds and number in ends else ()
        step = Step(100.0 + number, length, 1, 2, 80.0, coverage=1.0, pure=False, waiting=0, prompts=prompts)
        found.add(step, length, prompt_seconds if prompts else 0.0, begun_seconds)
    return found


def test_most_steps_are_alike_and_tell_the_cost() -> None:
    """Thirty steps of decodes at twice their cost, and ten that hold prompts of different lengths too."""
    seen = steps(*[0.02] * 30, *(0.05 + 0.03 * number for number in range(10)), prompt_seconds=0.01)

    found = seen.factor(100.0, 1.0, USUAL)

    assert isinstance(found, Compared)
    assert found.factor.value == pytest.approx(2.0)
    assert found.terms == pytest.approx((1.0, 2.0, 80.0))


@pytest.mark.parametrize(("share", "known"), [(CHEAPEST_PROMPTS + 0.05, True), (CHEAPEST_PROMPTS - 0.05, False)])
def test_a_dearer_factor_must_leave_time_for_the_prompts(share: float, known: bool) -> None:
    """At twice the cost of decodes, 10 ms of each step are left for its prompt."""
    seen = steps(*[0.02] * 40, *[0.04] * 40, prompt_seconds=0.01 / share)

    assert (seen.factor(100.0, 1.0, USUAL) is not None) is known
    assert (seen.factor(100.0, 0.5, USUAL) is not None) is True, "prompts usually take half of what is expected"


@pytest.mark.parametrize(("share", "known"), [(0.9, True), (1.1, False)])
def test_a_prompt_that_has_not_ended_may_explain_steps_that_are_all_alike(share: float, known: bool) -> None:
    """Forty steps of five times their decodes, which is 1.6 s beyond the usual."""
    beyond_seconds = 40 * 0.04
    seen = steps(*[0.05] * 40, begun_seconds=share * beyond_seconds / DEAREST_PROMPT)

    assert (seen.factor(100.0, 1.0, USUAL) is not None) is known
    assert (seen.factor(100.0, 0.5, USUAL) is not None) is True, "prompts usually take half of what is expected"


@pytest.mark.parametrize(("share", "known"), [(0.9, True), (1.1, False)])
def test_prompts_that_are_dear_by_much_less_explain_steps_that_are_all_alike(share: float, known: bool) -> None:
    """Fifty steps of twenty times their decodes. Each holds a chunk if its prompts cost not even a third as many times the usual, and
    some steps leave time for those that ended.
    """
    lengths = (*[0.2] * 40, *[0.8] * 10)
    beyond_seconds = sum(lengths) - len(lengths) * USUAL_SECONDS
    expected = share * beyond_seconds * DEARER_THAN_PROMPTS / 20.0

    seen = steps(*lengths, prompt_seconds=expected / len(lengths))

    assert (seen.factor(100.0, 1.0, USUAL) is not None) is known
    assert (seen.factor(100.0, 0.5, USUAL) is not None) is True, "prompts usually take half of what is expected"


@pytest.mark.parametrize(
    ("alike", "between", "full", "known"),
    [
        pytest.param(7 * OVER_PARTS + 1, 0, 6, True, id="many are alike"),
        pytest.param(
            7 * OVER_PARTS, 0, 6, False, id="each of them may be what was left of a prompt, or a hiccup beside it"
        ),
        pytest.param(40, 7, 6, True, id="some hold what was left of a prompt"),
        pytest.param(40, 8, 6, False, id="more do than prompts have ends, so chunks are not all full"),
        pytest.param(40, 0, 0, False, id="none is longer: each may hold a full chunk"),
    ],
)
def test_many_short_steps_among_full_ones_are_decodes_although_prompts_wait_for_ever(
    alike: int, between: int, full: int, known: bool
) -> None:
    """Decodes take five times the usual. Six prompts end, so that with the one in work seven steps may hold a part that is not full. By
    their costs, dear prompts might explain all.
    """
    lengths = [0.05] * alike + [0.05 * ALIKE**2] * between + [0.05 * FULL] * full
    beyond_seconds = sum(lengths) - len(lengths) * USUAL_SECONDS
    begun = beyond_seconds * DEARER_THAN_PROMPTS / 5.0
    last_six = range(len(lengths) - 6, len(lengths))
    seen = steps(*lengths, prompt_seconds=0.02, begun_seconds=begun, ends=last_six)

    found = seen.factor(100.0, 1.0, USUAL)

    assert (found is not None) is known
    if found is not None:
        assert found.factor.value == pytest.approx(5.0, rel=0.02)


@pytest.mark.parametrize(
    ("every", "ended_seconds"),
    [
        pytest.param(1000, 0.0, id="the engine paused once"),
        pytest.param(12, 0.09, id="three short prompts join, as vLLM lets them with long_prefill_token_threshold"),
        pytest.param(40, 0.02, id="an image is encoded"),
    ],
)
def test_longer_steps_among_the_chunks_of_one_long_prompt_make_no_decode_dear(every: int, ended_seconds: float) -> None:
    """All other steps hold 512 tokens of a prompt of 100,000, which costs the usual: they are alike, and take six times their decodes."""
    lengths = [0.061 + (0.09 if number % every == 20 % every else 0.0) for number in range(170)]
    ends = [number for number, length in enumerate(lengths) if length > 0.1]
    seen = steps(*lengths, prompt_seconds=ended_seconds, begun_seconds=10.0, ends=ends)

    assert len(ends) >= 1
    assert seen.factor(100.0, 1.0, USUAL) is None
    assert seen.factor(220.0, 1.0, USUAL) is None


def test_a_prompt_in_work_explains_no_step_from_before_the_last_end_of_another() -> None:
    """Prompts are computed in order. A long one waits for a slot all the while, and might explain each step if it were computed."""
    lengths = [0.05] * 40 + [0.2] * 6
    beyond_seconds = sum(lengths) - len(lengths) * USUAL_SECONDS
    waits = {"prompt_seconds": 0.15, "begun_seconds": 0.5 * beyond_seconds}

    ended, not_ended = steps(*lengths, ends=range(40, 46), **waits), steps(*lengths, ends=(), **waits)

    found = ended.factor(100.0, 1.0, USUAL)
    assert found is not None
    assert found.factor.value == pytest.approx(5.0, rel=0.02)
    assert not_ended.factor(100.0, 1.0, USUAL) is None


def test_usual_decodes_from_before_the_last_end_of_a_prompt_tell_nothing_of_now() -> None:
    """Since then all steps are five times as long, and a long prompt in work may explain that."""
    seen = steps(*[USUAL_SECONDS] * 20, *[0.05] * 100, prompt_seconds=0.01, begun_seconds=10.0, ends=(19,))

    assert seen.factor(100.0, 1.0, USUAL) is None


def test_the_bounds_of_decodes_tell_the_first_prompt_that_ended_and_the_one_in_work_apart() -> None:
    """Ten steps of 100 ms beside decodes of 10 ms. Prompts of 100 ms ended with the first, the fifth and the ninth; one of 200 ms is in work."""
    seen = steps(*[0.1] * 10, prompt_seconds=0.1, begun_seconds=0.2, ends=(0, 4, 8))

    bounds = seen.dearest(100.0, 1.0, USUAL)

    assert bounds is not None
    assert bounds.least == pytest.approx((1.0 - 0.3 - 0.2) / 0.1), "all of them were computed in these steps"
    assert bounds.most == pytest.approx((1.0 - 0.2) / 0.1), "only those that began in them"
    assert seen.dearest(100.0, 2.0, USUAL) == pytest.approx(((1.0 - 1.0) / 0.1, (1.0 - 0.4) / 0.1))
    assert seen.dearest(110.0, 1.0, USUAL) is None
    alone = steps(*[0.1] * 10, begun_seconds=0.2).dearest(100.0, 1.0, USUAL)
    assert alone == pytest.approx(((1.0 - 0.2) / 0.1,) * 2), (
        "where none ended, the one in work was computed all the while"
    )


def test_a_factor_near_the_usual_one_is_believed_whatever_it_leaves_for_prompts() -> None:
    """The prompts were found in a cache, perhaps."""
    cheap, dear = (steps(*[USUAL_SECONDS * factor] * 30, prompt_seconds=1.0) for factor in (LIKE_USUAL, 1.25))

    assert cheap.factor(100.0, 1.0, USUAL) is not None
    assert dear.factor(100.0, 1.0, USUAL) is None


def test_a_few_steps_tell_nothing_and_older_ones_do_not_count() -> None:
    seen = steps(*[USUAL_SECONDS] * FEWEST_SEEN)

    assert seen.factor(100.0, 1.0, USUAL) is not None
    assert seen.factor(100.5, 1.0, USUAL) is None
    seen.forget()
    assert seen.factor(100.0, 1.0, USUAL) is None
