"""Triton's generate extension, `/v2/models/MODEL[/versions/N]/generate` and `/generate_stream` (server 2.73, TRT-LLM backend).

It knows that every output tensor of the model is a key of the event. LLM backends name the text `text_output` and
stream only the new text. The TensorRT-LLM backend adds `*_time_ns` tensors to its last response if the request asked
for them. An event with these and without text is that last response, and no token. A failure within a stream is an
event with `error` under status 200. `num_input_tokens` is the prompt's length, on each response of a request that asked for it
(`return_num_input_tokens`; vLLM backend, `src/utils/request.py` at 11c4e0fd); output tokens are left: some backends count those of one
response, others of all so far. It refuses to guess for models with another name for their text: they get wire
marks alone.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import count, decode, states, strange
from sidecar.timeline.events import ERROR, OUTPUT, Dialect, StreamEvent, Usage
from sidecar.timeline.proof import NO_MARKS


TRITON_TIMES = ("arrival_time_ns", "first_scheduled_time_ns", "first_token_time_ns", "last_token_time_ns")


class _Event(msgspec.Struct, frozen=True):
    text_output: Any = None
    arrival_time_ns: Any = None
    first_scheduled_time_ns: Any = None
    first_token_time_ns: Any = None
    last_token_time_ns: Any = None
    num_input_tokens: Any = None
    error: Any = None


class TritonGenerate(Dialect):
    name = "triton_generate"
    end_marks = NO_MARKS
    model_in_path = True
    decoder = msgspec.json.Decoder(_Event)

    def __init__(self, *, streams_unsaid: bool) -> None:
        """`streams_unsaid`: on this path the answer is a stream; `stream` in the body is the backend's own switch."""
        self.streams_unsaid = streams_unsaid

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        return self.read_body(data)

    def read_body(self, body: bytes) -> StreamEvent:
        return _stream_event(decode(self.decoder, body), body)


def _stream_event(said: _Event, data: bytes) -> StreamEvent:
    if states(said.error):
        return ERROR
    stated = said.num_input_tokens
    prompt_tokens = None if stated is None else count(stated[0] if isinstance(stated, list) and stated else stated)
    usage = None if prompt_tokens is None else Usage(prompt_tokens=prompt_tokens)
    times = {name: value for name in TRITON_TIMES if (value := getattr(said, name)) is not None}
    if times:
        return StreamEvent(output=(0,) if said.text_output else (), finished=(0,), usage=usage, extras=times)
    if usage is not None:
        return StreamEvent(output=(0,) if said.text_output is not None else (), usage=usage)
    return OUTPUT if said.text_output is not None else strange(data)
