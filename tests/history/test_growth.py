"""Totals of histograms can be added and subtracted."""

from sidecar.history.growth import Total


def test_a_total_is_what_two_children_have_together_and_what_one_grew_by() -> None:
    one, other = Total(3, 1.5, (1, 2)), Total(1, 0.5, (0, 1))

    assert (one + other, one - other) == (Total(4, 2.0, (1, 3)), Total(2, 1.0, (1, 1)))
