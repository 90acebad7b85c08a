"""An incident changes the engine and the clients, and its end restores both."""

import asyncio

import aiohttp

from sidecar.demo.incidents import Act, Incident
from sidecar.demo.load import Load
from sidecar.demo.stage import Stage
from sidecar.simulator.http_face import SimulatedEngine
from sidecar.simulator.physics import Knobs
from sidecar.simulator.replica_presets import SMALL_CHAT


async def answers(url: str) -> bool:
    try:
        async with aiohttp.ClientSession(url) as client, client.get("/health") as answer:
            return answer.status == 200
    except aiohttp.ClientConnectionError:
        return False


def test_knobs_and_clients_are_as_before_when_it_is_over() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(SMALL_CHAT) as engine:
            load = Load(engine.url, engine.model, 1.0)
            stage, incident = Stage(engine, load), Incident("queue", "", {"slots": 3}, bytes_per_second=100)

            await stage.begin(incident)
            assert (engine.simulation.knobs.slots, load.bytes_per_second) == (3, 100)

            await stage.end(incident)
            assert (engine.simulation.knobs, load.bytes_per_second) == (Knobs(), None)

    asyncio.run(scenario())


def test_a_crashed_engine_cuts_its_streams_refuses_and_comes_back_as_another() -> None:
    async def scenario() -> None:
        async with SimulatedEngine(SMALL_CHAT) as engine, aiohttp.ClientSession(engine.url) as client:
            stage, crash = Stage(engine, Load(engine.url, engine.model, 1.0)), Incident("engine", "", down=True)
            async with client.post(
                "/v1/completions", json={"prompt": "x", "max_tokens": 2_000, "ignore_eos": True, "stream": True}
            ) as stream:
                await stream.content.readany()
                await stage.begin(crash)
                try:
                    read = await stream.read()
                except aiohttp.ClientError:
                    read = b""
            assert b"[DONE]" not in read
            assert not await answers(engine.url)

            url = engine.url
            await stage.end(crash)
            assert (engine.url, await answers(url)) == (url, True)
            assert engine.simulation.totals.generation_tokens == 0

    asyncio.run(scenario())


def test_acts_are_played_in_turn_and_said_aloud() -> None:
    async def scenario() -> list[str]:
        async with SimulatedEngine(SMALL_CHAT) as engine:
            stage = Stage(engine, Load(engine.url, engine.model, 1.0))
            said = [stage.now_playing()]
            incident = Incident("queue", "three slots", {"slots": 3})

            class Watched(Stage):
                async def begin(self, incident: Incident) -> None:
                    said.append(self.now_playing())
                    await super().begin(incident)

                async def end(self, incident: Incident) -> None:
                    said.append(f"slots {engine.simulation.knobs.slots}")
                    await super().end(incident)

            await Watched(engine, Load(engine.url, engine.model, 1.0)).play(
                [Act(0.0, None, incident), Act(0.01, incident, incident)]
            )
            return [*said, f"slots {engine.simulation.knobs.slots}"]

    assert asyncio.run(scenario()) == ["", "INCIDENT queue: three slots; 0 s more", "slots 3", "slots None"]


def test_a_slow_client_is_still_reading_when_a_fast_one_has_everything() -> None:
    """The slow client has no whole answer when the fast one has. `tests/test_pages.py` shows that its buffers are small
    enough for a page."""

    async def scenario() -> tuple[int, int]:
        async with SimulatedEngine(SMALL_CHAT) as engine:
            slow, fast = (Load(engine.url, engine.model, 30.0, seed=seed) for seed in (1, 1))
            slow.bytes_per_second = 10.0
            loads = [asyncio.create_task(load.run()) for load in (slow, fast)]
            while not fast.answered:  # noqa: ASYNC110  a count is no asyncio object
                await asyncio.sleep(0.05)
            for load in loads:
                load.cancel()
            await asyncio.gather(*loads, return_exceptions=True)
            return slow.answered, slow.failed

    assert asyncio.run(scenario()) == (0, 0)
