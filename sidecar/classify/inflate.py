"""Compressed request bodies, decompressed for reading only, and within a bound. The bytes go on as they came.

Clients compress long prompts: Codex sends zstd, gateways gzip and br. Without this a prompt of any length would count as one of unknown
length. Codings are those of RFC 9110 8.4.1 and its registry: gzip (and x-gzip), deflate (with a zlib header, as the RFC says, or
without, as some clients send it), br (RFC 7932) and zstd (RFC 8878, with a window of at most 8 MiB, RFC 9659). Of several codings on top
of each other none is read.

A body that is broken, or longer than MOST_INFLATED_BYTES, is not read at all. The memory that a decoder may take does not follow from the
body: 58 bytes of br open a window of 16 MiB. So `bytes_for` states the most that it can be, before it begins.
"""

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import NamedTuple


MOST_INFLATED_BYTES = 4 << 20
"""The longest body that is read: four times the look-in bound, as text shrinks."""
INFLATED_PIECE_BYTES = 65_536
"""Most bytes that one step gives, about: at most 0.5 ms."""
_MOST_WINDOW_BITS = 23
MOST_BODY_MEMBERS = 16
"""Members of gzip, or frames of zstd, that are read, empty and skippable ones too: for each a decoder is made, and all that stands behind it
is copied."""
_WITH_GZIP_HEADER, _WITH_ZLIB_HEADER, _BARE = 31, 15, -15

Pieces = Iterator[bytes]


class _BrokenError(ValueError):
    """The body ends too early, or something stands behind it."""


class _Coding(NamedTuple):
    pieces: Callable[[bytes], Pieces]
    decoder_bytes: int
    """The most memory of one decoder: its window and its tables."""


def coding_of(values: Sequence[bytes]) -> bytes | None:
    """The one coding of these Content-Encoding fields, in lower case; None if there are several, or none."""
    codings = [coding.strip().lower() for value in values for coding in value.split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    return codings[0] if len(codings) == 1 else None


def bytes_for(coding: bytes | None, size: int) -> int | None:
    """The most memory that `inflated` takes for `size` bytes of this coding, its result included; None for a coding that is not read."""
    read = _CODINGS.get(coding or b"")
    # The result is joined of pieces; the body is copied, and once more what a decoder has not taken in yet.
    return None if read is None else read.decoder_bytes + 2 * (MOST_INFLATED_BYTES + 2 * INFLATED_PIECE_BYTES + size)


def inflated(body: bytes | bytearray, coding: bytes | None, unwanted: Callable[[], bool]) -> bytes | None:
    """The bytes inside; None if they cannot be read. Never raises. Those of a body that is too long end behind MOST_INFLATED_BYTES.

    A thread may do this: no step holds the interpreter for more than 0.1 ms. `unwanted`: asked between two steps; if it is true, the result
    is a beginning that is not read.
    """
    read, pieces, size = _CODINGS.get(coding or b""), list[bytes](), 0
    try:
        for piece in () if read is None else read.pieces(bytes(body)):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_INFLATED_BYTES or unwanted():
                break
    except Exception:  # noqa: BLE001  each library has errors of its own, and a client chooses the bytes
        return None
    return None if read is None else b"".join(pieces)


def preload() -> None:
    """Load the libraries, in a thread and before the first body: they take 4 ms."""
    import brotli  # noqa: F401, PLC0415  not at the top, because the start does not wait for them

    zstd_library()


def _inflate(header: int, body: bytes) -> Pieces:
    for _ in range(MOST_BODY_MEMBERS):  # a gzip file may have several members (RFC 1952 2.2)
        if not body:
            return
        reader = zlib.decompressobj(header)
        rest = body
        while not reader.eof:
            piece = reader.decompress(rest, INFLATED_PIECE_BYTES)
            if not piece and not reader.unconsumed_tail and not reader.eof:
                raise _BrokenError
            rest = reader.unconsumed_tail
            yield piece
        body = reader.unused_data
        if body and header != _WITH_GZIP_HEADER:
            raise _BrokenError
    if body:
        raise _BrokenError


def _deflate(body: bytes) -> Pieces:
    # RFC 1950 2.2: the first two bytes of a zlib header are a multiple of 31, and its method is 8.
    has_header = len(body) > 1 and body[0] & 15 == 8 and (256 * body[0] + body[1]) % 31 == 0
    yield from _inflate(_WITH_ZLIB_HEADER if has_header else _BARE, body)


def _brotli(body: bytes) -> Pieces:
    import brotli  # noqa: PLC0415  `preload` has loaded it

    reader, fed = brotli.Decompressor(), body
    while not reader.is_finished():
        piece = reader.process(fed, output_buffer_limit=INFLATED_PIECE_BYTES)
        if not piece and not fed and not reader.is_finished() and reader.can_accept_more_data():
            raise _BrokenError
        fed = b""
        yield piece


def zstd_library() -> ModuleType:
    """Python's own from 3.14 on, and the same one for those before it."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _zstd(body: bytes) -> Pieces:
    zstd = zstd_library()
    options = {zstd.DecompressionParameter.window_log_max: _MOST_WINDOW_BITS}
    rest, ended = body, not body
    for _ in range(MOST_BODY_MEMBERS):  # a body may have several frames (RFC 8878 3)
        if not rest:
            break
        reader, fed = zstd.ZstdDecompressor(options=options), rest
        while not reader.eof:
            piece = reader.decompress(fed, INFLATED_PIECE_BYTES)
            if not piece and reader.needs_input and not reader.eof:
                raise _BrokenError
            fed = b""
            yield piece
        rest, ended = reader.unused_data, True
    if rest or not ended:
        raise _BrokenError


# The windows are those of the formats' own limits; the rest is what zlib 1.2, brotli 1.2 and libzstd 1.5 take beside them.
_CODINGS: Mapping[bytes, _Coding] = {
    **dict.fromkeys((b"gzip", b"x-gzip"), _Coding(partial(_inflate, _WITH_GZIP_HEADER), 64 << 10)),
    b"deflate": _Coding(_deflate, 64 << 10),
    b"br": _Coding(_brotli, (16 << 20) + (4 << 20)),
    b"zstd": _Coding(_zstd, (1 << _MOST_WINDOW_BITS) + (1 << 20)),
}
