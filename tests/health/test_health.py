"""`/-/healthy` fails for a lost listener and for nothing else; the loop that shows its turns also looks at the engine."""

import asyncio

import pytest

from sidecar.health import health as module
from sidecar.health.health import Health
from sidecar.health.watchdog import Watchdog
from tests.support.memory import Clock
from tests.support.scenario_loop import play


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
