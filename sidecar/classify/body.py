"""What may be read from a request's body before it goes on: a bounded, partial look at its top-level JSON keys.

(The engineer of this room writes `look()` here.)
"""

from dataclasses import dataclass
from enum import StrEnum


class Asked(StrEnum):
    """What the client said about `stream_options.include_usage`."""

    UNSAID = "unsaid"
    """No stream_options, or null, or an object that does not mention include_usage."""
    WANTED = "wanted"
    DECLINED = "declined"
    UNCLEAR = "unclear"
    """Not decodable within the bound, or of a type that the API does not know."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the body found; None where the body does not say, or not within the bound."""

    whole: bool = False
    """The whole body was seen and is one JSON object. False: beyond the bound, truncated or no JSON."""
    model: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    """`max_tokens`, `max_completion_tokens` or `max_output_tokens`, whichever stands."""
    user: str | None = None
    priority: int | None = None
    service_tier: str | None = None
    choices: int | None = None
    """How many choices the answer will have: `n` times the prompts of a completions batch; None if unclear."""
    usage_asked: Asked = Asked.UNCLEAR
    text_bytes: int | None = None
    """Bytes of the body that may be prompt text: the base for the prompt-length estimate. None if embedded media make it meaningless."""


BLIND = Look()
