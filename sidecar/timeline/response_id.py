"""The response id in a response: the key by which a report that comes later finds its request.

It knows the places where the APIs state it. It refuses to know what else stands in an event.
"""

from typing import Any

import msgspec

from sidecar.timeline.events import UNREADABLE


MAX_ID_CHARACTERS = 256
"""A longer response id is refused: no server makes one."""


class _Inner(msgspec.Struct, frozen=True):
    id: Any = None


class _Answer(msgspec.Struct, frozen=True):
    id: Any = None
    message: _Inner | None = None
    response: _Inner | None = None
    meta_info: _Inner | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def response_id_of(data: bytes) -> str | None:
    """The response id in the data of one event or in one whole body: the key of a report that comes later. Never raises.

    It stands at top level (chat, completions), in `message` (Anthropic's message_start), in `response` (Responses' first
    event) or in `meta_info` (SGLang's own API). None if there is none, or it is refused.
    """
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE:
        return None
    for part in (answer.message, answer.response, answer.meta_info, answer):
        if part is not None and isinstance(part.id, str) and part.id:
            return part.id if len(part.id) <= MAX_ID_CHARACTERS else None
    return None
