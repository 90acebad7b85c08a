"""An engine with one answer for everything: as little code as possible, so that measurements are not of the engine.

Knows that a request ends with its Content-Length and may follow another on the same connection. It presents itself as a
vLLM, so the sidecar asks it for usage and reads its reports.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast


BACKLOG = 2048
"""Connections that may wait for this engine, as many as for a vLLM: it leaves uvicorn's number (0.54.0) as it is, and the
kernel lowers that to `net.core.somaxconn`. In asyncio's own queue of 100, a flood finds no place while this loop is busy: the
kernel drops its requests for connections, and the sidecar calls the engine unreachable, which is the truth."""
MODEL = "plain"
_MODELS = b'{"object":"list","data":[{"id":"plain","object":"model","owned_by":"vllm"}]}'
USAGE = b'{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}'
METRICS = b'{"queue_time_ms":0,"time_to_first_token_ms":0,"generation_time_ms":0}'
WHOLE = (
    b'{"object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":%b,"metrics":%b}'
    % (USAGE, METRICS)
)


def json_answer(body: bytes) -> bytes:
    """A whole 200 with this JSON."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class PlainConnection(asyncio.Protocol):
    """One connection; requests are answered in order, whole."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._pending = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        while (end := self._pending.find(b"\r\n\r\n")) >= 0:
            head = self._pending[:end].lower()
            _, stated, rest = head.partition(b"content-length:")
            length = int(rest.split(b"\r\n", 1)[0]) if stated else 0
            if len(self._pending) < end + 4 + length:
                return
            request, self._pending = self._pending[: end + 4 + length], self._pending[end + 4 + length :]
            assert self._transport is not None
            self._transport.write(self._answer(request))


def plain_answer(request: bytes) -> bytes:
    """The default answer of `plain_engine`."""
    return json_answer(_MODELS if request.startswith(b"GET /v1/models ") else WHOLE)


@asynccontextmanager
async def plain_engine(answer: Callable[[bytes], bytes] = plain_answer) -> AsyncIterator[str]:
    """The URL of an engine in this event loop that answers each request with `answer(request)`."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: PlainConnection(answer), "127.0.0.1", 0, backlog=BACKLOG)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
