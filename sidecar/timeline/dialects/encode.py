"""The APIs whose answers are numbers and not tokens: embeddings, reranking, scores, classes.

OpenAI's and Cohere's paths as vLLM 0.32, SGLang 0.5.23, llama.cpp b11434, Ollama and TEI serve them. It knows the counts of the prompt
and the forms of an error; nothing in such an answer says that it is whole. It refuses to read the numbers.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import SEVERAL, count, decode, states, strange
from sidecar.timeline.events import ERROR, NOTHING, Dialect, StreamEvent, Usage
from sidecar.timeline.proof import NO_MARKS


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: Any = None
    total_tokens: Any = None  # all that vLLM states for reranking


class _Answer(msgspec.Struct, frozen=True):
    usage: _Usage | None = None
    prompt_eval_count: Any = None  # Ollama
    error: Any = None


class Encode(Dialect):
    name = "encode"
    end_marks = NO_MARKS
    decoder = msgspec.json.Decoder(_Answer)

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        return self.read_body(data)

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer or an error object. Raises UnreadableEvent."""
        if body.lstrip()[:1] == SEVERAL:
            return NOTHING  # TEI and llama.cpp answer with the numbers alone
        answer = decode(self.decoder, body)
        if states(answer.error):
            return ERROR
        tokens = count(answer.prompt_eval_count)
        if answer.usage is not None:
            stated = count(answer.usage.prompt_tokens)
            tokens = count(answer.usage.total_tokens) if stated is None else stated
        return strange(body) if tokens is None else StreamEvent(usage=Usage(prompt_tokens=tokens))
