"""Records the streams of a real Dynamo into tests/streams: `python -m tests.real.dynamo_record`.

For each question that is streamed `dynamo-NAME.sse` holds the body without chunk framing, and of the disaggregated Dynamo
`dynamo-NAME-disaggregated.sse`. This module asserts nothing; `tests/timeline`, `tests/engines` and `tests/real/test_dynamo_recordings.py` do.
"""

import asyncio
import tempfile
from pathlib import Path

from tests.real.dynamo_environment import dynamo_environment
from tests.real.dynamo_server import RunningDynamo, Shape, running_dynamo
from tests.real.environment import vllm_environment
from tests.real.record import STREAMS
from tests.support.client import Answer, Connection, post


CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
USAGE = {"stream_options": {"include_usage": True}}
TIMING = {"nvext": {"extra_fields": ["timing", "worker_id"]}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
_ASKED = {"model": "tiny", "max_tokens": 8}
_CHAT = {**_ASKED, "stream": True, "messages": [{"role": "user", "content": "la to mi re nu ka"}]}
_COMPLETION = {**_ASKED, "stream": True, "prompt": "la to mi re nu ka"}

Questions = dict[str, tuple[str, dict[str, object]]]

UNASKED: Questions = {
    "chat": (CHAT, _CHAT),
    "chat-timing": (CHAT, {**_CHAT, **TIMING}),
    "chat-tools": (CHAT, {**_CHAT, "tools": [TOOL]}),
    "chat-one-token": (CHAT, {**_CHAT, "max_tokens": 1}),
    "chat-null-options": (CHAT, {**_CHAT, "stream_options": None}),
    "completions": (COMPLETIONS, _COMPLETION),
    "completions-timing": (COMPLETIONS, {**_COMPLETION, **TIMING}),
}
"""Streams whose client did not ask for usage: the sidecar asks on the client's behalf, and takes the chunk out again."""
ASKED: Questions = {
    "chat-usage": (CHAT, {**_CHAT, **USAGE}),
    "chat-usage-timing": (CHAT, {**_CHAT, **USAGE, **TIMING}),
    "completions-usage": (COMPLETIONS, {**_COMPLETION, **USAGE}),
    "completions-usage-timing": (COMPLETIONS, {**_COMPLETION, **USAGE, **TIMING}),
    "responses": (RESPONSES, {"model": "tiny", "input": "la to mi", "max_output_tokens": 8, "stream": True}),
}
RECORDED = ("chat", "chat-usage", "chat-usage-timing", "completions", "completions-usage-timing", "responses")
DISAGGREGATED = ("chat-usage-timing",)


async def answer_to(engine: RunningDynamo, name: str) -> Answer:
    """The answer to one question, on a connection of its own."""
    path, body = (UNASKED | ASKED)[name]
    connection = await Connection.open(engine.port)
    answer = await connection.request(post(path, body))
    connection.close()
    return answer


def main() -> None:
    def say(line: str) -> None:
        print(line, flush=True)  # noqa: T201  a script that a person runs

    build = dynamo_environment(vllm_environment(say).model, say)
    for shape, names, ending in (
        (Shape.AGGREGATED, RECORDED, ""),
        (Shape.DISAGGREGATED, DISAGGREGATED, "-disaggregated"),
    ):
        with tempfile.TemporaryDirectory() as folder, running_dynamo(build, Path(folder), say, shape) as engine:
            for name in names:
                answer = asyncio.run(answer_to(engine, name))
                (STREAMS / f"dynamo-{name}{ending}.sse").write_bytes(answer.body)
                say(f"{name}: {answer.status}, {len(answer.body)} bytes")


if __name__ == "__main__":
    main()
