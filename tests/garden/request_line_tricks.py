"""Attacks on the request line and on Host: targets, methods, versions, and the name of the server that is meant.

A hop that routes or filters by one of these, and passes on another reading of it, can be led around. Knows bytes only.
"""

from tests.garden.sequence import SMUGGLED, SWALLOWING, Family, Trick, Tricks, chunked, post, shown


_SMUGGLED_LENGTH = b"Content-Length: %d" % len(SMUGGLED)
_ATTACKED = b"/garden/GARDENID/attack"


def target_tricks() -> Tricks:
    """Targets in all four forms, right and wrong."""
    for target in (
        *(
            b"/garden/GARDENID/../a",
            b"/garden/GARDENID/./a",
            b"/garden/GARDENID//a",
            b"//garden/GARDENID",
            b"/../GARDENID",
        ),
        *(
            b"/garden/GARDENID#f",
            b"/garden/GARDENID?a#f",
            b"/garden/GARDENID?",
            b"/garden/GARDENID?a=b?c",
            b"/GARDENID%00",
        ),
        *(
            b"/GARDENID%0d%0aX:y",
            b"/GARDENID%2e%2e/a",
            b"/GARDENID%2fa",
            b"/GARDENID;a",
            b"/GARDENID\\a",
            b"/GARDENID|",
        ),
        *(
            b"\\GARDENID",
            b"GARDENID",
            b"?GARDENID",
            b"*",
            b"*GARDENID",
            b"/*GARDENID",
            b"#GARDENID",
            b"garden:80/GARDENID",
        ),
        *(
            b"http://garden/GARDENID",
            b"http://garden:80/GARDENID",
            b"HTTP://GARDEN/GARDENID",
            b"https://garden/GARDENID",
        ),
        *(
            b"http://other/GARDENID",
            b"http://other:1/GARDENID",
            b"http://a@garden/GARDENID",
            b"http://a:b@garden/GARDENID",
        ),
        *(
            b"http:///GARDENID",
            b"http:/GARDENID",
            b"http:GARDENID",
            b"http://garden?GARDENID",
            b"http://garden#GARDENID",
        ),
        *(
            b"ftp://garden/GARDENID",
            b"file:///GARDENID",
            b"ws://garden/GARDENID",
            b"javascript:GARDENID",
            b"://GARDENID",
        ),
        *(
            b"http://[::1]/GARDENID",
            b"http://[::1/GARDENID",
            b"http://garden:x/GARDENID",
            b"http://garden\\@a/GARDENID",
        ),
        *(b"http://127.0.0.1:22/GARDENID", b"http://garden/../GARDENID", b"http://garden//GARDENID", b"garden:443"),
        *(
            b"/GARDENID HTTP/1.1",
            b"/GARDENID HTTP/1.0",
            b"/GARDENID a",
            b"/GARDENID\ta",
            b"/GARDENID\x00",
            b"/GARDENID\xff",
        ),
        *(
            "/GARDENID\u00e9".encode(),
            "/GARDENID\u0120".encode(),
            "/GARDENID\uff0e".encode(),
            b"/GARDENID\x7f",
            b"/GARDENID<",
        ),
        *(
            b"/GARDENID\r\nX: y",
            b"/GARDENID\nX: y",
            b"/GARDENID\rX: y",
            b"/GARDENID HTTP/1.1\r\nX: y",
            b"/GARDENID\x0b",
        ),
        *(
            b"/GARDENID%",
            b"/GARDENID%zz",
            b"/GARDENID%u0041",
            b"/GARDENID{}",
            b'/GARDENID"',
            b"/GARDENID^`",
            b"/-/GARDENID",
        ),
    ):
        for method in (b"GET", b"POST", b"OPTIONS", b"CONNECT", b"HEAD"):
            data = b"%b %b HTTP/1.1\r\nHost: garden\r\nX-Garden: GARDENID\r\n\r\n" % (method, target)
            yield Trick(Family.TARGETS, f"{method.decode()} {shown(target)}", data)
    for method in (
        b"get",
        b"Get",
        b"G",
        b"FOO",
        b"GET\x00",
        b"PRI",
        b"TRACE",
        b"PURGE",
        b"M-SEARCH",
        b"",
        b"POST:",
        b"\xff",
    ):
        yield Trick(
            Family.TARGETS,
            f"method {shown(method)}",
            post(_SMUGGLED_LENGTH, body=SMUGGLED, start=method + b" " + _ATTACKED + b" HTTP/1.1"),
        )


def host_tricks() -> Tricks:
    """Hosts that two hops take for two names, or for none."""
    start = b"POST /garden/GARDENID/attack HTTP/1.1"
    for line in (
        *(
            b"",
            b"Host:",
            b"Host: ",
            b"Host: a\r\nHost: b",
            b"Host: garden\r\nHost: garden",
            b"Host: a, b",
            b"Host: a b",
        ),
        *(b"Host: a/b", b"Host: a?b", b"Host: a#b", b"Host: u@a", b"Host: http://a", b"Host: a:80:80", b"Host: a:x"),
        *(
            b"Host: a:",
            b"Host: a:99999999",
            b"Host: [::1]",
            b"Host: [::1]:80",
            b"Host: [::1",
            b"Host: ::1",
            b"Host: a\\b",
        ),
        *(b"Host: a\x00b", b"Host: a\rb", b"Host: a\nb", b"Host: a\tb", b"Host: \xff", b"Host: %61", b"Host: a%00b"),
        *(
            b"Host : a",
            b" Host: a",
            b"\tHost: a",
            b"Host\t: a",
            b"Host\x00: a",
            b"Host:a",
            b"hOST: a",
            b"X: y\nHost: a",
        ),
        *(
            b"Host: a\r\n b",
            b"Host:\r\n a",
            b"Host_: a",
            b"_Host: a",
            b"X-Host: a",
            b"Host: .",
            b"Host: ..",
            b"Host: *",
        ),
        *(
            b"Host: a\r\nX-Forwarded-Host: b",
            b"Host: a\r\n Host: b",
            b"Host: a;b",
            b"Host: (a)",
            b'Host: "a"',
            b"Host: <a>",
        ),
        *(b"Host: " + b"a" * 300, b"Host: " + b"a." * 4000, b"Host: a\r\nhost: b", b"Host: localhost\r\nHost:"),
    ):
        lines = (line, _SMUGGLED_LENGTH) if line else (_SMUGGLED_LENGTH,)
        data = b"\r\n".join((start, *lines, b"", SMUGGLED))
        yield Trick(Family.HOSTS, shown(line)[:120] or "none", data)
        absolute = data.replace(b" /garden", b" http://garden/garden", 1)
        yield Trick(Family.HOSTS, f"absolute form, {shown(line)[:100] or 'none'}", absolute)


def version_tricks() -> Tricks:
    """Versions that a hop may take for another, and requests of HTTP/0.9."""
    for version in (
        *(
            b"HTTP/1.0",
            b"HTTP/1.2",
            b"HTTP/1.9",
            b"HTTP/2.0",
            b"HTTP/2",
            b"HTTP/3.0",
            b"HTTP/0.9",
            b"HTTP/0.0",
            b"HTTP/1",
        ),
        *(b"HTTP/1.", b"HTTP/.1", b"HTTP/1.1.1", b"HTTP/11", b"HTTP/1.10", b"HTTP/01.1", b"HTTP/1.01", b"HTTP/-1.1"),
        *(b"http/1.1", b"HTTP /1.1", b"HTTP/ 1.1", b"HTTP/1 .1", b"HTTP/1.1 ", b"HTTP/1,1", b"HTTPS/1.1", b"RTSP/1.0"),
        *(
            b"ICE/1.0",
            b"HTT/1.1",
            b"HTTP",
            b"",
            b"XHTTP/1.1",
            b"HTTP/1.1x",
            b"HTTP/1.\xb9",
            b"HTTP/1.1\x00",
            b"SIP/2.0",
        ),
    ):
        start = b"POST /garden/GARDENID/attack " + version
        coding = b"Transfer-Encoding: chunked"
        for shape, data in (
            ("length", post(_SMUGGLED_LENGTH, body=SMUGGLED, start=start)),
            ("length, kept", post(b"Connection: keep-alive", _SMUGGLED_LENGTH, body=SMUGGLED, start=start)),
            ("chunked", post(coding, body=chunked(SMUGGLED), start=start)),
            ("chunked, kept", post(b"Connection: keep-alive", coding, body=chunked(SMUGGLED), start=start)),
            ("no length", post(body=SMUGGLED, start=start)),
        ):
            yield Trick(Family.VERSIONS, f"{shape}: {shown(version)}", data)
    for line in (b"GET /garden/GARDENID", b"GET", b"GET ", b"POST /garden/GARDENID", b"PRI * HTTP/2.0\r\n\r\nSM\r\n"):
        yield Trick(Family.VERSIONS, f"only {shown(line)}", line + b"\r\n")
        yield Trick(Family.VERSIONS, f"only {shown(line)}, then a head", line + b"\r\nHost: garden\r\n\r\n")
        yield Trick(Family.VERSIONS, f"only {shown(line)}, no end", line + b"\r\n" + SWALLOWING)
    yield Trick(Family.VERSIONS, "TLS", bytes.fromhex("160301004f0100004b0303") + b"\x00" * 68)
