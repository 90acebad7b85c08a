"""The part that chat and completions share: a chunk with choices, usage, an error, and the fields that engines add.

It knows how choices, usage and extras are read. It refuses to know which choice carries output: each API's own file
does.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from sidecar.timeline.dialects.json_fields import Extras, count, decode, detail, event_of, index_of, states, strange
from sidecar.timeline.dialects.llama_completion import usage_of_timings
from sidecar.timeline.events import Dialect, StreamEvent, Usage
from sidecar.timeline.finish import denies, finish_of


class OpenAIUsage(msgspec.Struct, frozen=True):
    """As OpenAI, vLLM 0.33, SGLang 0.5 and llama.cpp b11434 fill it in. A count that is not stated is unknown.

    `prompt_tokens` includes the cached ones, and `completion_tokens` the reasoning ones. `prompt_tokens_details` is
    null in vLLM without `--enable-prompt-tokens-details`.
    """

    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None
    reasoning_tokens: Any = None  # SGLang states it here


class Choice(msgspec.Struct, frozen=True):
    """One choice of a chunk; each API adds its output, and `carries_output`."""

    index: Any = 0
    finish_reason: Any = None
    error: Any = None  # OpenRouter

    def carries_output(self, chunk: "OpenAIChunk") -> bool:
        """Whether this choice of this chunk has generated output (design section 2)."""
        raise NotImplementedError

    def says_something(self) -> bool:
        """Whether its output is more than an end mark. Asked only of a choice that finishes."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether its output is more than reasoning. Asked only of a choice with output."""
        return True


class OpenAIChunk(Extras, frozen=True):
    """A chunk of a stream, or a whole answer; each API narrows its `choices`."""

    choices: Sequence[Choice | None] | None = None
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
    server_timing: None = msgspec.field(default=None, name="Server-Timing")


class ChunkDialect(Dialect):
    """An API of such chunks, streamed and whole."""

    has_usage_option = True
    decoder: ClassVar["msgspec.json.Decoder[Any]"]
    """It decodes the API's own `OpenAIChunk`."""

    def read_body(self, body: bytes) -> StreamEvent:
        """A whole answer, or an error object, is read like a chunk."""
        return self.read_event(b"", body)

    def read_event(self, event: bytes, data: bytes) -> StreamEvent:  # noqa: ARG002  the interface
        """One chunk, a whole answer, or an error object. Raises UnreadableEvent."""
        chunk: OpenAIChunk = decode(self.decoder, data)
        output: list[int] = []
        finished: list[int] = []
        finish, wordless, denied, answers = None, 0, False, False
        for choice in chunk.choices or ():
            if choice is None:
                continue
            outputs = choice.carries_output(chunk)
            if outputs:
                output.append(index_of(choice.index))
                answers = answers or choice.answers()
            denied = denied or bool(choice.error and states(choice.error))
            if choice.finish_reason:
                finished.append(index_of(choice.index))
                finish = finish_of(choice.finish_reason) if finish is None else finish
                denied = denied or denies(choice.finish_reason)
                wordless += outputs and not choice.says_something()
        extras = chunk.found()
        usage = chunk.usage
        says_nothing = not chunk.choices and extras is None and not isinstance(usage, OpenAIUsage)
        denied = denied or bool(chunk.error and states(chunk.error)) or (says_nothing and strange(data).error)
        if usage is msgspec.UNSET and extras is None and not denied:
            return event_of(
                output, finished, finish, wordless=0 < wordless == len(output), reasons=bool(output) and not answers
            )
        return StreamEvent(
            output=tuple(output),
            reasons=bool(output) and not answers,
            finished=tuple(finished),
            finish=finish,
            wordless=0 < wordless == len(output),
            usage=_usage(usage) if isinstance(usage, OpenAIUsage) else usage_of_timings(chunk.timings),
            bare_usage=isinstance(usage, OpenAIUsage) and not chunk.choices and not denied,
            null_usage=usage is None,
            extras=extras,
            error=denied,
        )


def _usage(stated: OpenAIUsage) -> Usage:
    reasoning = detail(stated.completion_tokens_details, "reasoning_tokens")
    return Usage(
        prompt_tokens=count(stated.prompt_tokens),
        cached_tokens=detail(stated.prompt_tokens_details, "cached_tokens"),
        completion_tokens=count(stated.completion_tokens),
        reasoning_tokens=count(stated.reasoning_tokens) if reasoning is None else reasoning,
    )
