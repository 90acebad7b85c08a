"""The signs that the bytes of a field of a request body do not tell how long its text is: pixels or sound, inline or by address.

It knows the names that the APIs have for media, as patterns over raw JSON, and messages that can hold none. It refuses to decode a
prompt, and to decide what follows from a find.
"""

import re
from collections.abc import Callable

from sidecar.classify.decoders import MESSAGES
from sidecar.classify.sparse import has_at_most, holds
from sidecar.timeline.events import UNREADABLE


LONGEST_MATCH_BYTES = 256
"""No look finds more, unless spaces blow it up."""
BYTES_A_BRACE = 64
"""Fewest bytes for each opening brace in messages that are taken apart: it pays where some of them are long."""
TAKEN_APART_BYTES = 524_288
"""Longer messages are not taken apart, nor those of half this length that may have many commas: a value may take 5 ns, and a byte of
a long string takes 1. It is done in one call: 20 us for prose of 64 KiB, at most 1.1 ms whatever stands there."""
_BEGINNING_BYTES = 4096
"""In longer messages all braces are counted first."""
_MOST_BRACES = 2_048
"""Most messages in these: each takes 0.25 us."""

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


_IN_STRINGS: tuple[Look, ...] = ()
_IN_TEXT: tuple[Look, ...] = (_PART_TYPE.search,)
_IN_PARTS: tuple[Look, ...] = (_PART_TYPE.search, _PART_KEY.search, _ESCAPED_LETTER.search)

_STRING_OR_NULL = (b'"', b"n", b"")
_FIRST_PARTS = re.compile(rb'"content"\s*+:\s*+\[')


def looks_for(field: str, raw: bytes, *, inline: bool = True, sparse: bool = False) -> tuple[Look, ...]:
    """The looks of which one is true if these bytes of this field do not tell how long its text is.

    `inline`: INLINE may be in it. `sparse`: it is known to have a comma in 8 bytes at most.
    """
    if field == "messages" and _only_strings(raw, sparse=sparse):
        looks = _IN_STRINGS
    else:
        looks = _IN_PARTS if field in _WITH_PARTS else _IN_TEXT
    return (_inline, *looks) if inline else looks


def _only_strings(messages: bytes, *, sparse: bool) -> bool:
    """Whether these messages have nothing but strings as their content, as far as it pays to find out."""
    length = len(messages)
    if length > (TAKEN_APART_BYTES if sparse else TAKEN_APART_BYTES // 2) or _FIRST_PARTS.search(
        messages, 0, _BEGINNING_BYTES
    ):
        return False
    if messages.count(b"{", 0, _BEGINNING_BYTES) * BYTES_A_BRACE > min(length, _BEGINNING_BYTES):
        return False
    if length > _BEGINNING_BYTES and not has_at_most(_MOST_BRACES, b"{", messages):
        return False
    try:
        found = MESSAGES.decode(messages)
    except UNREADABLE:
        return False
    return all([bytes(each.content)[:1] in _STRING_OR_NULL for each in found])  # noqa: C419  quicker than a generator
