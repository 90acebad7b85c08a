"""The id that an answer gives itself: the key under which its engine's word on it may come later.

Knows where each API writes it: at top level (chat, completions), in `message` (Anthropic's message_start), in `response`
(Responses' first event), in `meta_info` (SGLang's own API). Refuses to believe in ids that no server makes.
"""

from typing import Any

import msgspec

from sidecar.timeline.events import UNREADABLE


MAX_CHARACTERS = 256


class _Inner(msgspec.Struct, frozen=True):
    id: Any = None


class _Answer(msgspec.Struct, frozen=True):
    id: Any = None
    message: _Inner | None = None
    response: _Inner | None = None
    meta_info: _Inner | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def response_id_of(data: bytes) -> str | None:
    """The id in one event's data or one whole body; None where there is none, or none that can be used. Never raises."""
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE:
        return None
    inner = (part.id for part in (answer.message, answer.response, answer.meta_info) if part is not None)
    found = next((value for value in (*inner, answer.id) if isinstance(value, str) and value), None)
    return found if found is not None and len(found) <= MAX_CHARACTERS else None
