"""The bench of the canary's gate counts a worse canary, passes an equal one, and tells a bound that is missed."""

from bench.canary import (
    INNOCENT,
    LENGTHS,
    WORSE,
    Draws,
    counted,
    independent,
)


def test_a_doubled_rate_is_counted_and_an_equal_one_is_not() -> None:
    assert counted(Draws(6000, 6000, 0.05, 2), 10) == [10] * len(LENGTHS)
    assert counted(Draws(600, 600, 0.05), 10) == [0] * len(LENGTHS)


def test_a_bound_that_is_missed_is_told() -> None:
    """A gate that fails a tenth of all rollouts: the innocent rows are too many, the worse ones too few."""
    missed: list[str] = []
    rows = list(independent(100, lambda rows, _: [[10] * len(LENGTHS) for _ in rows], missed))[2:]

    assert missed == [row for row, draws in zip(rows, (*INNOCENT, *WORSE), strict=True) if draws not in WORSE[2:]]
