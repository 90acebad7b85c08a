"""The prober recognises a real llama.cpp without its /metrics, and reads /metrics only where the config asks for it."""

import asyncio

import aiohttp

from sidecar.engines.engine import Engine
from sidecar.engines.llama_cpp import LlamaCpp
from sidecar.engines.probe.probe import Prober
from sidecar.engines.probe.scrape import StateProber, state_session
from sidecar.engines.probe.state import EngineState, Growth
from sidecar.lifecycle import Readiness
from tests.real.server import RunningEngine


class Readings:
    """The results that the state prober reported."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.states: list[EngineState] = []

    def scraped(self, result: str) -> None:
        self.results.append(result)

    def read(self, state: EngineState, _growth: Growth) -> None:
        self.states.append(state)

    def unknown(self) -> None: ...


def test_a_real_llama_cpp_says_what_it_is_without_a_read_of_its_metrics(llama_cpp: RunningEngine) -> None:
    """The prober's requests are recorded: /metrics is none of them."""
    engine, asked = Engine("auto"), []
    trace = aiohttp.TraceConfig()

    async def note(_session: object, _context: object, request: aiohttp.TraceRequestStartParams) -> None:
        asked.append(request.url.path)

    trace.on_request_start.append(note)

    async def scenario() -> None:
        prober = Prober(llama_cpp.url, engine, Readiness(), clock=lambda: 100.0, changed=lambda: None)
        async with aiohttp.ClientSession(trace_configs=[trace]) as session:
            await prober.ask(session)

    asyncio.run(scenario())
    assert (engine.kind, engine.models) == ("llama_cpp", (llama_cpp.model,))
    assert engine.version is not None
    assert engine.version.startswith("b")
    assert asked == ["/health", "/v1/models", "/props"]


def test_a_real_llama_cpp_is_read_where_the_config_says_so_and_only_there(llama_cpp: RunningEngine) -> None:
    """With the setting, the page is read: no request waits, none runs, and both prompt counts are present. Without it,
    nothing is read."""

    async def probe(found: Readings, *, wanted: bool) -> bool:
        engine = Engine("llama_cpp")
        engine.up = True
        async with state_session() as session:
            return await StateProber(llama_cpp.url, engine, found, may_reset=wanted).probe(session)

    unasked, found = Readings(), Readings()

    assert not asyncio.run(probe(unasked, wanted=False))
    assert unasked.results == []
    assert asyncio.run(probe(found, wanted=True))
    assert found.results == ["ok"]
    (state,) = found.states
    assert (state.requests_waiting, state.requests_running, state.kv_cache_usage_ratio) == (0.0, 0.0, None)
    assert set(state.counters) == set(LlamaCpp.state.counts)
