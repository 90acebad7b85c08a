"""Burning: at how many misses it starts, and how it fades. While it lasts, samples are not used as a baseline."""

import pytest

from sidecar.slo.recent import FACTOR, FEWEST, MEMORY_SECONDS, Burning


def burning(requests: int, misses: int, *, allowed: float = 0.01, at: float = 100.0) -> Burning:
    """A `Burning` after `requests` requests at one instant, of which `misses` missed."""
    found = Burning()
    for number in range(requests):
        found.decided(at, missed=number < misses, allowed=allowed)
    return found


@pytest.mark.parametrize(("misses", "burns"), [(FEWEST - 1, False), (FEWEST, True)])
def test_a_few_misses_are_no_fire(misses: float, burns: bool) -> None:
    """Fewer than `FEWEST` misses never burn, however few requests there were."""
    assert burning(int(FEWEST), int(misses)).at(100.0) is burns


@pytest.mark.parametrize(("misses", "burns"), [(19, False), (20, True)])
def test_what_the_budget_allows_is_no_fire(misses: int, burns: bool) -> None:
    """A hundred requests with a target of 90 % may miss ten; twice that burns."""
    assert FACTOR == 2
    assert burning(100, misses, allowed=0.1).at(100.0) is burns


def test_a_fire_goes_out_by_itself() -> None:
    """Twenty misses and none after: fewer than three of them are remembered after 1.9 time constants."""
    fire = burning(20, 20)

    assert fire.at(100.0 + 1.89 * MEMORY_SECONDS) is True
    assert fire.at(100.0 + 1.91 * MEMORY_SECONDS) is False


def test_nothing_has_happened_yet() -> None:
    assert Burning().at(5.0) is False


def test_time_that_stands_or_goes_back_forgets_nothing() -> None:
    """A decision may carry an instant before that of the last one."""
    fire = burning(3, 2)
    fire.decided(90.0, missed=True, allowed=0.0)

    assert fire.at(80.0) is True
