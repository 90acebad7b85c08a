"""The `usage` object of OpenAI's chat and completions APIs, as OpenAI, vLLM 0.33, SGLang 0.5 and llama.cpp b11434 fill it in.

`prompt_tokens` counts the cached ones too; `completion_tokens` counts reasoning too. It refuses to compute what is not
stated: `prompt_tokens_details` is null in vLLM without `--enable-prompt-tokens-details`, and then nobody knows.
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
    """The counts that stand there."""
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
