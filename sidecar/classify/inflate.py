"""Compressed request bodies, decompressed for reading only, within a bound and in steps. The bytes go on as they came.

Clients compress long prompts: Codex sends zstd, gateways gzip and br. Without this a prompt of any length would count as one of unknown
length. Codings are those of RFC 9110 8.4.1 and its registry: gzip (and x-gzip), deflate (with a zlib header, as the RFC says, or
without, as some clients send it), br (RFC 7932) and zstd (RFC 8878, with a window of at most 8 MiB, RFC 9659). Of several codings on top
of each other none is read.

A body that is broken, or longer than MOST_INFLATED_BYTES, is not read at all. It never raises.
"""

import sys
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import ModuleType

from sidecar.budgets.budgets import Budget


MOST_INFLATED_BYTES = 4 << 20
"""The longest body that is read: four times the look-in bound, as text shrinks."""
INFLATED_PIECE_BYTES = 65_536
"""Most bytes that one step gives: at most 0.5 ms."""
_MOST_WINDOW_BITS = 23
_MOST_MEMBERS = 16
"""Members of gzip that are read: each copies all that stands behind it."""
_MOST_FRAMES = 1024
"""Frames of zstd that are read: each copies all that stands behind it."""
_WITH_GZIP_HEADER, _WITH_ZLIB_HEADER, _BARE = 31, 15, -15

Pieces = Iterator[bytes]
Beside = Callable[[Callable[[], bool]], Iterator[bool | None]]
"""Does a piece of work beside the loop: gives None while it lasts, and then its result."""


class _BrokenError(ValueError):
    """The body ends too early, or something stands behind it."""


def coding_of(values: Sequence[bytes]) -> bytes | None:
    """The one coding of these Content-Encoding fields, in lower case; None if there are several, or none."""
    codings = [coding.strip().lower() for value in values for coding in value.split(b",")]
    codings = [coding for coding in codings if coding not in (b"", b"identity")]
    return codings[0] if len(codings) == 1 else None


def inflated_in_steps(
    body: bytes | bytearray, coding: bytes | None, whole: bytearray, budget: Budget, beside: Beside
) -> Generator[None, None, bool]:
    """Decompress into `whole`, with a step for each piece. False: it cannot be read, or not within the bounds.

    `beside`: does what cannot be done in steps. `budget`: of the bytes that the process holds; it counts those in `whole`, which its caller gives back.
    """
    read = _CODINGS.get(coding or b"")
    if read is None:
        return False
    try:
        for piece in read(bytes(body), beside):
            whole += piece
            budget.used += len(piece)
            if len(whole) > MOST_INFLATED_BYTES:
                return False
            if budget.used > budget.limit:
                budget.exceeded += 1
                return False
            yield
    except Exception:  # noqa: BLE001  each library has errors of its own, and a client chooses the bytes
        return False
    return True


def preload() -> None:
    """Load the libraries, in a thread and before the first body: they take 4 ms."""
    import brotli  # noqa: F401, PLC0415  not at the top, because the start does not wait for them

    zstd_library()


def _inflate(header: int, body: bytes, _beside: Beside) -> Pieces:
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


def _deflate(body: bytes, beside: Beside) -> Pieces:
    # RFC 1950 2.2: the first two bytes of a zlib header are a multiple of 31, and its method is 8.
    has_header = len(body) > 1 and body[0] & 15 == 8 and (256 * body[0] + body[1]) % 31 == 0
    yield from _inflate(_WITH_ZLIB_HEADER if has_header else _BARE, body, beside)


def _brotli(body: bytes, beside: Beside) -> Pieces:
    # The first call makes the whole window, 16 MiB of it for 100 bytes of a client's choice, in 20 ms: it holds no lock of the interpreter.
    pieces: list[bytes] = []
    whole: bool | None = False
    for said in beside(partial(_unbrotli, body, pieces)):
        whole = said
        yield b""
    if not whole:
        raise _BrokenError
    yield from pieces


def _unbrotli(body: bytes, pieces: list[bytes]) -> bool:
    import brotli  # noqa: PLC0415  `preload` has loaded it

    try:
        reader, size, fed = brotli.Decompressor(), 0, body
        while not reader.is_finished():
            piece = reader.process(fed, output_buffer_limit=INFLATED_PIECE_BYTES)
            if not piece and not fed and not reader.is_finished() and reader.can_accept_more_data():
                return False
            fed = b""
            pieces.append(piece)
            size += len(piece)
            if size > MOST_INFLATED_BYTES:
                return True
    except brotli.error:
        return False
    return True


def zstd_library() -> ModuleType:
    """Python's own from 3.14 on, and the same one for those before it."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def _zstd(body: bytes, _beside: Beside) -> Pieces:
    zstd = zstd_library()
    options = {zstd.DecompressionParameter.window_log_max: _MOST_WINDOW_BITS}
    reader, rest, ended = zstd.ZstdDecompressor(options=options), body, not body
    for _ in range(_MOST_FRAMES):  # a body may have several frames (RFC 8878 3)
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


_CODINGS: Mapping[bytes, Callable[[bytes, Beside], Pieces]] = {
    b"gzip": partial(_inflate, _WITH_GZIP_HEADER),
    b"x-gzip": partial(_inflate, _WITH_GZIP_HEADER),
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
