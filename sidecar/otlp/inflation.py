"""Gzip, undone in pieces, by somebody who does not trust it (RFC 1952). Pure.

What comes out at once is bounded, and so are the whole, its ratio to what went in, and the number of members: ten
mebibytes of zeros in a few kilobytes cost no more than a few pieces.
"""

import zlib
from collections.abc import Iterator

from sidecar.otlp.limits import (
    MAX_DECODED_BYTES,
    MAX_GZIP_MEMBERS,
    MAX_RATIO,
    RATIO_FROM_BYTES,
    MalformedError,
    TooLargeError,
)


PIECE_BYTES = 64 << 10
"""What comes out in one step: about 0.1 ms of work."""
_GZIP = 31  # zlib's window bits for a gzip header and nothing else


class Inflation:
    """One body, in the segments in which it comes."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._members = 1
        self._bytes_in = 0
        self._bytes_out = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` adds, in pieces. Raises MalformedError and TooLargeError."""
        self._bytes_in += len(data)
        full = False  # zlib may hold more of what it has already taken in
        while data or full:
            if self._member.eof:
                self._next_member()
            try:
                piece = self._member.decompress(data, PIECE_BYTES)
            except zlib.error:
                raise MalformedError("the body is not gzip") from None
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            full = len(piece) == PIECE_BYTES and not self._member.eof
            self._bytes_out += len(piece)
            self._check(self._bytes_in - len(data))
            yield piece

    def end(self) -> None:
        """Nothing more comes. Raises MalformedError where the last member is not complete."""
        if not self._member.eof:
            raise MalformedError("the gzip body has no end")

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            raise TooLargeError(f"more than {MAX_GZIP_MEMBERS} gzip members")
        self._member = zlib.decompressobj(_GZIP)

    def _check(self, used: int) -> None:
        if self._bytes_out > MAX_DECODED_BYTES:
            raise TooLargeError(f"more than {MAX_DECODED_BYTES} bytes after decompression")
        if self._bytes_out > RATIO_FROM_BYTES and self._bytes_out > MAX_RATIO * used:
            raise TooLargeError(f"compressed more than {MAX_RATIO} to 1")
