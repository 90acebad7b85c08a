"""An engine for real clients: it gives the streams of each API, and remembers the digest of each body that it got. Asserts nothing."""

import asyncio
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aiohttp import web


WORDS = ("Of", " all", " the", " things", " that", " pass", ", each", " is", " counted", ".")
USAGE = {"prompt_tokens": 11, "completion_tokens": len(WORDS), "total_tokens": 11 + len(WORDS)}
RESPONSE_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": len(WORDS),
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 11 + len(WORDS),
}
MOST_BYTES = 64 << 20


class Engine:
    """One (path, SHA-256 of the body as it came) for each request, in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.left = 0
        """Clients that left in the middle of a stream."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.asked.append((request.path, hashlib.sha256(raw).hexdigest()))
        said: Mapping[str, Any] = (
            {} if request.method == "GET" or "content-encoding" in request.headers else json.loads(raw)
        )
        if request.path in ("/v1/chat/completions", "/v1/completions") and said.get("stream", not said):
            return await self._stream(request, _chat(said))
        if request.path in STREAMS and not said.get("background"):
            return await self._stream(request, STREAMS[request.path]())
        body = _response("queued") if said.get("background") else WHOLE.get(request.path)
        if body is None:
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        return web.json_response(body)

    async def _stream(self, request: web.Request, events: AsyncIterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            async for event in events:
                await response.write(event)
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            self.left += 1
            raise
        return response


def _event(said: Mapping[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(said)}\n\n".encode()


async def _chat(said: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """Words, reasoning before them for a model that reasons, or the arguments of a tool; as slow as the request says."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": said.get("model", "m")}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    if said.get("reasoning_effort"):
        for word in WORDS:
            yield chunk({"reasoning_content": word})
    pause = 0.2 if said.get("user") == "slow" else 0.0
    for number, word in enumerate(WORDS):
        await asyncio.sleep(pause)
        if said.get("tools"):
            call = {"index": 0, "function": {"arguments": word}}
            first = {"id": "call_1", "type": "function"} if number == 0 else {}
            name = {"name": "look"} if number == 0 else {}
            yield chunk({"tool_calls": [{**call, **first, "function": {**call["function"], **name}}]})  # type: ignore[dict-item]
        else:
            yield chunk({"content": word})
    yield chunk({}, "tool_calls" if said.get("tools") else "stop")
    if (said.get("stream_options") or {}).get("include_usage"):
        yield _event({**base, "choices": [], "usage": USAGE})
    yield b"data: [DONE]\n\n"


def _chat_body() -> Mapping[str, Any]:
    message = {"role": "assistant", "content": "".join(WORDS)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-2",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }


def _response(status: str, *, whole: bool = False) -> dict[str, Any]:
    text = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "tools": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "output": [message] if whole else [],
        "usage": RESPONSE_USAGE if whole else None,
    }


async def _responses() -> AsyncIterator[bytes]:
    number = 0

    def typed(kind: str, **more: object) -> bytes:
        nonlocal number
        number += 1
        return _event({"type": kind, "sequence_number": number, **more}, kind)

    yield typed("response.created", response=_response("in_progress"))
    for word in WORDS:
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        yield typed("response.output_text.delta", delta=word, logprobs=[], **where)
    # An agent's last event repeats its instructions and its tools.
    done = {**_response("completed", whole=True), "instructions": "do this, and then that. " * 20_000}
    yield typed("response.completed", response=done)


async def _messages() -> AsyncIterator[bytes]:
    usage = {"input_tokens": 11, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield _event({"type": "message_start", "message": message}, "message_start")
    blocks = ({"type": "thinking", "thinking": "", "signature": ""}, {"type": "text", "text": ""})
    for index, block in enumerate(blocks):
        start = {"type": "content_block_start", "index": index, "content_block": block}
        yield _event(start, "content_block_start")
        for word in WORDS:
            delta = {"type": "thinking_delta", "thinking": word} if index == 0 else {"type": "text_delta", "text": word}
            yield _event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
        yield _event({"type": "content_block_stop", "index": index}, "content_block_stop")
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": 2 * len(WORDS)}}, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


STREAMS = {"/v1/responses": _responses, "/v1/responses/resp_1": _responses, "/v1/messages": _messages}
WHOLE: Mapping[str, Mapping[str, Any]] = {
    "/health": {},
    "/v1/models": {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "vllm"}]},
    "/v1/chat/completions": _chat_body(),
    "/v1/messages/count_tokens": {"input_tokens": 11},
    "/v1/embeddings": {
        "object": "list",
        "model": "m",
        "usage": {"prompt_tokens": 11, "total_tokens": 11},
        "data": [{"object": "embedding", "index": 0, "embedding": [0.25] * 8}],
    },
}
"""Path to the answer that is given whole."""


@contextmanager
def running_engine() -> Iterator[tuple[Engine, int]]:
    """The engine in a thread of its own, and its port on 127.0.0.1."""
    engine, started = Engine(), threading.Event()
    ports, over = list[int](), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", engine.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ports.append(runner.addresses[0][1])
        started.set()
        await over.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield engine, ports[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
