"""Where the members of a JSON object stand in its bytes, without decoding their values.

It knows strings, brackets and commas, and works on a truncated object as far as it goes: a value that does not end in
the bytes at hand is not there. It refuses to validate (a library does that where the whole body is at hand), to
recurse, and to work without end: after so many structural tokens it stops, since a megabyte of brackets would
otherwise hold the event loop for a tenth of a second.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec


MAX_TOKENS = 16_384
"""Strings and brackets looked at in one scan: about 5 ms. A conversation of 2,000 messages has no more."""

_SPACE = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_PLAIN = re.compile(rb"[-+.0-9A-Za-z]++")
_INSIDE = re.compile(rb'[^"\[\]{}]*+')


class Member(NamedTuple):
    """One member: its name, and the offsets of its value."""

    name: str
    """Unescaped; empty for one that is no string of UTF-8."""
    start: int
    end: int


class _Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_TOKENS

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def members(body: bytes) -> Iterator[Member]:
    """The complete members of the object with which `body` begins, in order, duplicates included. Stops at what it does not understand.

    A number or literal at the very end of the bytes may go on beyond them and is not given.
    """
    budget = _Budget()
    at = _after_space(body, 0)
    if body[at : at + 1] != b"{":
        return
    at = _after_space(body, at + 1)
    while key := _STRING.match(body, at):
        at = _after_space(body, key.end())
        if body[at : at + 1] != b":":
            return
        start = _after_space(body, at + 1)
        end = _end_of_value(body, start, budget)
        if end is None:
            return
        yield Member(_name(key.group()), start, end)
        at = _after_space(body, end)
        if body[at : at + 1] != b",":
            return
        at = _after_space(body, at + 1)


def elements(array: bytes) -> int | None:
    """How many elements a complete JSON array has; None if it is none, or too long to look through."""
    budget = _Budget()
    at = _after_space(array, 0)
    if array[at : at + 1] != b"[":
        return None
    at = _after_space(array, at + 1)
    if array[at : at + 1] == b"]":
        return 0
    found = 0
    while (end := _end_of_value(array, at, budget)) is not None:
        found += 1
        at = _after_space(array, end)
        if array[at : at + 1] == b"]":
            return found
        if array[at : at + 1] != b",":
            return None
        at = _after_space(array, at + 1)
    return None


def _name(key: bytes) -> str:
    try:
        return msgspec.json.decode(key, type=str)
    except ValueError:
        return ""


def _after_space(body: bytes, at: int) -> int:
    space = _SPACE.match(body, at)
    return at if space is None else space.end()


def _end_of_value(body: bytes, at: int, budget: _Budget) -> int | None:
    """The offset after the value that begins at `at`; None if it does not end within the bytes or the budget."""
    if not budget.spend():
        return None
    first = body[at : at + 1]
    if first == b'"':
        string = _STRING.match(body, at)
        return None if string is None else string.end()
    if first not in (b"[", b"{"):
        plain = _PLAIN.match(body, at)
        return None if plain is None or plain.end() == len(body) else plain.end()
    depth = 0
    while budget.spend():
        inside = _INSIDE.match(body, at)
        assert inside is not None
        at = inside.end()
        mark = body[at : at + 1]
        if mark == b'"':
            string = _STRING.match(body, at)
            if string is None:
                return None
            at = string.end()
            continue
        if not mark:
            return None
        depth += 1 if mark in (b"[", b"{") else -1
        at += 1
        if depth == 0:
            return at
    return None
