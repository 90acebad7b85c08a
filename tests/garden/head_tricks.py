"""Attacks on the head of a request: its lines, names, `Connection`, expectations and upgrades.

Each gives two readers a reason to see another request, another field or another end of the head. Knows bytes only.
"""

from tests.garden.framing_tricks import ODD_BYTES
from tests.garden.sequence import SMUGGLED, Family, Trick, Tricks, chunked, post, shown


_LENGTH = b"Content-Length: %d" % len(SMUGGLED)
_TARGET = b"/garden/GARDENID/attack"


def line_tricks() -> Tricks:
    """Bytes that some parser takes for the end of a line or for nothing, in each place of a head."""
    places = {
        "before the method": b"%(odd)bPOST %(target)b HTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n\r\n",
        "in the method": b"PO%(odd)bST %(target)b HTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n\r\n",
        "behind the method": b"POST%(odd)b%(target)b HTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n\r\n",
        "in the target": b"POST %(target)b%(odd)b HTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n\r\n",
        "behind the target": b"POST %(target)b%(odd)bHTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n\r\n",
        "behind the version": b"POST %(target)b HTTP/1.1%(odd)b\r\nHost: garden\r\n%(framing)b\r\n\r\n",
        "after the request line": b"POST %(target)b HTTP/1.1\r\n%(odd)bHost: garden\r\n%(framing)b\r\n\r\n",
        "in a name": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\nX%(odd)bY: z\r\n%(framing)b\r\n\r\n",
        "before a colon": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\nX%(odd)b: z\r\n%(framing)b\r\n\r\n",
        "in a value": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\nX: a%(odd)bb\r\n%(framing)b\r\n\r\n",
        "at the end of a value": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\nX: a%(odd)b\r\n%(framing)b\r\n\r\n",
        "as a line": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\n%(odd)b\r\n%(framing)b\r\n\r\n",
        "as a line end": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\nX: y%(odd)b%(framing)b\r\n\r\n",
        "as the end of the head": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n%(odd)b",
        "as both ends": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\n%(framing)b%(odd)b%(odd)b",
        "between the ends": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\n%(framing)b\r\n%(odd)b\r\n",
        "before a fold": b"POST %(target)b HTTP/1.1\r\nHost: garden\r\nX: y%(odd)b z\r\n%(framing)b\r\n\r\n",
    }
    for odd in (*ODD_BYTES, b"\r\r", b"\n\n", b"\r\n", b"\n\r", b"\r\n ", b"\r\n\t", b"\x00\r\n", b"  "):
        for place, form in places.items():
            for body, field in ((SMUGGLED, _LENGTH), (chunked(SMUGGLED), b"Transfer-Encoding: chunked")):
                head = form % {b"odd": odd, b"target": _TARGET, b"framing": field}
                yield Trick(Family.LINES, f"{shown(odd)} {place}, {field.split(b':')[0].decode()}", head + body)
    for line in (
        b"X",
        b": y",
        b"X y",
        b"=",
        b"X: y\r\n  folded",
        b"X:\r\n\tfolded",
        b"\tX: y",
        b" X: y",
        b"@: x",
        b"(x): y",
    ):
        yield Trick(Family.LINES, f"line {shown(line)}", post(line, _LENGTH, body=SMUGGLED))
        yield Trick(Family.LINES, f"last line {shown(line)}", post(_LENGTH, line, body=SMUGGLED))
    bare = SMUGGLED.replace(b"\r\n", b"\n")
    yield Trick(Family.LINES, "bare LF throughout", bare)
    yield Trick(Family.LINES, "bare CR throughout", SMUGGLED.replace(b"\r\n", b"\r"))
    yield Trick(Family.LINES, "a request in a value, bare LF", post(b"X: y\n\n" + bare))
    yield Trick(Family.LINES, "a request in a value, bare CR", post(b"X: y\r\r" + SMUGGLED.replace(b"\r\n", b"\r")))


_END_TO_END = (
    *(b"Host", b"Content-Length", b"Content-Type", b"Content-Encoding", b"Authorization", b"Cookie", b"X-Api-Key"),
    *(b"Transfer-Encoding", b"X-Forwarded-For", b"X-Forwarded-User", b"Forwarded", b"Via", b"Traceparent", b"Api-Key"),
    *(b"Expect", b"Upgrade", b"Trailer", b"Connection", b"Date", b"Accept", b"Range", b"X-Real-Ip", b"X-Lane"),
)


def name_tricks() -> Tricks:
    """Names that CGI-like servers take for the names of other fields, and names that are no tokens."""
    for name in _END_TO_END:
        twins = {name.replace(b"-", mark) for mark in (b"_", b".", b" ", b"--", b"")} | {name + b"_", b"_" + name}
        for twin in sorted(twins - {name}):
            value = {b"Content-Length": b"0", b"Transfer-Encoding": b"chunked"}.get(name, b"twin")
            data = post(b"%b: %b" % (twin, value), _LENGTH, body=SMUGGLED)
            yield Trick(Family.NAMES, f"{shown(twin)} beside a length", data)
            if name in (b"Content-Length", b"Transfer-Encoding"):
                early = b"0\r\n\r\n" + SMUGGLED
                alone = post(b"%b: %b" % (twin, b"%d" % len(early) if value == b"0" else value), body=early)
                yield Trick(Family.NAMES, f"{shown(twin)} alone", alone)
    for mark in b'()<>@,;:\\"/[]?={} \t\x7f\x80\xff':
        yield Trick(Family.NAMES, f"\\x{mark:02x} in a name", post(b"X%bY: z" % bytes((mark,)), _LENGTH, body=SMUGGLED))


def connection_tricks() -> Tricks:
    """`Connection` that asks a hop to take away fields of the end, or to end and not to end the connection."""
    for name in _END_TO_END:
        for form in (
            b"%b",
            b"close, %b",
            b"keep-alive, %b",
            b'"%b"',
            b" %b ",
            b"%b,,",
            b"x;%b",
            b"%b\r\nConnection: close",
        ):
            data = post(b"Connection: " + form % name, b"%b: value" % name if name != b"Host" else b"X: y")
            yield Trick(Family.CONNECTION, f"Connection: {shown(form % name)}", data)
    for value in (
        *(b"close", b"keep-alive", b"close, keep-alive", b"keep-alive, close", b"", b",", b"upgrade", b"te", b"closed"),
        *(b"x-unknown", b"CLOSE", b"c\xffose", b"close\x00", b"close keep-alive", b"close;", b"close\r\n , keep-alive"),
    ):
        for version in (b"1.1", b"1.0"):
            start = b"POST /garden/GARDENID/attack HTTP/" + version
            data = post(b"Connection: " + value, _LENGTH, body=SMUGGLED, start=start)
            yield Trick(Family.CONNECTION, f"{version.decode()}: {shown(value)}", data)
            yield Trick(
                Family.CONNECTION, f"{version.decode()}, proxy's: {shown(value)}", data.replace(b"Conn", b"Proxy-Conn")
            )


def expectation_tricks() -> Tricks:
    """Expectations with a body, without one, and with a body that comes late or never."""
    for value in (
        *(b"100-continue", b"100-Continue", b"100-continue ", b"100-continue, 100-continue", b"100-continue,x", b"x"),
        *(
            b"",
            b"200-ok",
            b"100",
            b"100-continue;x=y",
            b"100\xadcontinue",
            b"100-continue\x00",
            b"y 100-continue",
            b"100_continue",
        ),
        *(
            b"100-continue\r\nExpect: x",
            b"x\r\nExpect: 100-continue",
            b"\r\n 100-continue",
            b'"100-continue"',
            b"100-continu",
        ),
    ):
        line = b"Expect: " + value
        early = b"0\r\n\r\n" + SMUGGLED
        for shape, data in (
            ("length", post(line, _LENGTH, body=SMUGGLED)),
            ("chunked", post(line, b"Transfer-Encoding: chunked", body=chunked(SMUGGLED))),
            ("no body", post(line)),
            ("length zero", post(line, b"Content-Length: 0")),
            ("GET", post(line, _LENGTH, body=SMUGGLED, start=b"GET /garden/GARDENID/attack HTTP/1.1")),
            ("version 1.0", post(line, _LENGTH, body=SMUGGLED, start=b"POST /garden/GARDENID/attack HTTP/1.0")),
            (
                "both framings",
                post(line, b"Content-Length: %d" % len(early), b"Transfer-Encoding: chunked", body=early),
            ),
        ):
            yield Trick(Family.EXPECTATIONS, f"{shape}: {shown(value)}", data)
            if shape in ("length", "chunked"):
                body = data.find(b"\r\n\r\n") + 4
                yield Trick(Family.EXPECTATIONS, f"{shape}, late body: {shown(value)}", data, (body,))


def upgrade_tricks() -> Tricks:
    """Upgrades that the origin does not grant, with bytes behind them that are a body for one hop and a request for another."""
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
    for value in (
        *(b"websocket", b"WebSocket", b"h2c", b"h2c, websocket", b"websocket, h2c", b"TLS/1.0", b"", b"x", b"HTTP/2.0"),
        *(b"websocket\x00", b"websocket ", b"websocket\r\nUpgrade: h2c", b"websocket/13", b"spdy/3", b"\twebsocket"),
    ):
        for option in (
            b"Upgrade",
            b"upgrade, keep-alive",
            b"keep-alive",
            b"Upgrade, HTTP2-Settings",
            b"close, Upgrade",
        ):
            lines = (b"Connection: " + option, b"Upgrade: " + value, key)
            for shape, data in (
                ("GET", post(*lines, start=b"GET /garden/GARDENID/attack HTTP/1.1")),
                (
                    "GET with a body",
                    post(*lines, _LENGTH, body=SMUGGLED, start=b"GET /garden/GARDENID/attack HTTP/1.1"),
                ),
                ("POST with a body", post(*lines, _LENGTH, body=SMUGGLED)),
                ("POST with chunks", post(*lines, b"Transfer-Encoding: chunked", body=chunked(SMUGGLED))),
                ("version 1.0", post(*lines, start=b"GET /garden/GARDENID/attack HTTP/1.0")),
            ):
                yield Trick(Family.UPGRADES, f"{shape}: {shown(option)}: {shown(value)}", data)
