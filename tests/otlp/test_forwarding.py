"""Spans forwarded to the user's collector: those of traces that the clients had sampled, as children of the clients'
spans, and no others."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.classify.trace import Minted, TraceContext
from sidecar.otlp import outbox, protobuf
from sidecar.otlp.forwarding import MOST_FORWARDED, EveryTrace, Forward
from sidecar.otlp.limits import Tally
from sidecar.otlp.outbox import BATCH_SPANS
from tests.support.certificates import Authority
from tests.support.collector import Collector, Said, partly
from tests.support.otlp import PARENT, SPAN, TRACE, request_of


MINTED = "1111111111111111"
CLIENT = "2222222222222222"
SAMPLED = Minted(TRACE, MINTED, TraceContext(TRACE, CLIENT, sampled=True))
UNSAMPLED = Minted(TRACE, MINTED, TraceContext(TRACE, CLIENT, sampled=False))
OUR_OWN = Minted(TRACE, MINTED, None)


class Sending:
    """A forward to a collector, and its counters."""

    def __init__(
        self, collector: Collector, minted: dict[str, Minted], sampled: dict[str, None], exported: bool = False
    ) -> None:
        self.collector = collector
        self._changed = asyncio.Event()
        self.counted = {"sent": 0, "dropped": 0}
        self.forward = Forward(
            collector.url,
            minted=minted,
            sampled=sampled,
            sent=lambda n: self._count("sent", n),
            dropped=lambda n: self._count("dropped", n),
            exported=lambda _minted: exported,
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
    exported: bool = False,
    tls: ssl.SSLContext | None = None,
) -> None:
    monkeypatch.setattr(outbox, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(outbox, "WAITS_SECONDS", (0.0, 0.01, 0.01))

    async def played() -> None:
        collector = Collector()
        async with collector.listening(tls):
            sending = Sending(
                collector, {} if minted is None else {MINTED: minted}, {TRACE: None} if sampled else {}, exported
            )
            task = asyncio.create_task(sending.forward.outbox.run())
            try:
                await scenario(sending)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

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
    """The trusted certificates are read when sending starts: aiohttp's own were not read (`app.py`)."""
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


@pytest.mark.parametrize("minted", [SAMPLED, OUR_OWN])
def test_below_a_request_that_is_exported_itself_the_engines_span_stays_as_it_came(
    monkeypatch: pytest.MonkeyPatch, minted: Minted
) -> None:
    """Its parent is the id under which the sidecar exports the request, in the client's trace or in one that begins here."""

    async def scenario(sending: Sending) -> None:
        request = request_of({"parent_span_id": MINTED})

        sending.offer(request)
        await sending.until(sent=1)

        assert sending.collector.requests == [request]

    play(scenario, monkeypatch, minted, exported=True)


def test_the_engines_inner_spans_of_a_sampled_trace_go_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(sending: Sending) -> None:
        request = request_of({"parent_span_id": PARENT, "name": "inner"})

        sending.offer(request)
        await sending.until(sent=1)

        assert sending.collector.requests == [request]

    play(scenario, monkeypatch, SAMPLED, sampled=True)


def test_without_a_proxy_every_span_goes_on_as_it_came() -> None:
    """The engine has sent what its clients sampled, and roots of its own for those without a trace: no span id was minted."""
    forward = Forward(
        "http://127.0.0.1:9", minted={}, sampled=EveryTrace(), sent=lambda _n: None, dropped=lambda _n: None
    )
    sent = request_of({}, {"parent_span_id": "0" * 16})
    for received in protobuf.spans(sent.SerializeToString(), Tally()):
        if received is not None:
            forward.offer(received)

    spans = sent.resource_spans[0].scope_spans[0].spans
    assert [each.item[1] for each in forward.outbox._waiting] == [each.SerializeToString() for each in spans]


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
    ("answers", "counted"),
    [([Said(503)], {"sent": 1}), ([Said(400)], {"dropped": 1}), ([partly(1, "no")], {"dropped": 1})],
)
def test_what_the_collector_takes_is_sent_and_all_else_is_dropped(
    monkeypatch: pytest.MonkeyPatch, answers: list[Said], counted: dict[str, int]
) -> None:
    async def scenario(sending: Sending) -> None:
        sending.collector.answers = [*answers]

        sending.offer(request_of({}))
        await sending.until(**counted)

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
        assert sending.counted == {"sent": 0, "dropped": 9 * 500 - MOST_FORWARDED.spans}

        task = asyncio.create_task(forward.outbox.run())
        await sending.until(dropped=9 * 500)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scenario, monkeypatch)
