"""`/v1/audio/transcriptions` and `/translations`, OpenAI's APIs, as OpenAI and vLLM 0.32 serve them.

It knows both forms of a stream: vLLM's chunks with a `delta`, as of a chat, and OpenAI's typed events, whose `*.delta` is output. A
whole answer is an object with a text. It refuses to count audio: a usage in seconds is no count of tokens.
"""

from sidecar.timeline.dialects.field_table import OPENAI_CHAT
from sidecar.timeline.dialects.fields import Fields
from sidecar.timeline.dialects.json_fields import decode, states, strange
from sidecar.timeline.events import ERROR, NOTHING, OUTPUT, StreamEvent
from sidecar.timeline.finish import Finish
from sidecar.timeline.proof import BOTH_MARKS


class Transcription(Fields):
    """The dialect. The row tells the fields of a typed event and of a whole answer."""

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:
        """A chunk, or a typed event. Raises UnreadableEvent."""
        said = decode(self._decoder, data)
        if not isinstance(said.type, str) or said.choices is not None:
            return OPENAI_CHAT.read_event(event, data)
        if states(said.error) or said.type == "error":
            return ERROR
        if said.type.endswith(".done"):
            return StreamEvent(finished=(0,), finish=Finish.STOP, usage=self._usage(said), done=True)
        return OUTPUT if said.type.endswith(".delta") else NOTHING

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer or an error object. Raises UnreadableEvent."""
        said = decode(self._decoder, body)
        if states(said.error) or not isinstance(said.text, str):
            return strange(body)
        return StreamEvent(
            output=(0,), finished=(0,), finish=Finish.STOP, wordless=not said.text, usage=self._usage(said)
        )


TRANSCRIPTION = Transcription(
    "transcription",
    answer=("text", "type", "choices"),
    prompt_tokens=("usage.input_tokens",),
    completion_tokens=("usage.output_tokens",),
    end_marks=BOTH_MARKS._replace(whole=()),
)
