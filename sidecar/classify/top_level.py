"""The members of a JSON object and the elements of an array by their places in the bytes, as far as a truncated text goes.

A value that does not end in the bytes at hand is not there. It refuses to validate (a library does that where the whole body is
at hand) and to work without end: after so many tokens it stops, or a megabyte of brackets would hold the event
loop for a tenth of a second.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from sidecar.classify.json_text import JsonText, UnreadableError


MAX_TOKENS = 8_192
"""Tokens (`json_text.py`) looked at in one scan: about 4 ms. A conversation of 2,000 messages has fewer."""

MAX_MEMBERS = 512
"""Members looked at in one scan: about 2 ms. The largest API has some sixty."""


class Member(NamedTuple):
    """One member: its name, and the offsets of its value."""

    name: str
    """Unescaped; empty for one that is no string of UTF-8."""
    start: int
    end: int


def members(body: bytes) -> Iterator[Member]:
    """The complete members of the object with which `body` begins, in order, duplicates included. Stops at what it does not understand.

    A number or literal at the very end of the bytes may go on beyond them and is not given.
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
            yield Member(_unescaped(name), start, text.at)
    except UnreadableError:
        return


def elements(array: bytes) -> int | None:
    """How many elements a complete JSON array has; None if it is none, or too long to look through."""
    text, found = JsonText(array, pause_tokens=MAX_TOKENS, max_tokens=MAX_TOKENS), 0
    try:
        for element in text.elements():
            if element is None or not text.skip():
                return None
            found += 1
    except UnreadableError:
        return None
    return found


def _unescaped(name: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % name, type=str)
    except ValueError:
        return ""
