"""The part that chat and completions share: a chunk with choices, usage, an error, and the fields that engines add.

It knows how usage and extras are read. It refuses to know which choice carries output: each API's own file does.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import Extras, stream_event_of
from sidecar.timeline.dialects.llama_timings import usage_of_timings
from sidecar.timeline.dialects.openai_usage import OpenAIUsage, usage_of
from sidecar.timeline.events import StreamEvent


class OpenAIChunk(Extras, frozen=True):
    """A chunk of a stream, or a whole answer; each API adds its `choices`."""

    usage: OpenAIUsage | msgspec.UnsetType | None = msgspec.UNSET
    error: Any = None


class TokenOnly(OpenAIChunk, frozen=True, kw_only=True):
    """A chunk with `choices` only. Each API narrows those to one choice with output and without a finish.

    The fields are the same with narrower types: every chunk that this decodes, the wider chunk decodes too.
    """

    usage: msgspec.UnsetType = msgspec.UNSET
    error: None = None
    metrics: None = None
    timings: None = None
    nvext: None = None
    meta_info: None = None
    sglext: None = None
    prompt_progress: None = None


def stream_event_of_chunk(
    chunk: OpenAIChunk, *, has_choices: bool, output: list[int], finished: list[int]
) -> StreamEvent:
    """The stream event, given which choices have output and which are finished."""
    extras = chunk.found()
    usage = chunk.usage
    if usage is msgspec.UNSET and extras is None and not chunk.error:
        return stream_event_of(output, finished)
    failed = bool(chunk.error)
    return StreamEvent(
        output=tuple(output),
        finished=tuple(finished),
        usage=usage_of(usage) if isinstance(usage, OpenAIUsage) else usage_of_timings(chunk.timings),
        bare_usage=isinstance(usage, OpenAIUsage) and not has_choices and not failed,
        null_usage=usage is None,
        extras=extras,
        error=failed,
    )
