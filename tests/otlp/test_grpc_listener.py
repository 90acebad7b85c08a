"""OTLP over gRPC: real exporters work, the same bounds hold as over HTTP, and only the sidecar's own code
decompresses."""

import asyncio
import gzip
import os
import socket
import time
from collections.abc import Awaitable, Callable

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from sidecar.engines.span import Span
from sidecar.otlp.grpc_listener import SERVICE, UNREAD_SERVICES, GrpcListener
from sidecar.otlp.intake import Intake
from tests.support.otlp import request_of


EXPORT = f"/{SERVICE}/Export"
GOOD = request_of({"name": "known"}).SerializeToString()


class Visit:
    """A started listener, the spans that it got, the spans that it dropped, and its address."""

    def __init__(self, spans: list[Span], dropped: list[str], port: int) -> None:
        self.spans, self.dropped, self.address = spans, dropped, f"127.0.0.1:{port}"

    async def send(
        self, body: bytes, compression: grpc.Compression | None = None
    ) -> tuple[grpc.StatusCode, str, bytes]:
        async with grpc.aio.insecure_channel(self.address) as channel:
            call = channel.unary_unary(EXPORT)(body, compression=compression)
            try:
                answer = await call
            except grpc.aio.AioRpcError as error:
                return error.code(), error.details() or "", b""
            return grpc.StatusCode.OK, "", answer


def visit(scenario: Callable[[Visit], Awaitable[None]]) -> None:
    async def play() -> None:
        spans: list[Span] = []
        dropped: list[str] = []

        def sink(span: Span) -> bool:
            spans.append(span)
            return True

        intake = Intake(
            sink,
            clock=time.perf_counter,
            count=lambda _what, _n: None,
            dropped=lambda reason, n: dropped.extend([reason] * n),
            unread=dropped.append,
        )
        listener = GrpcListener(intake)
        _, port = await listener.start("127.0.0.1", 0)
        try:
            await scenario(Visit(spans, dropped, port))
        finally:
            await listener.stop()

    asyncio.run(play())


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_real_exporter_is_content(compression: grpc.Compression) -> None:
    """opentelemetry-sdk's batch processor sends real spans through the real listener, gzipped or not."""

    async def scenario(visit: Visit) -> None:
        def export() -> bool:
            exporter = OTLPSpanExporter(f"http://{visit.address}", insecure=True, compression=compression)
            provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(exporter))
            tracer = provider.get_tracer("tgi")
            for _ in range(100):
                with tracer.start_as_current_span("generate_stream") as span:
                    span.set_attribute("queue_time", "12.3ms")
            flushed = provider.force_flush()
            provider.shutdown()
            return flushed

        assert await asyncio.to_thread(export) is True

        assert [(span.name, span.attributes, span.scope) for span in visit.spans] == [
            ("generate_stream", {"queue_time": "12.3ms"}, "tgi")
        ] * 100

    visit(scenario)


def test_logs_and_metrics_are_a_success_and_counted() -> None:
    """Dynamo's exporter speaks gRPC, and sends its logs wherever its spans go."""

    async def scenario(visit: Visit) -> None:
        async with grpc.aio.insecure_channel(visit.address) as channel:
            answers = [await channel.unary_unary(f"/{service}/Export")(b"\n\x00") for service in UNREAD_SERVICES]

        assert (answers, visit.dropped) == ([b"", b""], ["logs", "metrics"])

    visit(scenario)


def test_a_partial_success_is_told_and_a_bad_request_is_refused_for_good() -> None:
    """INVALID_ARGUMENT is not sent again; the spans before the error are kept, and the listener goes on."""

    async def scenario(visit: Visit) -> None:
        _, _, partial = await visit.send(request_of({}, {"trace_id": ""}).SerializeToString())
        refused = await visit.send(b"\xff")
        good = await visit.send(GOOD)

        assert ExportTraceServiceResponse.FromString(partial).partial_success.rejected_spans == 1
        assert refused[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "a varint is incomplete")
        assert good == (grpc.StatusCode.OK, "", b"")
        assert visit.dropped == ["span_rejected", "span_request_refused"]

    visit(scenario)


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    """gRPC's own decompression has no bound, so it is switched off: 64 KiB that hold 64 MiB are refused by the
    sidecar's own."""

    async def scenario(visit: Visit) -> None:
        code, why, _ = await visit.send(bytes(64 << 20), grpc.Compression.Gzip)
        twice, _, _ = await visit.send(gzip.compress(gzip.compress(bytes(1 << 20))))

        assert (code, why) == (grpc.StatusCode.INVALID_ARGUMENT, "compressed by more than 100 to 1")
        assert twice is grpc.StatusCode.INVALID_ARGUMENT
        assert visit.spans == []

    visit(scenario)


def test_a_message_of_more_than_four_mebibytes_is_not_read() -> None:
    async def scenario(visit: Visit) -> None:
        code, _, _ = await visit.send(os.urandom(5 << 20))

        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await visit.send(GOOD))[0] is grpc.StatusCode.OK

    visit(scenario)


def test_other_services_are_not_ours() -> None:
    async def scenario(visit: Visit) -> None:
        async with grpc.aio.insecure_channel(visit.address) as channel:
            call = channel.unary_unary("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export")
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call(b"")

        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED

    visit(scenario)


def test_a_port_that_is_taken_is_an_error_that_says_so() -> None:
    async def scenario() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            listener = GrpcListener(Intake(lambda _: True, clock=time.perf_counter, count=print, dropped=print))

            with pytest.raises(OSError, match="gRPC cannot listen"):
                await listener.start("127.0.0.1", taken.getsockname()[1])

    asyncio.run(scenario())
