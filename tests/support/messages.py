"""Arbitrary legal HTTP messages as Hypothesis strategies, and a reader of them that is not the relay's.

A message is generated as parts (start line, fields, body, framing, where chunks are cut) and turned into bytes by
`Message.raw`; the bytes at the other end are read by `read`, which shares no code with the sidecar.
"""

from dataclasses import dataclass

from hypothesis import strategies as st


NOT_END_TO_END = {
    b"connection",
    b"transfer-encoding",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"upgrade",
}
WITH_A_MEANING = NOT_END_TO_END | {b"content-length", b"host", b"expect"}
TCHAR = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
VISIBLE = bytes([*range(0x21, 0x7F), *range(0x80, 0x100)])
"""VCHAR and obs-text (RFC 9110 5.5)."""

Fields = list[tuple[bytes, bytes]]


def _bytes_from(alphabet: bytes, *, least: int = 0, most: int = 12) -> st.SearchStrategy[bytes]:
    # As text, because Hypothesis draws a text at once and a list letter by letter, which is far slower.
    return st.text(alphabet.decode("latin-1"), min_size=least, max_size=most).map(lambda text: text.encode("latin-1"))


names = _bytes_from(TCHAR, least=1).filter(lambda name: name.lower() not in WITH_A_MEANING)
values = _bytes_from(VISIBLE + b" \t", most=30).map(lambda value: value.strip(b" \t"))
known = st.sampled_from(
    [
        (b"Content-Type", b"application/json"),
        (b"content-type", b"text/event-stream"),
        (b"Set-Cookie", b"a=b"),
        (b"SET-COOKIE", b""),
    ]
)
fields = st.lists(st.tuples(names, values) | known, max_size=10)
LONG_BODY = bytes(index % 251 for index in range(5000))
bodies = st.binary(max_size=200) | st.integers(0, len(LONG_BODY)).map(lambda size: LONG_BODY[:size])
sizes = st.lists(st.integers(1, 40) | st.integers(1, 2000), min_size=1, max_size=8)
"""Sizes of pieces, repeated in order."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or response, in parts."""

    start: bytes
    fields: Fields
    framing: str
    """none, length, chunked or close."""
    body: bytes
    chunks: list[int]
    at: int
    """Position of the framing's field among the fields."""

    @property
    def raw(self) -> bytes:
        """The message as bytes."""
        lines = list(self.fields)
        if self.framing == "length":
            lines.insert(self.at % (len(lines) + 1), (b"content-Length", b"%d" % len(self.body)))
        elif self.framing == "chunked":
            lines.insert(self.at % (len(lines) + 1), (b"transfer-Encoding", b"chunked"))
        head = b"".join([self.start, b"\r\n", *(b"%b: %b\r\n" % line for line in lines), b"\r\n"])
        return head + (self._chunked() if self.framing == "chunked" else self.body)

    @property
    def end_to_end(self) -> Fields:
        """The fields that must come out at the other end, in this order."""
        lines = list(self.fields)
        if self.framing == "length":
            lines.insert(self.at % (len(lines) + 1), (b"content-Length", b"%d" % len(self.body)))
        return lines

    def _chunked(self) -> bytes:
        return (
            b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces(self.body, self.chunks)) + b"0\r\n\r\n"
        )


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces of these sizes, repeated in order."""
    cut, found, index = 0, [], 0
    while cut < len(data):
        size = cuts[index % len(cuts)]
        found.append(data[cut : cut + size])
        cut, index = cut + size, index + 1
    return found


methods = st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"PROPFIND"])
targets = st.sampled_from([b"/", b"/v1/chat/completions", b"//a/../b%00?c=d", b"/x?y"]) | _bytes_from(
    TCHAR.replace(b"#", b"") + b'/?:@,;=()[]"{}\\', most=30
).map(lambda path: b"/" + path)
reasons = _bytes_from(VISIBLE + b" \t", most=20).map(bytes.lstrip).map(bytes.rstrip)
request_framings = st.sampled_from(["none", "length", "chunked"])
response_framings = st.sampled_from(["none", "length", "length", "chunked", "chunked", "close"])
bodiless_statuses = st.sampled_from([204, 304])
statuses = st.sampled_from([200, 200, 201, 206, 301, 404, 429, 503, 599, 999])
places = st.integers(0, 20)


@st.composite
def requests(draw: st.DrawFn) -> Message:
    """Any request that may pass."""
    framing = draw(request_framings)
    lines = draw(fields)
    lines.insert(draw(places) % (len(lines) + 1), (b"hOst", b"pod:1"))
    body = b"" if framing == "none" else draw(bodies)
    return Message(b"%b %b HTTP/1.1" % (draw(methods), draw(targets)), lines, framing, body, draw(sizes), draw(places))


@st.composite
def responses(draw: st.DrawFn) -> Message:
    """Any final response that may pass, to anything but a HEAD."""
    framing = draw(response_framings)
    status = draw(bodiless_statuses if framing == "none" else statuses)
    body = b"" if framing == "none" else draw(bodies)
    start = b"HTTP/1.1 %d %b" % (status, draw(reasons))
    return Message(start, draw(fields), framing, body, draw(sizes), draw(places))


def read(data: bytes, *, bodiless: bool = False) -> tuple[bytes, Fields, bytes, bytes]:
    """(start line, end-to-end fields, body, rest) of the first message in `data`. Raises ValueError if incomplete."""
    head, blank, rest = data.partition(b"\r\n\r\n")
    if not blank:
        raise ValueError(f"no whole head: {data[:100]!r}")
    start, *lines = head.split(b"\r\n")
    found = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
    meaning = {name.lower(): value for name, value in found}
    kept = [(name, value) for name, value in found if name.lower() not in NOT_END_TO_END]
    if bodiless or start.split(b" ")[1] in (b"204", b"304"):
        return start, kept, b"", rest
    if meaning.get(b"transfer-encoding") == b"chunked":
        body, rest = _read_chunks(rest)
        return start, kept, body, rest
    if b"content-length" in meaning:
        size = int(meaning[b"content-length"])
        if len(rest) < size:
            raise ValueError(f"{size - len(rest)} bytes of {size} are missing")
        return start, kept, rest[:size], rest[size:]
    if start.startswith(b"HTTP/"):
        return start, kept, rest, b""  # until close
    return start, kept, b"", rest


def _read_chunks(rest: bytes) -> tuple[bytes, bytes]:
    body = b""
    while True:
        line, found, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        if not found or rest[size : size + 2] != b"\r\n":
            raise ValueError(f"the chunk of {size} bytes does not end")
        if size == 0:
            return body, rest[2:]
        body, rest = body + rest[:size], rest[size + 2 :]
