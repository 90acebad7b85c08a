"""A fit finds the coefficients that made the samples, none of them negative, and says so where it cannot."""

from random import Random

import pytest

from sidecar.pod.costs.least_squares import HALVED_AT, LeastSquares


def fitted(samples: list[tuple[tuple[float, ...], float]]) -> tuple[float, ...] | None:
    fit = LeastSquares(len(samples[0][0]))
    for x, y in samples:
        fit.add(x, y, max(y, 1e-9))
    return fit.solved()


def test_the_coefficients_that_made_the_samples_are_found() -> None:
    rng = Random(1)
    points = [(1.0, float(rng.randrange(1, 30)), rng.uniform(0, 50_000)) for _ in range(500)]

    found = fitted([(x, 0.008 + 2e-4 * x[1] + 3e-8 * x[2]) for x in points])

    assert found == pytest.approx((0.008, 2e-4, 3e-8), rel=1e-6)


def test_a_term_that_would_be_negative_is_left_out() -> None:
    found = fitted([((1.0, float(n)), 10.0 - 0.1 * n) for n in range(20)])

    assert found is not None
    assert found[1] == 0.0
    assert found[0] == pytest.approx(9.0, rel=0.02)


def test_the_term_that_explains_least_is_the_one_that_is_left_out() -> None:
    """Sequences cost nothing and contexts do: noise makes the second coefficient negative, and it goes, not the third."""
    rng = Random(5)
    points = [(1.0, float(n), n * rng.uniform(500, 1500)) for n in range(1, 40) for _ in range(5)]

    found = fitted([(x, 0.01 - 1e-5 * x[1] + 4e-7 * x[2]) for x in points])

    assert found is not None
    assert found[1] == 0.0
    assert found[2] == pytest.approx(4e-7, rel=0.1)


def test_terms_that_cannot_be_told_apart_give_one() -> None:
    """Every step has the same batch: the whole cost goes into one coefficient, and the sum is right."""
    found = fitted([((1.0, 4.0), 0.02)] * 10)

    assert found is not None
    assert found[0] + 4.0 * found[1] == pytest.approx(0.02)


def test_no_sample_gives_no_answer() -> None:
    assert LeastSquares(3).solved() is None
    assert LeastSquares(3).possible(1.0) == []


def test_fits_that_explain_the_samples_as_well_are_all_possible() -> None:
    """Every step has the same batch: its cost may be one of the step, or one of its sequences."""
    fit = LeastSquares(2)
    for _ in range(10):
        fit.add((1.0, 4.0), 0.02, 0.02)

    assert sorted(fit.possible(1e-6)) == [pytest.approx((0.0, 0.005)), pytest.approx((0.02, 0.0))]


def test_a_fit_with_a_larger_error_is_possible_as_far_as_is_allowed() -> None:
    """Half of the samples are 1 and half are 3, and errors are relative to 2. With one of both terms, half of the samples are wrong by a
    half, or all of them.
    """
    fit = LeastSquares(2)
    for at in range(1_000):
        fit.add((1.0, float(at % 2)), 1.0 + 2.0 * (at % 2), 2.0)

    best, second, third = (pytest.approx(each) for each in ((1.0, 2.0), (0.0, 3.0), (2.0, 0.0)))

    assert fit.possible(0.1249) == [best]
    assert fit.possible(0.1251) == [best, second]
    assert fit.possible(0.2501) == [best, second, third]


def test_new_samples_outweigh_old_ones_in_the_end() -> None:
    fit = LeastSquares(1)
    for value in [1.0] * int(HALVED_AT) + [2.0] * int(4 * HALVED_AT):
        fit.add((1.0,), value, 1.0)

    found = fit.solved()

    assert found is not None
    assert found[0] > 1.9
    assert fit.weight < HALVED_AT
