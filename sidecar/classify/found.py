"""The values that a look into a request body finds, and that classify the request.

It knows their meaning. It refuses to know where they stand in a body, and how they are read (`body.py`).
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec


class Asked(StrEnum):
    """State of `stream_options.include_usage` in the request."""

    ABSENT = "absent"
    """No stream_options."""
    NULL = "null"
    """`stream_options` is null."""
    LEFT_OUT = "left_out"
    """An object that does not mention include_usage."""
    WANTED = "wanted"
    DECLINED = "declined"
    UNCLEAR = "unclear"
    """Not decodable within the bound, or of a type that the API does not know."""


class Place(NamedTuple):
    """Offsets in the body; `end` is exclusive."""

    start: int
    end: int


class Peek(msgspec.Struct, frozen=True):
    """Values that were found in the body; None if the body does not state one, or not within the bound."""

    whole: bool = False
    """The whole body was seen and is one JSON object. False: beyond the bound, truncated or no JSON."""
    model: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    """`max_completion_tokens`, else `max_tokens`, else `max_output_tokens`. None for native APIs, which nest theirs."""
    user: str | None = None
    priority: int | None = None
    service_tier: str | None = None
    choices: int | None = None
    """Number of choices in the answer: `n` times the prompts of a completions batch; None if unclear."""
    usage_asked: Asked = Asked.UNCLEAR
    null_at: Place | None = None
    """The place of `stream_options` in a long body, if it is null and a stream is asked for."""
    text_bytes: int | None = None
    """Bytes of the body that may be prompt text, for the prompt-length estimate; messages that were taken apart (`media.py`) count as
    compact JSON, all else as it is written. None if media, or text that the server has already, make it useless."""
    least_text_bytes: int = 0
    """As `text_bytes`, without media in base64, and without what the server has already: the prompt is no shorter than that. 0 where
    nothing of it is known."""
    prompt_tokens: int | None = None
    """The prompt's exact length if it was given as token ids; then `text_bytes` is None."""
    grammar_bytes: int = 0
    """Bytes that bind the answer's form (a JSON schema, a regular expression, a grammar, tools that must be called): the
    engine prepares them before the first output, apart from the prompt. 0 also where the body was not read whole."""
    answers_in_text: bool = False
    """It asks for a transcription as plain text, subtitles included."""
    server_tools: bool = False
    """It names tools that the server itself runs (Responses API): its stream may stand still for them."""


UNREAD_BODY = Peek()
