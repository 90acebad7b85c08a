"""Attacks on the framing of requests: Transfer-Encoding and Content-Length in every spelling, alone and against each other.

The spellings follow the families of the known desync scanners: each byte that some parser ignores, in each place where
it may ignore it; values that one parser takes for `chunked` or for a number and another does not. Each spelling is
combined with bodies that end in two places, depending on the field that the reader believes. Knows bytes only.
"""

from collections.abc import Iterator

from tests.garden.sequence import SMUGGLED, SWALLOWING, Family, Trick, Tricks, chunked, post, shown


ODD_BYTES = tuple(bytes((byte,)) for byte in b"\x00\x01\x04\x08\t\n\x0b\x0c\r\x1c\x1f \x7f\x80\x85\xa0\xad\xff")
"""Bytes that one parser or another ignores, strips, or takes for the end of a line."""


def coding_lines() -> Iterator[bytes]:
    """Every spelling of `Transfer-Encoding: chunked`, with the right one first."""
    yield b"Transfer-Encoding: chunked"
    for odd in ODD_BYTES:
        yield b"Transfer-Encoding:%bchunked" % odd
        yield b"Transfer-Encoding: %bchunked" % odd
        yield b"Transfer-Encoding%b: chunked" % odd
        yield b"Transfer-Encoding: chunked%b" % odd
        yield b"%bTransfer-Encoding: chunked" % odd
        yield b"Transfer%bEncoding: chunked" % odd
        yield b"Transfer-Encoding: chun%bked" % odd
        yield b"Transfer-Encoding: chunked,%b" % odd
        yield b"X: y%bTransfer-Encoding: chunked" % odd
        yield b"X: y\r\n%bTransfer-Encoding: chunked" % odd
    for value in (
        *(
            b"xchunked",
            b"chunkedx",
            b"chunked-x",
            b'"chunked"',
            b"'chunked'",
            b"[chunked]",
            b"chunked;q=1",
            b"chunked;",
        ),
        *(
            b"chunked, identity",
            b"identity, chunked",
            b"chunked, chunked",
            b"chunked,",
            b",chunked",
            b", chunked",
            b",",
        ),
        *(b"gzip, chunked", b"chunked, gzip", b"deflate", b"identity", b"cow", b"", b"x", b"0", b"none", b"CHUNKED"),
        *(b"Chunked", b"cHuNkEd", b"chunke", b"hunked", b"chun ked", b"chunked chunked", b"chunked\tidentity"),
        *(b"identity\r\n chunked", b"\r\n chunked", b"\r\n\tchunked", b"chunked\r\n ", b"\r\n\r\n chunked"),
        *("chun\u212aed".encode(), "\uff43hunked".encode(), "chunked\u00a0".encode(), b"\xef\xbb\xbfchunked"),
        *(b"chunked\\r\\n", b"%63hunked", b"=?utf-8?q?chunked?=", b"chunked\r\nX: y\x00", b"identity;chunked"),
    ):
        yield b"Transfer-Encoding: %b" % value
    for other in (b"cow", b"identity", b"", b"chunked", b"gzip"):
        yield b"Transfer-Encoding: chunked\r\nTransfer-Encoding: %b" % other
        yield b"Transfer-Encoding: %b\r\nTransfer-Encoding: chunked" % other
        yield b"Transfer-Encoding: chunked\r\ntransfer-encoding: %b" % other
    for name in (
        *(
            b"Transfer_Encoding",
            b"TRANSFER-ENCODING",
            b"transfer-encoding",
            b"tRANSFER-eNCODING",
            b"Transfer-Encoding ",
        ),
        *(b"TransferEncoding", b"Transfer--Encoding", b"X-Transfer-Encoding", b"Content-Encoding", b"TE", b"Transfer"),
        *(b"Transfer-Encoding:", b'"Transfer-Encoding"', b"Transfer-Encoding\r\n", b"(Transfer-Encoding)", b"HTTP_TE"),
        *(b"X\r\nTransfer-Encoding", b"X:\nTransfer-Encoding", b"X:\rTransfer-Encoding", b"X: y\n\nTransfer-Encoding"),
    ):
        yield b"%b: chunked" % name
    yield b"Transfer-Encoding chunked"
    yield b"Transfer-Encoding=chunked"
    yield b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked"
    yield b"Connection: Content-Length\r\nTransfer-Encoding: chunked"


def _coding_shapes(line: bytes) -> Iterator[tuple[str, bytes]]:
    """Requests that two readers end in two places if only one of them sees the coding."""
    early = b"0\r\n\r\n" + SMUGGLED
    whole = chunked(b"hello")
    inside = chunked(SMUGGLED)
    yield "alone", post(line, body=whole)
    yield "alone, a request in its chunk", post(line, body=inside)
    yield "length covers more", post(b"Content-Length: %d" % len(early), line, body=early)
    yield "length covers more, coding first", post(line, b"Content-Length: %d" % len(early), body=early)
    first = inside.index(b"\r\n") + 2
    yield "length covers less", post(b"Content-Length: %d" % first, line, body=inside)
    yield "length zero", post(b"Content-Length: 0", line, body=whole)
    swallowing = b"0\r\n\r\n" + SWALLOWING
    yield "length covers more, no end", post(b"Content-Length: %d" % len(swallowing), line, body=swallowing)
    start = b"POST /garden/GARDENID/attack HTTP/1.0"
    yield "version 1.0", post(b"Connection: keep-alive", line, body=whole, start=start)


def framing_tricks() -> Tricks:
    """Transfer-Encoding in every spelling and every shape; each also with a pause between head and body."""
    for line in coding_lines():
        for shape, data in _coding_shapes(line):
            name = f"{shape}: {shown(line)}"
            yield Trick(Family.FRAMING, name, data)
            if shape in ("alone", "length covers more"):
                body = data.find(b"\r\n\r\n") + 4
                yield Trick(Family.PAUSES, f"{name}, pause before the body", data, (body,))


def _length_values(length: int) -> Iterator[bytes]:
    """Spellings of a length, the right one first."""
    text = b"%d" % length
    yield text
    for odd in ODD_BYTES:
        yield odd + text
        yield text + odd
        yield text[:1] + odd + text[1:]
        yield text + odd + b"1"
    for value in (
        *(b"+%b", b"-%b", b"0%b", b"00000000000000000000%b", b"%b.0", b"%be0", b"%b,%%b", b"%b, %%b", b"%b;x", b'"%b"'),
        *(b"%b, 0", b"0, %b", b"%b,", b",%b", b"(%b)", b"%b_0", b"_%b", b"=%b", b"%b%%%%20", b"%b\r\n ", b"\r\n %b"),
        *(b"\xd9%b", b"%b\xc2\xb2", b"%bL", b"%bh", b"--%b", b"%b-", b"~%b", b"%b 0", b"0 %b", b"1e1%b", b"%b/1"),
    ):
        yield (value % text).replace(b"%b", text).replace(b"%%", b"%")
    yield b"0x%x" % length
    yield b"%x" % length
    yield b"0%o" % length
    yield b"0b%b" % f"{length:b}".encode()
    yield f"{length}".translate({ord("0") + digit: 0x660 + digit for digit in range(10)}).encode()
    for wrapped in (1 << 16, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 10**30):
        yield b"%d" % (wrapped + length)
        yield b"-%d" % wrapped
    yield b""


def _length_names() -> Iterator[bytes]:
    for odd in ODD_BYTES:
        yield b"Content-Length%b" % odd
        yield b"%bContent-Length" % odd
        yield b"Content%bLength" % odd
        yield b"X: y%bContent-Length" % odd
    yield from (b"Content_Length", b"CONTENT-LENGTH", b"content-length", b"ContentLength", b"X-Content-Length")
    yield from (b"Content-Length:", b"Content-Lengt", b"Content-Length\r\n", b"Content.Length", b"HTTP_CONTENT_LENGTH")


def length_tricks() -> Tricks:
    """Content-Length in every spelling, alone and beside a right one, over a body that is a request."""
    size = len(SMUGGLED)
    right = b"Content-Length: %d" % size
    for value in _length_values(size):
        odd = b"Content-Length: %b" % value
        for shape, lines in (
            ("alone", (odd,)),
            ("before a right one", (odd, right)),
            ("behind a right one", (right, odd)),
            ("before a zero", (odd, b"Content-Length: 0")),
        ):
            yield Trick(Family.LENGTHS, f"{shape}: {shown(odd)}", post(*lines, body=SMUGGLED))
        get = b"GET /garden/GARDENID/attack HTTP/1.1"
        yield Trick(Family.LENGTHS, f"of a GET: {shown(odd)}", post(odd, body=SMUGGLED, start=get))
    for name in _length_names():
        odd = b"%b: %d" % (name, size)
        for shape, lines in (
            ("name alone", (odd,)),
            ("name before a zero", (odd, b"Content-Length: 0")),
            ("name behind a zero", (b"Content-Length: 0", odd)),
            ("name before the coding", (odd, b"Transfer-Encoding: chunked")),
        ):
            body = SMUGGLED if "coding" not in shape else b"0\r\n\r\n" + SMUGGLED
            yield Trick(Family.LENGTHS, f"{shape}: {shown(odd)}", post(*lines, body=body))
    for several in (
        (right, right),
        (right, b"Content-Length: 0"),
        (b"Content-Length: 0", right),
        (right, b"content-length: 1"),
        (b"Content-Length: 1", right, b"Content-Length: 1"),
        (b"Content-Length: 0", b"Content-Length: 0"),
    ):
        yield Trick(Family.LENGTHS, f"several: {shown(b' | '.join(several))}", post(*several, body=SMUGGLED))
