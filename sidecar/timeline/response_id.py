"""The response id in an answer: the key under which the engine's report on it may come later.

Knows where each API writes it: at top level (chat, completions), in `message` (Anthropic's message_start), in
`response` (Responses' first event), in `meta_info` (SGLang's own API). Refuses empty ids and ids above MAX_CHARACTERS:
no server makes them.
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
    """The id in the data of one event or in one whole body; None if there is none, or it is refused. Never raises."""
    try:
        answer = _ANSWER.decode(data)
    except UNREADABLE:
        return None
    inner = (part.id for part in (answer.message, answer.response, answer.meta_info) if part is not None)
    found = next((value for value in (*inner, answer.id) if isinstance(value, str) and value), None)
    return found if found is not None and len(found) <= MAX_CHARACTERS else None
