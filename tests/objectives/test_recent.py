"""Burning: at how many misses it starts, and how it fades. While it lasts, samples are not used as a baseline."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.objectives.recent import CHANCE, FACTOR, FEWEST, MEMORY_SECONDS, Burning


def burning(requests: int, misses: int, *, allowed: float = 0.01, at: float = 100.0) -> Burning:
    """A `Burning` after `requests` requests at one instant, of which `misses` missed."""
    found = Burning()
    for number in range(requests):
        found.decided(at, "chat/ttft", missed=number < misses, allowed=allowed)
    return found


@pytest.mark.parametrize(("misses", "burns"), [(FEWEST - 1, False), (FEWEST, True)])
def test_a_few_misses_are_no_fire(misses: float, burns: bool) -> None:
    """Fewer than `FEWEST` misses never burn, however few requests there were."""
    assert burning(int(FEWEST), int(misses)).at(100.0) is burns


@pytest.mark.parametrize(("misses", "burns"), [(28, False), (29, True)])
def test_what_the_budget_allows_is_no_fire(misses: int, burns: bool) -> None:
    """A hundred requests with a target of 90 % may miss ten; twice that burns, and what chance adds to twenty."""
    assert 20 + CHANCE * sqrt(20) == pytest.approx(28.94, abs=0.01)
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
    fire.decided(90.0, "chat/ttft", missed=True, allowed=0.0)

    assert fire.at(80.0) is True


def test_one_lane_that_burns_is_not_hidden_by_others_that_do_well() -> None:
    found = Burning()
    for number in range(1000):
        found.decided(100.0, "calm/ttft", missed=False, allowed=0.05)
        if number < 10:
            found.decided(100.0, "chat/ttft", missed=True, allowed=0.05)

    assert found.at(100.0) is True


@pytest.mark.parametrize(
    ("requests", "misses", "exceeds"), [(1, 1, False), (2, 2, True), (100, 2, False), (99, 2, True)]
)
def test_twice_the_budget_is_exceeded_by_few_misses_too(requests: int, misses: int, exceeds: bool) -> None:
    """One miss may be chance; two are too many for fewer than a hundred requests with a target of 99 %."""
    assert burning(requests, misses).exceeds(100.0) is exceeds
    assert burning(requests, misses).at(100.0) is False


def test_the_worst_objective_says_how_badly_it_burns() -> None:
    assert burning(20, 20, allowed=0.05).worst(100.0) == pytest.approx(20.0)
    assert burning(20, 1, allowed=0.05).worst(100.0) == 0.0


@given(
    st.lists(
        st.tuples(st.floats(0, 90), st.sampled_from("ab"), st.booleans(), st.sampled_from([0.01, 0.2])), max_size=40
    )
)
def test_asking_at_each_request_finds_what_asking_once_finds(
    requests: list[tuple[float, str, bool, float]],
) -> None:
    """An answer is remembered until the next miss, and that changes no later answer."""
    at, asked = 0.0, Burning()
    for number, (later_seconds, lane, missed, allowed) in enumerate(requests, 1):
        at += later_seconds
        asked.decided(at, lane, missed=missed, allowed=allowed)
        once, told_at = Burning(), 0.0
        for told_later, told_lane, told_missed, told_allowed in requests[:number]:
            told_at += told_later
            once.decided(told_at, told_lane, missed=told_missed, allowed=told_allowed)
        assert (asked.at(at), asked.exceeds(at)) == (once.at(at), once.exceeds(at))
