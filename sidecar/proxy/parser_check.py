"""Asks the installed HTTP parser, before traffic comes, whether it refuses what `headers.py` relies on it to refuse.

Knows the messages by which two parsers in a row are made to disagree about where a request ends (request smuggling), and
httptools, which may be built on any llhttp, in any mode. Does not know what the relay does with a message, and checks
nothing that `headers.py` decides itself. All probes together take about a millisecond.
"""

from collections.abc import Callable
from typing import Any

import httptools


Parser = Callable[["Reading"], Any]
Messages = list[tuple[bytes, bytes]]

_POST = b"POST /a HTTP/1.1\r\nHost: pod\r\n"
_IN_CHUNKS = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_OK = b"HTTP/1.1 200 OK\r\n"
_OK_IN_CHUNKS = _OK + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED_REQUESTS: dict[str, bytes] = {
    "lines that end in a bare LF": b"POST /a HTTP/1.1\nHost: pod\n\n",
    "a field that ends in a bare LF": _POST + b"X: y\nContent-Length: 0\r\n\r\n",
    "a bare CR in a value": _POST + b"X: y\rZ: z\r\n\r\n",
    "a NUL in a value": _POST + b"X: y\0\r\n\r\n",
    "a control character before a coding": _POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a control character in a name": _POST + b"X\x0b: y\r\n\r\n",
    "a space before the colon": _POST + b"Content-Length : 5\r\n\r\nhello",
    "a folded line": _POST + b"X: y\r\n z\r\n\r\n",
    "a folded coding": _POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a space before the first field": b"POST /a HTTP/1.1\r\n Host: pod\r\n\r\n",
    "a length and chunks": _POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": _POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": _POST + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    "a list of lengths": _POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "a length with a sign": _POST + b"Content-Length: +5\r\n\r\nhello",
    "a length in base 16": _POST + b"Content-Length: 0x5\r\n\r\nhello",
    "a length of more than 64 bits": _POST + b"Content-Length: 18446744073709551621\r\n\r\nhello",
    "an empty length": _POST + b"Content-Length: \r\n\r\nhello",
    "chunks that are not the last coding": _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an unknown coding": _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a chunk size with a prefix": _IN_CHUNKS + b"0x5\r\nhello\r\n0\r\n\r\n",
    "a chunk size with a sign": _IN_CHUNKS + b"+5\r\nhello\r\n0\r\n\r\n",
    "a chunk size of more than 64 bits": _IN_CHUNKS + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a space behind a chunk size": _IN_CHUNKS + b"5 \r\nhello\r\n0\r\n\r\n",
    "a space before a chunk size": _IN_CHUNKS + b" 5\r\nhello\r\n0\r\n\r\n",
    "an empty chunk size": _IN_CHUNKS + b"\r\nhello\r\n0\r\n\r\n",
    "a chunk size that ends in a bare LF": _IN_CHUNKS + b"5\nhello\r\n0\r\n\r\n",
    "a chunk size that ends in a bare CR": _IN_CHUNKS + b"5\rhello\r\n0\r\n\r\n",
    "a chunk extension that ends in a bare LF": _IN_CHUNKS + b"5;x\nhello\r\n0\r\n\r\n",
    "a bare CR in a chunk extension": _IN_CHUNKS + b"5;x\ry\r\nhello\r\n0\r\n\r\n",
    "a chunk that ends in a bare LF": _IN_CHUNKS + b"5\r\nhello\n0\r\n\r\n",
    "a chunk that ends in nothing": _IN_CHUNKS + b"5\r\nhello0\r\n\r\n",
    "a last chunk that ends in a bare LF": _IN_CHUNKS + b"0\n\n",
    "a trailer that ends in a bare LF": _IN_CHUNKS + b"0\r\nX: y\n\r\n",
    "a version that is no number": b"POST /a HTTP/1.x\r\nHost: pod\r\n\r\n",
    "a control character in a target": b"GET /a\x01 HTTP/1.1\r\nHost: pod\r\n\r\n",
    "a request behind Connection: close": _POST + b"Connection: close\r\n\r\nGET /b HTTP/1.1\r\nHost: pod\r\n\r\n",
}
REFUSED_ANSWERS: dict[str, bytes] = {
    "lines that end in a bare LF": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a NUL in a value": _OK + b"X: y\0\r\n\r\n",
    "a folded line": _OK + b"X: y\r\n z\r\n\r\n",
    "a space before the colon": _OK + b"Content-Length : 5\r\n\r\nhello",
    "a length and chunks": _OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": _OK + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    "a length with a sign": _OK + b"Content-Length: +5\r\n\r\nhello",
    "a chunk size of more than 64 bits": _OK_IN_CHUNKS + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a space behind a chunk size": _OK_IN_CHUNKS + b"5 \r\nhello\r\n0\r\n\r\n",
    "a chunk size that ends in a bare LF": _OK_IN_CHUNKS + b"5\nhello\r\n0\r\n\r\n",
    "a chunk that ends in nothing": _OK_IN_CHUNKS + b"5\r\nhello0\r\n\r\n",
}
_NEXT = b"GET /b HTTP/1.1\r\nHost: pod\r\n\r\n"
READ_REQUESTS: dict[str, tuple[bytes, Messages]] = {
    "a length": (_POST + b"Content-Length: %d\r\n\r\n" % len(_NEXT) + _NEXT * 2, [(b"/a", _NEXT), (b"/b", b"")]),
    "chunks": (
        _IN_CHUNKS + b"%x;x=y\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(_NEXT), _NEXT) + _NEXT,
        [(b"/a", _NEXT), (b"/b", b"")],
    ),
    "an upgrade": (
        _POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhello",
        [(b"/a", b""), (b"behind the upgrade", b"hello")],
    ),
}
"""Messages that the parser must read, and what it must find in them: a target and a body each."""
READ_ANSWERS: dict[str, tuple[bytes, Messages]] = {
    "a length": ((_OK + b"Content-Length: 5\r\n\r\nhello") * 2, [(b"", b"hello")] * 2),
    "chunks": ((_OK_IN_CHUNKS + b"5\r\nhello\r\n0\r\n\r\n") * 2, [(b"", b"hello")] * 2),
}


class Reading:
    """The messages that one parser finds."""

    def __init__(self) -> None:
        self.found: list[list[bytes]] = []

    def on_message_begin(self) -> None:
        self.found.append([b"", b""])

    def on_url(self, url: bytes) -> None:
        self.found[-1][0] += url

    def on_body(self, body: bytes) -> None:
        self.found[-1][1] += body


def _read(parser: Parser, data: bytes, size: int) -> Messages | None:
    """The messages in the data, read in pieces of `size` bytes; None if the parser refuses them."""
    reading = Reading()
    reader = parser(reading)
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        try:
            reader.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            reading.found.append([b"behind the upgrade", piece[upgrade.args[0] :] + data[start + size :]])
            break
        except httptools.HttpParserError:
            return None
    return [(target, body) for target, body in reading.found]


def faults(requests: Parser = httptools.HttpRequestParser, answers: Parser = httptools.HttpResponseParser) -> list[str]:
    """In words, what these parsers accept or misread, whole or byte by byte; nothing if they are safe."""
    found = []
    for kind, parser, refused, read in (
        ("a request", requests, REFUSED_REQUESTS, READ_REQUESTS),
        ("an answer", answers, REFUSED_ANSWERS, READ_ANSWERS),
    ):
        for name, data in refused.items():
            if not _read(parser, data, len(data)) is _read(parser, data, 1) is None:
                found.append(f"{kind} with {name} is accepted")
        for name, (data, messages) in read.items():
            if not _read(parser, data, len(data)) == _read(parser, data, 1) == messages:
                found.append(f"{kind} with {name} is misread")
    return found


def advice() -> str:
    """One sentence for the log: which parser to install in place of one that has faults."""
    import importlib.metadata  # noqa: PLC0415  15 ms, and few parsers have faults

    try:
        needed = importlib.metadata.requires("llm-phase-sidecar") or []
    except importlib.metadata.PackageNotFoundError:
        needed = []
    wanted = next((one for one in needed if one.startswith("httptools")), "httptools")
    return (
        f"The HTTP parser, httptools {httptools.__version__}, would let requests be smuggled past other proxies. Install the "
        f"wheel from PyPI, which has its own llhttp: pip install --force-reinstall --only-binary=httptools '{wanted}'"
    )
