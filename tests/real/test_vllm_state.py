"""A real vLLM's page of metrics has the names that the sidecar looks for; their values become the sidecar's gauges."""

import asyncio
import urllib.request

import aiohttp

from sidecar.engines.engine import Engine
from sidecar.engines.probe.scrape import MAX_PAGE_BYTES, StateProber, state_session
from sidecar.engines.probe.state import STEP_BYTES, EngineState, Growth, PageScan
from sidecar.engines.probe.state_names import Count
from sidecar.engines.vllm import VLLM
from tests.real.server import SLOTS, RunningEngine


CLIENTS = 3 * SLOTS
BY_REASON = Count.REQUESTS
"""The one count with several series in vLLM: one for each finish reason."""
STATED = VLLM.state.counts.keys() - {Count.DRAFT_TOKENS, Count.ACCEPTED_DRAFT_TOKENS}
"""The counts of a vLLM without a draft model. Those of drafts are then not on its page, and unknown is not zero."""


class Readings:
    """The results that the state prober reported, in order."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.states: list[EngineState] = []
        self.growths: list[Growth] = []

    def scraped(self, result: str) -> None:
        self.results.append(result)

    def read(self, state: EngineState, growth: Growth) -> None:
        self.states.append(state)
        self.growths.append(growth)

    def unknown(self) -> None:
        raise AssertionError("a vLLM that is up was not understood")


def test_every_name_that_is_looked_for_stands_on_the_page_of_a_real_vllm(vllm: RunningEngine) -> None:
    """Each name occurs once, on a page of less than a tenth of the size bound."""
    with urllib.request.urlopen(f"{vllm.url}/metrics", timeout=10) as answer:
        page = answer.read()
    scan = PageScan(VLLM.state)
    for at in range(0, len(page), STEP_BYTES):
        scan.feed(page[at : at + STEP_BYTES])
    state = scan.finish()

    assert state is not None
    assert None not in {
        state.requests_waiting,
        state.requests_running,
        state.kv_cache_usage_ratio,
        state.started_at_unix,
    }
    series = {count: len(each) for count, each in state.counters.items() if count is not BY_REASON}
    assert series == {count: 1 for count in STATED if count is not BY_REASON}
    assert any(b'finished_reason="length"' in labels for labels in state.counters[BY_REASON])
    assert len(page) < MAX_PAGE_BYTES / 10


def test_a_queue_in_a_real_vllm_is_seen_and_its_cache_is_counted(vllm: RunningEngine) -> None:
    """Three times as many clients as slots: all slots are full, the other requests wait, and no restart is reported."""
    engine, found = Engine("vllm"), Readings()
    engine.up = True
    prober = StateProber(vllm.url, engine, found)
    body = {"model": vllm.model, "prompt": "la to mi re nu ka " * 200, "max_tokens": 100, "ignore_eos": True}

    async def scenario() -> None:
        async with state_session() as session, aiohttp.ClientSession() as clients:
            await prober.probe(session)
            asked = [
                asyncio.create_task(_answered(clients, f"{vllm.url}/v1/completions", body)) for _ in range(CLIENTS)
            ]
            while not all(task.done() for task in asked):
                await prober.probe(session)
            await asyncio.gather(*asked)
            await prober.probe(session)

    asyncio.run(scenario())
    busiest = max(found.states, key=lambda state: (state.requests_running or 0.0, state.requests_waiting or 0.0))
    growth = {count: sum(reading.counters[count] for reading in found.growths) for count in STATED}
    queries, hits = growth[Count.PREFIX_CACHE_QUERIES], growth[Count.PREFIX_CACHE_HITS]

    assert set(found.results) == {"ok"}
    assert busiest.requests_running == SLOTS
    assert 0 < (busiest.requests_waiting or 0.0) <= CLIENTS - SLOTS
    assert 0 < (busiest.kv_cache_usage_ratio or 0.0) <= 1
    assert found.growths[0] == Growth(dict.fromkeys(STATED, 0.0))
    assert growth[Count.REQUESTS] == CLIENTS
    assert 0 < hits < queries
    assert not any(reading.restarted for reading in found.growths)


async def _answered(clients: aiohttp.ClientSession, url: str, body: dict[str, object]) -> None:
    async with clients.post(url, json=body) as answer:
        assert answer.status == 200
        await answer.read()
