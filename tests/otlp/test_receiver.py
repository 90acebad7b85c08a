"""`POST /v1/traces` on the real admin listener: its answers, the clients that it accepts, and real exporters."""

import asyncio
import gzip
import io
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from structlog.testing import capture_logs

from sidecar.admin import access as gate
from sidecar.admin.listener import AdminListener
from sidecar.engines.span import Span
from sidecar.observe.record import Recorder
from sidecar.otlp.intake import Intake
from sidecar.otlp.receiver import SpanReceiver
from tests.support.admin import Double, metrics
from tests.support.otlp import IDS, field, many_attributes, nested_value, request_around, request_of
from tests.support.promtool import check_metrics


PROTOBUF, JSON = "application/x-protobuf", "application/json"
GOOD = request_of({"name": "known"}).SerializeToString()


class Visit:
    """A started listener, the spans that it got, and a client."""

    def __init__(self, session: aiohttp.ClientSession, spans: list[Span], port: int) -> None:
        self.session, self.spans = session, spans
        self.url = f"http://127.0.0.1:{port}"

    async def send(
        self, body: bytes, content_type: str | None = PROTOBUF, **headers: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            named["Content-Type"] = content_type
        async with self.session.post(f"{self.url}/v1/traces", data=io.BytesIO(body), headers=named) as answer:
            return answer.status, answer.headers, await answer.read()

    async def page(self) -> bytes:
        async with self.session.get(f"{self.url}/metrics") as answer:
            assert answer.status == 200
            return await answer.read()


def visit(scenario: Callable[[Visit], Awaitable[None]], *, anywhere: bool = False) -> None:
    async def play() -> None:
        spans: list[Span] = []

        def sink(span: Span) -> bool:
            spans.append(span)
            return span.name == "known"

        registry = metrics()
        recorder = Recorder(registry)
        intake = Intake(
            sink, clock=time.perf_counter, count=recorder.spans, dropped=recorder.dropped, unread=recorder.unread
        )
        loop = asyncio.get_running_loop()
        admin = AdminListener(
            Double(registry), registry, loop.time, otlp=SpanReceiver(intake).handlers, otlp_from_anywhere=anywhere
        )
        ((_, port),) = await admin.start("127.0.0.1", 0)
        try:
            async with aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as session:
                await scenario(Visit(session, spans, port))
        finally:
            await admin.stop()

    asyncio.run(play())


def test_spans_are_taken_plain_and_gzipped() -> None:
    """The answer is an empty response; the metrics page counts the spans by result."""

    async def scenario(visit: Visit) -> None:
        request = request_of({"name": "known"}, {"name": "unknown"})
        packed = request.SerializeToString()

        answers = [
            await visit.send(packed),
            await visit.send(gzip.compress(packed), Content_Encoding="gzip"),
            await visit.send(gzip.compress(packed), f"{PROTOBUF}; charset=utf-8", Content_Encoding="GZIP"),
            await visit.send(b"", PROTOBUF, Content_Encoding="identity"),
        ]

        assert [(status, fields["Content-Type"], body) for status, fields, body in answers] == [
            (200, PROTOBUF, b"")
        ] * 4
        assert len({repr(span) for span in visit.spans}) == 2
        page = await visit.page()
        check_metrics(page)
        for line in (
            b'llm_sidecar_spans_total{result="taken"} 3',
            b'llm_sidecar_spans_total{result="unknown"} 3',
            b'llm_sidecar_spans_total{result="rejected"} 0',
            b'llm_sidecar_dropped_total{reason="span_unknown"} 3',
        ):
            assert line in page

    visit(scenario)


def test_a_partial_success_says_how_many_were_rejected_and_why() -> None:
    async def scenario(visit: Visit) -> None:
        request = request_of({}, {"trace_id": ""}, {"span_id": "00" * 8})
        why = "a span without a trace id or span id"

        _, _, packed = await visit.send(request.SerializeToString())

        response = ExportTraceServiceResponse.FromString(packed)
        assert (response.partial_success.rejected_spans, response.partial_success.error_message) == (2, why)

    visit(scenario)


@pytest.mark.parametrize(
    ("body", "content_type", "headers", "status", "words"),
    [
        pytest.param(b"\xff", PROTOBUF, {}, 400, "varint", id="no protobuf"),
        pytest.param(b'{"resourceSpans":[]}', JSON, {}, 415, "=http/protobuf", id="JSON"),
        pytest.param(GOOD, PROTOBUF, {"Content-Encoding": "gzip"}, 400, "gzip", id="no gzip"),
        pytest.param(
            gzip.compress(GOOD)[:-3], PROTOBUF, {"Content-Encoding": "gzip"}, 400, "is incomplete", id="gzip cut"
        ),
        pytest.param(bytes(4 << 20) + b"x", PROTOBUF, {}, 413, "4194304", id="too large"),
        pytest.param(
            gzip.compress(bytes(64 << 20)), PROTOBUF, {"Content-Encoding": "gzip"}, 413, "100 to 1", id="a bomb"
        ),
        pytest.param(GOOD, "text/plain", {}, 415, PROTOBUF, id="text"),
        pytest.param(GOOD, None, {}, 415, PROTOBUF, id="no content type"),
        pytest.param(GOOD, PROTOBUF, {"Content-Encoding": "zstd"}, 415, "gzip, identity", id="zstd"),
        pytest.param(zlib.compress(GOOD), PROTOBUF, {"Content-Encoding": "deflate"}, 415, "gzip", id="deflate"),
        pytest.param(GOOD, PROTOBUF, {"Content-Encoding": "gzip, gzip"}, 415, "gzip", id="gzip in gzip"),
    ],
)
def test_a_request_that_is_refused_is_told_why_in_a_status(
    body: bytes, content_type: str | None, headers: dict[str, str], status: int, words: str
) -> None:
    """The answer is a google.rpc.Status; in words for a sender of another content type. The listener goes on."""

    async def scenario(visit: Visit) -> None:
        with capture_logs() as lines:
            answered, fields, told = [await visit.send(body, content_type, **headers) for _ in range(2)][1]

        assert [(line["status"], words in line["why"]) for line in lines] == [(415, True)] * (status == 415)
        assert answered == status
        if content_type == PROTOBUF:
            assert fields["Content-Type"] == PROTOBUF
            assert told[:3] == b"\x08\x03\x12"  # code: INVALID_ARGUMENT, then the message
            assert words in told[4:].decode()
        else:
            assert fields["Content-Type"] == "text/plain; charset=utf-8"
            assert words in told.decode()
        assert (fields.get("Accept-Encoding") == "gzip, identity") is (status == 415)
        assert (await visit.send(GOOD))[0] == 200
        assert b'llm_sidecar_dropped_total{reason="span_request_refused"} 2' in await visit.page()

    visit(scenario)


def test_only_this_host_may_send_spans_and_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback may send, unless the config opens the endpoint; a GET is refused."""

    async def closed(visit: Visit) -> None:
        assert (await visit.send(GOOD))[0] == 200
        assert (await visit.send(GOOD, Origin="http://evil.example"))[0] == 403
        monkeypatch.setattr(gate, "is_loopback", lambda _: False)
        assert (await visit.send(GOOD))[0] == 403
        assert len(visit.spans) == 1
        async with visit.session.get(f"{visit.url}/v1/traces") as answer:
            assert answer.status == 405

    async def opened(visit: Visit) -> None:
        monkeypatch.setattr(gate, "is_loopback", lambda _: False)
        assert (await visit.send(GOOD))[0] == 200
        assert (await visit.send(GOOD, Origin="http://evil.example"))[0] == 403

    visit(closed)
    monkeypatch.undo()
    visit(opened, anywhere=True)


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_real_exporter_is_content(compression: Compression) -> None:
    """opentelemetry-sdk's batch processor sends real spans through the real listener."""

    async def scenario(visit: Visit) -> None:
        def export() -> bool:
            exporter = OTLPSpanExporter(f"{visit.url}/v1/traces", compression=compression)
            provider = TracerProvider(resource=Resource.create({"service.name": "vllm"}))
            provider.add_span_processor(BatchSpanProcessor(exporter))
            tracer = provider.get_tracer("vllm.llm_engine")
            with tracer.start_as_current_span("api"):
                for number in range(40):
                    with tracer.start_as_current_span("known") as span:
                        span.set_attribute("gen_ai.latency.time_in_queue", 0.25)
                        span.set_attribute("gen_ai.usage.prompt_tokens", number)
                        span.set_attribute("many", ["a", "b"])
                        span.add_event("retract", {"why": "memory"})
            flushed = provider.force_flush()
            provider.shutdown()
            return flushed

        assert await asyncio.to_thread(export) is True

        known = [span for span in visit.spans if span.name == "known"]
        (parent,) = [span for span in visit.spans if span.name == "api"]
        assert [span.attributes for span in known] == [
            {"gen_ai.latency.time_in_queue": 0.25, "gen_ai.usage.prompt_tokens": number} for number in range(40)
        ]
        assert {(s.trace_id, s.parent_span_id, s.scope, s.service) for s in known} == {
            (parent.trace_id, parent.span_id, "vllm.llm_engine", "vllm")
        }
        assert all(span.end_unix_nano >= span.start_unix_nano for span in visit.spans)

    visit(scenario)


@pytest.mark.long
def test_logs_and_metrics_of_a_real_exporter_are_a_success_and_counted() -> None:
    """An exporter that is refused writes an error for each batch. It has one endpoint for all signals, and only spans are read here."""

    async def scenario(visit: Visit) -> None:
        def export() -> list[object]:
            logs = OTLPLogExporter(f"{visit.url}/v1/logs").export([])
            return [logs, OTLPMetricExporter(f"{visit.url}/v1/metrics").export(MetricsData([]))]

        assert await asyncio.to_thread(export) == [LogRecordExportResult.SUCCESS, MetricExportResult.SUCCESS]
        async with visit.session.post(f"{visit.url}/v1/logs", json={"resourceLogs": []}) as answer:
            assert (answer.status, answer.content_type, await answer.read()) == (200, JSON, b"{}")
        async with visit.session.post(f"{visit.url}/v1/logs", headers={"Origin": "http://evil.example"}) as answer:
            assert answer.status == 403
        page = await visit.page()
        assert b'llm_sidecar_otlp_dropped_total{reason="logs"} 2' in page
        assert b'llm_sidecar_otlp_dropped_total{reason="metrics"} 1' in page

    visit(scenario)


def test_abuse_costs_its_sender_and_no_other() -> None:
    """All abuse at once: each request gets its own answer, and the page is served meanwhile."""

    async def scenario(visit: Visit) -> None:
        bomb = gzip.compress(bytes(32 << 20))
        deep = request_around(IDS + field(9, field(1, b"deep") + field(2, nested_value(10_000))))
        million = gzip.compress(many_attributes(1_000_000), 1)
        twice = request_of(*[{"name": "known", "start_time_unix_nano": 9, "end_time_unix_nano": 3}] * 50)
        hostile = [
            (bomb, {"Content-Encoding": "gzip"}, 413),
            (million, {"Content-Encoding": "gzip"}, 413),
            (many_attributes(200_000), {}, 200),
            (deep, {}, 200),
            (GOOD[:-1], {}, 400),
            (twice.SerializeToString(), {}, 200),
            (field(1, field(1, b"")) * 500_000, {}, 413),
        ]

        answers = asyncio.gather(*(visit.send(body, **headers) for body, headers, _ in hostile))
        pages = 0
        while not answers.done():
            assert b"llm_requests_total" in await visit.page()
            pages += 1

        assert [status for status, _, _ in await answers] == [status for _, _, status in hostile]
        assert pages >= 3
        assert (await visit.send(GOOD))[0] == 200

    visit(scenario)
