"""The response id and the model's name in a response.

The id is the key by which a report that comes later finds its request. The name is the one that the engine says it served. It knows the
places where the APIs state them, and refuses to know what else stands in an event.
"""

from typing import Any

import msgspec

from sidecar.timeline.events import UNREADABLE


MAX_ID_CHARACTERS = 256
"""A longer response id is refused: no server makes one."""


Stated = tuple[str | None, str | None]
"""The id and the model; None where the response does not state one, or in a form that no server has."""
NOTHING_STATED: Stated = (None, None)


_INNER: Any = msgspec.defstruct("Inner", [("id", Any, None), ("model", Any, None)], module=__name__)
_ANSWER: Any = msgspec.json.Decoder(
    msgspec.defstruct(
        "Answer",
        [
            *((each, Any, None) for each in ("id", "model", "model_name")),
            *((each, _INNER | str | None, None) for each in ("message", "response")),
            ("meta_info", _INNER | None, None),
        ],
        module=__name__,
    )
)


def stated_in(data: bytes) -> Stated:
    """The id and the model in the data of one event or in one whole body. Never raises.

    The id stands at top level (chat, completions), in `message` (Anthropic's message_start), in `response` (Responses' first event) or in
    `meta_info` (SGLang's own API); the model beside it, and in Triton's `model_name`.
    """
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE:
        return NOTHING_STATED
    found, model = answer.id, answer.model
    inner = answer.message or answer.response or answer.meta_info
    if type(inner) is _INNER:  # isinstance takes an allocation, for a struct
        found, model = inner.id or found, inner.model or model
    if not isinstance(found, str) or not 0 < len(found) <= MAX_ID_CHARACTERS:
        found = None
    model = model or answer.model_name
    return found, model if isinstance(model, str) and model else None
