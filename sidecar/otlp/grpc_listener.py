"""OTLP over gRPC (`opentelemetry.proto.collector.trace.v1.TraceService/Export`), for engines that speak gRPC only. The services of logs
and of metrics are answered too, unread (`receiver.py`).

An optional extra, `pip install 'llm-phase-sidecar[grpc]'`: grpcio brings 20 MB and an HTTP/2 stack of its own, too much
for users who do not need it. Messages are taken as bytes, so that the decoder of HTTP requests reads them, with the
same bounds. grpcio's own decompression has no bound and is switched off: a gzipped message arrives compressed (it
begins with 1f 8b, which no protobuf message does, since wire type 7 does not exist) and `inflation.py` decompresses it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from sidecar.otlp import responses as answers
from sidecar.otlp.intake import Intake
from sidecar.otlp.limits import MAX_EXPORT_BYTES, RefusedError


SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
UNREAD_SERVICES = {
    "opentelemetry.proto.collector.logs.v1.LogsService": "logs",
    "opentelemetry.proto.collector.metrics.v1.MetricsService": "metrics",
}
"""To the signal, one of UNREAD_SIGNALS."""
MAX_CALLS = 16
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 64 << 10
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_EXPORT_BYTES),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", MAX_CALLS),
    ("grpc.per_message_decompression", 0),
    ("grpc.so_reuseport", 0),  # or a second process could bind the same port and get half of the spans
)
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcListener:
    """One listener. Make it within a running loop."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._server: Any = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address. Port 0 takes any free one. Raises OSError."""
        self._server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MAX_CALLS)
        exports = {SERVICE: self._export, **{name: self._passing_over(each) for name, each in UNREAD_SERVICES.items()}}
        self._server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(name, {"Export": grpc.unary_unary_rpc_method_handler(export)})
                for name, export in exports.items()
            )
        )
        shown = f"[{host}]" if ":" in host else host or "0.0.0.0"  # noqa: S104  an empty host means every interface
        try:
            bound = self._server.add_insecure_port(f"{shown}:{port}")
        except RuntimeError:
            bound = 0
        if not bound:
            raise OSError(f"gRPC cannot listen on {shown}:{port}")
        await self._server.start()
        return host, bound

    async def stop(self) -> None:
        """Stop listening; calls under way get a second."""
        if self._server is not None:
            await self._server.stop(1.0)

    async def _export(self, request: bytes, context: Any) -> bytes:
        try:
            tally = await self._intake.take(_chunks(request), gzip=request.startswith(_GZIP_MAGIC))
        except RefusedError as refused:
            abort: Callable[[grpc.StatusCode, str], Awaitable[None]] = context.abort
            await abort(_CODES[refused.code], str(refused))
            raise AssertionError("abort raises") from None
        return answers.response(tally)

    def _passing_over(self, signal: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def passed_over(_request: bytes, _context: Any) -> bytes:
            self._intake.unread(signal)
            return b""

        return passed_over


async def _chunks(request: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(request), _CHUNK_BYTES):
        yield request[at : at + _CHUNK_BYTES]
