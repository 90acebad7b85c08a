"""Numbers are written with three digits at most, in the unit that a person would choose."""

from math import inf

import pytest

from sidecar.diagnosis.wording import digits, expected, instant, listed, percent, phase_name, seconds, times


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.08, "80 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (3.21, "3.21 s"),
        (119.4, "119 s"),
        (720.0, "12 min"),
        (3565.0, "59 min"),
        (150.0, "2.5 min"),
        (inf, "above the last bucket"),
    ],
)
def test_durations_change_their_unit_where_a_person_would(value: float | None, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.0, "1,234,567"), (12.0, "12"), (0.123456, "0.123"), (0.00001234, "0.000012")]
)
def test_three_digits_without_an_exponent(value: float, text: str) -> None:
    assert digits(value) == text


def test_shares_factors_phases_and_lists() -> None:
    """A share that is small and not nothing is not written as 0 %."""
    assert [percent(ratio) for ratio in (0.0, 0.004, 0.78, 1.0)] == ["0 %", "below 1 %", "78 %", "100 %"]
    assert [times(ratio) for ratio in (1.237, 2.24)] == ["1.24 x", "2.2 x"]
    assert phase_name("first_token") == "first token"
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a or b", "a, b or c"]


def test_an_instant_is_told_to_the_minute_in_one_zone() -> None:
    assert [instant(at) for at in (0.0, 1_795_170_959.9)] == ["1970-01-01 00:00 UTC", "2026-11-20 10:35 UTC"]


def test_an_expected_effect_is_a_range_of_the_added_time() -> None:
    assert expected({"low": 0.3, "high": 0.7}) == "30 to 70 % of the added time goes"
