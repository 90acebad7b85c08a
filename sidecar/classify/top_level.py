"""Members of a JSON object and elements of an array, with their offsets, also in a truncated text.

A value that does not end within the given bytes is left out. It refuses to validate (a library does that if the whole
body is there) and to work without a bound: after MAX_TOKENS tokens it stops, or a megabyte of brackets would block the
event loop for a tenth of a second.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from sidecar.classify.json_text import JsonText, UnreadableError
from sidecar.timeline.events import UNREADABLE


MAX_TOKENS = 2_048
"""Most tokens (`json_text.py`) in one scan: under 2 ms (`make bounds`). A conversation of 600 messages has fewer."""

MAX_MEMBERS = 256
"""Most members in one scan: about 1 ms. The largest API has about sixty."""

MAX_ELEMENT_TOKENS = 512
"""Most tokens of a long array whose elements are counted: about 0.5 ms."""

COUNTED_AT_ONCE_BYTES = 65_536
"""Bytes of an array whose elements are counted by the library: at most 1 ms."""

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


class Member(NamedTuple):
    """One member: its name, and the offsets of its value."""

    name: str
    """Unescaped; empty if the name is no UTF-8 string."""
    start: int
    end: int


def members(body: bytes) -> Iterator[Member]:
    """The complete members of the object at the beginning of `body`, in order, with duplicates. Stops at unreadable
    text.

    A number or literal at the very end of the bytes is left out, because it may go on beyond them.
    """
    text = JsonText(body, pause_tokens=MAX_TOKENS, max_tokens=MAX_TOKENS)
    try:
        for number, name in enumerate(text.members()):
            start = text.at
            if (
                number == MAX_MEMBERS
                or name is None
                or not text.skip()
                or (text.at == len(body) and body[-1:] not in (b'"', b"}", b"]"))
            ):
                return
            yield Member(unescaped(name), start, text.at)
    except UnreadableError:
        return


def elements(array: bytes) -> int | None:
    """Number of elements of a complete JSON array; None if it is no array, or is longer than COUNTED_AT_ONCE_BYTES and has
    more than MAX_ELEMENT_TOKENS tokens.
    """
    if len(array) <= COUNTED_AT_ONCE_BYTES:
        try:
            return len(_ELEMENTS.decode(array))
        except UNREADABLE:
            return None
    text, found = JsonText(array, pause_tokens=MAX_ELEMENT_TOKENS, max_tokens=MAX_ELEMENT_TOKENS), 0
    try:
        for element in text.elements():
            if element is None or not text.skip():
                return None
            found += 1
    except UnreadableError:
        return None
    return found


def unescaped(name: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % name, type=str)
    except ValueError:
        return ""
