"""A request that finds no engine makes the next health check due at once: what a page says is not behind what clients see.

Between two checks an hour passes here, so that each check but the first is one that a request made due.
"""

import asyncio

import pytest

from sidecar.engines.probe import probe
from tests.engines.probe.prober import VLLM_MODELS, ProberHarness, Replaced, engine_answering, until


def test_a_request_that_found_no_engine_has_the_health_asked_at_once_and_a_flood_of_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "INTERVAL_SECONDS", 3_600.0)
    engine = Replaced({"/v1/models": VLLM_MODELS})

    async def scenario() -> tuple[bool | None, int]:
        async with engine_answering(engine.answer) as url:
            harness = ProberHarness(url)
            asks = asyncio.create_task(harness.prober.run())
            await until(lambda: harness.engine.kind == "vllm")
            engine.pages = {}
            harness.prober.not_reached()
            await until(lambda: harness.engine.up is False)
            engine.pages = {"/v1/models": VLLM_MODELS}
            harness.engine.up = True  # an engine that answers checks and refuses requests
            for _ in range(100):
                harness.prober.not_reached()
                await asyncio.sleep(0.001)
            asks.cancel()
            return harness.engine.up, engine.asked["/health"]

    assert asyncio.run(scenario()) == (True, 2)


def test_an_engine_that_is_known_to_be_down_is_not_asked_more_often_for_the_requests_that_miss_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "INTERVAL_SECONDS", 3_600.0)
    engine = Replaced({})

    async def scenario() -> int:
        async with engine_answering(engine.answer) as url:
            harness = ProberHarness(url)
            asks = asyncio.create_task(harness.prober.run())
            await until(lambda: harness.engine.up is False)
            for _ in range(100):
                harness.prober.not_reached()
                await asyncio.sleep(0.001)
            asks.cancel()
            return engine.asked["/health"]

    assert asyncio.run(scenario()) == 1
