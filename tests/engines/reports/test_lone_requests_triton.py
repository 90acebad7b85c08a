"""Triton's page: its own queue is told of a request that ended alone, and the time before a backend's clock is never the front end's."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar.engines.reports.fetcher import IDLE_SECONDS, LoneReadings
from tests.support.fetching import BY_ENGINE, BY_WIRE, NO_SPLIT, WORDS, Fetching
from tests.support.memory import Socket


TENSORS = (
    b',"arrival_time_ns":"5000000000000000","first_scheduled_time_ns":"5000000100000000","first_token_time_ns":"5000000400000000",'
    b'"last_token_time_ns":"5000000600000000"'
)
"""A backend's clock: 0.1 s of queue, 0.3 s of prefill, 0.2 s of decode."""
PATH = "/v2/models/talker/generate_stream"


class Tritonserver:
    """A Triton's page of metrics, on which requests finish."""

    def __init__(self) -> None:
        self.page = (WORDS / "triton-metrics.txt").read_text()
        self.status = 200
        self.asked = 0

    def finish(self, queue: float = 0.02, whole: float = 0.69, model: str = "talker") -> None:
        """One request of this model finishes, with these times in seconds."""
        grown = {"request_success": 1.0, "queue_duration_us": queue * 1e6, "request_duration_us": whole * 1e6}
        for name, growth in grown.items():
            series = re.compile(rf'^nv_inference_{name}{{model="{model}",version="1"}} (\S+)$', re.MULTILINE)
            (found,) = series.finditer(self.page)
            start, end = found.span(1)
            self.page = f"{self.page[:start]}{float(found[1]) + growth}{self.page[end:]}"

    async def answer(self, _request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(text=self.page, status=self.status)


def begun(walk: Fetching, text: str = "a") -> Socket:
    """The engine's end of a request that has come whole."""
    body = json.dumps({"text_input": text}).encode()
    walk.client().send(
        b"POST %s HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%s" % (PATH.encode(), len(body), body)
    )
    return walk.engine


def streamed(walk: Fetching, engine: Socket, tensors: bytes = b"") -> None:
    """Triton answers: the first text after 0.45 s, the last 0.2 s later, the end 0.05 s after that."""
    engine.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for number, (seconds, more) in enumerate([(0.45, b""), (0.2, tensors)]):
        walk.clock.later(seconds)
        event = b'data: {"model_name":"talker","model_version":"1","text_output":"%d"%b}\n\n' % (number, more)
        engine.send(b"%x\r\n%b\r\n" % (len(event), event))
    walk.clock.later(0.05)
    engine.send(b"0\r\n\r\n")


def asked(walk: Fetching, tensors: bytes = b"") -> None:
    streamed(walk, begun(walk), tensors)


async def settled_fetch(walk: Fetching) -> float:
    walk.clock.later(0.5)
    return await walk.fetch()


def settle(walk: Fetching) -> None:
    """No report comes."""
    walk.clock.later(4.0)
    while walk.settlement.expire(walk.clock.now):
        pass


def told(
    scenario: Callable[[Tritonserver, Fetching], Awaitable[None] | None], triton: Tritonserver | None = None
) -> Fetching:
    """Run a scenario behind one reading of the page; a request that still waits at its end gets no report."""

    async def run() -> Fetching:
        engine = triton or Tritonserver()
        app = web.Application()
        app.router.add_get("/metrics", engine.answer)
        server = TestServer(app)
        await server.start_server()
        walk = Fetching("triton", str(server.make_url("")).rstrip("/"))
        try:
            await walk.fetch()
            walk.clock.later(1.0)
            going = scenario(engine, walk)
            if going is not None:
                await going
            await settled_fetch(walk)
            walk.settlement.expire(walk.clock.later(4.0))
        finally:
            await walk.report_fetcher.close()
            await server.close()
        return walk

    return asyncio.run(run())


def first_tokens(walk: Fetching) -> list[float]:
    return [found["first_token"][0] for found in walk.phases() if "first_token" in found]


@pytest.mark.proves("triton", "page")
def test_the_queue_of_one_that_ended_alone_is_tritons_own_and_the_rest_is_compute() -> None:
    """Its whole time is 10 ms less than the wire's: that is the front end, and nothing else is."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        asked(walk)
        engine.finish()

    expected = {"queue": (20, "engine"), "prefill": (420, "derived"), "first_token": (10, "derived"), **BY_WIRE}
    assert told(scenario).phases() == [expected]


def test_a_backends_queue_begins_behind_tritons() -> None:
    """Both are the request's queue. The finding: 0.04 s of Triton's own queue stood in first_token, as if the front end were slow."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        asked(walk, TENSORS)
        engine.finish(queue=0.04)

    expected = {"queue": (140, "engine"), "prefill": (300, "engine"), "first_token": (10, "derived"), **BY_ENGINE}
    assert told(scenario).phases() == [expected]


@pytest.mark.parametrize("tensors", [b"", TENSORS], ids=["no tensors", "a backend's clock"])
def test_beside_another_nothing_is_split_and_nothing_is_the_front_ends(tensors: bytes) -> None:
    """Two ended between two readings: the growth is that of both, and the time before the backend's clock may be queue or HTTP."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        for _ in range(2):
            asked(walk, tensors)
            engine.finish()

    walk = told(scenario)

    assert walk.phases() == [NO_SPLIT] * 2
    assert walk.value("llm_phase_attribution_total", reason="report_incomplete" if tensors else "not_told_apart") == 2
    assert walk.drops() == {}


def test_without_its_page_a_request_has_no_report_and_nothing_stands_in_for_one() -> None:
    """A page that is not there told no request apart: what helps is the page."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        engine.status = 404
        asked(walk)

    walk = told(scenario)

    assert walk.phases() == [NO_SPLIT]
    assert walk.value("llm_phase_attribution_total", source="none", reason="no_report") == 1


TEXTS = {"a" * 2000: "0-512", "a" * 2049: "512-4k", "a" * 40_000: "4k+"}


def test_the_bucket_is_that_of_the_text_where_no_token_is_counted() -> None:
    """Four bytes a token. No objective is judged by it: at arrival the length is unknown, as it was."""
    walk = Fetching("triton")
    for text in TEXTS:
        streamed(walk, begun(walk, text))
    settle(walk)

    assert [account.labels.prompt_bucket for account in walk.accounts] == list(TEXTS.values())
    assert "llm_received_measured_requests_total{" not in walk.page()
    assert "llm_prompt_tokens_count" not in walk.page()


@pytest.mark.parametrize("stated", [b"5000", b"[5000]"])
def test_a_prompt_that_its_backend_counts_has_that_length(stated: bytes) -> None:
    """`return_num_input_tokens`: each response says it, beside its text; from 20 prompts on it is the scale of others, too."""
    walk = Fetching("triton")
    for _ in range(21):
        streamed(walk, begun(walk, "a" * 10_000), b',"num_input_tokens":%b' % stated)
    streamed(walk, begun(walk, "a" * 10_000))
    settle(walk)

    assert [account.labels.prompt_bucket for account in walk.accounts] == ["4k+"] * 22
    assert walk.value("llm_prompt_tokens_sum") == 21 * 5000
    assert {account.marks.output_events for account in walk.accounts} == {2}


def test_without_its_page_a_backends_report_is_believed_where_no_queue_can_hide() -> None:
    """450 ms to the first text, of which the backend states 446: what is left is no more than HTTP takes. It is not said to be the front end's."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        engine.status = 404
        tensors = TENSORS.replace(b"5000000400000000", b"5000000446000000").replace(
            b"5000000600000000", b"5000000646000000"
        )
        asked(walk, tensors)

    (found,) = told(scenario).phases()
    assert found == {"queue": (100, "engine"), "prefill": (346, "engine"), "unattributed": (4, "derived"), **BY_ENGINE}


def test_a_request_that_passed_several_models_is_not_split() -> None:
    """Each step of an ensemble has a queue of its own, and which of them came before the first token is not told."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        asked(walk)
        engine.finish()
        engine.finish(model="plain")

    assert told(scenario).phases() == [NO_SPLIT]


def test_an_engine_inside_has_a_queue_of_its_own_in_its_compute() -> None:
    """The page shows vLLM's names: time behind Triton's queue may be waiting or computing there."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        engine.page += 'vllm:num_requests_waiting{model="talker",version="1"} 0\n'
        asked(walk)
        engine.finish()

    assert told(scenario).phases() == [NO_SPLIT]


SOON = (0.04, 0.041)
"""Queue and whole time of a backend that takes a request in and answers later: Triton counts it as done at once."""


def test_a_backend_that_answers_later_tells_the_queue_of_a_request_that_was_there_alone() -> None:
    """Its whole time says nothing; with no other request between the readings the growth can only be its own."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        asked(walk, TENSORS)
        engine.finish(*SOON)

    assert told(scenario).phases()[0]["queue"] == (140, "engine")


def test_beside_one_that_still_runs_it_tells_nothing() -> None:
    """The growth may be that of the other one, which has been taken in and has not answered."""

    def scenario(engine: Tritonserver, walk: Fetching) -> None:
        asked(walk, TENSORS)
        begun(walk)
        engine.finish(*SOON)

    assert told(scenario).phases() == [NO_SPLIT]


def test_another_clients_request_is_not_taken_for_ours() -> None:
    """A whole time that is not the one measured here is another's, however well its count fits."""

    async def scenario(engine: Tritonserver, walk: Fetching) -> None:
        running = begun(walk)
        asked(walk)
        engine.finish(whole=0.3)
        await settled_fetch(walk)
        streamed(walk, running)

    assert first_tokens(told(scenario)) == []


def test_where_its_page_is_on_another_port_nothing_waits_for_it_twice() -> None:
    """Triton has its page on port 8002: at the port of its API it is looked for once in five minutes, and one request at a time waits."""

    async def scenario(engine: Tritonserver, walk: Fetching) -> None:
        engine.status = 404
        asked(walk)
        assert await settled_fetch(walk) == LoneReadings.GONE_SECONDS
        for _ in range(3):
            asked(walk)
        assert len(walk.settlement.pending) == 1

    walk = told(scenario)

    assert walk.phases() == [NO_SPLIT] * 4


def test_an_idle_triton_is_not_asked() -> None:
    async def scenario(engine: Tritonserver, walk: Fetching) -> None:
        before = engine.asked
        assert await settled_fetch(walk) == IDLE_SECONDS
        assert engine.asked == before

    told(scenario)
