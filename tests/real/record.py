"""Records the answers of a real vLLM into tests/streams: `python -m tests.real.record`.

For each request: `vllm-NAME.http` holds every byte of the answer as it stood on the socket, head and chunk framing
included, and for streams `vllm-NAME.sse` holds the body without chunk framing. Parsers are tested against these files,
so that a new engine version takes one recording and one diff. This module asserts nothing; `tests/timeline` does.
"""

import asyncio
import tempfile
from pathlib import Path

from tests.real.environment import vllm_environment
from tests.real.server import MODEL, RunningEngine, running_vllm, warm_up
from tests.support.client import Connection, post


STREAMS = Path(__file__).parents[1] / "streams"
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why is the sky blue?"}]
# Not greedy: a random model's most likely token never changes, and vLLM refuses n=2 without sampling.
SAMPLING = {"model": MODEL, "temperature": 1, "seed": 7}
USAGE = {"stream_options": {"include_usage": True}}

TWELVE = {"max_tokens": 12, "ignore_eos": True}
_CHAT = {**SAMPLING, **TWELVE, "messages": CHAT}
_COMPLETION = {**SAMPLING, **TWELVE, "prompt": "Why is the sky blue?"}
_RESPONSE = {**SAMPLING, "input": "Why is the sky blue?", "max_output_tokens": 12, "ignore_eos": True}
# Long enough for whole KV blocks, so that the usage of its second request reports cached tokens.
_LONG = {**_CHAT, "messages": [{"role": "user", "content": "la to mi re nu ka so ti be da vo an " * 40}]}
_MESSAGE = {**SAMPLING, "messages": CHAT[1:], "max_tokens": 12}

QUESTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {**_CHAT, "stream": True}),
    "chat-usage": ("/v1/chat/completions", {**_CHAT, "stream": True, **USAGE}),
    "chat-two-choices": ("/v1/chat/completions", {**_CHAT, "stream": True, "n": 2, **USAGE}),
    "chat-one-token": ("/v1/chat/completions", {**_CHAT, "stream": True, **USAGE, "max_tokens": 1}),
    "chat-logprobs": (
        "/v1/chat/completions",
        {**_CHAT, "stream": True, **USAGE, "max_tokens": 3, "logprobs": True, "top_logprobs": 2},
    ),
    "chat-continuous-usage": (
        "/v1/chat/completions",
        {**_CHAT, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    "chat-uncached": ("/v1/chat/completions", {**_LONG, "stream": True, **USAGE, "max_tokens": 2}),
    "chat-cached": ("/v1/chat/completions", {**_LONG, "stream": True, **USAGE, "max_tokens": 2}),
    "chat-json": ("/v1/chat/completions", _CHAT),
    "chat-bad-request": ("/v1/chat/completions", {**_CHAT, "stream": True, "max_tokens": -1}),
    "chat-unknown-model": ("/v1/chat/completions", {**_CHAT, "stream": True, "model": "nobody"}),
    "completions": ("/v1/completions", {**_COMPLETION, "stream": True}),
    "completions-usage": ("/v1/completions", {**_COMPLETION, "stream": True, **USAGE}),
    "completions-two-choices": ("/v1/completions", {**_COMPLETION, "stream": True, "n": 2, **USAGE}),
    "completions-two-prompts": (
        "/v1/completions",
        {**_COMPLETION, "prompt": ["Why is the sky blue?", "And the sea?"], "stream": True, **USAGE},
    ),
    "completions-json": ("/v1/completions", _COMPLETION),
    "responses": ("/v1/responses", {**_RESPONSE, "stream": True}),
    "responses-json": ("/v1/responses", _RESPONSE),
    "messages": ("/v1/messages", {**_MESSAGE, "stream": True}),
    "messages-json": ("/v1/messages", _MESSAGE),
}


async def record(engine: RunningEngine, folder: Path) -> None:
    """Send each request on a connection of its own, and write the answer."""
    warm = await Connection.open(engine.port)
    await warm.request(post(*QUESTIONS["completions"]))  # the first request after installation took ten seconds
    warm.close()
    for name, (path, body) in QUESTIONS.items():
        connection = await Connection.open(engine.port)
        answer = await connection.request(post(path, body))
        connection.close()
        (folder / f"vllm-{name}.http").write_bytes(answer.raw)
        if (answer.header("content-type") or b"").startswith(b"text/event-stream"):
            (folder / f"vllm-{name}.sse").write_bytes(answer.body)
        print(f"{name}: {answer.status}, {len(answer.body)} bytes in {len(answer.pieces)} pieces", flush=True)  # noqa: T201


def main() -> None:
    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201  a script that a person runs

    environment = vllm_environment(say)
    with tempfile.TemporaryDirectory() as folder, running_vllm(environment, Path(folder), say) as engine:
        warm_up(engine)
        asyncio.run(record(engine, STREAMS))


if __name__ == "__main__":
    main()
