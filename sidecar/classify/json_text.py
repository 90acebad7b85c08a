"""A walk through a JSON text without decoding it: members of an object, elements of an array, whole values. Pure.

It knows strings, brackets and commas, and the exact byte at which each value begins and ends. It refuses to validate: a
value that it steps over is checked for balanced brackets only. It never recurses, and it counts tokens (a bracket, a
string with escapes, 128 bytes of anything else). After a given number of tokens it pauses: the caller lets other tasks
of the event loop run, or gives up.
"""

import re
import sys
from collections.abc import Iterator
from mmap import mmap


MAX_DEPTH = 256
MAX_NAME_BYTES = 256
"""Bytes of a member's name that are returned; the rest is cut off."""
TOKEN_BYTES = 128
"""So many bytes between two brackets count as one token more: empty strings may stand there, each of which takes 25 ns. A token
takes 1 us."""
_COPIED_TOKEN_BYTES = 2 * TOKEN_BYTES
_PLAIN_STRING_BYTES = 1024
_WINDOW = 1 << 15
_SPACE = re.compile(rb"[ \t\n\r]{0,4096}+")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,131072}+")
_BACKSLASH = 0x5C


def plain_of(python: tuple[int, int, int]) -> re.Pattern[bytes]:
    """Strings without escapes, and the bytes between them, for this version of CPython.

    Before 3.11.5 it does not go back to where a possessive repetition failed (gh-106052), but an atomic group does. That costs a
    tenth to a fifth more, measured by hand.
    """
    string_and_more = rb'"[^"\\]{0,%d}+"[^"{}\[\]]*+' % _PLAIN_STRING_BYTES
    repeated = rb"(?:%b)*+" if python >= (3, 11, 5) else rb"(?:(?>%b))*+"
    return re.compile(rb'[^"{}\[\]]*+' + repeated % string_and_more)


_PLAIN = plain_of(sys.version_info[:3])


class UnreadableError(ValueError):
    """The text is no JSON, or it ends too early."""


class TooLongError(UnreadableError):
    """The text has more tokens or is nested deeper than allowed."""


class JsonText:
    """A position `at` in the text. Every method may raise UnreadableError, also an iterator at each step."""

    __slots__ = ("_brackets", "_in_string", "_max_tokens", "_pause_at", "_pause_tokens", "at", "body", "tokens")

    def __init__(self, body: bytes | bytearray | mmap, *, pause_tokens: int, max_tokens: int) -> None:
        """`pause_tokens`: tokens between two pauses. `max_tokens`: above this, TooLongError."""
        self.body = body
        self.at = 0
        self.tokens = 0
        self._pause_tokens = self._pause_at = pause_tokens
        self._max_tokens = max_tokens
        self._brackets = bytearray()  # brackets that are open in the value that is being stepped over
        self._in_string = False  # `at` is inside a string, between two characters or escapes

    def end(self) -> None:
        """Check that only space follows; else raise UnreadableError."""
        self._space()
        if self.at != len(self.body):
            raise UnreadableError("the JSON object is followed by something else")

    def members(self) -> Iterator[bytes | None]:
        """Yield each member's name, escapes as written, while `at` is the first byte of its value; None for a pause.

        The caller must step over the value after each name. null is an empty object.
        """
        if self._comes(b"null"):
            return
        self._expect(b"{")
        if self._comes(b"}"):
            return
        while True:
            start = self.at
            while not self._string():
                yield None
            # In order: a string that has been read is two quotes at least.
            name = bytes(self.body[start + 1 : min(self.at - 1, start + 1 + MAX_NAME_BYTES)])
            self._expect(b":")
            yield name
            if self._pause_is_due(1):
                yield None
            if not self._goes_on(b"}"):
                return

    def elements(self) -> Iterator[bool | None]:
        """Yield True while `at` is the first byte of an element; None for a pause. null is an empty array."""
        if self._comes(b"null"):
            return
        self._expect(b"[")
        if self._comes(b"]"):
            return
        while True:
            yield True
            if self._pause_is_due(1):
                yield None
            if not self._goes_on(b"]"):
                return

    def skip(self) -> bool:
        """Step over one value. False for a pause: call it again to continue."""
        first = self.body[self.at : self.at + 1]
        if self._in_string or (first == b'"' and not self._brackets):
            if not self._string():
                return False
            if not self._brackets:
                return True
        elif not self._brackets and first not in (b"{", b"["):
            scalar = _SCALAR.match(self.body, self.at)
            if scalar is None:
                raise UnreadableError("a JSON value is missing")
            self.at = scalar.end()
            return True
        return self._nested()

    def _nested(self) -> bool:
        """Step to the byte after which all brackets are closed; False for a pause."""
        body, brackets = self.body, self._brackets
        while True:
            plain = _PLAIN.match(body, self.at, self.at + _WINDOW)
            assert plain is not None  # it may be empty
            tokens = 1 + (plain.end() - self.at) // TOKEN_BYTES
            self.at = plain.end()
            mark = body[self.at : self.at + 1]
            if mark == b'"':
                start = self.at
                if not self._string():
                    return False
                # It was looked at as a plain string first.
                tokens += 1 + min(self.at - start, _PLAIN_STRING_BYTES) // TOKEN_BYTES
            elif mark in (b"{", b"[", b"}", b"]"):
                self._bracket(mark)
                if not brackets:
                    return True
            elif not mark:
                raise UnreadableError("the JSON is incomplete")
            if self._pause_is_due(tokens):
                return False

    def _bracket(self, mark: bytes | bytearray) -> None:
        self.at += 1
        if mark in (b"{", b"["):
            self._brackets += mark
            if len(self._brackets) > MAX_DEPTH:
                raise TooLongError(f"JSON nested deeper than {MAX_DEPTH}")
        elif self._brackets.pop() != mark[0] - 2:  # in ASCII, `{` and `}`, `[` and `]` are two apart
            raise UnreadableError("a JSON bracket is closed by one of another kind")

    def _string(self) -> bool:
        """Step over the string at `at`, or over the rest of it after a pause; False for a pause.

        A quote without a backslash before it is the end: bytes.find finds it at once. After a backslash, the end is
        searched in copies of 256 bytes to 32 KiB in which escapes are replaced: five times as fast as a regular
        expression. Escaped backslashes matter only where two of them stand before a quote, and cost as much again.
        """
        body, at = self.body, self.at
        if not self._in_string:
            if body[at : at + 1] != b'"':
                raise UnreadableError("a JSON string is missing")
            at += 1
        quote, size = -1, 256
        while True:
            if quote < at:
                quote = body.find(b'"', at)
                if quote < 0:
                    raise UnreadableError("a JSON string is not closed")
                if body[quote - 1] != _BACKSLASH:
                    break
            copy, tokens = body[at : at + size], 1 + size // _COPIED_TOKEN_BYTES
            if copy.rfind(b'\\\\"') >= 0:
                copy, tokens = copy.replace(b"\\\\", b"__"), 2 * tokens
            inside = copy.replace(b'\\"', b"__").find(b'"')
            if inside >= 0:
                quote = at + inside
                self.tokens += tokens
                break
            half_an_escape = (len(copy) - len(copy.rstrip(b"\\"))) % 2
            at += len(copy) - half_an_escape
            if self._pause_is_due(tokens):
                self.at, self._in_string = at, True
                return False
            size = min(4 * size, _WINDOW)
        self.at, self._in_string = quote + 1, False
        return True

    def _pause_is_due(self, tokens: int) -> bool:
        self.tokens += tokens
        if self.tokens < self._pause_at:
            return False
        if self.tokens > self._max_tokens:
            raise TooLongError(f"more than {self._max_tokens} strings and brackets")
        self._pause_at = self.tokens + self._pause_tokens
        return True

    def _space(self) -> None:
        if self.body[self.at : self.at + 1].isspace():
            space = _SPACE.match(self.body, self.at)
            self.at = self.at if space is None else space.end()

    def _comes(self, mark: bytes) -> bool:
        """Step over this mark and the space around it; False if the mark is not there."""
        self._space()
        if self.body[self.at : self.at + len(mark)] != mark:
            return False
        self.at += len(mark)
        self._space()
        return True

    def _expect(self, mark: bytes) -> None:
        if not self._comes(mark):
            raise UnreadableError(f"the JSON lacks a {mark.decode()}")

    def _goes_on(self, end: bytes) -> bool:
        """Step over a comma (True) or over the closing bracket `end` (False)."""
        if self._comes(b","):
            return True
        self._expect(end)
        return False
