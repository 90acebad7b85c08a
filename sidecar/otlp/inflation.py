"""Decompresses gzip (RFC 1952) in pieces, with bounds against hostile bodies. Pure.

Bounded are the size of one piece, the whole output, the ratio of output to input, and the number of gzip members: ten
mebibytes of zeros in a few kilobytes are refused after a few pieces.
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
"""Most bytes of output in one step: about 0.1 ms of work."""
_GZIP = 31  # zlib's window bits that accept a gzip header only


class Inflation:
    """Decompresses one body, fed in the segments in which it arrives."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._members = 1
        self._bytes_in = 0
        self._bytes_out = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The output that `data` adds, in pieces. Raises MalformedError and TooLargeError."""
        self._bytes_in += len(data)
        full = False  # zlib may hold more of what it has already taken in
        while data or full:
            if self._member.eof:
                self._members += 1
                if self._members > MAX_GZIP_MEMBERS:
                    raise TooLargeError(f"more than {MAX_GZIP_MEMBERS} gzip members")
                self._member = zlib.decompressobj(_GZIP)
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
        """Call it after the last segment. Raises MalformedError if the last member is not complete."""
        if not self._member.eof:
            raise MalformedError("the gzip body is incomplete")

    def _check(self, used: int) -> None:
        if self._bytes_out > MAX_DECODED_BYTES:
            raise TooLargeError(f"more than {MAX_DECODED_BYTES} bytes after decompression")
        if self._bytes_out > RATIO_FROM_BYTES and self._bytes_out > MAX_RATIO * used:
            raise TooLargeError(f"compressed by more than {MAX_RATIO} to 1")
