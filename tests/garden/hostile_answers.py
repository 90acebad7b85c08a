"""Answers that an engine should never send: bad framing, lengths that lie, floods of 1xx, odd status lines, ends too early.

Each is the whole of what one connection says to one request. What a hop may make of it is decided by the strict reader:
if it reads one whole answer in these bytes, the client may get that answer; else the client may get a 502, or an answer
that visibly does not end. Knows bytes only.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass

from tests.garden.framing_tricks import ODD_BYTES
from tests.garden.sequence import chunked, shown


@dataclass(frozen=True, slots=True)
class HostileAnswer:
    """The bytes of one answer. The origin pauses between two pieces, and `closes` the connection after the last."""

    family: str
    name: str
    pieces: tuple[bytes, ...]
    closes: bool = False

    @property
    def sent(self) -> bytes:
        """All bytes of the answer."""
        return b"".join(self.pieces)


_GOOD_LINE = b"HTTP/1.1 200 OK"
_STOLEN = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-Split: yes\r\n\r\nstolen"
"""An answer behind the answer: if a client gets it, the response was split."""


def _head(*lines: bytes, start: bytes = _GOOD_LINE) -> bytes:
    return b"\r\n".join((start, *lines, b"", b""))


def hostile_answers() -> list[HostileAnswer]:
    """All hostile answers, in the order of their numbers."""
    every = [*_framings(), *_chunks(), *_status_lines(), *_heads(), *_informed(), *_upgrades(), *_endings(), *_bodies()]
    return list({(one.pieces, one.closes): one for one in reversed(every)}.values())[::-1]


def _framings() -> Iterator[HostileAnswer]:
    coding = b"Transfer-Encoding: chunked"
    for lines in (
        *((b"Content-Length: 5", coding), (coding, b"Content-Length: 5"), (b"Content-Length: 5", b"Content-Length: 6")),
        *((b"Content-Length: 5", b"Content-Length: 5"), (b"Content-Length: 5, 5",), (b"Content-Length: 5, 6",)),
        *((b"Content-Length: -1",), (b"Content-Length: +5",), (b"Content-Length: 0x5",), (b"Content-Length: 5 5",)),
        *((b"Content-Length: 5;x",), (b"Content-Length:",), (b"Content-Length: a",), (b"Content-Length: 5.0",)),
        *((b"Content-Length: 99999999999999999999",), (b"Content-Length: 18446744073709551621",)),
        *((b"Content_Length: 5",), (b"Content-Length : 5",), (b" Content-Length: 5",), (b"Content-Length\x00: 5",)),
        *((b"Transfer-Encoding: gzip, chunked",), (b"Transfer-Encoding: identity",), (b"Transfer-Encoding: xchunked",)),
        *(
            (b"Transfer-Encoding: chunked, chunked",),
            (coding, coding),
            (b"Transfer-Encoding: cow", b"Content-Length: 5"),
        ),
        *((b"Transfer-Encoding : chunked",), (b"Transfer-Encoding:\x0bchunked",), (b"Transfer-Encoding: chunked\x00",)),
        *((b"Transfer-Encoding:\r\n chunked",), (b"Transfer-Encoding: ",), (b"Transfer_Encoding: chunked",)),
    ):
        said = shown(b" | ".join(lines))
        for body in (b"hello", chunked(b"hello"), b"hello" + _STOLEN):
            yield HostileAnswer("framing", f"{said}, {len(body)} bytes", (_head(*lines) + body,))
        yield HostileAnswer("framing", f"{said}, closed", (_head(*lines) + b"hello",), closes=True)
    yield HostileAnswer(
        "framing", "1.0 with chunks", (_head(coding, start=b"HTTP/1.0 200 OK") + chunked(b"a"),), closes=True
    )


def _chunks() -> Iterator[HostileAnswer]:
    for body in (
        *(
            b"5\nhello\n0\n\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhelloXX0\r\n\r\n",
            b"g\r\nhello",
        ),
        *(
            b"5\r\nhell\r\n0\r\n\r\n",
            b"5\r\nhello!\r\n0\r\n\r\n",
            b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
            b"\r\n\r\n",
        ),
        *(
            b"5;x=y\r\nhello\r\n0\r\n\r\n",
            b"5;\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r\n0\r\n",
        ),
        *(
            b"5\r\nhello\r\n",
            b"5\r\nhel",
            b"5",
            b"",
            b"5\r\nhello\r\n00000\r\n\r\n",
            b"5\r\nhello\r\n0\r\n\r\n" + _STOLEN,
        ),
        *(
            b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
            b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
            b"5\r\nhello\r\n0\r\nX\r\n\r\n",
        ),
        *(
            b"5\r\nhello\r\n0\r\nX: \x00\r\n\r\n",
            b"1\r\na\r\n" * 3000 + b"0\r\n\r\n",
            b"0" * 70000 + b"5\r\nhello\r\n0\r\n\r\n",
        ),
        *(b"5;%b\r\nhello\r\n0\r\n\r\n" % (b"x" * 80000), b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 20000 + b"\r\n"),
        *(
            b"5\r\nhello\r\n\r\n0\r\n\r\n",
            b"5\r\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r0\r\n\r\n",
            b"5\rhello\r0\r\r",
            b"5\r\nhello0\r\n\r\n",
        ),
    ):
        for closes in (False, True):
            head = _head(b"Transfer-Encoding: chunked")
            yield HostileAnswer("chunks", f"{shown(body[:60])}{', closed' * closes}", (head + body,), closes)


def _status_lines() -> Iterator[HostileAnswer]:
    rest = b"\r\nContent-Length: 5\r\n\r\nhello"
    for line in (
        *(
            b"HTTP/1.1 200",
            b"HTTP/1.1 200 ",
            b"HTTP/1.1  200 OK",
            b"HTTP/1.1 200OK",
            b"HTTP/1.1 20 OK",
            b"HTTP/1.1 2000 OK",
        ),
        *(
            b"HTTP/1.1 -20 OK",
            b"HTTP/1.1 099 OK",
            b"HTTP/1.1 000 OK",
            b"HTTP/1.1 600 X",
            b"HTTP/1.1 999 X",
            b"HTTP/1.1 2x0 X",
        ),
        *(
            b"HTTP/1.2 200 OK",
            b"HTTP/2.0 200 OK",
            b"HTTP/0.9 200 OK",
            b"HTTP/1 200 OK",
            b"http/1.1 200 OK",
            b"HTTP 200 OK",
        ),
        *(
            b"RTSP/1.0 200 OK",
            b"ICE/1.0 200 OK",
            b"ICY 200 OK",
            b"SIP/2.0 200 OK",
            b"X HTTP/1.1 200 OK",
            b" HTTP/1.1 200 OK",
        ),
        *(
            b"HTTP/1.1\t200\tOK",
            b"HTTP/1.1 200 \xff\xfe",
            b"HTTP/1.1 200 OK\r\n folded",
            b"",
            b"hello",
            b"HTTP/1.1 200 " + b"a" * 70000,
        ),
    ):
        yield HostileAnswer("status lines", shown(line)[:80] or "none", (line + rest,))
        yield HostileAnswer("status lines", f"{shown(line)[:80] or 'none'}, closed", (line + rest,), closes=True)
    for odd in ODD_BYTES:
        yield HostileAnswer("reasons", f"{shown(odd)} in the reason", (b"HTTP/1.1 200 O%bK" % odd + rest,))
        yield HostileAnswer("reasons", f"{shown(odd)} and a field", (b"HTTP/1.1 200 OK%bX-Split: yes" % odd + rest,))


def _heads() -> Iterator[HostileAnswer]:
    rest = b"Content-Length: 5\r\n\r\nhello"
    for odd in ODD_BYTES:
        yield HostileAnswer("fields", f"{shown(odd)} in a value", (_GOOD_LINE + b"\r\nX: a%bb\r\n" % odd + rest,))
        yield HostileAnswer("fields", f"{shown(odd)} in a name", (_GOOD_LINE + b"\r\nX%bY: z\r\n" % odd + rest,))
        yield HostileAnswer(
            "fields", f"{shown(odd)} for a line end", (_GOOD_LINE + b"\r\nX: y%bX-Split: yes\r\n" % odd + rest,)
        )
        yield HostileAnswer("fields", f"{shown(odd)} before the colon", (_GOOD_LINE + b"\r\nX%b: y\r\n" % odd + rest,))
    for line in (
        b"X: a\r\n b",
        b" X: y",
        b"X",
        b": y",
        b"X y",
        b"X: y\r\n\tz",
        b"X: a\r\n\r\n b",
        b"\r\n",
        b"\n",
        b"\r",
    ):
        yield HostileAnswer("fields", f"line {shown(line)}", (_GOOD_LINE + b"\r\n" + line + b"\r\n" + rest,))
    for count in (100, 127, 129, 5000):
        yield HostileAnswer("fields", f"{count} fields", (_head(*[b"X: y"] * count, b"Content-Length: 5") + b"hello",))
    for size in (8000, 66000, 300_000):
        yield HostileAnswer(
            "fields", f"a value of {size}", (_head(b"X: " + b"a" * size, b"Content-Length: 5") + b"hello",)
        )
        yield HostileAnswer(
            "fields", f"a name of {size}", (_head(b"a" * size + b": y", b"Content-Length: 5") + b"hello",)
        )
        yield HostileAnswer(
            "fields", f"a head of {size} without end", (_GOOD_LINE + b"\r\nX: " + b"a" * size,), closes=True
        )
    yield HostileAnswer("fields", "bare LF throughout", (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",))
    for option in (
        b"close",
        b"keep-alive",
        b"close, keep-alive",
        b"content-length",
        b"content-type",
        b"upgrade",
        b"set-cookie",
    ):
        lines = (b"Connection: " + option, b"Set-Cookie: a=b", b"Content-Length: 5")
        yield HostileAnswer("fields", f"Connection: {option.decode()}", (_head(*lines) + b"hello",))


def _informed() -> Iterator[HostileAnswer]:
    final = _head(b"Content-Length: 5") + b"hello"
    for start in (
        b"100 Continue",
        b"102 Processing",
        b"103 Early Hints",
        b"199 X",
        b"101 Switching Protocols",
        b"100",
        b"150 ",
    ):
        informed = _head(start=b"HTTP/1.1 " + start)
        yield HostileAnswer("1xx", f"{start.decode()} before", (informed + final,))
        yield HostileAnswer("1xx", f"{start.decode()} twice, with pauses", (informed, informed, final))
        yield HostileAnswer("1xx", f"only {start.decode()}", (informed,), closes=True)
        for lines in (
            (b"Content-Length: 5",),
            (b"Transfer-Encoding: chunked",),
            (b"Content-Length: 0",),
            (b"Connection: close",),
        ):
            framed = _head(*lines, start=b"HTTP/1.1 " + start)
            yield HostileAnswer("1xx", f"{start.decode()} with {lines[0].decode()}", (framed + b"hello" + final,))
    for count in (20, 1000, 20_000):
        flood = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * count
        yield HostileAnswer("1xx", f"{count} x 103", (flood + final,))
        yield HostileAnswer("1xx", f"{count} x 103 and no end", (flood,), closes=True)


def _upgrades() -> Iterator[HostileAnswer]:
    for lines in (
        *((), (b"Upgrade: websocket",), (b"Connection: Upgrade",), (b"Connection: Upgrade", b"Upgrade: h2c")),
        *(
            (b"Connection: Upgrade", b"Upgrade: websocket"),
            (b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 5"),
        ),
        *((b"Upgrade: websocket", b"Transfer-Encoding: chunked"), (b"Connection: Upgrade", b"Upgrade: TLS/1.0")),
    ):
        said = shown(b" | ".join(lines)) or "bare"
        head = _head(*lines, start=b"HTTP/1.1 101 Switching Protocols")
        yield HostileAnswer("101", f"{said}, an answer behind", (head + _STOLEN,))
        yield HostileAnswer("101", f"{said}, closed", (head,), closes=True)


def _endings() -> Iterator[HostileAnswer]:
    whole = _head(b"Content-Length: 40") + b"a" * 40
    for end in range(0, len(whole), 4):
        yield HostileAnswer("too early", f"length, {end} of {len(whole)} bytes", (whole[:end],), closes=True)
    in_chunks = _head(b"Transfer-Encoding: chunked") + chunked(b"hello", b"a" * 20)
    for end in range(18, len(in_chunks), 4):
        yield HostileAnswer("too early", f"chunks, {end} of {len(in_chunks)} bytes", (in_chunks[:end],), closes=True)
    for status in (b"200 OK", b"204 No Content", b"304 Not Modified", b"205 Reset Content", b"301 Moved", b"500 X"):
        for body in (b"", b"hello", _STOLEN):
            head = _head(b"Content-Length: 5", start=b"HTTP/1.1 " + status)
            yield HostileAnswer(
                "extra bytes", f"{status.decode()}, {len(body)} bytes of 5", (head + body,), closes=True
            )
            yield HostileAnswer("extra bytes", f"{status.decode()}, {len(body)} bytes more", (head + b"hello" + body,))
            empty = _head(b"Content-Length: 0", start=b"HTTP/1.1 " + status)
            yield HostileAnswer("extra bytes", f"{status.decode()}, none and {len(body)}", (empty + body,))
            yield HostileAnswer(
                "extra bytes", f"{status.decode()}, late {len(body)}", (head + b"hello", body or b"\r\n")
            )
        no_length = _head(start=b"HTTP/1.1 " + status) + b"hello"
        yield HostileAnswer("extra bytes", f"{status.decode()}, no length", (no_length,), closes=True)


def _bodies() -> Iterator[HostileAnswer]:
    stream = b"data: {}\n\n" * 20 + b"data: [DONE]\n\n"
    packed = gzip.compress(stream, mtime=0)
    event = (b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked")
    yield HostileAnswer("bodies", "gzip stream", (_head(*event, b"Content-Encoding: gzip") + chunked(packed),))
    yield HostileAnswer(
        "bodies", "gzip stream, cut", (_head(*event, b"Content-Encoding: gzip") + chunked(packed[:-9]),)
    )
    yield HostileAnswer(
        "bodies", "gzip said, plain sent", (_head(*event, b"Content-Encoding: gzip") + chunked(stream),)
    )
    yield HostileAnswer("bodies", "nested gzip", (_head(*event, b"Content-Encoding: gzip, gzip") + chunked(packed),))
    yield HostileAnswer("bodies", "stream with NUL", (_head(*event) + chunked(b"data: \x00\n\n" * 9),))
    yield HostileAnswer("bodies", "stream of bare CR", (_head(*event) + chunked(b"data: x\r\r" * 99),))
    yield HostileAnswer(
        "bodies", "stream without an end", (_head(*event) + chunked(b"data: x\n\n" * 9)[:-5],), closes=True
    )
    yield HostileAnswer("bodies", "two endings", (_head(*event) + chunked(stream) + chunked(stream),))
    yield HostileAnswer("bodies", "an answer in the body", (_head(b"Content-Length: %d" % len(_STOLEN)) + _STOLEN,))
    yield HostileAnswer("bodies", "an answer in a chunk", (_head(b"Transfer-Encoding: chunked") + chunked(_STOLEN),))
    yield HostileAnswer("bodies", "a long line", (_head(*event) + chunked(b"data: " + b"x" * 400_000 + b"\n\n"),))
