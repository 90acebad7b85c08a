"""The probes over real sockets, against the simulated engine: a hop that buffers, reports that lie, and addresses that refuse.

Engine, hop and probes share one loop, so that a machine that stands still delays all of them together.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.verify import verify_run
from sidecar.commands.verify.arrivals import Arrival, pattern
from sidecar.commands.verify.probe_shapes import VERIFY_PROBES
from sidecar.commands.verify.verify_findings import Evidence, Found, State, findings
from sidecar.commands.verify.verify_run import UnverifiableError, places_of, verified
from tests.commands.verify.quick_engine import QUICK
from tests.support.ports import free_port
from tests.support.road import road_to


SLOWER = replace(QUICK, costs=replace(QUICK.costs, step_seconds=0.004))
"""Its streams show how they arrive on a busy machine too."""
FEW = (
    "chat-warm-up",
    "chat-short-1",
    "chat-short-64",
    "chat-medium-64",
    "chat-gzip-64",
    "chat-last-64",
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of the probes: a second."""
    monkeypatch.setattr(verify_run, "VERIFY_PROBES", [probe for probe in VERIFY_PROBES if probe.name in FEW])


@asynccontextmanager
async def serving(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Hop:
    """A gateway that collects each answer before it sends it. It counts what is in it at once."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.inside = self.most = 0
        self.asked: list[tuple[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.asked.append((request.path, request.headers.get("x-llm-phase-sidecar-verify", "")))
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(request.method, self.behind + request.path, data=await request.read()) as answer,
            ):
                headers = {"Server": "planted-hop/1.0", "Content-Type": answer.headers["Content-Type"]}
                return web.Response(status=answer.status, body=await answer.read(), headers=headers)
        finally:
            self.inside -= 1


def told(evidence: Evidence) -> dict[str, Found]:
    return {found.name: found for found in findings(evidence)}


@pytest.mark.long
@pytest.mark.usefixtures("few")
def test_a_buffering_hop_is_pointed_at_by_name_and_never_has_two_probes() -> None:
    async def scenario() -> tuple[Evidence, Hop]:
        async with SimulatedEngine(SLOWER) as engine:
            hop = Hop(engine.url)
            async with serving(hop.handle) as entry:
                evidence, _ = await verified(places_of({"engine.url": engine.url, "entry.url": f"{entry}/v1"}, {}))
                return evidence, hop

    evidence, hop = asyncio.run(scenario())
    seen = told(evidence)

    assert [one.name for one in evidence.engine] == [one.name for one in evidence.entry] == list(FEW)
    assert pattern([(one.name, one.answer) for one in evidence.engine]).arrival is Arrival.AS_MADE
    assert seen["entry-streams"].state is State.DIFFERS
    assert "it names itself server: planted-hop/1.0" in seen["entry-streams"].do
    assert (hop.most, {mark for path, mark in hop.asked if path != "/v1/models"}) == (1, {"1"})


@pytest.mark.usefixtures("few")
def test_probes_through_a_sidecar_count_in_no_lane() -> None:
    """The sidecar on the way recognises them: all pass, none has an account, and the client sees the engine's own stream."""

    async def scenario() -> tuple[Evidence, float, int]:
        async with SimulatedEngine(QUICK) as engine, road_to(engine.url, ["quick-model"]) as sidecar:
            evidence, _ = await verified(places_of({"entry.url": f"http://127.0.0.1:{sidecar.port}"}, {}))
            return evidence, sidecar.total("llm_sidecar_verify_probes_total", result="apart"), len(sidecar.accounts)

    evidence, apart, accounts = asyncio.run(scenario())

    assert [one.answer.failure for one in evidence.entry] == [""] * len(FEW)
    assert (apart, accounts) == (len(FEW), 0)


@pytest.mark.usefixtures("few")
def test_an_engine_whose_reports_are_wrong_is_pointed_at() -> None:
    """Its answers state a hundred times the truth."""

    async def scenario(factor: float) -> Evidence:
        async with SimulatedEngine(QUICK) as engine:
            engine.report_factor = factor
            return (await verified(places_of({"engine.url": engine.url}, {})))[0]

    honest, wrong = (told(asyncio.run(scenario(factor))) for factor in (1.0, 100.0))

    assert [name for name, found in honest.items() if found.state is State.DIFFERS] == []
    assert {name for name, found in wrong.items() if found.state is State.DIFFERS} == {"report"}


@pytest.mark.long
def test_all_are_sent_and_the_engine_ran_none_beside_another() -> None:
    running: list[int] = []

    async def scenario() -> Evidence:
        async with SimulatedEngine(QUICK) as engine:
            names: list[str] = []

            def tell(name: str) -> None:
                names.append(name)
                running.append(len(engine.simulation.running) + len(engine.simulation.waiting))

            evidence, identity = await verified(places_of({"engine.url": engine.url}, {}), tell)
            assert (names, identity.version) == ([probe.name for probe in VERIFY_PROBES], "0.33.0")
            return evidence

    evidence = asyncio.run(scenario())

    assert running == [0] * len(VERIFY_PROBES)
    assert [one.answer.failure for one in evidence.engine] == [""] * len(VERIFY_PROBES)
    assert max(one.answer.tokens or 0 for one in evidence.engine) == 64


async def refuse_without_key(request: web.Request) -> web.StreamResponse:
    if request.headers.get("Authorization") == "Bearer right":
        return web.json_response({"data": [{"id": "big"}, {"id": "small"}]})
    return web.json_response({"error": "no key"}, status=401)


def test_all_that_is_wrong_with_both_addresses_is_told_at_once_with_what_to_do() -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"

    async def scenario(keys: dict[str, str], model: str = "") -> list[str]:
        async with serving(refuse_without_key) as entry:
            flags = {"engine.url": nowhere, "entry.url": entry, **({"model": model} if model else {})}
            with pytest.raises(UnverifiableError) as refused:
                await verified(places_of(flags, keys))
            return [str(error).replace(entry, "ENTRY") for error in refused.value.args]

    first, second = asyncio.run(scenario({}))
    assert (
        first
        == f"--engine.url: {nowhere}/v1/models cannot be asked: nothing listens there; does it run, and is the port right?"
    )
    assert second == (
        "--entry.url: ENTRY/v1/models asks for an API key (401): put it into a file and name that by --entry.api-key-file,"
        " or into the variable SIDECAR_VERIFY_ENTRY_API_KEY"
    )
    assert "refuses the API key that was given (401)" in asyncio.run(scenario({"entry": "wrong"}))[1]
    assert asyncio.run(scenario({"entry": "right"}, "huge"))[1] == (
        "--entry.url: ENTRY/v1/models has no model 'huge'; it lists big, small: choose by --entry.model"
    )


def test_the_entry_is_asked_for_the_engines_model_unless_it_has_another_name_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_run, "VERIFY_PROBES", [])

    async def scenario(**names: str) -> list[str]:
        async def engine(_request: web.Request) -> web.StreamResponse:
            return web.json_response({"data": [{"id": "tiny"}, {"id": "big"}]})

        async def gateway(_request: web.Request) -> web.StreamResponse:
            return web.json_response({"data": [{"id": "big"}, {"id": "acme/tiny"}]})

        async with serving(engine) as own, serving(gateway) as entry:
            flags = {
                "engine.url": own,
                "entry.url": entry,
                **{name.replace("_", "."): text for name, text in names.items()},
            }
            places = places_of(flags, {})
            try:
                await verified(places)
            except UnverifiableError as refused:
                return [str(refused).replace(entry, "ENTRY")]
            return [place.model for place in places]

    assert asyncio.run(scenario()) == [
        "--entry.url: ENTRY/v1/models has no model 'tiny'; it lists big, acme/tiny: choose by --entry.model"
    ]
    assert asyncio.run(scenario(entry_model="acme/tiny")) == ["tiny", "acme/tiny"]
    assert asyncio.run(scenario(model="big")) == ["big", "big"]


def test_a_server_without_the_path_or_the_model_ends_the_run_at_its_first_probe() -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "tiny", "owned_by": "vllm"}]})
        return web.json_response({"error": {"message": "not here"}}, status=404)

    async def scenario() -> str:
        async with serving(handle) as entry:
            with pytest.raises(UnverifiableError) as refused:
                await verified(places_of({"entry.url": entry}, {}))
            return str(refused.value)

    said = asyncio.run(scenario())

    assert "answers 404" in said
    assert "is it the address below which /v1 stands, and the model 'tiny' one that it serves (--entry.model)?" in said
    assert asked.count("/v1/chat/completions") == 1


@pytest.mark.usefixtures("few")
def test_a_server_that_fails_again_and_again_is_not_asked_for_all() -> None:
    posts = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal posts
        if request.method == "GET":
            return web.json_response({"data": [{"id": "tiny"}]})
        posts += 1
        return web.Response(status=503, text="busy")

    async def scenario() -> Evidence:
        async with serving(handle) as entry:
            return (await verified(places_of({"entry.url": entry}, {})))[0]

    seen = told(asyncio.run(scenario()))

    assert posts == verify_run.IN_A_ROW == 3
    assert "answers 503: busy" in seen["entry-answers"].said
