"""Inflates a file of gzip members that grows, piece by piece. Pure; bytes in, bytes out, a bounded number at once.

Each member holds whole lines, as far as what follows the file is concerned; nothing here knows lines. Where the bytes at hand begin no member (the
first read fell into the middle of one, or one is damaged), what comes before the next member is passed over and counted.
"""

import zlib
from collections.abc import Iterator


_MEMBER_BEGIN = b"\x1f\x8b\x08"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class GzipMembers:
    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: of inflated data at once."""
        self._most = most_bytes
        self._inflater: zlib._Decompress | None = None
        self._between = b""
        """Bytes at hand in which no member has begun."""
        self.damaged = 0
        """Number of times that something was passed over."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The inflated bytes, in pieces of at most `most_bytes`. It must be read to its end before the next call."""
        while data:
            if self._inflater is None:
                data = self._begin(self._between + data)
                if self._inflater is None:
                    return
            inflated, data = self._inflate(data)
            if inflated:
                yield inflated

    def _inflate(self, data: bytes) -> tuple[bytes, bytes]:
        """The bytes that these give next, and those of them that are left."""
        inflater = self._inflater
        assert inflater is not None
        before = inflater.copy()
        try:
            inflated = inflater.decompress(data, self._most)
        except zlib.error:
            self._inflater, self.damaged = None, self.damaged + 1
            return _up_to_damage(before, data, self._most)
        if inflater.eof:
            self._inflater = None
        return inflated, inflater.unused_data if inflater.eof else inflater.unconsumed_tail

    def broken_off(self) -> None:
        """The file was cut or replaced: an unfinished member will not be finished."""
        self.damaged += self._inflater is not None or bool(self._between)
        self._inflater, self._between = None, b""

    def _begin(self, data: bytes) -> bytes:
        """The bytes from the next member's beginning on, for which there is an inflater then."""
        found = data.find(_MEMBER_BEGIN)
        if found >= 0:
            self.damaged += found > 0
            self._between = b""
            self._inflater = zlib.decompressobj(_GZIP_WINDOW)
            return data[found:]
        kept = next((size for size in (2, 1) if data.endswith(_MEMBER_BEGIN[:size])), 0)
        self.damaged += len(data) > kept
        self._between = data[len(data) - kept :]
        return b""


def _up_to_damage(inflater: "zlib._Decompress", data: bytes, most_bytes: int) -> tuple[bytes, bytes]:
    """Inflated bytes before the damage, at most so many, and the bytes behind it: the same, however the bytes were cut."""
    found = bytearray()
    for at in range(len(data)):
        try:
            found += inflater.decompress(data[at : at + 1], most_bytes)
        except zlib.error:
            return bytes(found), data[at + 1 :]
        if len(found) >= most_bytes:
            return bytes(found[:most_bytes]), data[at + 1 :]
    return bytes(found), b""
