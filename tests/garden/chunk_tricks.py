"""Attacks on chunked bodies: sizes, extensions, line ends, last chunks and trailers that two readers read differently.

Each spelling stands at the first, at a later and at the last chunk, with a request hidden where a reader that is misled
would look for the next one (RFC 9112 7.1). Knows bytes only.
"""

from collections.abc import Iterator

from tests.garden.framing_tricks import ODD_BYTES
from tests.garden.sequence import SMUGGLED, SWALLOWING, Family, Trick, Tricks, post, shown


_CODING = b"Transfer-Encoding: chunked"


def _sizes(size: int) -> Iterator[bytes]:
    """Spellings of a chunk's size, line end included."""
    text = b"%x" % size
    for odd in ODD_BYTES:
        yield odd + text + b"\r\n"
        yield text + odd + b"\r\n"
        yield text + b"\r" + odd + b"\n"
        yield text + b"\r\n" + odd
        yield text + b";" + odd + b"\r\n"
        yield text + b";x=" + odd + b"y\r\n"
        yield text + odd + b";x\r\n"
        yield text[:1] + odd + text[1:] + b"\r\n"
    for form in (
        *(b"0x%b\r\n", b"+%b\r\n", b"-%b\r\n", b"0%b\r\n", b"000000000000000000000%b\r\n", b"%bh\r\n", b"%b.0\r\n"),
        *(b"%b\n", b"%b\r", b"%b", b"%b\r\r\n", b"%b\n\r\n", b"%b\n\n", b"%b \n", b"%b;\n", b"%b;x\n", b"%b;x=y\n"),
        *(b"%b;\r\n", b"%b;x\r\n", b"%b;x=y\r\n", b'%b;x="y"\r\n', b'%b;x="y\r\n', b'%b;x="\r\n"\r\n', b"%b ;x\r\n"),
        *(
            b"%b\t;x\r\n",
            b"%b; x\r\n",
            b"%b;x;y;z\r\n",
            b"%b,\r\n",
            b"%b:\r\n",
            b"%b x\r\n",
            b"%b%%%%00\r\n",
            b"%b_\r\n",
        ),
        *(b"100000000%b\r\n", b"10000000000000000%b\r\n", b"fffffffffffffff%b\r\n", b"-fffffffffffffff%b\r\n"),
        *(b"%b;x=\xff\r\n", b"%b;\x00\r\n", b"\r\n%b\r\n", b"g%b\r\n", b"%bg\r\n", b"\xef\xbb\xbf%b\r\n", b'"%b"\r\n'),
    ):
        yield (form % text).replace(b"%%", b"%")
    yield text.upper() + b"\r\n"
    yield b"\r\n"
    yield b";x\r\n"


def _ends() -> Iterator[bytes]:
    """Ends of a chunk's data; right is CRLF alone."""
    yield from (
        b"",
        b"\n",
        b"\r",
        b"\r\r\n",
        b"\n\r\n",
        b"\r\n\r\n",
        b"XX",
        b"X\r\n",
        b"\rX",
        b"\nX",
        b" \r\n",
        b"\x00\r\n",
    )
    yield from (b"\r\n ", b"\r\n\x00", b"\x0b\x0c", b"\x85\x85", b"\r\n\n", b"--", b"\r0", b"\n0")


def _last_chunks() -> Iterator[bytes]:
    """Spellings of the last chunk and of the end of the trailers."""
    yield from (
        b"0\n\n",
        b"0\r\n\n",
        b"0\n\r\n",
        b"0\r\r",
        b"0\r\n\r",
        b"0\r\n\rX",
        b"00\r\n\r\n",
        b"0000000000000\r\n\r\n",
    )
    yield from (
        b"0;x\r\n\r\n",
        b"0;x=y\r\n\r\n",
        b"0 \r\n\r\n",
        b" 0\r\n\r\n",
        b"-0\r\n\r\n",
        b"+0\r\n\r\n",
        b"0x0\r\n\r\n",
    )
    yield from (
        b"0",
        b"0\r\n",
        b"0\r\nX",
        b"0\r\n ",
        b"0\r\n \r\n",
        b"0\r\n\x00\r\n",
        b"0\x00\r\n\r\n",
        b"\r\n\r\n",
        b"x\r\n\r\n",
    )
    yield from (
        b"0;\n\r\n\r\n",
        b"0;x\n\r\n",
        b"0\r\n\r\n\r\n",
        b"0\r\n\r\n\n",
        b"0\r\n\r\n\r",
        b"0\r\n\r\n ",
        b"0\r\n\r\n\x00",
    )
    for odd in ODD_BYTES:
        yield b"0%b\r\n\r\n" % odd
        yield b"0\r\n%b\r\n" % odd
        yield b"%b0\r\n\r\n" % odd


def chunk_tricks() -> Tricks:
    """Every spelling at every chunk, each over a body that holds a request."""
    text = b"hello"
    for line in _sizes(len(SMUGGLED)):
        yield _trick(f"size {shown(line)}", line + SMUGGLED + b"\r\n0\r\n\r\n")
        yield _trick(f"second size {shown(line)}", b"5\r\nhello\r\n" + line + SMUGGLED + b"\r\n0\r\n\r\n")
    for line in _sizes(len(text)):
        yield _trick(f"size {shown(line)}, then a request", line + text + b"\r\n0\r\n\r\n" + SMUGGLED)
    for end in _ends():
        yield _trick(f"data end {shown(end)}", b"5\r\nhello" + end + b"0\r\n\r\n" + SMUGGLED)
        yield _trick(f"second data end {shown(end)}", b"1\r\na\r\n5\r\nhello" + end + b"0\r\n\r\n" + SMUGGLED)
        yield _trick(f"data end {shown(end)} before a request", b"%x\r\n%b%b0\r\n\r\n" % (len(SMUGGLED), SMUGGLED, end))
    for last in _last_chunks():
        yield _trick(f"last chunk {shown(last)}", b"5\r\nhello\r\n" + last)
        yield _trick(f"only the last chunk {shown(last)}", last)
        yield _trick(f"last chunk {shown(last)}, then a request", b"5\r\nhello\r\n" + last + SMUGGLED)
        yield _trick(f"last chunk {shown(last)}, then a request without end", b"5\r\nhello\r\n" + last + SWALLOWING)
    hidden = SMUGGLED.replace(b"\r\n", b"\n")
    yield _trick("a request in an extension", b"5;" + hidden.replace(b"\n", b"\r") + b"\r\nhello\r\n0\r\n\r\n")
    yield _trick("a request in an extension, bare LF", b"5;" + hidden + b"\r\nhello\r\n0\r\n\r\n")
    yield _trick("sizes that wrap", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n" + SMUGGLED)
    for count in (2, 5, 100, 1000):
        yield _trick(f"{count} tiny chunks", b"1\r\na\r\n" * count + b"0\r\n\r\n")


def _trick(name: str, body: bytes) -> Trick:
    return Trick(Family.CHUNKS, name, post(_CODING, body=body))


def trailer_tricks() -> Tricks:
    """Trailers that name the framing, the connection, or the request behind."""
    lines = [
        *(b"Content-Length: 5", b"Transfer-Encoding: chunked", b"Host: other", b"Connection: close", b"X: y"),
        *(b"Content-Length: %d" % len(SMUGGLED), b"Authorization: x", b"Upgrade: websocket", b"Expect: 100-continue"),
        *(b"X: a\r\n b", b" X: y", b"X : y", b": y", b"X", b"X: \x00", b"X: y\r\nY: z", b"X:y", b"X: a\rb", b"X: a\nb"),
        *(b"GET /garden/GARDENID/smuggled HTTP/1.1", b"GET /garden/GARDENID/smuggled HTTP/1.1\r\nHost: garden"),
        *(b"X: y\n", b"\x00", b"X\x00: y", b"X_Y: z", b"Trailer: X", b"TE: trailers", b"X: " + b"a" * 2000),
    ]
    for line in lines:
        for shape, field in (("stated", (b"Trailer: X",)), ("not stated", ())):
            data = post(*field, _CODING, body=b"5\r\nhello\r\n0\r\n" + line + b"\r\n\r\n")
            yield Trick(Family.TRAILERS, f"{shape}: {shown(line)}"[:120], data)
            yield Trick(Family.TRAILERS, f"{shape}, then a request: {shown(line)}"[:120], data + SMUGGLED)
    for end in (b"\n", b"\r", b"\n\r\n", b"\r\r\n"):
        data = post(_CODING, body=b"5\r\nhello\r\n0\r\nX: y" + end + b"\r\n" + SMUGGLED)
        yield Trick(Family.TRAILERS, f"line end {shown(end)}", data)
