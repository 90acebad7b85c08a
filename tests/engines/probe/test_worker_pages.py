"""An engine with workers is read whole: sums over their pages, and nothing where one of them is missing."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar.config.schema import EngineConfig
from sidecar.engines.engine import Engine
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.scrape import Scraped, StateProber, state_session
from sidecar.engines.probe.state import STEP_BYTES, EngineState, Growth
from sidecar.engines.probe.state_names import Count
from sidecar.engines.probe.worker_pages import WorkerScan, together
from tests.support.configs import section_of
from tests.support.ports import free_port


SPOKEN = KINDS["dynamo"].worker_states
FRONT = (
    b'dynamo_frontend_requests_total{model="tiny",status="success"} 7\n'
    b'dynamo_frontend_router_queue_pending_requests{worker_type="prefill"} 2\n'
    b'dynamo_frontend_router_queue_pending_requests{worker_type="decode"} 1\n'
)


def vllm(waiting: int = 1, running: int = 4, kv: float = 0.5, preemptions: int = 3) -> bytes:
    return (
        b'vllm:num_requests_waiting{engine="0"} %d\nvllm:num_requests_running{engine="0"} %d\n'
        b'vllm:kv_cache_usage_perc{engine="0"} %f\nvllm:num_preemptions_total{engine="0"} %d\n'
        % (waiting, running, kv, preemptions)
    )


SGLANG = b"sglang:num_queue_reqs 5\nsglang:num_running_reqs 6\nsglang:token_usage 0.9\n"


def scanned(page: bytes, step: int = STEP_BYTES) -> EngineState | None:
    scan = WorkerScan(SPOKEN)
    for at in range(0, len(page), step):
        scan.feed(page[at : at + step])
    return scan.finish()


@pytest.mark.parametrize("step", [1, 7, STEP_BYTES])
def test_a_worker_is_read_by_the_names_that_stand_on_its_page(step: int) -> None:
    found = [scanned(vllm(), step), scanned(SGLANG, step)]

    assert [state and (state.requests_waiting, state.requests_running) for state in found] == [(1, 4), (5, 6)]


@pytest.mark.parametrize("page", [b"", b"other_total 1\n", vllm() + SGLANG, vllm()[:-1], b"<html>"])
def test_a_page_of_no_engine_of_several_or_of_half_a_line_is_none(page: bytes) -> None:
    assert scanned(page) is None


def test_workers_are_summed_and_the_fullest_cache_counts() -> None:
    """The router's queue is before theirs. Requests are counted by the front end alone: each passes two workers."""
    front = EngineState(requests_before_workers=3.0, counters={Count.REQUESTS: {b"": 7.0}}, started_at_unix=5.0)
    workers = [
        EngineState(1.0, 4.0, 0.5, {Count.PREEMPTIONS: {b"": 1.0}, Count.REQUESTS: {b"": 7.0}}),
        EngineState(2.0, 3.0, 0.75, {Count.PREEMPTIONS: {b"": 2.0}, Count.REQUESTS: {b"": 7.0}}),
    ]

    assert together(front, workers) == EngineState(
        6.0, 7.0, 0.75, {Count.REQUESTS: {b"": 7.0}, Count.PREEMPTIONS: {b"0 ": 1.0, b"1 ": 2.0}}, 5.0, 3.0
    )


def test_a_sum_without_one_workers_number_is_not_known() -> None:
    workers = [EngineState(1.0, 4.0), EngineState(None, 3.0, 0.5)]
    whole = together(EngineState(), workers)

    assert (whole.requests_waiting, whole.requests_running, whole.kv_cache_usage_ratio) == (None, 7.0, 0.5)


class Heard:
    """Takes what the prober finds."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.states: list[EngineState | None] = []

    def scraped(self, result: str) -> None:
        self.results.append(result)

    def read(self, state: EngineState, growth: Growth) -> None:  # noqa: ARG002  the interface
        self.states.append(state)

    def unknown(self) -> None:
        self.states.append(None)


Page = bytes | Callable[[], Awaitable[bytes]] | None


async def served(stack: AsyncExitStack, page: Page) -> str:
    """The address of a server with this page; of none, where nothing listens."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=await page() if callable(page) else page)

    if page is None:
        return f"http://127.0.0.1:{free_port()}"
    app = web.Application()
    app.router.add_get("/metrics", answer)
    server = TestServer(app)
    await server.start_server()
    stack.push_async_callback(server.close)
    return str(server.make_url("")).rstrip("/")


def probed(*workers: Page, front: bytes = FRONT, timeout_seconds: float = 4.0) -> tuple[str, EngineState | None]:
    """One reading of a front end and its workers; None: nothing listens there."""

    async def scenario() -> tuple[str, EngineState | None]:
        engine, heard = Engine("dynamo"), Heard()
        engine.up = True
        async with AsyncExitStack() as stack:
            url, *urls = [await served(stack, page) for page in (front, *workers)]
            session = await stack.enter_async_context(state_session())
            prober = StateProber(url, engine, heard, workers=urls, timeout_seconds=timeout_seconds)
            assert await prober.probe(session)
        return heard.results[0], heard.states[0]

    return asyncio.run(scenario())


def test_the_prober_reads_front_end_and_workers() -> None:
    result, state = probed(vllm(waiting=1), vllm(waiting=2, kv=0.75))

    assert state is not None
    assert (result, state.requests_waiting, state.requests_running, state.kv_cache_usage_ratio) == (
        Scraped.OK,
        6,
        8,
        0.75,
    )


@pytest.mark.parametrize(
    ("worker", "result"),
    [(None, Scraped.UNREACHABLE), (b"other_total 1\n", Scraped.NO_NAMES), (vllm()[:-1], Scraped.UNREADABLE)],
)
def test_without_one_worker_the_front_end_stands_alone_and_the_failure_is_counted(
    worker: bytes | None, result: Scraped
) -> None:
    found, state = probed(vllm(), worker)

    assert state is not None
    assert (found, state.requests_waiting, state.requests_running) == (result, None, None)
    assert state.counters == {Count.REQUESTS: {b'{model="tiny",status="success"}': 7.0}}


def test_without_workers_the_routers_queue_is_not_taken_for_the_whole_queue() -> None:
    result, state = probed()

    assert state is not None
    assert (result, state.requests_waiting) == (Scraped.OK, None)


ROUTER = b"".join(line + b"\n" for line in FRONT.splitlines() if b"router_queue" in line)


@pytest.mark.parametrize(("front", "waiting"), [(ROUTER, 6), (b"", 3), (b"dynamo_frontend_queued_requests 5\n", 3)])
def test_workers_are_read_before_the_front_end_has_counted_a_request(front: bytes, waiting: int) -> None:
    """While the first requests hang in the router: it counts a request once that has ended."""
    result, state = probed(vllm(waiting=1), vllm(waiting=2, kv=0.75), front=front)

    assert state is not None
    assert (result, state.requests_waiting, state.requests_running, state.kv_cache_usage_ratio) == (
        Scraped.OK,
        waiting,
        8,
        0.75,
    )


@pytest.mark.parametrize(
    ("front", "result"),
    [(b"", Scraped.UNREACHABLE), (FRONT[:-1], Scraped.UNREADABLE), (b"<html>\n", Scraped.UNREADABLE)],
)
def test_without_a_worker_and_without_a_front_end_nothing_is_known(front: bytes, result: Scraped) -> None:
    assert probed(None, front=front) == (result, None)


MOST_WORKERS = 16


def test_as_many_workers_as_the_config_takes_are_read_at_once() -> None:
    """None of them answers before all were asked: in turns, slow ones would use up the time of the others."""
    section = section_of(EngineConfig, {"url": "http://f:1", "worker_metrics_urls": ["http://w:1"] * MOST_WORKERS})
    asked = asyncio.Barrier(len(section.worker_metrics_urls))

    async def page() -> bytes:
        await asked.wait()
        return vllm(waiting=2)

    result, state = probed(*[page] * MOST_WORKERS)

    assert state is not None
    assert (result, state.requests_waiting) == (Scraped.OK, 3 + 2 * MOST_WORKERS)


def test_a_worker_that_hangs_ends_after_its_own_time_and_the_others_are_read() -> None:
    """All others answered; the sum without it would be wrong, so the front end stands alone and the failure is said."""
    read: list[int] = []

    async def hangs() -> bytes:
        await asyncio.Event().wait()
        return b""

    async def answers() -> bytes:
        read.append(1)
        return vllm()

    result, state = probed(hangs, *[answers] * 9, timeout_seconds=0.2)

    assert state is not None
    assert (len(read), result, state.requests_waiting) == (9, Scraped.TIMEOUT, None)
    assert state.counters == {Count.REQUESTS: {b'{model="tiny",status="success"}': 7.0}}


def test_the_workers_of_a_front_end_on_a_unix_socket_are_asked_by_their_own_addresses(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, EngineState | None]:
        engine, heard, path = Engine("dynamo"), Heard(), str(tmp_path / "front")
        engine.up = True
        app = web.Application()
        app.router.add_get("/metrics", _answer_as_front)
        async with AsyncExitStack() as stack:
            runner = web.AppRunner(app)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.UnixSite(runner, path).start()
            worker = await served(stack, vllm(waiting=2))
            session = await stack.enter_async_context(state_session(unix_path=path))
            assert await StateProber(f"unix:{path}", engine, heard, workers=[worker]).probe(session)
        return heard.results[0], heard.states[0]

    result, state = asyncio.run(scenario())

    assert state is not None
    assert (result, state.requests_waiting) == (Scraped.OK, 5)


async def _answer_as_front(_request: web.Request) -> web.Response:
    return web.Response(body=FRONT)
