"""Sizes, times and rates are read as people write them, and printed as people read them."""

from collections.abc import Callable

import pytest

from sidecar.commands.capacity.units import (
    read_bytes,
    read_bytes_per_second,
    read_count,
    read_rate,
    read_seconds,
    say_bytes,
    say_seconds,
)


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (read_bytes, "80GB", 80e9),
        (read_bytes, "1.5 tb", 1.5e12),
        (read_bytes, "2GiB", 2.0**31),
        (read_bytes_per_second, "3.35TB/s", 3.35e12),
        (read_seconds, "90ms", 0.09),
        (read_seconds, "2m", 120.0),
        (read_seconds, "0", 0.0),
        (read_rate, "60", 60.0),
        (read_rate, "90/m", 1.5),
        (read_count, "131,072", 131072),
    ],
)
def test_what_people_write_is_understood(read: Callable[[str], float], text: str, expected: float) -> None:
    assert read(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_bytes, "80"),
        (read_bytes, "0GB"),
        (read_bytes, "-1GB"),
        (read_bytes, "80 bananas"),
        (read_bytes_per_second, "fast"),
        (read_seconds, "90"),
        (read_seconds, "1e9s"),
        (read_rate, "0"),
        (read_rate, "5/fortnight"),
        (read_rate, "5s/s"),
        (read_count, "0"),
        (read_count, "1.5"),
        (read_count, ""),
    ],
)
def test_what_has_no_unit_or_no_sense_is_refused_with_an_example(read: Callable[[str], float], text: str) -> None:
    """A time of `90` has no unit: it is refused, not guessed."""
    with pytest.raises(ValueError, match=r"^is not a "):
        read(text)


def test_numbers_are_said_in_the_unit_that_people_would_choose() -> None:
    said = [
        say_bytes(1_342_177_280),
        say_bytes(140e9),
        say_bytes(512),
        say_seconds(0.09),
        say_seconds(0),
        say_seconds(600),
    ]

    assert said == ["1.34 GB", "140 GB", "512 B", "90 ms", "0 s", "10 min"]
