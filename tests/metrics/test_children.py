"""A child counts the values that it gets, and refuses values that would spoil its sum for ever."""

import math

import pytest

from sidecar.metrics.children import CounterChild, Exemplar, GaugeChild, HistogramChild


class Refusals:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_an_edge_holds_its_own_value() -> None:
    """`le` is less than or equal: 0.1 belongs into the bucket whose edge is 0.1."""
    child = HistogramChild((), Refusals(), (0.1, 1.0))

    for value in (0.0, 0.1, 0.1000001, 1.0, 7.0):
        child.observe(value)

    assert child.counts == [2, 2, 1]
    assert child.count == 5
    assert pytest.approx(child.sum) == 8.2000001


@pytest.mark.parametrize("spoiler", [math.nan, -1e-9, math.inf, -math.inf])
def test_one_bad_value_does_not_spoil_the_sum(spoiler: float) -> None:
    """NaN would stay in the sum until the restart; it is refused and counted instead."""
    refused = Refusals()
    child = HistogramChild((), refused, (1.0,))
    child.observe(0.5)

    child.observe(spoiler)

    assert (child.sum, child.count, refused.count) == (0.5, 1, 1)


@pytest.mark.parametrize("spoiler", [math.nan, -1, math.inf])
def test_a_counter_never_falls(spoiler: float) -> None:
    refused = Refusals()
    child = CounterChild((), refused)
    child.inc()
    child.inc(2.5)

    child.inc(spoiler)

    assert (child.value, refused.count) == (3.5, 1)


def test_a_gauge_that_was_not_set_is_unknown_and_can_become_so_again() -> None:
    child = GaugeChild(())
    assert child.value is None

    child.set(0)
    assert child.value == 0

    child.inc(-2)
    assert child.value == -2

    child.set(None)
    assert child.value is None


def test_a_write_forgets_the_rendered_lines_and_an_unchanged_gauge_keeps_them() -> None:
    counter, gauge, histogram = CounterChild((), Refusals()), GaugeChild(()), HistogramChild((), Refusals(), (1.0,))
    gauge.set(3)
    for child in (counter, gauge, histogram):
        child.rendered = b"cached"

    counter.inc()
    gauge.set(3)
    histogram.observe(1.0)

    assert (counter.rendered, gauge.rendered, histogram.rendered) == (None, b"cached", None)


def test_the_last_exemplar_of_a_bucket_stays_and_a_forged_one_is_none() -> None:
    """A trace id of an exemplar is 32 hex digits, or it is left out: it is written to the page without escaping."""
    child = HistogramChild((), Refusals(), (1.0, 2.0))

    child.observe(0.5, "a" * 32, 100.0)
    child.observe(0.7, "b" * 32)
    child.observe(1.5, 'x"} 1\nforged 1')

    assert {0: Exemplar("b" * 32, 0.7, None)} == child.exemplars
    assert child.count == 3
