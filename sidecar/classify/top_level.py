"""Members of a JSON object and elements of an array, with their offsets, also in a truncated text.

A value that does not end within the given bytes is left out. It refuses to validate (a library does that if the whole
body is there) and to work without a bound: after MAX_TOKENS tokens it stops, or a megabyte of brackets would block the
event loop for a tenth of a second.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

import msgspec

from sidecar.classify.json_text import JsonText, UnreadableError
from sidecar.timeline.events import UNREADABLE


MAX_TOKENS = 1_024
"""Most tokens (`json_text.py`) in one scan: 1 to 1.5 ms (`make bounds`). A conversation of a hundred messages with quotes has fewer."""

MAX_SCANNED_MEMBERS = 128
"""Most members in one scan: about 1 ms. The largest API has about sixty."""

MAX_ELEMENT_TOKENS = 32_768
"""Most tokens of a long array whose elements are counted: about 30 ms, in steps."""
_STEP_TOKENS = 256
"""Tokens in one step: 0.2 to 0.3 ms."""

COUNTED_AT_ONCE_BYTES = 32_768
"""Bytes of an array whose elements are counted in one step, by the library: at most 0.7 ms."""

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


class Member(NamedTuple):
    """One member: its name, and the offsets of its value."""

    name: str
    """Unescaped; empty if the name is no UTF-8 string."""
    start: int
    end: int


def members(body: bytes | bytearray) -> Iterator[Member]:
    """The complete members of the object at the beginning of `body`, in order, with duplicates. Stops at unreadable
    text.

    A number or literal at the very end of the bytes is left out, because it may go on beyond them.
    """
    text = JsonText(body, pause_tokens=MAX_TOKENS, max_tokens=MAX_TOKENS)
    try:
        for number, name in enumerate(text.members()):
            start = text.at
            if (
                number == MAX_SCANNED_MEMBERS
                or name is None
                or not text.skip()
                or (text.at == len(body) and body[-1:] not in (b'"', b"}", b"]"))
            ):
                return
            yield Member(unescaped(name), start, text.at)
    except UnreadableError:
        return


def elements(array: bytes) -> int | None:
    """Number of elements of a complete JSON array; None if it is no array."""
    try:
        return len(_ELEMENTS.decode(array))
    except UNREADABLE:
        return None


def elements_in_steps(array: bytes) -> Generator[None, None, int | None]:
    """As `elements`, and None too if the array is longer than COUNTED_AT_ONCE_BYTES and has more than MAX_ELEMENT_TOKENS tokens."""
    if len(array) <= COUNTED_AT_ONCE_BYTES:
        return elements(array)
    text, found = JsonText(array, pause_tokens=_STEP_TOKENS, max_tokens=MAX_ELEMENT_TOKENS), 0
    try:
        for element in text.elements():
            if element is None:
                yield
                continue
            while not text.skip():
                yield
            found += 1
    except UnreadableError:
        return None
    return found


def unescaped(name: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % name, type=str)
    except ValueError:
        return ""
