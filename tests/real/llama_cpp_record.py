"""Records the answers of a real llama.cpp server into tests/streams: `python -m tests.real.llama_cpp_record`.

As `record.py` does for vLLM: `llama-cpp-NAME.http` holds every byte of the answer as it stood on the socket, and for
streams `llama-cpp-NAME.sse` holds the body without chunk framing. This module asserts nothing; `tests/timeline` does.
"""

import asyncio
import tempfile
from pathlib import Path

from tests.real.environment import vllm_environment
from tests.real.llama_cpp_environment import llama_cpp_environment
from tests.real.llama_cpp_server import running_llama_cpp
from tests.real.record import CHAT, STREAMS, USAGE
from tests.real.server import MODEL, RunningEngine
from tests.support.client import Connection, get, post


SAMPLING = {"model": MODEL, "temperature": 1, "seed": 7, "ignore_eos": True}
_CHAT = {**SAMPLING, "messages": CHAT, "max_tokens": 12}
_COMPLETION = {**SAMPLING, "prompt": "Why is the sky blue?", "max_tokens": 12}
_NATIVE = {**SAMPLING, "prompt": "Why is the sky blue?", "n_predict": 12}
_LONG = {
    **_CHAT,
    "messages": [{"role": "user", "content": "la to mi re nu ka so ti be da vo an " * 120}],
    "max_tokens": 2,
}
_STREAM = {"stream": True}

QUESTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {**_CHAT, **_STREAM}),
    "chat-usage": ("/v1/chat/completions", {**_CHAT, **_STREAM, **USAGE}),
    "chat-one-token": ("/v1/chat/completions", {**_CHAT, **_STREAM, "max_tokens": 1}),
    "chat-two-choices": ("/v1/chat/completions", {**_CHAT, **_STREAM, **USAGE, "n": 2, "max_tokens": 4}),
    "chat-timings-per-token": (
        "/v1/chat/completions",
        {**_CHAT, **_STREAM, "timings_per_token": True, "max_tokens": 3},
    ),
    "chat-progress": ("/v1/chat/completions", {**_LONG, **_STREAM, "return_progress": True, "cache_prompt": False}),
    "chat-cached": ("/v1/chat/completions", {**_LONG, **_STREAM, **USAGE, "cache_prompt": True}),
    "chat-json": ("/v1/chat/completions", _CHAT),
    "chat-bad-request": ("/v1/chat/completions", {**_STREAM, "model": MODEL, "messages": "none"}),
    "chat-too-long": (
        "/v1/chat/completions",
        {**_LONG, **_STREAM, "messages": [{"role": "user", "content": "la " * 20_000}]},
    ),
    "completions": ("/v1/completions", {**_COMPLETION, **_STREAM}),
    "completions-usage": ("/v1/completions", {**_COMPLETION, **_STREAM, **USAGE}),
    "completions-json": ("/v1/completions", _COMPLETION),
    "completion": ("/completion", {**_NATIVE, **_STREAM}),
    "completion-progress": ("/completion", {**_NATIVE, **_STREAM, "return_progress": True, "cache_prompt": False}),
    "completion-json": ("/completion", _NATIVE),
    "responses": ("/v1/responses", {**SAMPLING, **_STREAM, "input": "Why is the sky blue?", "max_output_tokens": 12}),
    "responses-json": ("/v1/responses", {**SAMPLING, "input": "Why is the sky blue?", "max_output_tokens": 12}),
    "messages": ("/v1/messages", {**SAMPLING, **_STREAM, "messages": CHAT[1:], "max_tokens": 12}),
    "messages-json": ("/v1/messages", {**SAMPLING, "messages": CHAT[1:], "max_tokens": 12}),
}
PAGES = {"health": "/health", "models": "/v1/models", "props": "/props", "metrics": "/metrics", "version": "/version"}


async def record(engine: RunningEngine, folder: Path) -> None:
    """Send each request on a connection of its own, and write the answer."""
    for name, (path, body) in QUESTIONS.items():
        connection = await Connection.open(engine.port)
        answer = await connection.request(post(path, body))
        connection.close()
        (folder / f"llama-cpp-{name}.http").write_bytes(answer.raw)
        if (answer.header("content-type") or b"").startswith(b"text/event-stream"):
            (folder / f"llama-cpp-{name}.sse").write_bytes(answer.body)
        print(f"{name}: {answer.status}, {len(answer.body)} bytes in {len(answer.pieces)} pieces", flush=True)  # noqa: T201
    for name, path in PAGES.items():
        connection = await Connection.open(engine.port)
        answer = await connection.request(get(path))
        connection.close()
        (folder / f"llama-cpp-{name}.http").write_bytes(answer.raw)


def main() -> None:
    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201  a script that a person runs

    build = llama_cpp_environment(vllm_environment(say).model, say)
    with tempfile.TemporaryDirectory() as folder, running_llama_cpp(build, Path(folder), say) as engine:
        asyncio.run(record(engine, STREAMS))


if __name__ == "__main__":
    main()
