"""The `usage` object of OpenAI's chat and completions APIs, as OpenAI, vLLM 0.33, SGLang 0.5 and llama.cpp b11434 fill it in.

It knows that `prompt_tokens` includes the cached ones, and `completion_tokens` the reasoning ones. It refuses to
compute a count that is not stated: `prompt_tokens_details` is null in vLLM without `--enable-prompt-tokens-details`;
the count is then unknown.
"""

from typing import Any

import msgspec

from sidecar.timeline.dialects.json_fields import count
from sidecar.timeline.events import Usage


class OpenAIUsage(msgspec.Struct, frozen=True):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None
    reasoning_tokens: Any = None  # SGLang states it here


def usage_of(stated: OpenAIUsage) -> Usage:
    """The counts in this `usage` object."""
    reasoning = detail(stated.completion_tokens_details, "reasoning_tokens")
    return Usage(
        prompt_tokens=count(stated.prompt_tokens),
        cached_tokens=detail(stated.prompt_tokens_details, "cached_tokens"),
        completion_tokens=count(stated.completion_tokens),
        reasoning_tokens=count(stated.reasoning_tokens) if reasoning is None else reasoning,
    )


def detail(details: object, name: str) -> int | None:
    """One count of a `*_details` object, which may be null, absent or odd."""
    return count(details.get(name)) if isinstance(details, dict) else None
