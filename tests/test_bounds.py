"""A bound is the same on every machine; a slow one measures it more often before it counts as broken."""

import pytest

from bench.bounds import __main__ as bounds
from bench.bounds.__main__ import MOST_TIMES
from bench.bounds.bound import Bound, table


def bound(measured: float, *, slowness: float = 1.0) -> Bound:
    return Bound("a turn", 2.0, measured, "ms", "1 to 3 in 3 rounds", "nothing", slowness)


@pytest.mark.parametrize(("measured", "kept"), [(1.9, True), (2.0, True), (2.1, False)])
def test_a_slow_machine_excuses_nothing(measured: float, *, kept: bool) -> None:
    assert (bound(measured).kept, bound(measured, slowness=1.5).kept) == (kept, kept)


@pytest.mark.parametrize(
    ("rounds", "status", "times"),
    [
        pytest.param([(set(), True)], 0, 1, id="kept"),
        pytest.param([({"a"}, True), (set(), True)], 0, 2, id="noise"),
        pytest.param([({"a"}, True), ({"a", "b"}, True)], 1, 2, id="broken"),
        pytest.param([({"a"}, False), ({"a"}, False), (set(), False)], 0, 3, id="slow, then kept"),
        pytest.param([({"a"}, False)] * MOST_TIMES, 1, MOST_TIMES, id="slow, and broken each time"),
    ],
)
def test_a_bound_is_broken_if_it_is_so_twice_and_each_time_on_a_slow_machine(
    monkeypatch: pytest.MonkeyPatch, rounds: list[tuple[set[str], bool]], status: int, times: int
) -> None:
    reports = iter(rounds)
    monkeypatch.setattr(bounds, "report", lambda: next(reports))
    monkeypatch.setattr("gc.freeze", lambda: None)

    assert bounds.main() == status
    assert len(rounds) == times
    assert next(reports, None) is None


def test_the_table_states_how_slow_the_machine_was() -> None:
    head, _, row = table([bound(2.9, slowness=1.5)]).splitlines()

    assert head.endswith("| machine |")
    assert row.endswith("| x1.50 |")
    assert "| BROKEN |" in row
