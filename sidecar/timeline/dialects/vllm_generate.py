"""`/inference/v1/generate`, vLLM's API of tokens in and tokens out (0.32, `entrypoints/scale_out/token_in_token_out`), as llm-d uses it.

It knows that a choice with token ids, or with text where the request asked for text, is output. Chunks, usage, metrics, errors and
`[DONE]` are those of the OpenAI APIs. The prompt comes as `token_ids`, so that its length is known exactly.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.openai_chunk import Choice, ChunkDialect, OpenAIChunk


class _Choice(Choice, frozen=True):
    token_ids: Any = None
    text: Any = None

    def carries_output(self, chunk: OpenAIChunk) -> bool:  # noqa: ARG002  the interface
        return bool(self.token_ids or self.text)

    def says_something(self) -> bool:
        return bool(self.token_ids or self.text)


class _Chunk(OpenAIChunk, frozen=True):
    choices: list[_Choice | None] | None = None


class VllmGenerate(ChunkDialect):
    name = "vllm_generate"
    decoder = msgspec.json.Decoder(_Chunk)
