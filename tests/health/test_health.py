"""`/-/healthy` fails for a lost listener and for nothing else; the loop that shows its turns also looks at the engine."""

import asyncio

import pytest

from sidecar.health import health as module
from sidecar.health.health import Health
from sidecar.health.watchdog import Watchdog
from sidecar.metrics.catalogue import EVENT_LOOP_CHECKS_TOTAL, EVENT_LOOP_LAG_SECONDS
from sidecar.metrics.registry import Metrics
from tests.support.memory import Clock
from tests.support.scenario_loop import play


REAL_SLEEP = asyncio.sleep


async def one_turn(_seconds: float) -> None:
    await REAL_SLEEP(0)


def test_a_process_is_healthy_unless_its_listener_is_lost() -> None:
    lost = False
    health = Health(lambda: lost, lambda: None)
    before = health.healthy()
    lost = True

    assert (before, health.healthy()) == ((True, "healthy"), (False, "the traffic listener's socket is lost"))


def test_a_loop_that_turns_shows_it_and_looks_at_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog was told of as many turns as there were looks."""
    monkeypatch.setattr(module, "TURN_SECONDS", 0.0)
    watchdog, looks = Watchdog(Clock()), 0

    async def scenario() -> None:
        nonlocal looks
        seen = asyncio.Event()

        def look() -> None:
            nonlocal looks
            looks += 1
            if looks == 3:
                seen.set()

        running = asyncio.create_task(Health(lambda: False, look, watchdog).run())
        await seen.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(scenario())

    assert (looks, watchdog.turns) == (3, 3)


def test_the_lag_of_the_loop_is_measured_from_the_instant_at_which_its_timer_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clock that jumps by 2 s at each look at it: a timer that is due after 0.25 s fires 1.75 s late."""
    metrics, clock = Metrics(lanes=["chat"], prompt_buckets=["0-512"]), Clock()
    monkeypatch.setattr(asyncio, "sleep", one_turn)

    async def scenario() -> None:
        measuring = asyncio.create_task(module.measure_lag(lambda: clock.later(2.0), metrics))
        lag = metrics.histogram(EVENT_LOOP_LAG_SECONDS)
        while not lag.child().count:
            await one_turn(0.0)
        measuring.cancel()
        await asyncio.gather(measuring, return_exceptions=True)

    play(scenario())
    lag = metrics.histogram(EVENT_LOOP_LAG_SECONDS).child()

    assert lag.sum / lag.count == 1.75


def test_a_timer_is_late_above_50_ms_and_very_late_above_250_ms() -> None:
    """The counter that alerts read, beside the histogram: each lag is in one result, the limit itself in the better one."""
    metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
    taken = module.lags_of(metrics)

    for seconds in (0.0, 0.05, 0.051, 0.25, 0.251, 9.0, 12.0):
        taken(seconds)

    checks = metrics.counter(EVENT_LOOP_CHECKS_TOTAL).children
    assert {result: child.value for (result,), child in checks.items()} == {"in_time": 2, "late": 2, "very_late": 3}
    assert metrics.histogram(EVENT_LOOP_LAG_SECONDS).child().count == 7
