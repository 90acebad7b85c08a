"""`/v1/completions`, OpenAI's older API, as the engines serve it (vLLM 0.33, SGLang 0.5.23, llama.cpp b11434).

It knows that every choice in a chunk is output, also with empty text: this API has no role frame, and a token may
detokenise to nothing. llama.cpp's last chunk is no token: it has an empty text, the finish reason and `timings`, which
by default are in no other chunk (seen on b11434's wire). With several prompts the indexes run over prompts times `n`.
It refuses to count tokens: a chunk is not a token.
"""

from typing import Any, Literal

import msgspec

from sidecar.timeline.dialects.json_fields import decode, index_of, without_decoding
from sidecar.timeline.dialects.openai_chunk import OpenAIChunk, TokenOnly, reading_of_chunk
from sidecar.timeline.events import Dialect, Reading


class _Choice(msgspec.Struct, frozen=True):
    index: Any = 0
    text: Any = None
    finish_reason: Any = None


class _Chunk(OpenAIChunk, frozen=True):
    choices: list[_Choice | None] | None = None


class _TokenChoice(_Choice, frozen=True, kw_only=True):
    index: Literal[0] = 0
    text: str
    finish_reason: None = None


class _Token(TokenOnly, frozen=True, kw_only=True):
    choices: tuple[_TokenChoice]


_CHUNK = msgspec.json.Decoder(_Chunk)
_TOKEN = msgspec.json.Decoder(_Token)


class OpenAICompletions(Dialect):
    name = "openai_completions"
    has_usage_option = True
    token = _TOKEN.decode

    def read_event(self, event: bytes, data: bytes) -> Reading:
        plain = without_decoding(event, data)
        if plain is not None:
            return plain
        return _reading(decode(_CHUNK, data))

    def read_body(self, body: bytes) -> Reading:
        """A whole `text_completion` object, or an error object. Raises UnreadableEvent."""
        return _reading(decode(_CHUNK, body))


def _reading(chunk: _Chunk) -> Reading:
    output: list[int] = []
    finished: list[int] = []
    for choice in chunk.choices or ():
        if choice is None:
            continue
        farewell = choice.finish_reason and choice.text == "" and chunk.timings is not None
        if choice.text is not None and chunk.prompt_progress is None and not farewell:
            output.append(index_of(choice.index))
        if choice.finish_reason:
            finished.append(index_of(choice.index))
    return reading_of_chunk(chunk, has_choices=bool(chunk.choices), output=output, finished=finished)
