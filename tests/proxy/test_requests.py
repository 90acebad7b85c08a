"""The reader of requests: any pieces of bytes give the same parts, and no body is ever read as a request."""

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import Framing, RequestHead
from sidecar.proxy.requests import Part, RequestReader


def read(data: bytes, size: int = 1 << 20, *, max_head_bytes: int = 4096) -> tuple[list[Part], RequestReader, bytes]:
    """(delivered parts with body pieces joined, the reader, bytes after an upgrade)."""
    parts: list[Part] = []

    def deliver(part: Part) -> None:
        last = parts[-1] if parts else None
        if isinstance(part, bytes) and isinstance(last, bytes):
            parts[-1] = last + part
        else:
            parts.append(part)

    reader = RequestReader(deliver, max_head_bytes=max_head_bytes, max_headers=16, max_body_bytes=1 << 20)
    behind = b""
    for start in range(0, len(data), size):
        behind += reader.feed(data[start : start + size], 1.0) or b""
    return parts, reader, behind


def heads(parts: list[Part]) -> list[bytes]:
    return [part.method + b" " + part.target for part in parts if isinstance(part, RequestHead)]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
@pytest.mark.parametrize("protocol", [b"h2c", b"websocket", b"TLS/1.0"])
@pytest.mark.parametrize("closing", [b"", b"close, "])
@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 30\r\n\r\nGET /smuggled HTTP/1.1\r\nX: y\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n1e;x=y\r\nGET /smuggled HTTP/1.1\r\nX: y\r\n\r\n0\r\nTrailer: z\r\n\r\n",
    ],
)
def test_the_body_of_a_request_that_asks_for_an_upgrade_is_a_body(
    body: bytes, closing: bytes, protocol: bytes, size: int
) -> None:
    """Java's HttpClient sends `Upgrade: h2c` with every POST; httptools would read the body as the next request."""
    asked = b"POST /1 HTTP/1.1\r\nHost: pod\r\nConnection: %bUpgrade\r\nUpgrade: %b\r\n" % (closing, protocol)
    parts, reader, behind = read(asked + body + b"GET /2 HTTP/1.1\r\nHost: pod\r\n\r\n", size)

    expected = [b"POST /1"] if closing else [b"POST /1", b"GET /2"]
    assert expected == heads(parts)
    assert parts[1] == b"GET /smuggled HTTP/1.1\r\nX: y\r\n"
    assert parts[2] is None
    assert (Failure.BAD_REQUEST if closing else None) is reader.refusal
    assert behind == b"" or size == 10_000, "only a whole second request may follow"


def test_one_read_may_hold_any_number_of_requests_that_ask_for_an_upgrade() -> None:
    """Each is read on where httptools stopped, and none of them in a call of its own: the stack of a compiled build has no limit."""
    one = b"POST /1 HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\nx"
    parts, reader, behind = read(3000 * one)

    assert (len(heads(parts)), reader.refusal, behind) == (3000, None, b"")


CHUNKED = b"POST /%d HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n"
TWO = [
    CHUNKED % 1 + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\nTrailer: z\r\n\r\n",
    CHUNKED % 2 + b"1\r\nd\r\n1\r\ne\r\n0\r\n\r\n",
]


def deliveries(*reads: bytes) -> list[str | bytes | None]:
    """Everything delivered, each delivery by itself; for a head, its target."""
    parts: list[str | bytes | None] = []

    def deliver(part: Part) -> None:
        parts.append(part.target.decode() if isinstance(part, RequestHead) else part)

    reader = RequestReader(deliver, max_head_bytes=4096, max_headers=16, max_body_bytes=1 << 20)
    for data in reads:
        reader.feed(data, 1.0)
    assert reader.refusal is None
    return parts


def test_the_chunks_of_one_read_are_delivered_as_one_in_their_place() -> None:
    """They come after their head, before their end and before the next request's head, however many they are."""
    many = CHUNKED % 3 + b"2\r\nhi\r\n" * 10_000

    assert deliveries(b"".join(TWO) + many) == ["/1", b"abc", None, "/2", b"de", None, "/3", b"hi" * 10_000]


def test_wherever_a_read_ends_each_read_delivers_at_most_one_piece_of_a_body() -> None:
    """At every split, and byte by byte: the same order, the same bytes."""
    data = b"".join(TWO)
    expected = ["/1", b"abc", None, "/2", b"de", None]

    def joined(parts: list[str | bytes | None]) -> list[str | bytes | None]:
        whole: list[str | bytes | None] = []
        for part in parts:
            if isinstance(part, bytes) and isinstance(whole[-1], bytes):
                whole[-1] += part
            else:
                whole.append(part)
        return whole

    for at in range(1, len(data)):
        parts = deliveries(data[:at], data[at:])
        assert joined(parts) == expected
        assert len(parts) <= len(expected) + 1
    assert joined(deliveries(*(data[at : at + 1] for at in range(len(data))))) == expected


@pytest.mark.parametrize("size", [1000, 65536])
@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"1\r\na\r\n", id="one byte, five of framing"),
        pytest.param(b"2\r\naa\r\n", id="two bytes, five of framing"),
        pytest.param(b"0000000005\r\naaaaa\r\n", id="five bytes, leading zeros"),
        pytest.param(b"5;x=y\r\naaaaa\r\n", id="five bytes and an extension"),
    ],
)
def test_framing_that_outweighs_its_body_by_64_kib_is_refused(chunk: bytes, size: int) -> None:
    """No sooner, and at most two reads later: the head's own read is not counted, and the last one is read whole."""
    body = 0

    def deliver(part: Part) -> None:
        nonlocal body
        body += len(part) if isinstance(part, bytes) else 0

    reader = RequestReader(deliver, max_head_bytes=4096, max_headers=16, max_body_bytes=1 << 20)
    reader.feed(CHUNKED % 1, 1.0)
    upload, came = chunk * 60_000, 0
    while reader.refusal is None and came < len(upload):
        reader.feed(upload[came : came + size], 1.0)
        came += size

    assert Failure.HEAD_TOO_LARGE is reader.refusal
    assert 65536 < came - 2 * body <= 65536 + 2 * size


@pytest.mark.long
@pytest.mark.parametrize("size", [1000, 65536])
@pytest.mark.parametrize("length", [5, 6, 100, 5000])
def test_chunks_of_five_bytes_and_more_are_never_too_many(length: int, size: int) -> None:
    """The bytes of such a chunk pay for its framing."""
    chunks = 3_000_000 // (length + 5)
    _, reader, _ = read(CHUNKED % 1 + b"%x\r\n%b\r\n" % (length, b"a" * length) * chunks + b"0\r\n\r\n", size)

    assert reader.refusal is None
    assert reader.began_at is None


def test_each_request_has_its_own_framing() -> None:
    """A surplus of framing in one request does not count against the next one on the connection."""
    one = CHUNKED % 1 + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n"

    parts, reader, _ = read(one * 10, 65536)

    assert reader.refusal is None
    assert len(heads(parts)) == 10


def test_a_chunk_that_goes_bad_behind_an_upgrade_is_refused() -> None:
    """The body is held to the same rules after an upgrade."""
    parts, reader, _ = read(
        b"POST /1 HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nhi\r\nZZ\r\n"
    )

    assert parts[1] == b"hi"
    assert len(parts) == 2
    assert Failure.BAD_REQUEST is reader.refusal


def test_trailers_stay_behind() -> None:
    """They come through the same callback as the head's fields and must not be mistaken for them."""
    parts, _, _ = read(
        b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nAuthorization: x\r\n\r\n", 1
    )

    assert isinstance(parts[0], RequestHead)
    assert parts[0].fields == [(b"Host", b"pod"), (b"Transfer-Encoding", b"chunked")]


@pytest.mark.parametrize(
    "start",
    [
        b"GET /" + b"x" * 9000,
        b"GET / HTTP/1.1\r\nHost: pod\r\nX: " + b"x" * 9000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3000,
        b"\r\n" * 5000,
        b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 9000,
        b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 3000,
    ],
    ids=["target", "value", "fields", "empty-lines", "chunk-extension", "trailers"],
)
@pytest.mark.parametrize("size", [1, 100, 4000])
def test_what_has_no_end_is_refused_before_it_costs_memory(start: bytes, size: int) -> None:
    """The parser itself has no limits, and slow bytes are as bad as many at once."""
    _, reader, _ = read(start, size)

    assert Failure.HEAD_TOO_LARGE is reader.refusal


def test_one_field_too_many_is_refused() -> None:
    """Sixteen are allowed here."""
    fits = b"GET / HTTP/1.1\r\nHost: pod\r\n" + b"X: y\r\n" * 15 + b"\r\n"
    too_many = b"GET / HTTP/1.1\r\nHost: pod\r\n" + b"X: y\r\n" * 16 + b"\r\n"

    assert read(fits)[1].refusal is None
    assert Failure.HEAD_TOO_LARGE is read(too_many)[1].refusal


def test_many_small_requests_in_one_read_are_no_large_head() -> None:
    """The limit is on bytes that complete nothing, not on those that a fast client sends at once."""
    parts, reader, _ = read(b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n" * 1000)

    assert reader.refusal is None
    assert len(heads(parts)) == 1000


def test_nothing_is_delivered_behind_a_refused_request() -> None:
    """The bytes after it may be a body: reading on would be guessing."""
    parts, reader, _ = read(
        b"POST /bad HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
        b"GET /next HTTP/1.1\r\nHost: pod\r\n\r\n"
    )

    assert parts == []
    assert Failure.UNSUPPORTED_CODING is reader.refusal
    assert reader.refused_head is not None
    assert reader.refused_head.target == b"/bad"


def test_began_at_is_the_first_byte_of_what_is_not_complete() -> None:
    """The limit on heads counts from it, and a keep-alive connection without a request has none."""
    reader = RequestReader(lambda _part: None, max_head_bytes=4096, max_headers=16, max_body_bytes=100)

    reader.feed(b"GET / HTTP/1.1\r\n", 5.0)
    assert reader.began_at == 5.0
    reader.feed(b"Host: pod\r\n\r\n", 6.0)
    assert reader.began_at is None


def test_framing_is_what_the_fields_say() -> None:
    """A length of 0 is no body."""
    none, _, _ = read(b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 0\r\n\r\n")
    length, _, _ = read(b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 002\r\n\r\nhi")
    chunked, _, _ = read(b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: Chunked \r\n\r\n0\r\n\r\n")

    framings = [part.framing for part in (none[0], length[0], chunked[0]) if isinstance(part, RequestHead)]
    assert framings == [Framing.NONE, Framing.LENGTH, Framing.CHUNKED]


HOST = b"Host: pod\r\n"
OTHERS = [b"RTSP/1.0", b"RTSP/1.1", b"ICE/1.0"]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 11, 1 << 20])
@pytest.mark.parametrize("spaces", [b" ", b"  "])
def test_a_protocol_that_is_not_http_is_refused_wherever_its_line_is_cut(
    other: bytes, size: int, spaces: bytes
) -> None:
    """llhttp reads it as HTTP. The requests before it on the connection are served."""
    method = b"SOURCE" if other.startswith(b"ICE/") else b"GET"
    before = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 14\r\n\r\nsay RTSP/1.0!!"
    parts, reader, _ = read(before + method + b" /a" + spaces + other + b"\r\n" + HOST + b"\r\n", size)

    assert (heads(parts), parts[1:], reader.refusal) == (
        [b"POST /a"],
        [b"say RTSP/1.0!!", None],
        Failure.UNSUPPORTED_VERSION,
    )


@pytest.mark.parametrize("other", OTHERS)
def test_a_protocol_that_is_not_http_is_refused_at_every_split(other: bytes) -> None:
    """Its first field is longer than what is kept of a line."""
    method = b"SOURCE" if other.startswith(b"ICE/") else b"GET"
    whole = method + b" /a " + other + b"\r\nAuthorization: Bearer " + b"x" * 200 + b"\r\n" + HOST + b"\r\n"
    found = set[tuple[int, Failure | None]]()
    for at in range(1, len(whole)):
        parts: list[Part] = []
        reader = RequestReader(parts.append, max_head_bytes=65536, max_headers=100, max_body_bytes=1 << 20)
        for piece in (whole[:at], whole[at:]):
            if reader.refusal is None:
                reader.feed(piece, 1.0)
        found.add((len(parts), reader.refusal))

    assert found == {(0, Failure.UNSUPPORTED_VERSION)}


def test_a_long_target_beside_the_name_of_another_protocol_costs_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular expression of it takes 50 ms and half a megabyte, and stays in memory."""
    compiled: list[object] = []
    monkeypatch.setattr("re.compile", compiled.append)
    parts: list[Part] = []
    reader = RequestReader(parts.append, max_head_bytes=65536, max_headers=100, max_body_bytes=1 << 20)
    reader.feed(b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nX: RTSP/\r\n" + HOST + b"\r\n", 1.0)

    assert (len(heads(parts)), reader.refusal, compiled) == (1, None, [])


def test_a_body_with_many_beginnings_of_that_line_hides_it_not() -> None:
    """All of it comes in one read. Only the whole line itself could be mistaken for it."""
    before = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 42000\r\n\r\n" + b"GET /a " * 6000
    _, reader, _ = read(before + b"GET /a RTSP/1.0\r\n" + HOST + b"\r\n", 1 << 20)

    assert reader.refusal is Failure.UNSUPPORTED_VERSION


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11, 1 << 20])
def test_the_name_of_another_protocol_elsewhere_is_text(size: int) -> None:
    """In a target, in a field, in a body, in the next request's line."""
    one = (
        b"POST /RTSP/1.0 HTTP/1.1\r\n"
        + HOST
        + b"X: POST /RTSP/1.0 RTSP/1.0\r\nContent-Length: 16\r\n\r\nGET /b RTSP/1.0\n"
    )
    two = b"GET /ICE/1 HTTP/1.1\r\n" + HOST + b"\r\n"
    parts, reader, _ = read(one + two, size)

    assert (heads(parts), reader.refusal) == ([b"POST /RTSP/1.0", b"GET /ICE/1"], None)
