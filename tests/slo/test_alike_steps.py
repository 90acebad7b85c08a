"""The cost of decodes from steps that may hold prompts: by those that are alike, unless prompts explain that."""

import pytest

from sidecar.slo.alike_steps import CHEAPEST_PROMPTS, FEWEST_SEEN, LIKE_USUAL, AlikeSteps
from sidecar.slo.factor import Factor


USUAL_SECONDS = 0.01
"""The cost of the decodes of each step."""


def steps(*seconds: float, prompt_seconds: float = 0.0) -> AlikeSteps:
    """A step a second, of these lengths, each with prompts of which so many seconds are expected."""
    found = AlikeSteps()
    for number, length in enumerate(seconds):
        found.add(100.0 + number, length, USUAL_SECONDS, prompt_seconds)
    return found


def test_most_steps_are_alike_and_tell_the_cost() -> None:
    """Thirty steps of decodes at twice their cost, and ten that hold prompts of different lengths too."""
    seen = steps(*[0.02] * 30, *(0.05 + 0.03 * number for number in range(10)), prompt_seconds=0.01)

    found = seen.factor(100.0, 1.0)

    assert isinstance(found, Factor)
    assert found.value == pytest.approx(2.0)


@pytest.mark.parametrize(("share", "known"), [(CHEAPEST_PROMPTS + 0.05, True), (CHEAPEST_PROMPTS - 0.05, False)])
def test_a_dearer_factor_must_leave_time_for_the_prompts(share: float, known: bool) -> None:
    """At twice the cost of decodes, 10 ms of each step are left for its prompt."""
    seen = steps(*[0.02] * 40, *[0.04] * 40, prompt_seconds=0.01 / share)

    assert (seen.factor(100.0, 1.0) is not None) is known
    assert (seen.factor(100.0, 0.5) is not None) is True, "prompts usually take half of what is expected"


def test_a_factor_near_the_usual_one_is_believed_whatever_it_leaves_for_prompts() -> None:
    """The prompts were found in a cache, perhaps."""
    cheap, dear = (steps(*[USUAL_SECONDS * factor] * 30, prompt_seconds=1.0) for factor in (LIKE_USUAL, 1.25))

    assert cheap.factor(100.0, 1.0) is not None
    assert dear.factor(100.0, 1.0) is None


def test_a_few_steps_tell_nothing_and_older_ones_do_not_count() -> None:
    seen = steps(*[USUAL_SECONDS] * FEWEST_SEEN)

    assert seen.factor(100.0, 1.0) is not None
    assert seen.factor(100.5, 1.0) is None
    seen.forget()
    assert seen.factor(100.0, 1.0) is None
