"""Ollama's own `/api/chat` and `/api/generate` (fb307609, `api/types.go` and `server/routes.go`), streamed as NDJSON and whole.

It knows that a line with text, thinking, tool calls or an image is output. The line with `done: true` ends the answer
and states its counts and, in nanoseconds, its durations. The two APIs differ in the key of the text (`message` or
`response`), so one dialect reads both. A line without content before `done` is no output: a parser of tool calls or
thinking inside Ollama holds text back. A request without a prompt loads the model, or unloads it: its answer is a receipt. It refuses to interpret durations: it hands them on to
`sidecar/engines/ollama.py`. A request that does not state `stream` gets a stream.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import count, decode, states, strange
from sidecar.timeline.events import ERROR, NO_USAGE, OUTPUT, REASONING, Dialect, StreamEvent, Usage
from sidecar.timeline.finish import denies, finish_of


_LOADED = ("load", "unload")
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


class _Message(msgspec.Struct, frozen=True):
    content: Any = None
    thinking: Any = None
    tool_calls: Any = None
    images: Any = None


class _Line(msgspec.Struct, frozen=True):
    message: _Message | None = None
    response: Any = None
    thinking: Any = None
    tool_calls: Any = None
    image: Any = None
    done: Any = None
    done_reason: Any = None
    error: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    total_duration: Any = None
    load_duration: Any = None
    prompt_eval_duration: Any = None
    eval_duration: Any = None


class Ollama(Dialect):
    name = "ollama"
    decoder = msgspec.json.Decoder(_Line)
    streams_unsaid = True
    in_lines = True

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  lines have no names
        return self.read_body(data)

    def read_body(self, body: bytes) -> StreamEvent:
        return _stream_event(decode(self.decoder, body), body)


def _stream_event(line: _Line, data: bytes) -> StreamEvent:
    if states(line.error):
        return ERROR
    if line.done_reason in _LOADED:
        return StreamEvent(accepted=True, done=True)
    message = line.message
    answers = bool(line.response or line.tool_calls or line.image) or bool(
        message is not None and (message.content or message.tool_calls or message.images)
    )
    outputs = answers or bool(line.thinking or (message is not None and message.thinking))
    if line.done is not True:
        return OUTPUT if answers else REASONING if outputs else strange(data)
    stated = {name: value for name in DURATIONS if (value := getattr(line, name)) is not None}
    usage = Usage(prompt_tokens=count(line.prompt_eval_count), completion_tokens=count(line.eval_count))
    return StreamEvent(
        output=(0,) if outputs else (),
        finished=(0,),
        finish=finish_of(line.done_reason),
        usage=None if usage == NO_USAGE else usage,
        extras=stated or None,
        error=denies(line.done_reason),
        done=True,
    )
