"""`POST /v1/traces`: OTLP over HTTP (OTLP 1.x, "OTLP/HTTP") as protobuf, plain and gzipped; beside it `/v1/logs` and `/v1/metrics`.

It knows which requests to refuse. It refuses to know which clients may send (`admin/listener.py` does) and what spans mean (the engines
do). It answers 200 (with `partial_success` if spans were rejected), 400, 413, 415 and 503, as protobuf. No engine sends JSON: it gets a
415 in words, as every other content type does, and the first one a line of the log.

An exporter that is given one endpoint for everything sends its logs and metrics too, and one that is refused writes an error a batch
into the engine's log. They are answered with an empty success, unread, and counted.
"""

from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import hdrs, web

from sidecar.otlp import responses as answers
from sidecar.otlp.intake import Intake
from sidecar.otlp.limits import MAX_EXPORT_BYTES, BusyError, RefusedError, TooLargeError, UnknownEncodingError


PATH = "/v1/traces"
UNREAD_PATHS = {"/v1/logs": "logs", "/v1/metrics": "metrics"}
"""Path to the signal, one of UNREAD_SIGNALS."""
PROTOBUF = "application/x-protobuf"
RETRY_AFTER_SECONDS = 1
log = structlog.get_logger()


class SpanReceiver:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._told = False

    @property
    def handlers(self) -> Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]:
        """By path."""
        return {PATH: self.handle, **dict.fromkeys(UNREAD_PATHS, self.pass_over)}

    async def pass_over(self, request: web.Request) -> web.StreamResponse:
        """Answer a request of logs or of metrics as if it were taken. Its body is not read: aiohttp lets it pass."""
        self._intake.unread(UNREAD_PATHS[request.path])
        packed = request.content_type == PROTOBUF
        return web.Response(body=b"" if packed else b"{}", content_type=PROTOBUF if packed else "application/json")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Take one request of spans and answer it."""
        try:
            gzip = _gzipped(request)
        except RefusedError as refused:
            self._intake.refused()
            if isinstance(refused, UnknownEncodingError) and not self._told:
                self._told = True
                log.warning("spans_refused", status=refused.status, why=str(refused))
            return _refusal(refused, request)
        try:
            tally = await self._intake.take(request.content.iter_any(), gzip=gzip)
        except RefusedError as refused:
            return _refusal(refused, request)
        return web.Response(body=answers.response(tally), content_type=PROTOBUF)


def _gzipped(request: web.Request) -> bool:
    """Whether the body is gzipped. Raises RefusedError before any of it is read."""
    if request.content_type != PROTOBUF:
        raise UnknownEncodingError(
            f"supported content type: {PROTOBUF} (OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf)"
        )
    encoding = ",".join(request.headers.getall(hdrs.CONTENT_ENCODING, [])).strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnknownEncodingError("supported content encodings: gzip, identity")
    if (request.content_length or 0) > MAX_EXPORT_BYTES:
        raise TooLargeError(f"more than {MAX_EXPORT_BYTES} bytes")
    return encoding == "gzip"


def _refusal(refused: RefusedError, request: web.Request) -> web.Response:
    if request.content_type == PROTOBUF:
        response = web.Response(status=refused.status, body=answers.status(refused), content_type=PROTOBUF)
    else:
        response = web.Response(status=refused.status, text=f"{refused}\n")
    if isinstance(refused, BusyError):
        response.headers[hdrs.RETRY_AFTER] = str(RETRY_AFTER_SECONDS)
    if isinstance(refused, UnknownEncodingError):
        response.headers[hdrs.ACCEPT_ENCODING] = "gzip, identity"  # RFC 9110 15.5.16
        response.headers["Accept-Post"] = PROTOBUF
    return response
