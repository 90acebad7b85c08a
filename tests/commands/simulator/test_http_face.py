# ruff: noqa: ARG001  every test gets an engine and a client, needed or not
"""The simulated engine on a real socket answers as vLLM does, in vLLM's order, and notices clients that leave."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from sidecar.commands.simulator.http_face import SimulatedEngine
from sidecar.commands.simulator.physics import Costs, Limits
from sidecar.commands.simulator.replica_presets import Preset
from sidecar.commands.simulator.simulation import Simulation
from sidecar.commands.simulator.workload import Shape, Workload


QUICK = Preset(
    name="quick",
    model="quick-model",
    quantization="none",
    gpu_type="none",
    limits=Limits(max_num_seqs=2, max_num_batched_tokens=512, max_model_len=2048, kv_blocks=512),
    costs=Costs(
        step_seconds=0.003, per_prompt_token_seconds=1e-4, front_end_request_seconds=0.002, delivery_seconds=0.001
    ),
    reference_load=Workload((Shape(1, 100, 20),)),
)

Scenario = Callable[[SimulatedEngine, aiohttp.ClientSession], Awaitable[None]]


def play(scenario: Scenario, **options: Any) -> None:
    async def run() -> None:
        async with SimulatedEngine(QUICK, **options) as engine, aiohttp.ClientSession(engine.url) as client:
            await asyncio.wait_for(scenario(engine, client), 20)

    asyncio.run(run())


def chat(prompt_bytes: int = 400, **fields: object) -> dict[str, object]:
    return {"model": "quick-model", "messages": [{"role": "user", "content": "x" * prompt_bytes}], **fields}


async def events_of(response: aiohttp.ClientResponse) -> list[Any]:
    """Data of each event; [DONE] as that string."""
    text = (await response.read()).decode()
    datas = [event.removeprefix("data: ") for event in text.split("\n\n") if event]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  the simulation's state is no asyncio object
        await asyncio.sleep(0.002)


def fewer_than(replica: Simulation, requests: int) -> bool:
    return len(replica.running) + len(replica.waiting) < requests


def sample(page: str, name: str) -> float:
    for family in text_string_to_metric_families(page):
        for found in family.samples:
            if found.name == name:
                return found.value
    raise AssertionError(name)


def test_a_stream_is_a_role_one_chunk_a_token_usage_with_metrics_and_done() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        body = chat(stream=True, max_tokens=5, stream_options={"include_usage": True})
        async with client.post("/v1/chat/completions", json=body, headers={"X-Request-Id": "abc"}) as response:
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            events = await events_of(response)

        assert len(events) == 1 + 5 + 1 + 1
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert all(event["choices"][0]["delta"]["content"] for event in events[1:6])
        assert [event["choices"][0]["finish_reason"] for event in events[1:6]] == [None] * 4 + ["length"]
        assert {event["id"] for event in events[:-1]} == {"chatcmpl-abc"}
        assert events[6]["usage"]["completion_tokens"] == 5
        assert events[6]["metrics"]["generation_time_ms"] == pytest.approx(4 * 3)
        assert events[6]["metrics"]["time_to_first_token_ms"] > 3
        assert events[7] == "[DONE]"

    play(scenario)


def test_a_client_that_did_not_ask_gets_no_usage_chunk() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        async with client.post("/v1/chat/completions", json=chat(stream=True, max_tokens=2)) as response:
            events = await events_of(response)

        assert len(events) == 4
        assert not any("usage" in event for event in events)

    play(scenario)


@pytest.mark.parametrize("reports", [True, False])
def test_a_whole_answer_carries_metrics_where_the_flag_is_set(reports: bool) -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        body = {"prompt": "x" * 40, "max_tokens": 3}
        async with client.post("/v1/completions", json=body) as response:
            answer = await response.json()

        assert answer["object"] == "text_completion"
        assert answer["usage"]["total_tokens"] == 13
        assert ("metrics" in answer) == reports

    play(scenario, per_request_metrics=reports)


def test_headers_come_before_the_first_token_exists() -> None:
    """A time to first byte is no TTFT: with no slot at all, the head comes and no byte of the body."""

    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        engine.adjust(slots=0)
        async with client.post("/v1/chat/completions", json=chat(stream=True, max_tokens=2)) as response:
            assert response.status == 200
            await until(lambda: len(engine.simulation.waiting) == 1)
            assert engine.simulation.totals.generation_tokens == 0

            engine.adjust(slots=2)
            assert len(await events_of(response)) == 4

    play(scenario)


def test_a_client_that_leaves_frees_its_slot_in_every_phase() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        replica = engine.simulation
        body = chat(stream=True, max_tokens=1500)
        decoding = await client.post("/v1/chat/completions", json=body)
        await decoding.content.readany()
        prefilling = await client.post("/v1/chat/completions", json=chat(prompt_bytes=6000, stream=True, max_tokens=2))
        queued = await client.post("/v1/chat/completions", json=body)
        whole = asyncio.create_task(client.post("/v1/chat/completions", json=chat(max_tokens=1500)))
        await until(lambda: len(replica.running) == 2 and len(replica.waiting) == 2)

        for response in (queued, prefilling, decoding):
            present = len(replica.running) + len(replica.waiting)
            response.close()
            await until(partial(fewer_than, replica, present))
        whole.cancel()
        await until(lambda: replica.totals.aborted == 4)

        assert (len(replica.running), len(replica.waiting), replica.pool.used) == (0, 0, 0)

    play(scenario)


def test_the_report_in_the_stream_is_the_simulations_own_truth() -> None:
    """Eight clients on two slots cause real queues. The report in the stream equals the simulation's own phases."""

    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        async def ask() -> dict[str, float]:
            body = chat(stream=True, max_tokens=10, stream_options={"include_usage": True})
            async with client.post("/v1/chat/completions", json=body) as response:
                metrics: dict[str, float] = (await events_of(response))[-2]["metrics"]
                return metrics

        reports = await asyncio.gather(*(ask() for _ in range(8)))
        async with client.get("/metrics") as response:
            page = await response.text()

        queued = sum(report["queue_time_ms"] for report in reports) / 1e3
        prefilled = sum(report["time_to_first_token_ms"] for report in reports) / 1e3
        decoded = sum(report["generation_time_ms"] for report in reports) / 1e3
        assert queued > 0.1
        assert sample(page, "vllm:request_queue_time_seconds_sum") == pytest.approx(queued)
        assert sample(page, "vllm:request_prefill_time_seconds_sum") == pytest.approx(prefilled)
        assert sample(page, "vllm:request_decode_time_seconds_sum") == pytest.approx(decoded)
        assert sample(page, "vllm:e2e_request_latency_seconds_count") == 8
        assert sample(page, "vllm:generation_tokens_total") == 80
        assert sample(page, "vllm:request_success_total") == 8
        assert sample(page, "vllm:num_requests_running") == 0

    play(scenario)


def test_an_engine_can_be_made_to_lie() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        engine.report_factor = 1000.0
        async with client.post("/v1/completions", json={"prompt": "x", "max_tokens": 3}) as response:
            answer = await response.json()

        assert answer["metrics"]["generation_time_ms"] == pytest.approx(2 * 3 * 1000)

    play(scenario)


def test_a_shared_prefix_hits_the_cache() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        usages = []
        for ending in ("one", "two"):
            async with client.post("/v1/completions", json={"prompt": "x" * 640 + ending, "max_tokens": 1}) as response:
                usages.append((await response.json())["usage"]["prompt_tokens_details"]["cached_tokens"])

        assert usages == [0, 160]

    play(scenario)


def test_lengths_are_drawn_unless_the_client_says() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        answers = []
        for _ in range(5):
            async with client.post("/v1/completions", json={"prompt": "x"}) as response:
                answers.append(await response.json())

        lengths = [answer["usage"]["completion_tokens"] for answer in answers]
        assert len(set(lengths)) > 1
        assert {answer["choices"][0]["finish_reason"] for answer in answers} == {"stop"}

    play(scenario)


def test_what_vllm_refuses_is_refused_with_its_status() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        refusals = []
        bodies: list[dict[str, object]] = [
            {"prompt": "x", "model": "other"},
            {"prompt": "x", "max_tokens": 5000},
            {"prompt": ["x", "y"]},
        ]
        for body in bodies:
            async with client.post("/v1/completions", json=body) as response:
                refusals.append((response.status, (await response.json())["error"]["code"]))

        assert refusals == [(404, 404), (400, 400), (400, 400)]
        assert engine.simulation.totals.finished == 0

    play(scenario)


def test_it_introduces_itself_as_vllm() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        async with client.get("/v1/models") as response:
            card = (await response.json())["data"][0]
        async with client.get("/version") as response:
            version = (await response.json())["version"]
        async with client.get("/health") as response:
            health = (response.status, await response.read())

        assert (card["id"], card["owned_by"], card["max_model_len"]) == ("mine", "vllm", 2048)
        assert version == "0.33.0"
        assert health == (200, b"")

    play(scenario, model="mine")


def test_its_page_is_a_well_formed_exposition_with_cumulative_buckets() -> None:
    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        async with client.post("/v1/completions", json={"prompt": "x", "max_tokens": 2}) as response:
            await response.read()
        async with client.get("/metrics") as response:
            page = await response.text()

        families = {family.name: family for family in text_string_to_metric_families(page)}
        histogram = families["vllm:time_to_first_token_seconds"]
        buckets = [found.value for found in histogram.samples if found.name.endswith("_bucket")]
        assert buckets[-1] == 1
        assert all(lower <= higher for lower, higher in pairwise(buckets))
        assert {"vllm:num_preemptions", "vllm:prefix_cache_hits", "vllm:kv_cache_usage_perc"} <= families.keys()

    play(scenario)


def test_who_leaves_between_two_writes_is_no_error_of_the_engines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine logs no error for a client that leaves; otherwise the demo would end with a traceback."""

    async def gone(response: web.StreamResponse, _data: bytes) -> None:
        assert response._req is not None
        assert response._req.transport is not None
        response._req.transport.close()
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(web.StreamResponse, "write", gone)

    async def scenario(engine: SimulatedEngine, client: aiohttp.ClientSession) -> None:
        with suppress(aiohttp.ClientError):
            async with client.post(
                "/v1/completions", json={"prompt": "x", "max_tokens": 50, "stream": True}
            ) as response:
                await response.read()
        await until(lambda: engine.simulation.totals.aborted == 1)

    play(scenario)
    assert [record.getMessage() for record in caplog.records] == []
