"""`/v1/chat/completions`, as OpenAI and the engines that follow it speak it (vLLM 0.33, SGLang 0.5.23, llama.cpp b11434, LMDeploy 0.18).

It knows which chunk carries generated output (design section 2): a delta with content, reasoning, refusal, a tool call
or a function call; or with an empty content and no role, which is a token that detokenised to nothing. A delta with a
role and no content is the role frame, whose instant means something else on every server, and llama.cpp's
`prompt_progress` chunks look like one. It refuses to count tokens: a chunk is not a token.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.fields import (
    DONE,
    DONE_DATA,
    ERROR,
    Extras,
    decode,
    index_of,
    reading_of,
)
from sidecar.timeline.dialects.llama_timings import usage_of_timings
from sidecar.timeline.dialects.openai_usage import OpenAIUsage, usage_of
from sidecar.timeline.reading import NOTHING, Reading


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


class _Chunk(Extras, frozen=True):
    choices: list[_Choice | None] | None = None
    usage: OpenAIUsage | msgspec.UnsetType | None = msgspec.UNSET
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class OpenAIChat:
    """Chat completions, streamed and whole."""

    name = "openai_chat"
    has_usage_option = True
    streams_unsaid = False

    def read_event(self, event: bytes, data: bytes) -> Reading:
        """One chunk. Raises UnreadableEvent."""
        if data == DONE_DATA:
            return DONE
        if event == b"error":
            return ERROR
        if not data:
            return NOTHING
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
    extras = chunk.found()
    usage = chunk.usage
    if usage is msgspec.UNSET and extras is None and not chunk.error:
        return reading_of(output, finished)
    failed = bool(chunk.error)
    return Reading(
        output=tuple(output),
        finished=tuple(finished),
        usage=usage_of(usage) if isinstance(usage, OpenAIUsage) else usage_of_timings(chunk.timings),
        bare_usage=isinstance(usage, OpenAIUsage) and not chunk.choices and not failed,
        null_usage=usage is None,
        extras=extras,
        error=failed,
    )
