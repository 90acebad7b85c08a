"""`POST /v1/traces`: OTLP over HTTP (OTLP 1.x, "OTLP/HTTP"), protobuf and JSON, plain and gzipped; beside it `/v1/logs` and `/v1/metrics`.

It knows which requests to refuse, and writes each refusal in the request's own encoding. It refuses to know which
clients may send (`admin/listener.py` does) and what spans mean (the engines do). It answers 200 (with `partial_success`
if spans were rejected), 400, 413, 415 and 503.

An exporter that is given one endpoint for everything sends its logs and metrics too, and one that is refused writes an error a batch
into the engine's log. They are answered with an empty success, unread, and counted.
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import hdrs, web

from sidecar.otlp import responses as answers
from sidecar.otlp.intake import Intake
from sidecar.otlp.limits import MAX_EXPORT_BYTES, BusyError, RefusedError, TooLargeError, UnknownEncodingError


PATH = "/v1/traces"
UNREAD_PATHS = {"/v1/logs": "logs", "/v1/metrics": "metrics"}
"""Path to the signal, one of UNREAD_SIGNALS."""
PROTOBUF, JSON = "application/x-protobuf", "application/json"
RETRY_AFTER_SECONDS = 1


class SpanReceiver:
    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    @property
    def handlers(self) -> Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]:
        """By path."""
        return {PATH: self.handle, **dict.fromkeys(UNREAD_PATHS, self.pass_over)}

    async def pass_over(self, request: web.Request) -> web.StreamResponse:
        """Answer a request of logs or of metrics as if it were taken. Its body is not read: aiohttp lets it pass."""
        self._intake.unread(UNREAD_PATHS[request.path])
        json = request.content_type != PROTOBUF
        return _answer(200, b"{}" if json else b"", json=json)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Take one request of spans and answer it."""
        json = request.content_type != PROTOBUF
        try:
            gzip = _gzipped(request)
        except RefusedError as refused:
            self._intake.refused()
            return _refusal(refused, json=json)
        try:
            tally = await self._intake.take(request.content.iter_any(), gzip=gzip, json=json)
        except RefusedError as refused:
            return _refusal(refused, json=json)
        return _answer(200, answers.response(tally, json=json), json=json)


def _gzipped(request: web.Request) -> bool:
    """Whether the body is gzipped. Raises RefusedError before any of it is read."""
    if request.content_type not in (PROTOBUF, JSON) or hdrs.CONTENT_TYPE not in request.headers:
        raise UnknownEncodingError(f"supported content types: {PROTOBUF}, {JSON}")
    encoding = ",".join(request.headers.getall(hdrs.CONTENT_ENCODING, [])).strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnknownEncodingError("supported content encodings: gzip, identity")
    if (request.content_length or 0) > MAX_EXPORT_BYTES:
        raise TooLargeError(f"more than {MAX_EXPORT_BYTES} bytes")
    return encoding == "gzip"


def _refusal(refused: RefusedError, *, json: bool) -> web.Response:
    response = _answer(refused.status, answers.status(refused, json=json), json=json)
    if isinstance(refused, BusyError):
        response.headers[hdrs.RETRY_AFTER] = str(RETRY_AFTER_SECONDS)
    if isinstance(refused, UnknownEncodingError):
        response.headers[hdrs.ACCEPT_ENCODING] = "gzip, identity"  # RFC 9110 15.5.16
        response.headers["Accept-Post"] = f"{PROTOBUF}, {JSON}"
    return response


def _answer(status: int, body: bytes, *, json: bool) -> web.Response:
    return web.Response(status=status, body=body, content_type=JSON if json else PROTOBUF)
