"""A way through a JSON text without decoding it: members, elements, and over values, in steps that may be paused. Pure.

It knows strings, brackets and commas; what it steps over is checked for balance and nothing else. Every method that reads
is an iterator that moves `at` forward and yields None wherever a pause may be made: somebody has to run through it. It
does not recurse, and it gives up after so many tokens.
"""

import re
from collections.abc import Iterator

from sidecar.otlp.limits import MAX_JSON_DEPTH, MAX_TOKENS, PAUSE_FIELDS, MalformedError, TooLargeError


_WINDOW = 1 << 16
_SPACE = re.compile(rb"[ \t\n\r]{0,4096}+")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,64}+")
_BRACKET_OR_STRING = re.compile(rb'["{}\[\]]')
_MAX_BACKSLASHES = 1024


class JsonText:
    """Stands at `at` in the text. Raises MalformedError and TooLargeError, also while it is run through."""

    def __init__(self, body: bytes | bytearray) -> None:
        self.body = body
        self.at = 0
        self._tokens = 0
        self._pause_at = PAUSE_FIELDS

    def end(self) -> None:
        """Nothing but space may follow."""
        self.space()
        if self.at != len(self.body):
            raise MalformedError("something stands behind the JSON object")

    def members(self) -> Iterator[bytes | None]:
        """Each key of the object here, escapes as written, while the walk stands at its value; None for a pause.

        Whoever takes a key must move behind its value.
        """
        if self._is_null():
            return
        self._expect(b"{")
        if self._comes(b"}"):
            return
        while True:
            self.space()
            start = self.at
            yield from self._string()
            key = bytes(self.body[start + 1 : min(self.at - 1, start + 33)])
            self._expect(b":")
            self.space()
            yield key
            yield from self._spend(1)
            if self._comes(b"}"):
                return
            self._expect(b",")

    def elements(self) -> Iterator[bool | None]:
        """True while the walk stands at an element of the array here; None for a pause."""
        if self._is_null():
            return
        self._expect(b"[")
        if self._comes(b"]"):
            return
        while True:
            self.space()
            yield True
            yield from self._spend(1)
            if self._comes(b"]"):
                return
            self._expect(b",")

    def skip(self) -> Iterator[None]:
        """Step over one value."""
        first = self.body[self.at : self.at + 1]
        if first == b'"':
            yield from self._string()
        elif first in (b"{", b"["):
            yield from self._nested()
        else:
            scalar = _SCALAR.match(self.body, self.at)
            if scalar is None:
                raise MalformedError("a JSON value is missing")
            self.at = scalar.end()

    def _nested(self) -> Iterator[None]:
        open_brackets = bytearray()
        while True:
            found = _BRACKET_OR_STRING.search(self.body, self.at, self.at + _WINDOW)
            if found is None:
                if self.at + _WINDOW >= len(self.body):
                    raise MalformedError("the JSON has no end")
                self.at += _WINDOW
                yield from self._spend(PAUSE_FIELDS)
                continue
            self.at = found.start()
            bracket = self.body[self.at]
            if bracket == 0x22:
                yield from self._string()
                continue
            self.at += 1
            if bracket in b"{[":
                open_brackets.append(bracket)
                if len(open_brackets) > MAX_JSON_DEPTH:
                    raise TooLargeError(f"JSON nested deeper than {MAX_JSON_DEPTH}")
            elif open_brackets.pop() != bracket - 2:  # in ASCII, `{` and `}`, `[` and `]` are two apart
                raise MalformedError("a JSON bracket is closed by another kind")
            yield from self._spend(1)
            if not open_brackets:
                return

    def _string(self) -> Iterator[None]:
        body = self.body
        if body[self.at : self.at + 1] != b'"':
            raise MalformedError("a JSON string is missing")
        search = self.at + 1
        while True:
            quote = body.find(b'"', search)
            if quote < 0:
                raise MalformedError("a JSON string has no end")
            backslash = quote
            while backslash > search and body[backslash - 1] == 0x5C:
                backslash -= 1
                if quote - backslash > _MAX_BACKSLASHES:
                    raise MalformedError("a run of backslashes is too long")
            yield from self._spend(1 + (quote - backslash) // 8)
            search = quote + 1
            if (quote - backslash) % 2 == 0:
                self.at = search
                return

    def _spend(self, tokens: int) -> Iterator[None]:
        self._tokens += tokens
        if self._tokens >= self._pause_at:
            if self._tokens > MAX_TOKENS:
                raise TooLargeError(f"more than {MAX_TOKENS} strings and brackets")
            self._pause_at = self._tokens + PAUSE_FIELDS
            yield None

    def space(self) -> None:
        space = _SPACE.match(self.body, self.at)
        if space is not None:
            self.at = space.end()

    def _expect(self, mark: bytes) -> None:
        if not self._comes(mark):
            raise MalformedError(f"the JSON lacks a {mark.decode()}")

    def _comes(self, mark: bytes) -> bool:
        self.space()
        if self.body[self.at : self.at + 1] != mark:
            return False
        self.at += 1
        return True

    def _is_null(self) -> bool:
        """In the JSON of protobuf, null is the same as absent."""
        self.space()
        if self.body[self.at : self.at + 4] != b"null":
            return False
        self.at += 4
        return True
