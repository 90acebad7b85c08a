"""A quantity is compared with its usual self, which only calm times teach."""

from math import inf

from sidecar.slo.factor import Factor
from sidecar.slo.root.comparison import CALM_AFTER_SECONDS, FEWEST_SLICES, Comparison


SLICE = 5.0


def played(slices: list[float], *, calm: bool = True, comparison: Comparison | None = None, at: float = 0.0) -> float:
    """Add slices of 10 expected each; returns the instant of the last one."""
    assert comparison is not None
    for value in slices:
        at += SLICE
        comparison.add(at, value, 10.0, calm=calm)
    return at


def known(factor: Factor | None) -> Factor:
    assert factor is not None
    return factor


def test_an_hour_of_the_same_is_one_and_twice_as_much_is_two() -> None:
    comparison = Comparison()
    at = played([9.0, 11.0] * 300, comparison=comparison)
    usual = known(comparison.since(at - 60.0))
    assert usual.low < 1.0 < usual.high
    later = played([20.0] * 12, calm=False, comparison=comparison, at=at)
    grown = known(comparison.since(later - 60.0))
    assert grown.low < 2.0 < grown.high
    assert grown.low > 1.5


def test_a_young_comparison_says_nothing() -> None:
    comparison = Comparison()
    calm_slices = int(CALM_AFTER_SECONDS / SLICE) + FEWEST_SLICES - 1
    at = played([10.0] * calm_slices, comparison=comparison)
    assert comparison.young
    assert comparison.since(at - 60.0) is None


def test_the_beginning_of_a_fault_teaches_nothing() -> None:
    """Misses are noticed late: what grew in the two minutes before is not the usual value."""
    comparison = Comparison()
    at = played([9.0, 11.0] * 100, comparison=comparison)
    at = played([50.0] * 20, comparison=comparison, at=at)
    at = played([50.0], calm=False, comparison=comparison, at=at)
    at = played([10.0, 10.0] * 20, comparison=comparison, at=at)
    later = played([50.0] * 4, calm=False, comparison=comparison, at=at)
    assert known(comparison.since(later - 20.0)).value > 4.5


def test_a_load_that_scatters_is_compared_less_sharply() -> None:
    steady, bursts = Comparison(), Comparison()
    at = played([9.0, 11.0] * 100, comparison=steady)
    played([2.0, 18.0] * 100, comparison=bursts)
    narrow, wide = known(steady.since(at - 60.0)), known(bursts.since(at - 60.0))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_slices_in_which_nothing_was_expected_do_not_count() -> None:
    comparison = Comparison()
    at = played([9.0, 11.0] * 100, comparison=comparison)
    for _ in range(100):
        at += SLICE
        comparison.add(at, 0.0, 0.0, calm=True)
    assert comparison.since(at - 60.0) is None
    assert not comparison.young


def test_after_a_day_without_traffic_the_ratio_may_be_anything() -> None:
    """The usual value has nearly faded away: a wide interval, and no error."""
    comparison = Comparison()
    at = played([9.0, 11.0] * 100, comparison=comparison)
    at = played([0.0] * 17_280, comparison=comparison, at=at)
    nothing = known(comparison.since(at - 60.0))

    assert 0.0 < nothing.low < nothing.value < 1.0 < nothing.high < inf
