"""The signs that the bytes of a field of a request body do not tell how long its text is: pixels or sound, inline or by address.

It knows the names that the APIs have for media, as patterns over raw JSON, and messages that can hold none: those are plain, and their
length is known without a look. It refuses to decode a prompt, and to decide what follows from a find.
"""

import re
from collections.abc import Callable

from sidecar.classify.at_most import has_at_most
from sidecar.classify.decoders import NOT_STATED, PLAIN_BODY, PlainBody, PlainMessage
from sidecar.classify.sparse import holds
from sidecar.timeline.events import UNREADABLE


LONGEST_MATCH_BYTES = 256
"""No look finds more, unless spaces blow it up."""
_BEGINNING_BYTES = 4096
_MOST_AT_BEGINNING = 64
"""Braces in the first of these bytes above which messages are not taken apart: it pays where some of them are long."""
_MOST_BRACES = 1_024
"""Most braces of a body whose messages are taken apart: a message takes up to 0.8 us."""

# Parts that hold pixels or sound instead of text, inline or by address; in a JSON string these quotes would be escaped.
_PART_TYPE = re.compile(
    rb'"type"\s*+:\s*+"(?:base64|document|file|image|image_embeds|image_url|audio_url|input_audio|input_file|input_image|video_url)"'
)
_WITH_PARTS = frozenset({"messages", "input"})
# vLLM takes such a part without its `type` as well.
_PART_KEY = re.compile(
    rb'_(?:url(?<="(?:image|video|audio)_url)|audio(?<="input_audio)|embeds(?<="image_embeds))"\s*+:'
)
# A letter that is written so may hide one of these names, and its six bytes are one character; no common encoder does it.
_ESCAPED_LETTER = re.compile(rb"\\u00(?:[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])")
INLINE = b";base64,"

Look = Callable[[bytes, int, int], object]
"""True if a sign of media stands in this text between the two offsets."""


def _inline(text: bytes, begin: int, end: int) -> bool:
    return holds(text, INLINE, begin, end)


_IN_TEXT: tuple[Look, ...] = (_PART_TYPE.search,)
_IN_PARTS: tuple[Look, ...] = (_PART_TYPE.search, _PART_KEY.search, _ESCAPED_LETTER.search)

_STRING_OR_NULL = (0x22, 0x6E)
_AROUND_A_MEMBER = 4
"""Bytes beside a member's name and its value in compact JSON: two quotes, a colon and a comma."""
_PLAIN_MEMBERS = PlainMessage.__struct_fields__


def looks_for(field: str, *, inline: bool = True) -> tuple[Look, ...]:
    """The looks of which one is true if the bytes of this field do not tell how long its text is. `inline`: INLINE may be in it."""
    looks = _IN_PARTS if field in _WITH_PARTS else _IN_TEXT
    return (_inline, *looks) if inline else looks


def taken_apart(body: bytes | bytearray) -> tuple[PlainBody, int] | None:
    """The body with its messages taken apart, and their bytes as compact JSON, if all of them are plain: a string or null as the content,
    and nothing inline in the body. None if that is not so, or if it does not pay to find out. Takes as long as to decode the body once.
    """
    if len(body) <= _BEGINNING_BYTES:
        if INLINE in body:
            return None
    elif (
        body.count(b"{", 0, _BEGINNING_BYTES) > _MOST_AT_BEGINNING
        or not has_at_most(_MOST_BRACES, b"{", body)
        or holds(body, INLINE, 0, len(body))
    ):
        return None
    try:
        read = PLAIN_BODY.decode(body)
    except UNREADABLE:
        return None
    size = 0 if read.messages is None else plain_bytes(read.messages)
    return None if size is None else (read, size)


def plain_bytes(messages: list[PlainMessage]) -> int | None:
    """Bytes of these messages as compact JSON; None if the content of one is no string and not null."""
    total = 2 + max(0, len(messages) - 1)
    for message in messages:
        size = 1
        for name in _PLAIN_MEMBERS:
            stated = getattr(message, name)
            if stated is NOT_STATED:
                continue
            value = memoryview(stated)
            if name == "content" and value[0] not in _STRING_OR_NULL:
                return None
            size += len(name) + _AROUND_A_MEMBER + value.nbytes
        total += max(2, size)
    return total
