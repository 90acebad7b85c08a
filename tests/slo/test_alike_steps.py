"""The cost of decodes from steps that may hold prompts: by those that are alike, unless prompts explain that."""

import pytest

from sidecar.slo.alike_steps import (
    CHEAPEST_PROMPTS,
    DEARER_THAN_PROMPTS,
    DEAREST_PROMPT,
    FEWEST_SEEN,
    LIKE_USUAL,
    AlikeSteps,
)
from sidecar.slo.linear_costs import Compared, Costs
from sidecar.slo.steps import Step


USUAL_SECONDS = 0.01
"""The cost of the decodes of each step."""
USUAL = Costs(step=0.0, per_sequence=USUAL_SECONDS / 2, per_context_token=0.0)


def steps(*seconds: float, prompt_seconds: float = 0.0, begun_seconds: float = 0.0) -> AlikeSteps:
    """A step a second, of these lengths, each with prompts of which so many seconds are expected; beside them a prompt that has not
    ended.
    """
    found = AlikeSteps()
    for number, length in enumerate(seconds):
        step = Step(100.0 + number, length, 1, 2, 80.0, coverage=1.0, pure=False, waiting=0, prompts=())
        found.add(step, length, prompt_seconds, begun_seconds)
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
