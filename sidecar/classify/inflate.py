"""Compressed request bodies, decompressed for reading only, within a bound and in steps. The bytes go on as they came.

Clients compress long prompts: Codex sends zstd, gateways gzip and br. Without this a prompt of any length would count as one of unknown
length. Codings are those of RFC 9110 8.4.1 and its registry: gzip (and x-gzip), deflate (with a zlib header, as the RFC says, or
without, as some clients send it), br (RFC 7932) and zstd (RFC 8878, with a window of at most 8 MiB, RFC 9659). Of several codings on top
of each other none is read.

A body that is broken, or longer than MOST_INFLATED_BYTES, is not read at all. It never raises.
"""

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial


MOST_INFLATED_BYTES = 4 << 20
"""The longest body that is read: four times the look-in bound, as text shrinks."""
INFLATED_PIECE_BYTES = 65_536
"""Most bytes that one step gives: at most 0.5 ms."""
_MOST_WINDOW_BYTES = 8 << 20
_MOST_MEMBERS = 16
"""Members of gzip that are read: each copies all that stands behind it."""
_FED_BYTES, _FEEDS_A_STEP = 64, 128
"""Bytes of zstd that are decompressed in one call: 16 blocks of one repeated byte at most, which are 2 MiB."""
_FED_BROTLI_BYTES = 16_384
"""The same for brotli, whose output is bounded by itself: but for each call it copies its whole input."""
_WITH_GZIP_HEADER, _WITH_ZLIB_HEADER, _BARE = 31, 15, -15

Pieces = Iterator[bytes]


class _BrokenError(ValueError):
    """The body ends too early, or something stands behind it."""


def coding_of(values: Sequence[bytes]) -> bytes | None:
    """The one coding of these Content-Encoding fields, in lower case; None if there are several, or none."""
    codings = [coding.strip().lower() for value in values for coding in value.split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    return codings[0] if len(codings) == 1 else None


def inflated_in_steps(body: bytes | bytearray, coding: bytes | None) -> Generator[None, None, bytes | None]:
    """The body without this coding; a step for each piece. None: it cannot be read, or not within the bound."""
    read = _CODINGS.get(coding or b"")
    if read is None:
        return None
    whole = bytearray()
    try:
        for piece in read(bytes(body)):
            whole += piece
            if len(whole) > MOST_INFLATED_BYTES:
                return None
            yield
    except Exception:  # noqa: BLE001  each library has errors of its own, and a client chooses the bytes
        return None
    return bytes(whole)


def _inflate(header: int, body: bytes) -> Pieces:
    for _ in range(_MOST_MEMBERS):  # a gzip file may have several members (RFC 1952 2.2)
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
    import brotli  # noqa: PLC0415  loaded with the first body of this coding: most servers never get one

    reader = brotli.Decompressor()
    for at in range(0, len(body), _FED_BROTLI_BYTES):
        fed = body[at : at + _FED_BROTLI_BYTES]
        while fed or not (reader.is_finished() or reader.can_accept_more_data()):
            piece = reader.process(fed, output_buffer_limit=INFLATED_PIECE_BYTES)
            fed = b""
            yield piece
    while body and not reader.is_finished():
        piece = reader.process(b"", output_buffer_limit=INFLATED_PIECE_BYTES)
        if not piece and reader.can_accept_more_data():
            raise _BrokenError
        yield piece


def _zstd(body: bytes) -> Pieces:
    import zstandard  # noqa: PLC0415  as for brotli

    unpacker = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES)
    reader, ready = unpacker.decompressobj(), bytearray()
    # `stream_reader` bounds its output, and does not tell half a frame from a whole one; this reader tells it, and is bounded by what it gets.
    for number, at in enumerate(range(0, len(body), _FED_BYTES), start=1):
        fed = body[at : at + _FED_BYTES]
        while fed:
            if reader.eof:  # a body may have several frames (RFC 8878 3)
                reader = unpacker.decompressobj()
            ready += reader.decompress(fed)
            fed = reader.unused_data if reader.eof else b""
        if len(ready) >= INFLATED_PIECE_BYTES or number % _FEEDS_A_STEP == 0:
            yield bytes(ready)
            ready.clear()
    if body and not reader.eof:
        raise _BrokenError
    yield bytes(ready)


_CODINGS: Mapping[bytes, Callable[[bytes], Pieces]] = {
    b"gzip": partial(_inflate, _WITH_GZIP_HEADER),
    b"x-gzip": partial(_inflate, _WITH_GZIP_HEADER),
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
