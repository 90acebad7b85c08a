"""`/v1/chat/completions`, as OpenAI and the engines that follow it serve it.

Engine versions: vLLM 0.33, SGLang 0.5.23, llama.cpp b11434, LMDeploy 0.18. It knows which chunk carries generated
output (design section 2): a delta with content, reasoning, refusal, a tool call or a function call; or a delta with
empty content and no role, which is a token that detokenised to nothing. A delta with a role and no content is the role
frame. Each server sends it at another moment, so it is no output; llama.cpp's `prompt_progress` chunks look like it. It
refuses to count tokens: a chunk is not a token.
"""

from typing import Annotated, Any, Literal

import msgspec

from sidecar.timeline.dialects.json_fields import decode, index_of, without_decoding
from sidecar.timeline.dialects.openai_chunk import OpenAIChunk, TokenOnly, reading_of_chunk
from sidecar.timeline.events import Dialect, Reading


class _Delta(msgspec.Struct, frozen=True):
    role: Any = None
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None

    def carries_output(self) -> bool:
        return bool(
            self.content
            or self.reasoning
            or self.reasoning_content
            or self.tool_calls
            or self.function_call
            or self.refusal
            or (self.content == "" and self.role is None)
        )


class _Choice(msgspec.Struct, frozen=True):
    index: Any = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: Any = None


class _Chunk(OpenAIChunk, frozen=True):
    choices: list[_Choice | None] | None = None


class _TokenDelta(_Delta, frozen=True, kw_only=True):
    content: Annotated[str, msgspec.Meta(min_length=1)]


class _TokenChoice(_Choice, frozen=True, kw_only=True):
    index: Literal[0] = 0
    delta: _TokenDelta
    finish_reason: None = None


class _Token(TokenOnly, frozen=True, kw_only=True):
    choices: tuple[_TokenChoice]


_CHUNK = msgspec.json.Decoder(_Chunk)
_TOKEN = msgspec.json.Decoder(_Token)


class OpenAIChat(Dialect):
    name = "openai_chat"
    has_usage_option = True
    token = _TOKEN.decode

    def read_event(self, event: bytes, data: bytes) -> Reading:
        plain = without_decoding(event, data)
        if plain is not None:
            return plain
        return _reading(decode(_CHUNK, data))

    def read_body(self, body: bytes) -> Reading:
        """A whole `chat.completion` object, or an error object. Raises UnreadableEvent."""
        return _reading(decode(_CHUNK, body))


def _reading(chunk: _Chunk) -> Reading:
    output: list[int] = []
    finished: list[int] = []
    for choice in chunk.choices or ():
        if choice is None:
            continue
        said = choice.delta if choice.delta is not None else choice.message
        if said is not None and said.carries_output() and chunk.prompt_progress is None:
            output.append(index_of(choice.index))
        if choice.finish_reason:
            finished.append(index_of(choice.index))
    return reading_of_chunk(chunk, has_choices=bool(chunk.choices), output=output, finished=finished)
