"""The protobuf wire format (protobuf.dev/programming-guides/encoding): fields read from untrusted bytes, and written. Pure.

It knows varints, lengths and fixed sizes. It refuses to know what a field means; a field that the caller skips is not
entered. It counts the fields read, per span and per request.
"""

import struct
from collections.abc import Iterator
from mmap import mmap

from sidecar.otlp.limits import MAX_FIELDS, MAX_SPAN_FIELDS, MalformedError


Body = bytes | bytearray | mmap
VARINT, I64, LEN, I32 = 0, 1, 2, 5
DOUBLE, FIXED64 = struct.Struct("<d"), struct.Struct("<Q")
"""The contents of two kinds of I64."""


class Fields:
    """Reads fields and counts down `left` (for the request) and `left_in_span`."""

    __slots__ = ("body", "left", "left_in_span")

    def __init__(self, body: Body) -> None:
        self.body = body
        self.left = MAX_FIELDS
        self.left_in_span = MAX_SPAN_FIELDS

    def between(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Each field as (tag, offset of the field, start of its content, end of its content); tags as on the wire.

        For a varint the last two are its value and 0. Raises MalformedError, also for groups, which proto3 lacks.
        """
        body = self.body
        while at < end:
            began = at
            tag = body[at]
            if 8 <= tag < 0x80:
                at += 1
            else:
                tag, at = self._varint(at, end)
                if not 8 <= tag < 1 << 32:
                    raise MalformedError("a field number is out of range")
            kind = tag & 7
            self.left -= 1
            self.left_in_span -= 1
            if kind == LEN:
                size = body[at] if at < end else 0x80
                if size < 0x80:
                    at += 1
                else:
                    size, at = self._varint(at, end)
                if size > end - at:
                    raise MalformedError("a field is longer than the message around it")
                yield tag, began, at, at + size
                at += size
            elif kind == VARINT:
                value, at = self._varint(at, end)
                yield tag, began, value, 0
            elif kind in (I64, I32):
                size = 8 if kind == I64 else 4
                if size > end - at:
                    raise MalformedError("a field is longer than the message around it")
                yield tag, began, at, at + size
                at += size
            else:
                raise MalformedError("a field has a wire type that proto3 does not have")

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """The value, below 2**64, and the offset after it. Raises MalformedError."""
        value = shift = 0
        while at < end:
            byte = self.body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    raise MalformedError("a varint is longer than 64 bits")
                return value, at
            shift += 7
            if shift > 63:
                raise MalformedError("a varint is longer than 64 bits")
        raise MalformedError("a varint is incomplete")


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """A number from 0 on, in as many bytes as it needs."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, content: bytes) -> bytes:
    """A length-delimited field with this number."""
    return varint(number << 3 | LEN) + varint(len(content)) + content
