"""Steps without a prompt tell the cost of decodes now: the slow ones by their length, and only the recent ones."""

import pytest

from sidecar.pod.costs.linear_costs import Costs
from sidecar.pod.costs.pure_steps import PureSteps
from sidecar.pod.costs.steps import Step
from sidecar.pod.factor import Factor


A_SECOND = Costs(step=1.0, per_sequence=0.0, per_context_token=0.0)
"""Each step usually takes a second, so that its seconds are its ratio."""


def step(at: float, sequences: int = 1, context_tokens: float = 100.0) -> Step:
    return Step(at, 1.0, 1, sequences, context_tokens, coverage=1.0, pure=True, waiting=0, prompts=())


def test_a_slow_step_weighs_as_much_as_the_quick_ones_of_the_same_time() -> None:
    pure = PureSteps()
    for number in range(40):
        pure.add(step(number * 0.01), 1.0, 0.01)
    for number in range(11):
        pure.add(step(0.4 + number * 0.04), 4.0, 0.04)

    found = pure.factor(0.0, 20, A_SECOND)

    assert found is not None
    assert found.factor.value == 4.0
    assert found.factor.low <= 1.0


def test_only_those_since_an_instant_speak_and_too_few_of_them_say_nothing() -> None:
    pure = PureSteps()
    for number in range(30):
        pure.add(step(float(number)), 1.0 if number < 10 else 2.0, 1.0)

    found = pure.factor(10.0, 20, A_SECOND)

    assert found is not None
    assert found.factor == Factor(2.0, 2.0 * 0.97, 2.0 * 1.03)
    assert pure.factor(11.0, 20, A_SECOND) is None


def test_steps_are_compared_with_what_is_usual_when_it_is_asked() -> None:
    """Forty steps of 3 s with two contexts of 500 tokens. A fit that is newer than they are says that long contexts cost that."""
    pure = PureSteps()
    for number in range(40):
        pure.add(step(float(number), sequences=2, context_tokens=1_000.0), 3.0, 3.0)

    before, now = (pure.factor(0.0, 20, Costs(1.0, 0.0, per_context_token)) for per_context_token in (0.0, 0.002))

    assert before is not None
    assert now is not None
    assert (before.factor.value, now.factor.value) == (3.0, 1.0)
    assert now.terms == pytest.approx((1.0, 2.0, 1_000.0))


@pytest.mark.parametrize(
    ("dear_from", "dear_until", "risen"),
    [
        pytest.param(57.0, 60.0, True, id="all three seconds"),
        pytest.param(58.2, 60.0, False, id="the last 1.8 s"),
        pytest.param(57.0, 58.8, False, id="the first 1.8 s"),
        pytest.param(57.2, 59.2, False, id="2 s in the middle"),
    ],
)
def test_a_moment_of_dear_steps_is_no_rise(dear_from: float, dear_until: float, *, risen: bool) -> None:
    """Most of three seconds is dear in each case, and so is their median. On a real vLLM, the first second of a burst was."""
    pure = PureSteps()
    for number in range(2400):
        at = number / 40
        pure.add(step(at), 1.5 if dear_from <= at < dear_until else 1.0, 0.025)

    found = pure.risen(60.0, 3.0, 10, A_SECOND, Factor(1.0, 0.97, 1.03))
    window = pure.factor(57.0, 10, A_SECOND)

    assert window is not None
    assert window.factor.value == 1.5
    assert (found is not None) is risen


@pytest.mark.parametrize(
    ("late_at", "late_seconds_each", "stopped"),
    [
        pytest.param([], 0.0, True, id="none of late"),
        pytest.param([51.0], 0.2, True, id="hardly one of late"),
        pytest.param([51.0, 53.0, 55.0, 57.0, 59.0], 0.2, False, id="as rare as before"),
        pytest.param([51.0, 55.0], 0.6, False, id="fewer, as each takes longer"),
    ],
)
def test_pure_steps_have_stopped_if_they_take_hardly_any_of_the_last_seconds(
    late_at: list[float], late_seconds_each: float, stopped: bool
) -> None:
    """Before, one of 0.2 s came each 2 s: where prompts are in most steps, pure ones are rare, and still speak."""
    pure = PureSteps()
    for number in range(25):
        pure.add(step(2.0 * number), 1.0, 0.2)
    for at in late_at:
        pure.add(step(at), 1.0, late_seconds_each)

    assert pure.stopped(60.0, 60.0, 10.0) is stopped


def test_a_replaced_engine_has_none() -> None:
    pure = PureSteps()
    pure.add(step(1.0), 1.0, 1.0)

    pure.forget()

    assert pure.factor(0.0, 1, A_SECOND) is None
