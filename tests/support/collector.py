"""A collector of traces: a real HTTP server that decodes with OpenTelemetry's own messages, and answers as it is told."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Said(NamedTuple):
    """One answer. Status 0 closes the connection without one."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


def partly(rejected: int, why: str) -> Said:
    """The answer of a collector that took all but so many spans."""
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = why
    return Said(body=response.SerializeToString())


class Collector:
    """Keeps the requests that it gets. It answers with `answers` in order, then 200, each once it is `open`."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.answers: list[Said] = []
        self.url = ""
        self.open = asyncio.Event()
        self.open.set()
        self.asked = asyncio.Event()
        """A request has come since this was cleared."""

    async def _take(self, request: web.Request) -> web.Response:
        assert (request.method, request.content_type) == ("POST", "application/x-protobuf")
        self.requests.append(ExportTraceServiceRequest.FromString(await request.read()))
        self.asked.set()
        await self.open.wait()
        said = self.answers.pop(0) if self.answers else Said()
        if not said.status:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=said.status or 200, headers=said.headers, body=said.body)

    @property
    def spans(self) -> list[Any]:
        return [s for r in self.requests for a in r.resource_spans for scope in a.scope_spans for s in scope.spans]

    @asynccontextmanager
    async def listening(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/traces", self._take)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
        try:
            yield
        finally:
            self.open.set()
            await runner.cleanup()


async def until(holds: Callable[[], bool]) -> None:
    """Returns once it holds; it is asked at each turn of the loop, for ten seconds at most."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  an outbox tells its numbers and no event
            await asyncio.sleep(0)
