"""Spans forwarded to the user's collector: those of traces that the clients had sampled, as children of the clients'
spans, and no others."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.classify.trace import Minted, TraceContext
from sidecar.otlp import forwarding as forwards
from sidecar.otlp import json_spans, protobuf
from sidecar.otlp.forwarding import BATCH_SPANS, MAX_WAITING_SPANS, Forward
from sidecar.otlp.limits import Tally
from tests.support.certificates import Authority
from tests.support.otlp import PARENT, SPAN, TRACE, json_of, request_of


MINTED = "1111111111111111"
CLIENT = "2222222222222222"
SAMPLED = Minted(TRACE, MINTED, TraceContext(TRACE, CLIENT, sampled=True))
UNSAMPLED = Minted(TRACE, MINTED, TraceContext(TRACE, CLIENT, sampled=False))
OUR_OWN = Minted(TRACE, MINTED, None)


class Collector:
    """A collector that keeps the requests it gets, and answers with its statuses in order, then 200."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.statuses: list[int] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        self.requests.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)

    @property
    def spans(self) -> list[Any]:
        return [s for r in self.requests for a in r.resource_spans for scope in a.scope_spans for s in scope.spans]


class Sending:
    """A forward to a collector, and its counters."""

    def __init__(self, collector: Collector, minted: dict[str, Minted], sampled: dict[str, None]) -> None:
        self.collector = collector
        self._changed = asyncio.Event()
        self.counted = {"sent": 0, "dropped": 0}
        self.forward = Forward(
            collector.url,
            minted=minted,
            sampled=sampled,
            sent=lambda n: self._count("sent", n),
            dropped=lambda n: self._count("dropped", n),
        )

    def _count(self, what: str, n: int) -> None:
        self.counted[what] += n
        self._changed.set()

    def offer(self, request: Any) -> None:
        for received in protobuf.spans(request.SerializeToString(), Tally()):
            if received is not None:
                self.forward.offer(received)

    async def until(self, **counted: int) -> None:
        async with asyncio.timeout(10):
            while self.counted != {"sent": 0, "dropped": 0} | counted:
                self._changed.clear()
                await self._changed.wait()


def play(
    scenario: Callable[[Sending], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    minted: Minted | None = None,
    *,
    sampled: bool = False,
    tls: ssl.SSLContext | None = None,
) -> None:
    monkeypatch.setattr(forwards, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(forwards, "WAITS_SECONDS", (0.0, 0.01, 0.01))

    async def played() -> None:
        collector = Collector()
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/traces", collector.take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        collector.url = f"http{'' if tls is None else 's'}://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
        sending = Sending(collector, {} if minted is None else {MINTED: minted}, {TRACE: None} if sampled else {})
        task = asyncio.create_task(sending.forward.run())
        try:
            await scenario(sending)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await runner.cleanup()

    asyncio.run(played())


def test_a_sampled_span_hangs_under_its_clients_span_again_and_is_otherwise_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events, links, resource and scope are kept: only the parent, a span that is never exported, is replaced."""

    async def scenario(sending: Sending) -> None:
        request = request_of({"parent_span_id": MINTED})
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.events.add(name="retract")
        span.links.add(trace_id=bytes(16), span_id=bytes(8))
        span.status.message = "fine"
        span.trace_state = "vendor=1"
        request.resource_spans[0].schema_url = "https://schema.example"
        request.resource_spans[0].scope_spans[0].scope.version = "0.33"

        sending.offer(request)
        await sending.until(sent=1)

        span.parent_span_id = bytes.fromhex(CLIENT)
        assert sending.collector.requests == [request]

    play(scenario, monkeypatch, SAMPLED)


@pytest.mark.parametrize(("trusts", "counted"), [(True, {"sent": 1}), (False, {"dropped": 1})])
def test_a_collector_over_tls_is_believed_if_this_machine_trusts_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusts: bool, counted: dict[str, int]
) -> None:
    """The trusted certificates are read when forwarding starts: aiohttp's own were not read (`app.py`)."""
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem") if trusts else "/dev/null")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.folder / "cert.pem", authority.folder / "key.pem")

    async def scenario(sending: Sending) -> None:
        sending.offer(request_of({"parent_span_id": MINTED}))
        await sending.until(**counted)

        assert len(sending.collector.requests) == counted.get("sent", 0)

    play(scenario, monkeypatch, SAMPLED, tls=tls)


def test_the_engines_inner_spans_of_a_sampled_trace_go_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(sending: Sending) -> None:
        request = request_of({"parent_span_id": PARENT, "name": "inner"})

        sending.offer(request)
        await sending.until(sent=1)

        assert sending.collector.requests == [request]

    play(scenario, monkeypatch, SAMPLED, sampled=True)


@pytest.mark.parametrize(
    ("minted", "parent", "trace"),
    [
        pytest.param(UNSAMPLED, MINTED, TRACE, id="its client had not sampled it"),
        pytest.param(OUR_OWN, MINTED, TRACE, id="its client had no trace"),
        pytest.param(SAMPLED, MINTED, "ab" * 16, id="another trace under our span"),
        pytest.param(SAMPLED, PARENT, "ab" * 16, id="an unknown trace"),
        pytest.param(None, "", TRACE, id="the engine's own"),
    ],
)
def test_what_no_client_had_sampled_never_leaves(
    monkeypatch: pytest.MonkeyPatch, minted: Minted | None, parent: str, trace: str
) -> None:
    async def scenario(sending: Sending) -> None:
        sending.offer(request_of({"parent_span_id": parent, "trace_id": trace}))
        await asyncio.sleep(0.05)

        assert sending.collector.requests == []
        assert sending.counted == {"sent": 0, "dropped": 0}

    play(scenario, monkeypatch, minted)


def test_many_spans_go_in_batches_and_neighbours_share_their_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(sending: Sending) -> None:
        sending.offer(request_of(*[{}] * 700, service="a"))
        sending.offer(request_of(*[{}] * 300, service="b"))
        await sending.until(sent=1000)

        sizes = [
            [len(scope.spans) for around in request.resource_spans for scope in around.scope_spans]
            for request in sending.collector.requests
        ]
        assert sizes == [[BATCH_SPANS], [700 - BATCH_SPANS, 300]]
        assert {span.span_id.hex() for span in sending.collector.spans} == {SPAN}

    play(scenario, monkeypatch, sampled=True)


@pytest.mark.parametrize(
    ("statuses", "counted", "attempts"),
    [
        pytest.param([503, 429], {"sent": 1}, 3, id="busy twice"),
        pytest.param([503, 503, 503], {"dropped": 1}, 3, id="busy for too long"),
        pytest.param([400], {"dropped": 1}, 1, id="refused for good"),
        pytest.param([302], {"dropped": 1}, 1, id="sent elsewhere"),
    ],
)
def test_a_busy_collector_is_asked_again_and_what_is_lost_is_counted(
    monkeypatch: pytest.MonkeyPatch, statuses: list[int], counted: dict[str, int], attempts: int
) -> None:
    async def scenario(sending: Sending) -> None:
        sending.collector.statuses = list(statuses)

        sending.offer(request_of({}))
        await sending.until(**counted)

        assert len(sending.collector.requests) == attempts

    play(scenario, monkeypatch, sampled=True)


def test_a_collector_that_is_not_there_fills_a_bounded_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans beyond the queue are dropped at once; offering never waits."""

    async def scenario(sending: Sending) -> None:
        forward = Forward(
            "http://127.0.0.1:9/v1/traces",
            minted={},
            sampled={TRACE: None},
            sent=lambda n: sending._count("sent", n),
            dropped=lambda n: sending._count("dropped", n),
        )
        sending.forward = forward
        for _ in range(9):
            sending.offer(request_of(*[{}] * 500))
        assert sending.counted == {"sent": 0, "dropped": 9 * 500 - MAX_WAITING_SPANS}

        task = asyncio.create_task(forward.run())
        await sending.until(dropped=9 * 500)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scenario, monkeypatch)


def test_what_waits_at_the_end_is_tried_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(sending: Sending) -> None:
        monkeypatch.setattr(forwards, "GATHER_SECONDS", 60.0)
        task = asyncio.create_task(sending.forward.run())
        await asyncio.sleep(0)
        sending.offer(request_of({}, {}))
        await asyncio.sleep(0.01)

        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert sending.counted == {"sent": 2, "dropped": 0}

    play(scenario, monkeypatch, sampled=True)


def test_spans_that_came_as_json_stay_here_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(sending: Sending) -> None:
        for received in json_spans.spans(json_of(request_of({})), Tally()):
            if received is not None:
                sending.forward.offer(received)

        assert sending.counted == {"sent": 0, "dropped": 1}

    play(scenario, monkeypatch, sampled=True)
