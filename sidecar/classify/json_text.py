"""A walk through a JSON text without decoding it: over the members of an object, the elements of an array, and whole values. Pure.

It knows strings, brackets and commas, and the exact byte at which each value begins and ends; what it steps over is checked for
balance and nothing else. It never recurses, and it counts tokens (a bracket, a string with escapes, 256 bytes of anything else):
after so many it makes a pause, in which the caller gives the event loop to others or gives up.
"""

import re
from collections.abc import Iterator


MAX_DEPTH = 256
MAX_NAME_BYTES = 256
"""As much of a member's name is given."""
TOKEN_BYTES = 256
"""As much between two brackets is one token more. A token takes 1 us."""
_WINDOW = 1 << 16
_SPACE = re.compile(rb"[ \t\n\r]{0,4096}+")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,131072}+")
_PLAIN = re.compile(
    rb'[^"{}\[\]]*+(?:"[^"\\]{0,1024}+"[^"{}\[\]]*+)*+'
)  # strings without escapes, and what lies between
_BACKSLASH = 0x5C


class UnreadableError(ValueError):
    """The text is no JSON, or it ends too early."""


class TooLongError(UnreadableError):
    """The text has more tokens or is nested deeper than allowed."""


class JsonText:
    """Stands at `at` in the text. Every method may raise UnreadableError, also while an iterator is run through."""

    __slots__ = ("_brackets", "_in_string", "_max_tokens", "_pause_at", "_pause_tokens", "at", "body", "tokens")

    def __init__(self, body: bytes | bytearray, *, pause_tokens: int, max_tokens: int) -> None:
        """A pause is made after every `pause_tokens`; `max_tokens` are the most."""
        self.body = body
        self.at = 0
        self.tokens = 0
        self._pause_tokens = self._pause_at = pause_tokens
        self._max_tokens = max_tokens
        self._brackets = bytearray()  # those that are open in the value that is being stepped over
        self._in_string = False  # `at` is inside a string, between two characters or escapes

    def end(self) -> None:
        """Nothing but space may follow."""
        self._space()
        if self.at != len(self.body):
            raise UnreadableError("something stands behind the JSON object")

    def members(self) -> Iterator[bytes | None]:
        """The name of each member of the object here, escapes as written, while the walk stands at its value; None for a pause.

        The caller moves behind the value of each name. null is an empty object.
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
            name = bytes(self.body[start + 1 : min(self.at - 1, start + 1 + MAX_NAME_BYTES)])
            self._expect(b":")
            yield name
            if self._pause_is_due(1):
                yield None
            if not self._goes_on(b"}"):
                return

    def elements(self) -> Iterator[bool | None]:
        """True while the walk stands at an element of the array here; None for a pause. null is an empty array."""
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
        """Step over one value. False for a pause: call it again, and it goes on where it was."""
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
        """Step on to where all brackets are closed; False for a pause."""
        body, brackets = self.body, self._brackets
        while True:
            plain = _PLAIN.match(body, self.at, self.at + _WINDOW)
            assert plain is not None  # it may be empty
            tokens = 1 + (plain.end() - self.at) // TOKEN_BYTES
            self.at = plain.end()
            mark = body[self.at : self.at + 1]
            if mark == b'"':
                if not self._string():
                    return False
            elif mark in (b"{", b"[", b"}", b"]"):
                self._bracket(mark)
                if not brackets:
                    return True
            elif not mark:
                raise UnreadableError("the JSON has no end")
            if self._pause_is_due(tokens):
                return False

    def _bracket(self, mark: bytes | bytearray) -> None:
        self.at += 1
        if mark in (b"{", b"["):
            self._brackets += mark
            if len(self._brackets) > MAX_DEPTH:
                raise TooLongError(f"JSON nested deeper than {MAX_DEPTH}")
        elif self._brackets.pop() != mark[0] - 2:  # in ASCII, `{` and `}`, `[` and `]` are two apart
            raise UnreadableError("a JSON bracket is closed by another kind")

    def _string(self) -> bool:
        """Step over the string at `at`, or over what is left of it; False for a pause.

        A quote with no backslash before it is the end, and bytes.find has it at once. Behind escapes the end is looked for
        in copies without them, as long as what has been looked through: ten times as fast as an expression.
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
                    raise UnreadableError("a JSON string has no end")
                if body[quote - 1] != _BACKSLASH:
                    break
            copy = body[at : at + size].replace(b"\\\\", b"__").replace(b'\\"', b"__")
            inside = copy.find(b'"')
            if inside >= 0:
                quote = at + inside
                break
            at += len(copy) - copy.endswith(b"\\")
            if self._pause_is_due(1 + size // TOKEN_BYTES):
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
        """Step over this mark and the space around it; False where it is not there."""
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
        """Step over a comma, or over the end: False."""
        if self._comes(b","):
            return True
        self._expect(end)
        return False
