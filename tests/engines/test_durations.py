"""Durations, counts and instants in reports are read as numbers, or as nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.durations import (
    LARGEST,
    LATEST_SECONDS,
    MILLISECONDS,
    NANOSECONDS,
    between,
    instant_of,
    seconds_of,
    whole_number,
)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=25),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def test_units_become_seconds() -> None:
    assert [seconds_of(90, MILLISECONDS), seconds_of(1.5e9, NANOSECONDS), seconds_of(0)] == [0.09, 1.5, 0.0]


@pytest.mark.parametrize("value", [None, True, "1", -1, -0.1, math.nan, math.inf, -math.inf, 10**400, [1], {}])
def test_what_is_no_duration_is_not_stated(value: object) -> None:
    assert seconds_of(value, MILLISECONDS) is None


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), ("5", 5), ([5], 5), (["5"], 5), (5.0, 5), (0, 0), (str(LARGEST), LARGEST), (LARGEST, LARGEST)],
)
def test_a_count_may_be_written_in_several_ways(value: object, number: int) -> None:
    """Triton's tensors are strings or numbers, alone or in a list of one."""
    assert whole_number(value) == number


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, -1, "-1", "+1", "1.0", "1e3", " 1", "٣", "", 1.5, math.nan, math.inf, [], [1, 2], [[1]], {}),
        *(LARGEST + 1, str(LARGEST + 1), 10**400, 1e308),
    ],
)
def test_what_is_no_count_is_none(value: object) -> None:
    assert whole_number(value) is None


def test_time_does_not_run_backwards() -> None:
    assert [between(1.0, 3.0), between(3.0, 1.0), between(None, 1.0), between(1.0, None)] == [2.0, None, None, None]


def test_an_instant_was_taken_and_is_one_that_differences_can_be_told_of() -> None:
    """0 means that it was never taken; at 2**63 s a float cannot hold differences below half an hour."""
    assert [instant_of(1.8e9), instant_of(LATEST_SECONDS)] == [1.8e9, LATEST_SECONDS]
    assert [instant_of(value) for value in (None, 0, 0.0, -1.0, 2**63, math.nextafter(LATEST_SECONDS, math.inf))] == [
        None
    ] * 6


@given(value=ANYTHING, per_second=st.sampled_from([1.0, MILLISECONDS, NANOSECONDS]))
def test_nothing_raises_and_nothing_is_negative_or_endless(value: object, per_second: float) -> None:
    seconds, number = seconds_of(value, per_second), whole_number(value)

    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)
    assert number is None or 0 <= number <= LARGEST
