"""Quantiles from the buckets of a histogram are the numbers that Prometheus gives; totals can be added and subtracted."""

import math

from hypothesis import given
from hypothesis import strategies as st

from sidecar.history.growth import Total, quantile


def test_quantiles_are_interpolated_as_prometheus_does() -> None:
    """Ten samples evenly in (1, 2]: the median is 1.5."""
    assert quantile(0.5, [0, 10, 0], (1.0, 2.0)) == 1.5
    assert quantile(0.5, [10, 0, 0], (1.0, 2.0)) == 0.5
    assert quantile(0.5, [0, 0, 0], (1.0, 2.0)) is None
    assert math.inf == quantile(0.99, [1, 0, 9], (1.0, 2.0))


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4))
def test_quantiles_rise(counts: list[int]) -> None:
    quantiles = [quantile(q, counts, (1.0, 2.0, 5.0)) for q in (0.1, 0.5, 0.95, 0.99)]

    told = [value for value in quantiles if value is not None]
    assert sorted(told) == told
    assert (4 if any(counts) else 0) == len(told)


def test_a_total_is_what_two_children_have_together_and_what_one_grew_by() -> None:
    one, other = Total(3, 1.5, (1, 2)), Total(1, 0.5, (0, 1))

    assert (one + other, one - other) == (Total(4, 2.0, (1, 3)), Total(2, 1.0, (1, 1)))
