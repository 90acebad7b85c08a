"""An incident changes the engine and the clients, and its end restores both."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sidecar.classify.trace import TraceContext, trace_context
from sidecar.commands.demo import stage as stage_module
from sidecar.commands.demo.demo import CONFIG
from sidecar.commands.demo.event_log import EventLog
from sidecar.commands.demo.incidents import Act, Incident
from sidecar.commands.demo.load import LANE_HEADER, MIXED, Load
from sidecar.commands.demo.pager import Pager
from sidecar.commands.demo.stage import Stage
from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.physics import Knobs
from sidecar.commands.simulator.replica_presets import SMALL_CHAT
from sidecar.config.quick_yaml import read_yaml


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

    assert asyncio.run(scenario()) == ["", "INCIDENT queue: three slots; at most 0 s more", "slots 3", "slots None"]


@pytest.mark.long
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


def test_most_of_an_answer_waits_for_a_slow_client() -> None:
    """The client has read once and pauses. Less than a quarter of an answer fits into all buffers before it, so that short answers
    are slow too. The server has the send buffer of the demo's sidecar, and sends tokens until nothing more goes out.
    """
    config = read_yaml(CONFIG.read_text())
    token = b"e0\r\n" + b"x" * 0xE0 + b"\r\n"

    async def scenario() -> int:
        loop, listener = asyncio.get_running_loop(), socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        load = Load(f"http://127.0.0.1:{listener.getsockname()[1]}", "m", 1000.0)
        load.bytes_per_second = 0.01
        running = asyncio.create_task(load.run())
        server, _ = await loop.sock_accept(listener)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config["proxy"]["client_buffer_bytes"])
        server.setblocking(False)
        await loop.sock_sendall(server, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent_bytes = turns_in_vain = 0
        while turns_in_vain < 1000:
            try:
                sent_bytes += server.send(token)
                turns_in_vain = 0
            except BlockingIOError:
                turns_in_vain += 1
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        server.close()
        listener.close()
        return sent_bytes // len(token)

    chat = MIXED.shapes[0]
    assert 0 < asyncio.run(scenario()) < chat.output_tokens / 4


def body(status: str, phase: str = "queue") -> dict[str, Any]:
    """A webhook's body: one page, which fires or is resolved."""
    labels = {"alertname": "LLMQueueBurn", "severity": "page", "phase": phase}
    alert = {"status": status, "labels": labels, "annotations": {}, "fingerprint": phase}
    return {"receiver": f"{phase}-page", "status": status, "alerts": [alert]}


def test_a_fault_is_healed_after_its_page_and_the_next_waits_until_that_is_resolved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a page of its phase the first fault would last for an hour, and the second begin at once after it."""
    monkeypatch.setattr(stage_module, "LOOKS_EVERY_SECONDS", 0.001)
    incident, written = Incident("queue", "", {"slots": 3}), tmp_path / "events"

    def events() -> list[str]:
        return [json.loads(line)["event"] for line in written.read_text().splitlines()]

    async def scenario() -> list[list[str]]:
        async with SimulatedEngine(SMALL_CHAT) as engine:
            with EventLog(str(written), lambda: 0.0) as log:
                pager = Pager()
                stage = Stage(engine, Load(engine.url, engine.model, 1.0), log, pager, look_seconds=0.0)
                acts = [Act(3600.0, incident, incident), Act(0.0, None, incident), Act(0.0, incident, incident)]
                playing = asyncio.create_task(stage.play(acts))
                while not events():  # noqa: ASYNC110  a file is no asyncio object
                    await asyncio.sleep(0.001)
                pager.hear(body("firing", "decode"), 1.0)
                pager.hear(body("resolved", "decode"), 1.0)
                seen = [events()]
                pager.hear(body("firing"), 1.0)
                while len(events()) < 2:  # noqa: ASYNC110  as above
                    await asyncio.sleep(0.001)
                seen.append(events())
                pager.hear(body("resolved"), 2.0)
                await playing
                return [*seen, events()]

    assert asyncio.run(scenario()) == [["fault"], ["fault", "heal"], ["fault", "heal", "fault", "heal"]]


def test_each_request_names_its_lane_and_carries_a_trace_of_its_own() -> None:
    """As a traced client sends it: well formed, sampled, and no two requests are of one trace."""

    async def scenario() -> list[tuple[str, TraceContext | None]]:
        seen = list[tuple[str, TraceContext | None]]()

        async def answer(request: web.Request) -> web.Response:
            fields = [(name.encode(), value.encode()) for name, value in request.headers.items()]
            seen.append((request.headers[LANE_HEADER], trace_context(fields)))
            return web.Response()

        app = web.Application()
        app.add_routes([web.post("/v1/chat/completions", answer)])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        load = Load(f"http://127.0.0.1:{runner.addresses[0][1]}", "small", 200.0)
        running = asyncio.create_task(load.run())
        while load.answered < 20:  # noqa: ASYNC110  a count is no asyncio object
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await runner.cleanup()
        return seen

    seen = asyncio.run(scenario())

    assert {lane for lane, _ in seen} <= {shape.lane for shape in MIXED.shapes}
    assert [context for _, context in seen if context is None or not context.sampled] == []
    assert len({context.trace_id for _, context in seen if context is not None}) == len(seen)
