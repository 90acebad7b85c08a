"""`/v1/completions`, OpenAI's older API, as the engines speak it (vLLM 0.33, SGLang 0.5.23, llama.cpp b11434).

It knows that every choice in a chunk is output, an empty text too: there is no role frame here, and a token may
detokenise to nothing. llama.cpp's last chunk is no token: an empty text beside the finish reason and its `timings`, which
by default stand nowhere else (seen on b11434's wire). With several prompts the indexes run over prompts times `n`.
It refuses to count tokens: a chunk is not a token.
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


class _Choice(msgspec.Struct, frozen=True):
    index: Any = 0
    text: Any = None
    finish_reason: Any = None


class _Chunk(Extras, frozen=True):
    choices: list[_Choice | None] | None = None
    usage: OpenAIUsage | msgspec.UnsetType | None = msgspec.UNSET
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class OpenAICompletions:
    """Text completions, streamed and whole."""

    name = "openai_completions"
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
