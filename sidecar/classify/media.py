"""The signs that the bytes of a field of a request body do not tell how long its text is: pixels or sound, inline or by address.

It knows the names that the APIs have for media, as patterns over raw JSON, and messages that can hold none. It refuses to decode a
prompt, and to decide what follows from a find.
"""

import re

import msgspec

from sidecar.timeline.events import UNREADABLE


LONGEST_MATCH_BYTES = 256
"""No pattern matches more, unless spaces blow it up."""
BYTES_A_BRACE = 64
"""Fewest bytes for each opening brace in messages that are taken apart: it pays where some of them are long."""
TAKEN_APART_BYTES = 524_288
"""Longer messages are not taken apart. It is done in one call: 20 us for prose of 64 KiB, at most 1 ms whatever stands there."""
_MOST_BRACES = 2_048
"""Most messages that are taken apart: each takes 0.25 us."""
_BYTES_A_COMMA = 8
"""Fewest bytes for each comma: a value may take 5 ns, and a byte of a long string takes 1."""

# Parts that hold pixels or sound instead of text, inline or by address; in a JSON string these quotes would be escaped.
_PART_TYPE = re.compile(
    rb'"type"\s*:\s*"(?:base64|document|file|image|image_embeds|image_url|audio_url|input_audio|input_file|input_image|video_url)"'
)
_WITH_PARTS = frozenset({"messages", "input"})
# vLLM takes such a part without its `type` as well.
_PART_KEY = re.compile(rb'_(?:url(?<="(?:image|video|audio)_url)|audio(?<="input_audio)|embeds(?<="image_embeds))"\s*:')
# A letter that is written so may hide one of these names, and its six bytes are one character; no common encoder does it.
_ESCAPED_LETTER = re.compile(rb"\\u00(?:[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])")
_INLINE = re.compile(rb";base64,")

_IN_STRINGS = (_INLINE,)
_IN_TEXT = (_INLINE, _PART_TYPE)
_IN_PARTS = (_INLINE, _PART_TYPE, _PART_KEY, _ESCAPED_LETTER)

_UNSAID = msgspec.Raw(b"")
_STRING_OR_NULL = (b'"', b"n", b"")
_FIRST_PARTS = re.compile(rb'"content"\s*:\s*\[')
_LOOKS_FOR_PARTS_BYTES = 4096


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of these members alone has no part that is no text, if its content is a string."""

    role: msgspec.Raw = _UNSAID
    content: msgspec.Raw = _UNSAID
    name: msgspec.Raw = _UNSAID
    tool_call_id: msgspec.Raw = _UNSAID


_MESSAGES = msgspec.json.Decoder(list[_Message])


def patterns_for(field: str, raw: bytes) -> tuple[re.Pattern[bytes], ...]:
    """The patterns of which one matches if these bytes of this field do not tell how long its text is."""
    if field == "messages" and _only_strings(raw):
        return _IN_STRINGS
    return _IN_PARTS if field in _WITH_PARTS else _IN_TEXT


def _only_strings(messages: bytes) -> bool:
    """Whether these messages have nothing but strings as their content, as far as it pays to find out."""
    if len(messages) > TAKEN_APART_BYTES or _FIRST_PARTS.search(messages, 0, _LOOKS_FOR_PARTS_BYTES):
        return False
    most_braces = min(_MOST_BRACES, len(messages) // BYTES_A_BRACE)
    if messages.count(b"{") > most_braces or messages.count(b",") * _BYTES_A_COMMA > len(messages):
        return False
    try:
        found = _MESSAGES.decode(messages)
    except UNREADABLE:
        return False
    return all([bytes(each.content)[:1] in _STRING_OR_NULL for each in found])  # noqa: C419  quicker than a generator
