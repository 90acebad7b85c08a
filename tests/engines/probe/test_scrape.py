"""Scrapes of the engine's own page of metrics, and the handling of pages that hang, lie, break off or restart."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar.engines.engine import Engine
from sidecar.engines.probe.scrape import MAX_PAGE_BYTES, Scraped, StateProber, state_session
from sidecar.engines.probe.state import STEP_BYTES
from sidecar.metrics import catalogue as c
from sidecar.metrics.registry import Metrics
from sidecar.metrics.text_page import slices
from sidecar.observe.engine_state import EngineStateRecorder


if TYPE_CHECKING:
    from collections.abc import AsyncIterator


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def page(waiting: int = 3, preemptions: int = 100, started_at: float = 1000.0) -> bytes:
    return (
        b"process_start_time_seconds %f\n" % started_at
        + b'vllm:num_requests_waiting{engine="0"} %d\n' % waiting
        + b'vllm:num_requests_running{engine="0"} 4\n'
        + b'vllm:kv_cache_usage_perc{engine="0"} 0.5\n'
        + b'vllm:num_preemptions_total{engine="0"} %d\n' % preemptions
    )


class StateProberHarness:
    """A state prober of a tiny engine, and the page on which its findings are published."""

    def __init__(self, url: str, *, kind: str = "vllm", up: bool = True, may_reset: bool = False) -> None:
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
        self.engine = Engine(kind)
        self.engine.up = up
        self.restarts_told = 0
        self.prober = StateProber(
            url,
            self.engine,
            EngineStateRecorder(self.metrics),
            may_reset=may_reset,
            restarted=self._restarted,
        )

    def _restarted(self) -> None:
        self.restarts_told += 1

    async def probe(self, timeout_seconds: float = 4.0) -> bool:
        async with state_session(timeout_seconds) as session:
            return await self.prober.probe(session)

    @property
    def shown(self) -> dict[str, float]:
        """The `llm_engine_` samples on the page, without scrape results that are 0."""
        text = b"".join(slices(self.metrics, openmetrics=False, at=0.0)).decode()
        samples = [line.rpartition(" ") for line in text.splitlines() if line.startswith("llm_engine_")]
        found = {name.removeprefix("llm_engine_"): float(value) for name, _, value in samples}
        return {name: value for name, value in found.items() if value or "scrapes" not in name}


@asynccontextmanager
async def engine_answering(handler: Handler, path: str = "/metrics") -> "AsyncIterator[str]":
    app = web.Application()
    app.router.add_get(path, handler)
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


def test_a_known_vllm_tells_its_queue_and_its_cache() -> None:
    """The sidecar's counters begin at 0: what the engine had counted before is history."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=page())

    async def scenario() -> dict[str, float]:
        async with engine_answering(answer) as url:
            harness = StateProberHarness(url)
            assert await harness.probe()
            return harness.shown

    assert asyncio.run(scenario()) == {
        "requests_waiting": 3.0,
        "requests_running": 4.0,
        "kv_cache_usage_ratio": 0.5,
        "preemptions_total": 0.0,
        "restarts_total": 0.0,
        'scrapes_total{result="ok"}': 1.0,
    }


def test_counters_grow_by_what_the_engine_counts_and_survive_its_restart() -> None:
    pages = [page(preemptions=100), page(preemptions=104), page(preemptions=2, started_at=2000.0)]

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=pages.pop(0))

    async def scenario() -> list[tuple[float, float, int]]:
        async with engine_answering(answer) as url:
            harness = StateProberHarness(url)
            seen = []
            for _ in range(3):
                await harness.probe()
                seen.append(
                    (harness.shown["preemptions_total"], harness.shown["restarts_total"], harness.restarts_told)
                )
            return seen

    assert asyncio.run(scenario()) == [(0.0, 0.0, 0), (4.0, 0.0, 0), (6.0, 1.0, 1)]


@pytest.mark.parametrize(
    ("kind", "up"), [("auto", True), ("none", True), ("llama_cpp", True), ("ollama", True), ("vllm", False)]
)
def test_only_a_known_engine_that_is_up_is_asked(kind: str, up: bool) -> None:
    """A scrape resets llama.cpp's gauges for all its readers; a dead engine's front end shows its last state."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=page())

    async def scenario() -> dict[str, float]:
        async with engine_answering(answer) as url:
            harness = StateProberHarness(url, kind=kind, up=up)
            assert not await harness.probe()
            return harness.shown

    assert asyncio.run(scenario()) == {}
    assert asked == []


async def hang(_request: web.Request) -> web.Response:
    await asyncio.sleep(60)
    raise AssertionError("the scrape waited for 60 s")


async def hang_in_the_middle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(page())
    await asyncio.sleep(60)
    return response


async def fail(_request: web.Request) -> web.Response:
    return web.Response(status=500, body=page())


async def redirect(_request: web.Request) -> web.Response:
    raise web.HTTPFound("/elsewhere")


async def garbage(_request: web.Request) -> web.Response:
    return web.Response(body=bytes(range(256)) * 1000)


async def compressed(_request: web.Request) -> web.Response:
    response = web.Response(body=page())
    response.enable_compression(web.ContentCoding.gzip)
    response.headers["Content-Encoding"] = "gzip"
    return response


async def without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(page())
    assert request.transport is not None
    request.transport.close()
    return response


async def too_large(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(MAX_PAGE_BYTES // STEP_BYTES + 2):
        await response.write(b"# HELP ".ljust(STEP_BYTES - 1, b"x") + b"\n")
    await response.write(page())
    return response


async def nothing_yet(_request: web.Request) -> web.Response:
    return web.Response(body=b"")


async def only_other_names(_request: web.Request) -> web.Response:
    return web.Response(body=b"# HELP dynamo_component_uptime_seconds Uptime\ndynamo_component_uptime_seconds 3.5\n")


@pytest.mark.parametrize(
    ("handler", "result"),
    [
        (nothing_yet, Scraped.NO_NAMES),
        (only_other_names, Scraped.NO_NAMES),
        (hang, Scraped.TIMEOUT),
        (hang_in_the_middle, Scraped.TIMEOUT),
        (fail, Scraped.BAD_STATUS),
        (redirect, Scraped.BAD_STATUS),
        (garbage, Scraped.UNREADABLE),
        (compressed, Scraped.UNREADABLE),
        (without_end, Scraped.UNREADABLE),
        (too_large, Scraped.TOO_LARGE),
    ],
    ids=lambda value: value.__name__ if callable(value) else value.value,
)
def test_an_answer_that_is_no_page_takes_the_gauges_off_and_is_counted(handler: Handler, result: Scraped) -> None:
    """The counters keep their values. A state that cannot be confirmed is unknown, and not the previous one."""
    answers: list[Handler] = []

    async def good(_request: web.Request) -> web.Response:
        return web.Response(body=page())

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answers.pop(0)(request)

    async def scenario() -> dict[str, float]:
        async with engine_answering(answer) as url:
            harness = StateProberHarness(url)
            answers.extend([good, handler])
            await harness.probe()
            assert await harness.probe(timeout_seconds=0.3 if result is Scraped.TIMEOUT else 10.0)
            return harness.shown

    assert asyncio.run(scenario()) == {
        "preemptions_total": 0.0,
        "restarts_total": 0.0,
        'scrapes_total{result="ok"}': 1.0,
        f'scrapes_total{{result="{result.value}"}}': 1.0,
    }


def test_an_engine_that_is_gone_is_unreachable() -> None:
    async def scenario() -> dict[str, float]:
        async with engine_answering(fail) as url:
            pass
        harness = StateProberHarness(url)
        await harness.probe()
        return harness.shown

    assert asyncio.run(scenario()) == {'scrapes_total{result="unreachable"}': 1.0}


def test_an_engine_that_dies_while_it_is_read_leaves_no_gauge_behind() -> None:
    """Its front end may still show the last state that it knew."""

    async def scenario() -> dict[str, float]:
        async def answer(_request: web.Request) -> web.Response:
            harness.engine.up = False
            return web.Response(body=page())

        async with engine_answering(answer) as url:
            harness = StateProberHarness(url)
            await harness.probe()
            return harness.shown

    assert asyncio.run(scenario()) == {'scrapes_total{result="ok"}': 1.0}


def test_a_page_of_megabytes_gives_others_their_turns() -> None:
    """The whole page is ready at once, and still the loop runs other tasks at least once per step."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b'vllm:filler_bucket{le="0.3"} 1.0\n' * 150_000 + page())

    async def scenario() -> tuple[int, float]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with engine_answering(answer) as url:
            harness = StateProberHarness(url)
            task = asyncio.create_task(others())
            await harness.probe()
            task.cancel()
            return turns, harness.shown["requests_waiting"]

    turns, waiting = asyncio.run(scenario())
    assert turns > 150_000 * 33 // STEP_BYTES
    assert waiting == 3.0


def test_every_result_is_one_of_the_catalogues() -> None:
    assert tuple(Scraped) == c.ENGINE_SCRAPES_TOTAL.labels[0].values


LLAMA_CPP_PAGE = b"llamacpp:requests_processing 4\nllamacpp:requests_deferred 8\n"


@pytest.mark.parametrize(
    ("kind", "path", "body"),
    [
        ("tensorrt_llm", "/prometheus/metrics", b"trtllm_num_requests_running 4\ntrtllm_num_requests_waiting 8\n"),
        ("sglang", "/metrics", b"sglang:num_running_reqs 4\nsglang:num_queue_reqs 8\n"),
        ("llama_cpp", "/metrics", LLAMA_CPP_PAGE),
    ],
)
def test_each_engine_is_read_where_its_page_stands(kind: str, path: str, body: bytes) -> None:
    """llama.cpp is read only because the config allows it."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    async def scenario() -> dict[str, float]:
        async with engine_answering(answer, path) as url:
            harness = StateProberHarness(url, kind=kind, may_reset=True)
            await harness.probe()
            return harness.shown

    found = asyncio.run(scenario())
    assert (found["requests_waiting"], found["requests_running"]) == (8.0, 4.0)


def test_an_engine_of_another_kind_in_its_place_is_read_by_its_own_names_and_its_past_is_not_ours() -> None:
    """Nothing that the new engine had counted before is growth, although both pages have the same counter."""
    pages = [
        page(preemptions=5),
        b"sglang:num_retracted_requests_total 900\n",
        b"sglang:num_retracted_requests_total 902\n",
    ]

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=pages.pop(0))

    async def scenario() -> list[float]:
        async with engine_answering(answer) as url:
            harness = StateProberHarness(url)
            seen = []
            for kind in ("vllm", "sglang", "sglang"):
                harness.engine.is_kind(kind)
                await harness.probe()
                seen.append(harness.shown["preemptions_total"])
            return seen

    assert asyncio.run(scenario()) == [0.0, 0.0, 2.0]
