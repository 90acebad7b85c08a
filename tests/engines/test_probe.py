"""What the sidecar asks the engine on its own account, and what it makes of engines that hang, lie, break off or restart."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar.engines.engine import Engine
from sidecar.engines.probe import MAX_PAGE_BYTES, Prober, Scraped, StateProber, state_session
from sidecar.engines.state import STEP_BYTES
from sidecar.lifecycle import Readiness
from sidecar.metrics import catalogue as c
from sidecar.metrics.engine_state import EngineStateRecorder
from sidecar.metrics.exposition import slices
from sidecar.metrics.registry import Metrics


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


class House:
    """A state prober before a tiny engine, and the page on which its findings come out."""

    def __init__(self, url: str, *, kind: str = "vllm", up: bool = True) -> None:
        self.metrics = Metrics(lanes=["chat"], prompt_buckets=["0-512"])
        self.engine = Engine(kind)
        self.engine.up = up
        self.prober = StateProber(url, self.engine, EngineStateRecorder(self.metrics))

    async def look(self, timeout_seconds: float = 4.0) -> bool:
        async with state_session(timeout_seconds) as session:
            return await self.prober.look(session)

    @property
    def shown(self) -> dict[str, float]:
        """What the page says about the engine; results of readings only where there were some."""
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
    """Its counters begin at 0: what it had counted before is its history."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=page())

    async def story() -> dict[str, float]:
        async with engine_answering(answer) as url:
            house = House(url)
            assert await house.look()
            return house.shown

    assert asyncio.run(story()) == {
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

    async def story() -> list[tuple[float, float]]:
        async with engine_answering(answer) as url:
            house = House(url)
            seen = []
            for _ in range(3):
                await house.look()
                seen.append((house.shown["preemptions_total"], house.shown["restarts_total"]))
            return seen

    assert asyncio.run(story()) == [(0.0, 0.0), (4.0, 0.0), (6.0, 1.0)]


@pytest.mark.parametrize(("kind", "up"), [("auto", True), ("none", True), ("llama_cpp", True), ("vllm", False)])
def test_nobody_but_a_known_vllm_that_is_up_is_asked(kind: str, up: bool) -> None:
    """A scrape resets llama.cpp's gauges for everyone who reads them; and a dead engine's front end tells its last state."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=page())

    async def story() -> dict[str, float]:
        async with engine_answering(answer) as url:
            house = House(url, kind=kind, up=up)
            assert not await house.look()
            return house.shown

    assert asyncio.run(story()) == {}
    assert asked == []


async def hang(_request: web.Request) -> web.Response:
    await asyncio.sleep(60)
    raise AssertionError("nobody waits so long")


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


@pytest.mark.parametrize(
    ("handler", "result"),
    [
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
    """The counters keep what was counted. A state that nobody can confirm is unknown, and not the one before."""
    answers: list[Handler] = []

    async def good(_request: web.Request) -> web.Response:
        return web.Response(body=page())

    async def answer(request: web.Request) -> web.StreamResponse:
        return await answers.pop(0)(request)

    async def story() -> dict[str, float]:
        async with engine_answering(answer) as url:
            house = House(url)
            answers.extend([good, handler])
            await house.look()
            assert await house.look(timeout_seconds=0.3 if result is Scraped.TIMEOUT else 10.0)
            return house.shown

    assert asyncio.run(story()) == {
        "preemptions_total": 0.0,
        "restarts_total": 0.0,
        'scrapes_total{result="ok"}': 1.0,
        f'scrapes_total{{result="{result.value}"}}': 1.0,
    }


def test_an_engine_that_is_gone_is_unreachable() -> None:
    async def story() -> dict[str, float]:
        async with engine_answering(fail) as url:
            pass
        house = House(url)
        await house.look()
        return house.shown

    assert asyncio.run(story()) == {'scrapes_total{result="unreachable"}': 1.0}


def test_an_engine_that_dies_while_it_is_read_leaves_no_gauge_behind() -> None:
    """Its front end may still tell the last state that it knew."""

    async def story() -> dict[str, float]:
        async def answer(_request: web.Request) -> web.Response:
            house.engine.up = False
            return web.Response(body=page())

        async with engine_answering(answer) as url:
            house = House(url)
            await house.look()
            return house.shown

    assert asyncio.run(story()) == {'scrapes_total{result="ok"}': 1.0}


def test_a_page_of_megabytes_gives_others_their_turns() -> None:
    """All of it lies ready, and still the loop goes round at least once for each step."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b'vllm:filler_bucket{le="0.3"} 1.0\n' * 150_000 + page())

    async def story() -> tuple[int, float]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with engine_answering(answer) as url:
            house = House(url)
            task = asyncio.create_task(others())
            await house.look()
            task.cancel()
            return turns, house.shown["requests_waiting"]

    turns, waiting = asyncio.run(story())
    assert turns > 150_000 * 33 // STEP_BYTES
    assert waiting == 3.0


def test_every_result_is_one_of_the_catalogues() -> None:
    assert tuple(Scraped) == c.ENGINE_SCRAPES_TOTAL.labels[0].values


# --- what the engine is, and whether it is there ---------------------------------------------------------------------------


class Asking:
    """A prober before a tiny engine."""

    def __init__(self, url: str) -> None:
        self.engine = Engine("auto")
        self.readiness = Readiness()
        self.changes = 0
        self.now = 100.0
        self._prober = Prober(url, self.engine, self.readiness, clock=lambda: self.now, changed=self._changed)

    def _changed(self) -> None:
        self.changes += 1

    async def ask(self, timeout_seconds: float = 5.0) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_seconds)) as session:
            await self._prober.ask(session)


VLLM_MODELS = b'{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"vllm"}]}'


def test_a_vllm_says_that_it_is_one_which_models_it_serves_and_its_version() -> None:
    async def answer(request: web.Request) -> web.Response:
        answers = {"/health": b"", "/v1/models": VLLM_MODELS, "/version": b'{"version":"0.32.0"}'}
        return web.Response(body=answers[request.path])

    async def story() -> tuple[object, ...]:
        async with engine_answering(answer, "/{path:.*}") as url:
            house = Asking(url)
            await house.ask()
            engine = house.engine
            return engine.up, engine.kind, engine.models, engine.version, house.readiness.ready(house.now)[0]

    assert asyncio.run(story()) == (True, "vllm", ("tiny",), "0.32.0", True)


@pytest.mark.parametrize(
    "models",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"data":' * 50_000,
        b'{"data":[{"id":1}]}',
        b"\xff\xfe",
        b'{"data":[{"id":"\xff"}]}',
    ],
    ids=["empty", "null", "nested", "nested-objects", "wrong-type", "binary", "invalid-utf-8"],
)
def test_a_list_of_models_that_cannot_be_read_says_nothing(models: bytes) -> None:
    """The engine is up all the same, and of no known kind: nothing is asked of it."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=models if request.path == "/v1/models" else b"")

    async def story() -> tuple[object, ...]:
        async with engine_answering(answer, "/{path:.*}") as url:
            house = Asking(url)
            await house.ask()
            return house.engine.up, house.engine.kind, house.engine.models

    assert asyncio.run(story()) == (True, "auto", ())


@pytest.mark.parametrize(("status", "up"), [(200, True), (404, True), (500, False), (503, False)])
def test_an_engine_is_down_when_it_says_so_itself(status: int, up: bool) -> None:
    """A server that has no /health is there; one that answers 5xx cannot work."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status if request.path == "/health" else 404)

    async def story() -> bool | None:
        async with engine_answering(answer, "/{path:.*}") as url:
            house = Asking(url)
            await house.ask()
            return house.engine.up

    assert asyncio.run(story()) is up


def test_an_engine_that_hangs_is_a_missed_check_and_one_that_comes_back_is_asked_anew() -> None:
    """What came back may be another version with other models."""
    healthy = [False, True]

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/health" and not healthy.pop(0):
            await asyncio.sleep(60)
        return web.Response(body=VLLM_MODELS if request.path == "/v1/models" else b"")

    async def story() -> list[tuple[bool | None, str]]:
        async with engine_answering(answer, "/{path:.*}") as url:
            house = Asking(url)
            seen = []
            for timeout_seconds in (0.3, 5.0):
                await house.ask(timeout_seconds)
                seen.append((house.engine.up, house.engine.kind))
            return seen

    assert asyncio.run(story()) == [(False, "auto"), (True, "vllm")]
