"""A ratio comes with an interval that holds the truth in most cases, and is never narrower than a few per cent."""

from random import Random

import pytest

from sidecar.pod.factor import GROWS, LEAST_MARGIN, Excess, Factor, chance_grown, densest_of, median_of, ratio_of, wider


def test_the_interval_of_a_median_holds_the_truth_in_nineteen_cases_of_twenty() -> None:
    rng = Random(1)
    found = [median_of(sorted(rng.lognormvariate(0.0, 0.3) for _ in range(60))) for _ in range(400)]

    assert 0.92 <= sum(one.low <= 1.0 <= one.high for one in found) / len(found) <= 1.0


def test_an_interval_is_never_narrower_than_its_margin() -> None:
    one = median_of([2.0] * 1000)

    assert (one.low, one.value, one.high) == pytest.approx((2 * (1 - LEAST_MARGIN), 2.0, 2 * (1 + LEAST_MARGIN)))


def test_a_median_goes_by_the_weights_of_the_ratios() -> None:
    """Sixty quick steps, and twenty that took four times as long each."""
    ratios, seconds = [1.0] * 60 + [4.0] * 20, [0.01] * 60 + [0.04] * 20

    assert median_of(ratios).value == 1.0
    assert median_of(ratios, seconds).value == 4.0


def test_steps_without_a_prompt_are_found_below_those_that_hold_one() -> None:
    """Two thirds of the steps hold chunks of many sizes, one third holds none and costs 1.5 times its usual cost."""
    rng = Random(2)
    pure = [1.5 * rng.lognormvariate(0.0, 0.02) for _ in range(100)]
    mixed = [1.5 + rng.uniform(0.5, 12.0) for _ in range(200)]

    assert densest_of(sorted(pure + mixed), 20).value == pytest.approx(1.5, rel=0.05)


def test_the_ratio_of_two_sums_is_that_of_the_work_and_not_of_single_stretches() -> None:
    """Ten short stretches at four times their work, and one long one that outweighs them."""
    short = [Excess(0.0, 0.04, 0.01)] * 10
    found = ratio_of([*short, Excess(0.0, 10.0, 10.0)], 1.0)

    assert found.value == pytest.approx(10.4 / 10.1)
    assert found.low < 1.0 < found.high


def test_a_ratio_is_told_against_its_usual_value() -> None:
    stretches = [Excess(0.0, 2.4, 1.0), Excess(0.0, 2.4, 1.0), Excess(0.0, 2.4, 1.0)]

    assert ratio_of(stretches, 1.2).value == pytest.approx(2.0)


def test_the_same_ratio_chance_grown_in_a_narrow_interval_and_is_chance_in_a_wide_one() -> None:
    narrow, middle, wide = (chance_grown(Factor(1.3, 1.3 / by, 1.3 * by), 1.15) for by in (1.08, 1.25, 1.5))

    assert narrow > 0.95
    assert narrow > middle > wide
    assert wide < GROWS


def test_a_ratio_that_is_known_well_chance_grown_if_it_is_worth_naming() -> None:
    """However well it is known, a ratio below the threshold is none to name; one that fell has not grown."""
    assert chance_grown(Factor(1.05, 1.04, 1.06), 1.15) < 0.01
    assert chance_grown(Factor(0.5, 0.45, 0.55), 1.15) < 0.01
    assert chance_grown(Factor(7.0, 5.0, 9.0), 1.15) > 0.99


def test_a_ratio_that_may_be_anything_chance_grown_as_often_as_any() -> None:
    """Without information the chance is the one of before, less that of a growth too small to name."""
    assert chance_grown(Factor(1.0, 1e-6, 1e6), 1.0) == pytest.approx(GROWS, abs=0.06)


@pytest.mark.parametrize("value", [-0.5, 0.0, 0.4, 1.0, 3.0])
def test_a_further_error_widens_an_interval_and_moves_no_value(value: float) -> None:
    factor = Factor(value, value - 0.05, value + 0.05)
    found = wider(factor, 0.2)

    assert found.value == value
    assert found.low <= factor.low
    assert found.high >= factor.high
    assert wider(factor, 0.0) == pytest.approx(factor)


def test_independent_errors_add_up_as_squares_and_a_large_one_hides_a_small_one() -> None:
    assert wider(Factor(2.0, 2.0, 2.0), 0.2) == pytest.approx((2.0, 2.0 / 1.2, 2.0 * 1.2))
    assert wider(Factor(2.0, 1.0, 4.0), 0.05).low == pytest.approx(1.0, rel=0.01)
