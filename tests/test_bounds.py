"""A bound: the figure that is compared with it, and when it counts as broken."""

import asyncio

import pytest

from bench.bounds import __main__ as bounds
from bench.bounds.__main__ import MOST_TIMES
from bench.bounds.added_latency import limit_ms
from bench.bounds.bound import Bound, longest_step, table
from bench.bounds.plain_relay import running_plain_relay
from bench.origin import Reader, running_origin


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


def test_a_step_counts_at_its_quickest() -> None:
    """Another machine delays the third step in the first round only: that does not count."""
    assert longest_step([[0.1, 0.4, 9.0], [0.2, 0.5, 0.1], [0.1, 0.4, 0.3]]) == 0.4
    assert longest_step([]) == 0.0


def test_rounds_of_different_work_are_not_compared() -> None:
    with pytest.raises(ValueError, match="longer"):
        longest_step([[0.1], [0.1, 0.2]])


@pytest.mark.parametrize(
    ("plain_ms", "limit"),
    [
        pytest.param(0.9, 2.0, id="a usual machine: the bound"),
        pytest.param(2.5, 2.5, id="a slow machine: what the relay adds"),
        pytest.param(40.0, 6.0, id="a relay with a fault: three times the bound"),
    ],
)
def test_the_limit_of_added_latency_follows_a_slow_machine_so_far(plain_ms: float, limit: float) -> None:
    assert limit_ms(2.0, plain_ms) == limit


def test_the_relay_that_the_sidecar_is_compared_with_passes_all_events() -> None:
    async def story() -> None:
        async with running_origin() as origin:
            relaying = running_plain_relay(origin.port)
            reader = await Reader.open(await asyncio.to_thread(relaying.__enter__))
            try:
                await reader.ask("15 events 0.004 seconds")
                assert reader.events == 15
            finally:
                await asyncio.to_thread(relaying.__exit__, None, None, None)

    asyncio.run(story())
