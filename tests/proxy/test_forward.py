"""Which answers of an engine are accepted, and which of its connections serve again: lying engines, in memory."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import ANSWER_HEADS_BYTES, ResponseHead
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
HEAD = b"HEAD /health HTTP/1.1\r\nHost: pod\r\n\r\n"
WEBSOCKET = b"GET /v1/realtime HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("an interim answer with a length", b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/"),
        ("the same, its body in the next read", b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n"),
        ("an interim answer in chunks", b"HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
        ("a status below 100", b"HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n"),
        ("HTTP/2.0 in words only", b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("HTTP/0.9 in words only", b"HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("two lengths that agree", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
        ("two lengths that do not", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
        ("both framings", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
        (
            "a coding that is not removed",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        ("chunked twice", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        (
            "chunked on two lines",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        ("gzip to the end", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxxx"),
        ("a folded line", b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok"),
        ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
        ("a NUL in a value", b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok"),
        ("more fields than agreed", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 33 + b"Content-Length: 2\r\n\r\nok"),
        ("the same in a head that has not ended", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 34),
        ("a head without end", b"HTTP/1.1 200 OK\r\nX: " + b"y" * ANSWER_HEADS_BYTES),
        ("interim answers without end", b"HTTP/1.1 102 Processing\r\nX: " + b"y" * ANSWER_HEADS_BYTES),
        ("RTSP, which llhttp reads too", b"RTSP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("ICE, which llhttp reads too", b"ICE/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("RTSP behind empty lines", b"\r\n\r\nRTSP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ("an interim answer in RTSP", b"RTSP/1.0 103 Early Hints\r\n\r\n" + OK),
        ("RTSP behind an interim answer", b"HTTP/1.1 100 Continue\r\n\r\nRTSP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("a NUL in the reason", b"HTTP/1.1 200 O\x00K\r\nContent-Length: 2\r\n\r\nok"),
        ("a control character in the reason", b"HTTP/1.1 200 \x1b[31mOK\r\nContent-Length: 2\r\n\r\nok"),
        ("DEL in the reason", b"HTTP/1.1 200 OK\x7f\r\nContent-Length: 2\r\n\r\nok"),
        ("a CR in the reason", b"HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok"),
        ("a NUL in the reason of a switch", b"HTTP/1.1 101 S\x00\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
        ("no HTTP at all", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        (
            "a switch of protocol without a request for it",
            b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
@pytest.mark.parametrize("size", [None, 1, 7])
def test_an_answer_that_cannot_be_trusted_is_a_502(name: str, answer: bytes, size: int | None) -> None:
    """Whole and in pieces: not one byte of it reaches the client, and its connection is closed."""
    road = Road()
    client = road.client()

    client.send(GET)
    road.engine.send(answer, size and max(size, len(answer) // 1000))
    road.turn()

    assert client.taken.startswith(b"HTTP/1.1 502 Bad Gateway\r\n"), name
    assert b"x-sidecar-error: engine_bad_response\r\n" in client.taken
    assert client.taken.count(b"HTTP/1.1 ") == 1, "one answer, and nothing before it"
    assert road.engine.lost
    assert road.recordings[0].closed == [(Outcome.ENGINE_ERROR, Failure.ENGINE_BAD_RESPONSE, None)]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\nearly",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    ],
)
def test_a_101_that_switches_to_nothing_agreed_is_a_502(answer: bytes) -> None:
    """A tunnel opens only to the protocol that the client asked for."""
    road = Road()
    client = road.client()

    client.send(WEBSOCKET)
    road.engine.send(answer)

    assert client.taken.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert road.recordings[0].closed == [(Outcome.ENGINE_ERROR, Failure.ENGINE_BAD_RESPONSE, None)]


@pytest.mark.parametrize(
    ("request_bytes", "answer", "seen"),
    [
        (HEAD, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        (HEAD, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
        (HEAD, b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"),
        (GET, b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (GET, b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"),
        (
            GET,
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        ),
    ],
)
def test_an_answer_that_has_no_body_ends_with_its_head(request_bytes: bytes, answer: bytes, seen: bytes) -> None:
    """HEAD, 204 and 304 have none whatever the head says, and both connections can be used again."""
    road = Road()
    client = road.client()

    client.send(request_bytes)
    road.engine.send(answer, size=1)
    client.send(GET)
    road.engine.send(OK)

    assert seen + OK == client.taken
    assert len(road.pool.sockets) == 1


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (HEAD, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        (HEAD, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        (GET, b"HTTP/1.1 204 No Content\r\n\r\nhello"),
        (GET, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"),
        (GET, OK + OK),
        (GET, OK + b"garbage"),
        (GET, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"),
    ],
)
def test_a_body_where_none_may_be_costs_the_connection(request_bytes: bytes, answer: bytes) -> None:
    """The client gets its answer; the excess bytes are dropped, and that connection never serves again."""
    road = Road()
    client = road.client()

    client.send(request_bytes)
    first = road.engine
    first.send(answer)
    own = bytes(client.taken)
    client.send(GET)
    road.engine.send(OK)

    assert first.lost
    assert own.count(b"HTTP/1.1 ") == 1
    assert not own.endswith(b"hello")
    assert own + OK == client.taken
    assert road.outcomes == [Outcome.OK, Outcome.OK]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 200 Fine\t\xc3\xa9 ~!\r\nContent-Length: 2\r\n\r\nok", id="a tab and obs-text"),
        pytest.param(b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", id="an empty reason"),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\nX: RTSP/1.0\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nRTSP/1.0",
            id="interim answers, and RTSP where it means nothing",
        ),
    ],
)
def test_an_answer_passes_whole_wherever_its_head_is_split(answer: bytes) -> None:
    """At every split: the check of the status line and of the reason sees the same bytes."""
    for split in range(len(answer)):
        road = Road()
        client = road.client()
        client.send(GET)
        road.engine.send(answer[:split])
        road.engine.send(answer[split:])
        client.send(GET)
        road.engine.send(OK)

        assert client.taken == answer + OK


@given(reason=st.text(alphabet=st.characters(max_codepoint=255, exclude_characters="\n"), max_size=12))
@example(reason="")
@example(reason="\x7f")
def test_a_reason_phrase_passes_as_it_is_or_not_at_all(reason: str) -> None:
    """RFC 9112 4: tabs, spaces, visible characters and obs-text pass, each byte of them; any other byte is a 502."""
    road = Road()
    client = road.client()
    line = b"HTTP/1.1 200 " + reason.encode("latin-1")
    allowed = all(byte == "\t" or " " <= byte <= "~" or byte >= "\x80" for byte in reason)

    client.send(GET)
    road.engine.send(line + b"\r\nContent-Length: 0\r\n\r\n")

    assert client.taken.split(b"\r\n")[0] == (line if allowed else b"HTTP/1.1 502 Bad Gateway")


def test_interim_answers_may_be_many() -> None:
    """The head of each is looked at where it begins, also if thousands come in one read."""
    early = b"HTTP/1.1 103 E\r\n\r\n"
    for end, last in ((OK, OK), (b"RTSP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 502 Bad Gateway\r\n")):
        road = Road()
        client = road.client()
        client.send(GET)
        road.engine.send(early * 3000 + end)
        while road.turn():
            pass

        assert client.taken.startswith(early * 3000 + last)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [1000, 65536])
@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"1;" + b"x" * 20 + b"\r\na\r\n", id="an extension around each byte"),
        pytest.param(b"2;" + b"x" * 1000 + b"\r\naa\r\n", id="a long extension in each read"),
        pytest.param(b"0" * 40 + b"1\r\na\r\n", id="leading zeros"),
    ],
)
def test_an_answer_whose_framing_outweighs_its_body_by_64_kib_is_broken_off(chunk: bytes, size: int) -> None:
    """Body bytes in between change nothing about it; what came before the bound has been passed on."""
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(CHUNKED)

    came = 0
    stream = chunk * (300_000 // len(chunk))
    while not road.engine.lost:
        road.engine.send(stream[came : came + size])
        came += size
        road.turn()

    body = stream[:came].count(b"\na")
    assert 65536 < came <= 65536 + 2 * size + (2 + 8) * 2 * body
    assert not client.taken.endswith(b"0\r\n\r\n")
    assert road.recordings[0].closed == [(Outcome.ENGINE_ERROR, Failure.ENGINE_BAD_RESPONSE, 200)]


@pytest.mark.parametrize("size", [1000, 65536])
@pytest.mark.parametrize(
    ("text", "extension"),
    [(b"a", b""), (b"ab", b""), (b"token", b""), (b"x" * 300, b""), (b"x" * 30, b";" + b"x" * 25)],
)
def test_tiny_chunks_alone_are_never_too_many(text: bytes, extension: bytes, size: int) -> None:
    """An engine may stream plain text token by token for as long as it likes; extensions count against their text."""
    road = Road()
    client = road.client()
    client.send(GET)

    road.engine.send(CHUNKED)
    stream = b"%x%b\r\n%b\r\n" % (len(text), extension, text) * (400_000 // (len(text) + 5)) + b"0\r\n\r\n"
    for start in range(0, len(stream), size):
        road.engine.send(stream[start : start + size])
        road.turn()

    assert client.taken.endswith(b"0\r\n\r\n")
    assert road.outcomes == [Outcome.OK]


def test_spaces_behind_a_length_are_no_part_of_it() -> None:
    """Optional white space around a value is not part of it (RFC 9110 5.5), in either direction."""
    road = Road()
    client = road.client()

    client.send(b"POST /x HTTP/1.1\r\nHost: pod \t\r\nContent-Length: 2 \r\n\r\nhi")
    road.engine.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\t \r\n\r\nok")

    assert road.engine.taken.endswith(b"\r\n\r\nhi")
    assert client.taken.endswith(b"\r\n\r\nok")
    assert road.outcomes == [Outcome.OK]


def test_a_tunnel_that_begins_with_a_lot_is_a_tunnel() -> None:
    """Bytes in the same read as the 101 belong to the tunnel, however many, and are not an overlong head."""
    road = Road()
    client = road.client()
    agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

    client.send(WEBSOCKET)
    road.engine.send(agreed + b"e" * 100_000)
    while road.turn():
        pass
    road.engine.send(b"!")

    assert client.taken == agreed + b"e" * 100_000 + b"!"


def test_chunks_in_http_1_0_end_with_the_connection() -> None:
    """Transfer-Encoding in HTTP/1.0 is faulty framing (RFC 9112 6.1): it is read, but no bytes after it are."""
    road = Road()
    client = road.client()

    client.send(GET)
    road.engine.send(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    )

    assert client.taken == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    assert road.engine.lost


def test_a_connection_that_was_held_back_for_a_slow_client_reads_again_for_the_next_one() -> None:
    """The answer fits into one read, and the engine's connection is given back while the slow client still reads it."""
    road = Road()
    slow, next_one = road.client(), road.client()

    slow.room = 0
    slow.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000)
    next_one.send(GET)
    road.engine.send(OK)

    assert next_one.taken == OK
    slow.take(None)
    assert slow.taken.endswith(b"x" * 5000)
    assert road.outcomes == [Outcome.OK, Outcome.OK]


def test_an_engine_that_ends_its_answer_without_reading_the_upload_is_not_waited_for() -> None:
    """It refuses the upload, until close, and stops reading: the client gets that although upload bytes are stuck."""
    road = Road()
    client = road.client()

    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 100000\r\n\r\n")
    road.engine.room = 0
    client.send(b"x" * 3000)
    road.engine.send(b"HTTP/1.1 413 Content Too Large\r\n\r\ntoo large")
    road.engine.end()

    assert client.taken.endswith(b"\r\n\r\ntoo large")
    assert client.ended
    assert road.outcomes == [Outcome.CLIENT_ERROR]


def test_interim_answers_go_on_to_http_1_1_only() -> None:
    """103 is forwarded (RFC 9110 15.2); 100 answers an expectation that is handled here; HTTP/1.0 knows neither."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    both = b"HTTP/1.1 100 Continue\r\n\r\n" + early + OK
    road = Road()
    new, old = road.client(), road.client()

    new.send(GET)
    road.engine.send(both, size=1)
    old.send(b"GET /health HTTP/1.0\r\n\r\n")
    road.engine.send(both)

    assert early + OK == new.taken
    assert old.taken == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def test_trailers_of_an_answer_are_dropped_and_never_become_part_of_its_head() -> None:
    """They come through the same callback as the head's fields; a head that was kept must not contain them later."""
    heads: list[ResponseHead] = []

    class Keeping(Unobserved):
        def head(self, at: float, head: ResponseHead) -> None:
            del at
            heads.append(head)

    road = Road(observe=lambda _head: Keeping())
    client = road.client()
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"

    client.send(GET)
    road.engine.send(chunked + b"Set-Cookie: a\r\n\r\n")

    assert client.taken == chunked + b"\r\n"
    assert [head.fields for head in heads] == [[(b"Transfer-Encoding", b"chunked")]]
