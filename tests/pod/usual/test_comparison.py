"""A quantity is compared with its usual self, which only calm times teach."""

from math import exp, inf
from random import Random

import pytest

from sidecar.pod.factor import Factor, chance_grown
from sidecar.pod.usual.comparison import FEWEST_SLICES, YOUNG_CALM_SECONDS, Comparison
from sidecar.pod.usual.cost_guard import LASTING_SECONDS


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
    calm_slices = int(YOUNG_CALM_SECONDS / SLICE) + FEWEST_SLICES - 1
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


# --- what chance makes of few requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("per_minute", [2.0, 12.0, 60.0, 240.0])
@pytest.mark.parametrize("sigma", [0.4, 1.0])
def test_chance_is_named_in_less_than_a_look_of_a_hundred_whatever_the_traffic(per_minute: float, sigma: float) -> None:
    """Prompt tokens of random requests, as lognormal as in life, beside the usual ones: a day of looks at the last minute."""
    rng, comparison, named, looks = Random(f"{per_minute}/{sigma}"), Comparison(), 0, 0
    arrives = rng.expovariate(per_minute / 60.0)
    for number in range(1, 8_640):
        at, requests, tokens = number * SLICE, 0, 0.0
        while arrives < at:
            requests += 1
            tokens += 1000.0 * exp(rng.gauss(0.0, sigma) - sigma**2 / 2)
            arrives += rng.expovariate(per_minute / 60.0)
        comparison.add(at, tokens, 1000.0 * requests, calm=True)
        found = comparison.since(at - 60.0)
        if number > 720 and found is not None:
            looks += 1
            named += chance_grown(found, 1.12) > 0.5

    assert looks > 1000
    assert named / looks < 0.01


# --- the guard ----------------------------------------------------------------------------------------------------------


def test_a_guarded_quantity_does_not_learn_what_is_well_off_the_usual_although_nothing_burns() -> None:
    """A fault that no objective notices yet: after an hour it is as far off as in its first minute."""
    guarded, plain = Comparison(guarded=True), Comparison()
    for comparison in (guarded, plain):
        at = played([9.0, 11.0] * 300, comparison=comparison)
        played([18.0, 22.0] * 360, comparison=comparison, at=at)

    at += 720 * SLICE
    assert known(guarded.since(at - 60.0)).value > 1.9
    assert known(plain.since(at - 60.0)).value < 1.5


def test_a_guarded_quantity_learns_on_once_it_is_back_and_small_changes_at_once() -> None:
    comparison = Comparison(guarded=True)
    at = played([9.0, 11.0] * 300, comparison=comparison)
    at = played([20.0] * 60, comparison=comparison, at=at)
    at = played([10.5, 11.5] * 700, comparison=comparison, at=at)

    assert 0.97 < known(comparison.since(at - 60.0)).value < 1.05


def test_a_burn_ends_the_time_off_the_usual_and_a_time_without_requests_does_not() -> None:
    def lasted(*, burns: bool) -> bool:
        comparison = Comparison(guarded=True)
        at = played([9.0, 11.0] * 300, comparison=comparison)
        at = played([20.0, 22.0] * 60, comparison=comparison, at=at)
        comparison.add(at + 300.0, 20.0 if burns else 0.0, 10.0 if burns else 0.0, calm=not burns)
        played([20.0, 22.0] * 60, comparison=comparison, at=at + LASTING_SECONDS)
        found = comparison.since(at + LASTING_SECONDS + 540.0)
        return found is not None and found.value < 1.1

    assert lasted(burns=False)
    assert not lasted(burns=True)


def test_another_value_that_lasted_for_a_week_is_the_usual_one() -> None:
    comparison = Comparison(guarded=True)
    at = played([9.0, 11.0] * 300, comparison=comparison)
    at = played([20.0, 22.0] * 60, comparison=comparison, at=at)
    at = played([20.0, 22.0] * 60, comparison=comparison, at=at + LASTING_SECONDS)

    assert 0.95 < known(comparison.since(at - 60.0)).value < 1.05
