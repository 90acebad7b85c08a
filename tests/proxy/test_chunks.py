"""An answer is the same whether its chunks come alone in their reads, which the parser does not see, or cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.proxy.chunks import CHUNK, LAST_CHUNK
from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road
from tests.support.messages import pieces, read


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


TEXTS = st.sampled_from(
    [b"a", b"1", b"\r\n", b"1\r\n", b"2\r\nok\r\n", b"0\r\n\r\n", b"data: {}\n\n" * 30, b"x" * 3000]
)
WRITTEN = st.sampled_from([CHUNK, b"0" + CHUNK, b"%X\r\n%b\r\n", b"%x;name=value\r\n%b\r\n", b'%x;q="a;b"\r\n%b\r\n'])
JOINED = st.sampled_from([0, 0, 0, -1, -2, -3, 1, 2])
"""The end of a read: the end of a chunk most often, or so many bytes before or behind it."""


@given(st.lists(st.tuples(TEXTS, WRITTEN, JOINED), max_size=12), st.sampled_from([b"", b"X-Trailer: 2\r\n"]))
@example([(b"hello", CHUNK, 0), (b"1", CHUNK, 1), (b"1", CHUNK, 0)], b"")
@example([(b"1", CHUNK, 0), (b"1\r\n", CHUNK, -3), (b"1", CHUNK, 0)], b"")
def test_an_answer_is_the_same_however_its_chunks_are_written_and_read(
    chunks: list[tuple[bytes, bytes, int]], trailer: bytes
) -> None:
    """Alone in their reads, several in one, or cut in two: the client and the observer get every byte of the body once."""
    stream, ends = b"", []
    for text, written, joined in chunks:
        stream += written % (len(text), text)
        ends.append(len(stream) + joined)
    stream += b"0\r\n%b\r\n" % trailer
    places = sorted({0, len(stream), *(end for end in ends if 0 < end < len(stream))})
    road = Road()
    client = road.client()

    client.send(GET)
    road.engine.send(CHUNKED)
    for piece in pieces(stream, [after - before for before, after in pairwise(places)]):
        road.engine.send(piece)
        while road.turn():
            pass

    body = b"".join(text for text, _, _ in chunks)
    assert read(bytes(client.taken))[2:] == (body, b"")
    assert road.recordings[0].body == body
    assert road.outcomes == [Outcome.OK]


TWO_EVENTS = CHUNK % (9, b"data: 1\n\n") + CHUNK % (9, b"data: 2\n\n") + LAST_CHUNK


@pytest.mark.parametrize("first", range(len(TWO_EVENTS)))
def test_an_answer_is_the_same_at_every_two_splits(first: int) -> None:
    """Behind a whole chunk a read may be a size line alone, or that and a byte: Python's http.server writes each by itself."""
    for second in range(first, len(TWO_EVENTS)):
        road = Road()
        client = road.client()

        client.send(GET)
        road.engine.send(CHUNKED)
        for piece in (TWO_EVENTS[:first], TWO_EVENTS[first:second], TWO_EVENTS[second:]):
            if piece:
                road.engine.send(piece)

        assert read(bytes(client.taken))[2:] == (b"data: 1\n\ndata: 2\n\n", b"")
        assert road.outcomes == [Outcome.OK]


def test_a_token_goes_to_the_client_in_the_very_bytes_that_came() -> None:
    """Each in a write of its own, and the observer gets what the chunk says."""
    road = Road()
    client = road.client()
    token = CHUNK % (14, b"data: token\n\n\n")

    client.send(GET)
    road.engine.send(CHUNKED)
    written = [token] * 3
    for each in written:
        road.engine.send(each)

    assert client.given[-3:] == written
    assert road.recordings[0].body == b"data: token\n\n\n" * 3


def test_a_client_of_http_1_0_gets_the_body_of_a_chunk_alone() -> None:
    road = Road()
    client = road.client()

    client.send(b"GET /health HTTP/1.0\r\nHost: pod\r\n\r\n")
    road.engine.send(CHUNKED)
    for text in (b"one ", b"two ", b"three"):
        road.engine.send(CHUNK % (len(text), text))
    road.engine.send(LAST_CHUNK)

    assert client.taken.endswith(b"\r\n\r\none two three")
    assert road.outcomes == [Outcome.OK]


EVENT = CHUNK % (14, b"data: token\n\n\n")


@pytest.mark.parametrize(
    ("read", "body"),
    [
        pytest.param(b"3\r\nok\r\n", None, id="one byte too few"),
        pytest.param(b"1\r\nok\r\n", None, id="one byte too many"),
        pytest.param(b"-2\r\nok\r\n", None, id="a sign"),
        pytest.param(b" 2\r\nok\r\n", None, id="a space"),
        pytest.param(b"2\nok\r\n", None, id="a size line that ends in LF alone"),
        pytest.param(b"2\r\nok\n\n", None, id="a chunk that ends in LF alone"),
        pytest.param(b"\r\nok\r\n", None, id="no size"),
        pytest.param(b"ok", None, id="no chunk"),
        pytest.param(b"2\r\nok\r\n", b"ok", id="a chunk"),
        pytest.param(b"002\r\nok\r\n", b"ok", id="leading zeros"),
        pytest.param(b"2;a=b\r\nok\r\n", b"ok", id="an extension"),
        pytest.param(b"B\r\nhello world\r\n", b"hello world", id="upper case"),
        pytest.param(b"2\r\nok\r\n2\r\nok\r\n", b"okok", id="two chunks"),
    ],
)
def test_behind_a_chunk_that_came_alone_the_parser_is_as_strict_as_before(read: bytes, body: bytes | None) -> None:
    """It saw the first chunk and not the second; what is no chunk behind them cuts the answer short."""
    road = Road()
    client = road.client()

    client.send(GET)
    road.engine.send(CHUNKED + EVENT)
    road.engine.send(EVENT)
    road.engine.send(read)

    if body is None:
        road.engine.lose()
        assert road.recordings[0].closed == [(Outcome.ENGINE_TRUNCATED, Failure.ENGINE_TRUNCATED, 200)]
        assert not client.taken.endswith(LAST_CHUNK)
    else:
        road.engine.send(LAST_CHUNK)
        assert road.recordings[0].body == b"data: token\n\n\n" * 2 + body
        assert road.outcomes == [Outcome.OK]
