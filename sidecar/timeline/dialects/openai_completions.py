"""`/v1/completions`, OpenAI's older API, as the engines serve it (vLLM 0.33, SGLang 0.5.23, llama.cpp b11434).

It knows that every choice in a chunk is output, also with empty text: this API has no role frame, and a token may
detokenise to nothing. llama.cpp's last chunk is no token: it has an empty text, the finish reason and `timings`, which
by default are in no other chunk (seen on b11434's wire). With several prompts the indexes run over prompts times `n`.
It refuses to count tokens: a chunk is not a token.
"""

from typing import Any, Literal

import msgspec

from sidecar.timeline.dialects.openai_chunk import Choice, ChunkDialect, OpenAIChunk, TokenOnly


class _Choice(Choice, frozen=True):
    text: Any = None

    def carries_output(self, chunk: OpenAIChunk) -> bool:
        farewell = self.finish_reason and self.text == "" and chunk.timings is not None
        return self.text is not None and chunk.prompt_progress is None and not farewell

    def says_something(self) -> bool:
        return bool(self.text)


class _Chunk(OpenAIChunk, frozen=True):
    choices: list[_Choice | None] | None = None


class _TokenChoice(_Choice, frozen=True, kw_only=True):
    index: Literal[0] = 0
    text: str
    finish_reason: None = None
    error: None = None


class _Token(TokenOnly, frozen=True, kw_only=True):
    choices: tuple[_TokenChoice]


class OpenAICompletions(ChunkDialect):
    name = "openai_completions"
    decoder = msgspec.json.Decoder(_Chunk)
    token = msgspec.json.Decoder(_Token).decode
