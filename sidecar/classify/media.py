"""The signs that the bytes of a field of a request body do not tell how long its text is: pixels or sound, inline or by address; and how
many of its bytes are such media in base64.

It knows the names that the APIs have for media, as patterns over raw JSON, and messages that can hold none: those are plain, and their
length is known without a look. It refuses to decode a prompt, and to decide what follows from a find.
"""

import re
from collections.abc import Callable, Iterator

from msgspec.structs import astuple

from sidecar.classify.at_most import has_at_most
from sidecar.classify.decoders import NOT_STATED, PLAIN_BODY, Body, PlainBody, PlainMessage
from sidecar.classify.sparse import holds
from sidecar.timeline.events import UNREADABLE


LONGEST_MATCH_BYTES = 256
"""No look finds more, unless spaces blow it up."""
BEGINNING_BYTES = 4096
"""Bytes of a body in which the first messages stand. It pays to take a body apart that has no more."""
_MOST_AT_BEGINNING = 64
"""Braces in the first BEGINNING_BYTES above which messages are not taken apart: it pays where some of them are long."""
_MOST_BRACES = 1_024
"""Most braces of a body whose messages are taken apart: the length of a message takes up to 1 us."""
_FIRST_PARTS = (b'"content":[', b'"content": [')
"""Most bodies that have messages with parts have one of these in the first BEGINNING_BYTES, and are refused at little cost."""

# Parts that hold pixels or sound instead of text, inline or by address; in a JSON string these quotes would be escaped.
_PART_TYPE = re.compile(
    rb'"type"\s*+:\s*+"(?:base64|document|file|image|(?:image|audio|prompt)_embeds|image_url|audio_url|input_audio|input_file|input_image|video_url)"'
)
_WITH_PARTS = frozenset({"messages", "input"})
# vLLM takes such a part without its `type` as well.
_PART_KEY = re.compile(
    rb'_(?:url(?<="(?:image|video|audio)_url)|audio(?<="input_audio)|embeds(?:(?<="image_embeds)|(?<="audio_embeds)|(?<="prompt_embeds)))"\s*+:'
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

MEDIA_WINDOW_BYTES = 1024
"""So many bytes in a row that are all of base64 are no text: prose, code and lists have blanks, quotes or brackets among so many."""
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\\"
"""Both alphabets (RFC 4648 4 and 5), the padding, and the escapes that some encoders write: `\\/`, and .NET's `\\u002B`."""
_SHORT_ESCAPE, _SHORT_ESCAPE_ADDS_BYTES = b"\\u00", 5
_ESCAPED_TEXT = re.compile(rb"\\u(?:[^0]|0[^0])")

_STRING_OR_NULL = (0x22, 0x6E)
_AROUND_A_MEMBER = 4
"""Bytes beside a member's name and its value in compact JSON: two quotes, a colon and a comma."""
_PLAIN_MEMBERS = PlainMessage.__struct_fields__


class MediaBytes:
    """Counts the bytes of media in a text that comes in pieces: windows of MEDIA_WINDOW_BYTES, one behind the other from its beginning, that
    are base64 from end to end. It takes 1 us for each. What `escapes.py` counts is not in it.
    """

    def __init__(self) -> None:
        self.found = 0
        self._rest = b""

    def feed(self, piece: bytes | bytearray) -> None:
        """Take in the next piece."""
        text = self._rest + piece
        last = len(text) - len(text) % MEDIA_WINDOW_BYTES
        for at in range(0, last, MEDIA_WINDOW_BYTES):
            window = text[at : at + MEDIA_WINDOW_BYTES]
            if not window.translate(None, _BASE64) and _ESCAPED_TEXT.search(window) is None:
                self.found += MEDIA_WINDOW_BYTES - _SHORT_ESCAPE_ADDS_BYTES * window.count(_SHORT_ESCAPE)
        self._rest = bytes(text[last:])


def looks_for(field: str, *, inline: bool = True) -> tuple[Look, ...]:
    """The looks of which one is true if the bytes of this field do not tell how long its text is. `inline`: INLINE may be in it."""
    looks = _IN_PARTS if field in _WITH_PARTS else _IN_TEXT
    return (_inline, *looks) if inline else looks


def has_many_braces(body: bytes | bytearray) -> bool:
    """Whether it does not pay to take the messages of this long body apart: they are many or short."""
    return body.count(b"{", 0, BEGINNING_BYTES) > _MOST_AT_BEGINNING or not has_at_most(_MOST_BRACES, b"{", body)


def holds_inline(body: bytes | bytearray) -> bool:
    """Whether something inline is in this body."""
    return holds(body, INLINE, 0, len(body))


def taken_apart(body: bytes | bytearray) -> PlainBody | None:
    """The body with its messages taken apart; None if they have parts at its beginning, or other members than plain ones. Takes as long as
    to decode the body.
    """
    for parts in _FIRST_PARTS:
        if body.find(parts, 0, BEGINNING_BYTES) >= 0:
            return None
    try:
        return PLAIN_BODY.decode(body)
    except UNREADABLE:
        return None


def plain_texts(body: Body) -> Iterator[bytes]:
    """All that the messages state of a body that was taken apart, as it is written."""
    messages = body.messages if isinstance(body, PlainBody) else None
    return (bytes(stated) for message in messages or () for stated in astuple(message))


def plain_bytes(messages: list[PlainMessage] | None) -> int | None:
    """Bytes of these messages as compact JSON, 0 if there are none; None if the content of one is no string and not null."""
    if messages is None:
        return 0
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
