"""The span receiver in the whole sidecar, in a process of its own: a real exporter's spans become ledgers, over HTTP
and gRPC."""

import asyncio
import gzip
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client.parser import text_string_to_metric_families

from sidecar.config import values as config_values
from sidecar.config.file import ConfigErrors, load
from tests.support.otlp import TRACE, many_attributes, request_of
from tests.support.plain_engine import plain_answer, plain_engine
from tests.support.ports import free_port
from tests.support.sidecar_process import SidecarProcess, running_sidecar


QUEUE, PREFILL, DECODE = 0.0011, 0.0013, 0.0002
"""Seconds in the engine's span."""
CLIENT = "b7ad6b7169203331"
FAMILY = ("chat plain", "queue", "prefill", "first_token", "decode", "stream")
"""A request's own span and its phases."""
EVENTS = (
    b'data: {"id":"%s","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n',
    b'data: {"id":"%s","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"


class Engine:
    """A vLLM that reports nothing in its answers and exports a span for each, as a child of the traceparent that it was
    sent. No two answers have one id: a request that reached its engine late waits ten seconds for another worker's span, and a shared
    id would lead to neither."""

    def __init__(self) -> None:
        self.parents: list[str] = []
        self._answers = 0

    def answer(self, request: bytes) -> bytes:
        if not request.startswith(b"POST"):
            return plain_answer(request)
        time.sleep(0.005)  # longer than the span's queue and prefill
        self.parents.append(request.partition(b"traceparent: ")[2][:55].decode())
        self._answers += 1
        answer = b"chatcmpl-%d" % self._answers
        body = b"".join(event % answer if b"%s" in event else event for event in EVENTS)
        return HEAD % len(body) + body

    def export(self, exporter: SpanExporter) -> None:
        """Export one span for each answer so far. Blocking, as the real one."""
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("vllm.llm_engine")
        for parent in self.parents:
            context = TraceContextTextMapPropagator().extract({"traceparent": parent})
            with tracer.start_as_current_span("llm_request", context=context) as span:
                span.set_attributes(
                    {
                        "gen_ai.latency.time_in_queue": QUEUE,
                        "gen_ai.latency.time_in_model_prefill": PREFILL,
                        "gen_ai.latency.time_in_model_decode": DECODE,
                        "gen_ai.latency.time_to_first_token": QUEUE + PREFILL,
                        "gen_ai.usage.completion_tokens": 2,
                    }
                )
        provider.shutdown()


def sums(sidecar: SidecarProcess) -> dict[str, float]:
    """Series of the page by name and the labels that these tests use."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(sidecar.page("/metrics")):
        for sample in family.samples:
            key = [
                sample.name,
                *(sample.labels[name] for name in ("phase", "source", "reason", "result") if name in sample.labels),
            ]
            found[" ".join(key)] = found.get(" ".join(key), 0.0) + sample.value
    return found


async def settled(sidecar: SidecarProcess, requests: int) -> dict[str, float]:
    """The page once this many ledgers are closed by the engine's report."""
    async with asyncio.timeout(20):
        while True:
            page = await asyncio.to_thread(sums, sidecar)
            if page.get("llm_phase_attribution_total engine late_report", 0) >= requests:
                return page
            await asyncio.sleep(0.05)


async def ask(session: aiohttp.ClientSession, port: int, headers: dict[str, str] | None = None) -> bytes:
    body = {"model": "plain", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    async with session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, headers=headers) as answer:
        return await answer.read()


@pytest.mark.long
@pytest.mark.parametrize("exports", [False, True])
def test_a_real_exporters_spans_become_ledgers_and_what_was_sampled_goes_on(tmp_path: Path, exports: bool) -> None:
    """Thirty requests in one client trace, half reported over HTTP and half over gRPC; then abuse, which does not
    affect traffic. Where the requests are exported themselves, each engine's span is below its request's."""

    async def scenario() -> None:
        engine, forwarded, all_there = Engine(), list[ExportTraceServiceRequest](), asyncio.Event()

        async def collect(request: web.Request) -> web.Response:
            forwarded.append(ExportTraceServiceRequest.FromString(await request.read()))
            if len(spans_of(forwarded)) == (30 * (1 + len(FAMILY)) if exports else 30):
                all_there.set()
            return web.Response()

        app = web.Application()
        app.router.add_post("/v1/traces", collect)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
        grpc_port = free_port()
        config = tmp_path / "sidecar.yml"
        config.write_text(
            json.dumps(
                {
                    "engine": {"url": "http://placeholder:1", "kind": "vllm"},
                    "proxy": {"include_usage": "never"},
                    "spans": {
                        "grpc_listen_address": f"127.0.0.1:{grpc_port}",
                        "forward_url": collector,
                        **({"export_url": collector} if exports else {}),
                    },
                }
            )
        )
        async with plain_engine(engine.answer) as url, aiohttp.ClientSession() as session:
            running = running_sidecar(url, tmp_path, flags=[f"--config.file={config}"])
            sidecar = await asyncio.to_thread(running.__enter__)
            try:
                traced = {"traceparent": f"00-{TRACE}-{CLIENT}-01"}
                for _ in range(15):
                    await ask(session, sidecar.port, traced)
                http = HttpExporter(f"http://127.0.0.1:{sidecar.web_port}/v1/traces")
                await asyncio.to_thread(engine.export, http)
                engine.parents.clear()
                for _ in range(15):
                    await ask(session, sidecar.port, traced)
                await asyncio.to_thread(engine.export, GrpcExporter(f"http://127.0.0.1:{grpc_port}", insecure=True))

                page = await settled(sidecar, 30)

                phases = "llm_request_phase_seconds"
                assert page[f"{phases}_count queue engine"] == 30
                assert page[f"{phases}_sum queue engine"] == pytest.approx(30 * QUEUE)
                assert page[f"{phases}_sum prefill engine"] == pytest.approx(30 * PREFILL)
                assert page["llm_sidecar_spans_total taken"] == 30
                assert page["llm_sidecar_dropped_total report_unmatched"] == 0
                await asyncio.wait_for(all_there.wait(), 10)
                parents, made = family_of(spans_of(forwarded))
                if exports:
                    assert parents == {"engine": "request", "request": CLIENT, "phase": "request"}
                    page = await asyncio.to_thread(sums, sidecar)
                    ended = page["llm_sidecar_exported_spans_ended_total acknowledged"]
                    assert ended == page["llm_sidecar_exported_spans_total"] == made
                else:
                    assert (parents, made) == ({"engine": CLIENT}, 0)

                await _abuse(session, sidecar)
            finally:
                await asyncio.to_thread(running.__exit__, None, None, None)
                await runner.cleanup()

    asyncio.run(scenario())


def spans_of(requests: list[ExportTraceServiceRequest]) -> list[Any]:
    return [s for r in requests for a in r.resource_spans for scope in a.scope_spans for s in scope.spans]


def family_of(spans: list[Any]) -> tuple[dict[str, str], int]:
    """The parent of each kind of span, all of one trace: a span id, or `request` if each is below another request's; and the spans of requests."""
    kinds = {"engine": ("llm_request",), "request": FAMILY[:1], "phase": FAMILY[1:]}
    of = {kind: [span for span in spans if span.name in names] for kind, names in kinds.items()}
    own = {span.span_id.hex() for span in of["request"]}
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    assert len({span.span_id for span in of["engine"]}) == 30
    parents = {kind: {span.parent_span_id.hex() for span in found} for kind, found in of.items() if found}
    return {kind: "request" if found == own else "".join(found) for kind, found in parents.items()}, len(spans) - 30


async def _abuse(session: aiohttp.ClientSession, sidecar: SidecarProcess) -> None:
    """Hostile requests and traffic at once: every answer is whole, /metrics answers, and memory does not grow with the
    hostile requests."""
    url = f"http://127.0.0.1:{sidecar.web_port}/v1/traces"
    protobuf, packed = {"Content-Type": "application/x-protobuf"}, {"Content-Encoding": "gzip"}
    bomb = gzip.compress(bytes(64 << 20))
    hostile = [
        (bomb, protobuf | packed, 413),
        (many_attributes(70_000), protobuf, 200),
        (b"\x08\x01" * 500_000, protobuf, 200),
        (os.urandom(100_000) + b"\xff", protobuf, 400),
        (request_of(*[{}] * 200).SerializeToString(), protobuf, 200),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 415),
    ]

    async def send(body: bytes, headers: dict[str, str]) -> int:
        async with session.post(url, data=body, headers=headers) as answer:
            return answer.status

    before = resident_bytes(sidecar.process.pid)
    sent = asyncio.gather(*(send(body, headers) for body, headers, _ in hostile for _ in range(3)))
    answers = [await ask(session, sidecar.port) for _ in range(20)]
    page = await asyncio.to_thread(sums, sidecar)
    statuses = await sent

    assert statuses == [status for _, _, status in hostile for _ in range(3)]
    assert {re.sub(rb"chatcmpl-\d+", b"%s", answer) for answer in answers} == {b"".join(EVENTS)}
    assert page["llm_sidecar_dropped_total observer_error"] == 0
    assert resident_bytes(sidecar.process.pid) - before < 10 * sum(len(body) for body, _, _ in hostile)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_without_the_extra_the_key_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes at `sidecar check`, and before the sidecar listens."""
    monkeypatch.setattr(config_values, "find_spec", lambda _: None)
    file = tmp_path / "sidecar.yml"
    file.write_text("engine: {url: 'http://127.0.0.1:8000'}\nspans: {grpc_listen_address: '127.0.0.1:4317'}\n")

    with pytest.raises(ConfigErrors) as error:
        load(str(file))

    assert "pip install 'llm-phase-sidecar[grpc]'" in error.value.lines[0]
