"""A bound in milliseconds allows for a slow machine, and no other bound does."""

import pytest

from bench.bounds.bound import Bound, table
from bench.bounds.speed import MOST, slowness


def bound(measured: float, *, unit: str = "ms", slowness: float = 1.0) -> Bound:
    return Bound("a turn", 2.0, measured, unit, "1 to 3 in 3 rounds", "nothing", slowness)


@pytest.mark.parametrize(
    ("one", "kept"),
    [
        (bound(1.9), True),
        (bound(2.1), False),
        (bound(2.9, slowness=1.5), True),
        (bound(3.1, slowness=1.5), False),
        (bound(2.1, unit="MiB", slowness=1.5), False),
    ],
)
def test_a_limit_in_milliseconds_grows_with_a_slower_machine(one: Bound, *, kept: bool) -> None:
    assert one.kept is kept


def test_the_table_states_how_slow_the_machine_was() -> None:
    head, _, row = table([bound(2.9, slowness=1.5)]).splitlines()

    assert head.endswith("| machine |")
    assert row.endswith("| x1.50 |")
    assert "| kept |" in row


def test_a_machine_is_never_faster_than_the_reference_and_excuses_at_most_twice() -> None:
    assert 1.0 <= slowness() <= MOST
