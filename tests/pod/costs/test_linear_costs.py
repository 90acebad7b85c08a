"""The work of steps is told as terms, so that its cost is a sum."""

import pytest

from sidecar.pod.costs.linear_costs import Costs, decode_terms, prompt_terms, seconds_of
from sidecar.pod.costs.steps import Prompt


def test_a_step_costs_the_same_by_its_terms_as_by_its_costs() -> None:
    costs = Costs(step=0.01, per_sequence=2e-4, per_context_token=3e-8)

    terms = decode_terms(8, 16_000.0)

    assert terms == (1.0, 8.0, 16_000.0)
    assert seconds_of((0.01, 2e-4, 3e-8), terms) == pytest.approx(costs.decode_seconds(8, 16_000.0))
    assert costs.decode_seconds(8, 16_000.0) == pytest.approx(0.01 + 0.0016 + 0.00048)


def test_prompts_are_told_by_their_uncached_tokens_and_by_the_tokens_before_each_of_them() -> None:
    """A prompt of 100 tokens has 50 before each, on the mean; of another one 60 are cached, and 80 are before each of the other 40."""
    whole, partly = Prompt(100.0, 100.0), Prompt(100.0, 40.0)

    assert prompt_terms([]) == (0.0, 0.0)
    assert prompt_terms([whole]) == (100.0, 100.0 * 50.0)
    assert prompt_terms([whole, partly]) == (140.0, 100.0 * 50.0 + 40.0 * 80.0)
