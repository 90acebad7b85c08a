"""`/v1/chat/completions`, as OpenAI and the engines that follow it serve it.

Engine versions: vLLM 0.33, SGLang 0.5.23, llama.cpp b11434, LMDeploy 0.18. It knows which chunk carries generated
output (design section 2): a delta with content, reasoning (also as `reasoning_details`, OpenRouter's form, `reasoning_text` or `thinking`),
refusal, sound, images, a tool call or a function call; or a delta with
empty content and no role, which is a token that detokenised to nothing. A delta with a role and no content is the role
frame. Each server sends it at another moment, so it is no output; llama.cpp's `prompt_progress` chunks look like it. It
refuses to count tokens: a chunk is not a token.
"""

from typing import Annotated, Any, Literal

import msgspec

from sidecar.timeline.dialects.openai_chunk import Choice, ChunkDialect, OpenAIChunk, TokenOnly


class _Delta(msgspec.Struct, frozen=True):
    role: Any = None
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_text: Any = None
    thinking: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None
    audio: Any = None
    images: Any = None
    reasoning_details: Any = None

    def says_something(self) -> bool:
        """Text, reasoning, a refusal, a call of a tool, images, or sound. An `audio` with an id or an end alone frames the sound."""
        if self.answers() or self.reasoning or self.reasoning_content:
            return True
        return bool(self.reasoning_details or self.reasoning_text or self.thinking)

    def answers(self) -> bool:
        """The same without reasoning."""
        sound = isinstance(self.audio, dict) and (self.audio.get("data") or self.audio.get("transcript"))
        return bool(self.content or self.tool_calls or self.function_call or self.refusal or self.images or sound)


class _Choice(Choice, frozen=True):
    delta: _Delta | None = None
    message: _Delta | None = None

    def carries_output(self, chunk: OpenAIChunk) -> bool:
        said = self.delta if self.delta is not None else self.message
        if said is None or chunk.prompt_progress is not None:
            return False
        return said.says_something() or (said.content == "" and said.role is None)

    def says_something(self) -> bool:
        said = self.delta if self.delta is not None else self.message
        return said is not None and said.says_something()

    def answers(self) -> bool:
        said = self.delta if self.delta is not None else self.message
        return said is not None and said.answers()


class _Chunk(OpenAIChunk, frozen=True):
    choices: list[_Choice | None] | None = None


class _TokenDelta(_Delta, frozen=True, kw_only=True):
    content: Annotated[str, msgspec.Meta(min_length=1)]


class _TokenChoice(_Choice, frozen=True, kw_only=True):
    index: Literal[0] = 0
    delta: _TokenDelta
    finish_reason: None = None
    error: None = None


class _Token(TokenOnly, frozen=True, kw_only=True):
    choices: tuple[_TokenChoice]


class OpenAIChat(ChunkDialect):
    name = "openai_chat"
    decoder = msgspec.json.Decoder(_Chunk)
    token = msgspec.json.Decoder(_Token).decode
