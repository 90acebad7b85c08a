"""`/v1/audio/transcriptions` and `/translations`, OpenAI's APIs, as OpenAI and vLLM 0.32 serve them.

It knows both forms of a stream: vLLM's chunks with a `delta`, as of a chat, and OpenAI's typed events, whose `*.delta` is output. A
whole answer is an object with a text. It refuses to count audio: a usage in seconds is no count of tokens.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.field_table import OPENAI_CHAT
from sidecar.timeline.dialects.json_fields import count, decode, states, strange
from sidecar.timeline.events import ERROR, NOTHING, OUTPUT, Dialect, StreamEvent, Usage
from sidecar.timeline.finish import Finish
from sidecar.timeline.proof import BOTH_MARKS


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: Any = None
    output_tokens: Any = None


class _Said(msgspec.Struct, frozen=True):
    type: Any = None
    text: Any = None
    choices: Any = None
    usage: _Usage | None = None
    error: Any = None


class Transcription(Dialect):
    name = "transcription"
    end_marks = BOTH_MARKS._replace(whole=())
    decoder = msgspec.json.Decoder(_Said)

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        """A chunk, or a typed event. Raises UnreadableEvent."""
        said = decode(self.decoder, data)
        if not isinstance(said.type, str) or said.choices is not None:
            return OPENAI_CHAT.read_event(event, data)
        if states(said.error) or said.type == "error":
            return ERROR
        if said.type.endswith(".done"):
            return StreamEvent(finished=(0,), finish=Finish.STOP, usage=_counts(said.usage), done=True)
        return OUTPUT if said.type.endswith(".delta") else NOTHING

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer or an error object. Raises UnreadableEvent."""
        said = decode(self.decoder, body)
        if states(said.error) or not isinstance(said.text, str):
            return strange(body)
        return StreamEvent(
            output=(0,), finished=(0,), finish=Finish.STOP, wordless=not said.text, usage=_counts(said.usage)
        )


def _counts(stated: _Usage | None) -> Usage | None:
    if stated is None:
        return None
    usage = Usage(prompt_tokens=count(stated.input_tokens), completion_tokens=count(stated.output_tokens))
    return None if usage == Usage() else usage
