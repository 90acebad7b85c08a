"""The exchange, as scenarios between a client and an engine in memory, with a fake clock."""

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import ResponseHead
from sidecar.proxy.observer import Cutter, Unobserved
from sidecar.timeline.outcome import Outcome
from tests.support.memory import LIMITS, Road


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_OUT = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_request_goes_through_and_its_instants_are_those_of_our_reads_and_writes() -> None:
    """Received, sent, head, body, ended and flushed are reported in order and at the instants when they happen."""
    road = Road()
    client = road.client()

    client.send(POST)
    road.clock.later(0.3)
    road.engine.send(STREAM)
    road.clock.later(0.2)
    road.engine.send(b"5\r\nhello\r\n")
    road.clock.later(0.1)
    road.engine.send(b"0\r\n\r\n")

    assert road.engine.taken == b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody"
    assert client.taken == STREAM_OUT + b"5\r\nhello\r\n0\r\n\r\n"
    assert [
        ("received", 100.0),
        ("request_body", (b"body", True)),
        ("sent", 100.0),
        ("head", 100.3),
        ("data", pytest.approx(100.5)),
        ("ended", pytest.approx(100.6)),
        ("flushed", pytest.approx(100.6)),
        ("close", pytest.approx(100.6)),
    ] == road.recordings[0].told
    assert road.recordings[0].closed == [(Outcome.OK, None, 200)]
    assert road.in_flight == 0


def test_one_read_is_one_write() -> None:
    """Head, events and end that came together go out together: no wake-up splits a token from its framing."""
    road = Road()
    client = road.client()

    client.send(GET)
    road.engine.send(STREAM + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")

    assert client.taken == STREAM_OUT + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    assert client.writes == 1


def test_an_upload_in_a_thousand_chunks_that_came_together_is_one_write() -> None:
    """A chunk that costs its sender seven bytes must not cost the sidecar a write each."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n")
    head, writes = len(road.engine.taken), road.engine.writes

    client.send(b"2\r\nab\r\n" * 1000)

    assert road.engine.writes == writes + 1
    assert road.engine.taken[head:] == b"7d0\r\n" + b"ab" * 1000 + b"\r\n"


@pytest.mark.parametrize("cutting", [False, True])
@pytest.mark.parametrize(("chunks", "seen"), [(64, 64), (65, 1), (9000, 1)])
def test_an_answer_in_more_chunks_than_64_a_read_is_joined(chunks: int, seen: int, cutting: bool) -> None:
    """Few chunks of an engine stay apart; in any case the bytes are the same, and a cutter is called once for each."""
    cut = []

    class Counting(Unobserved):
        def head(self, at: float, head: ResponseHead) -> Cutter | None:  # noqa: ARG002  the hook's shape
            return self if cutting else None

        def cut(self, data: bytes) -> bytes:
            cut.append(data)
            return data

        def rest(self) -> bytes:
            return b""

    road = Road(observe=lambda _head: Counting())
    client = road.client()
    client.send(GET)

    road.engine.send(STREAM + b"2\r\nab\r\n" * chunks + b"0\r\n\r\n")

    one = b"%x\r\n%b\r\n" % (2 * chunks // seen, b"ab" * (chunks // seen))
    assert client.taken == STREAM_OUT + one * seen + b"0\r\n\r\n"
    assert client.writes == 1
    assert len(cut) == (seen if cutting else 0)
    assert road.in_flight == 0


def test_a_connection_that_ended_exactly_serves_the_next_request() -> None:
    """Both sides are kept: one client connection, one engine connection, two requests."""
    road = Road()
    client = road.client()

    for _ in range(2):
        client.send(GET)
        road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    assert len(road.pool.sockets) == 1
    assert client.taken == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" * 2
    assert road.outcomes == [Outcome.OK, Outcome.OK]


def test_bytes_behind_a_complete_answer_cost_the_connection_and_reach_no_client() -> None:
    """Excess bytes of an engine are never read as the next client's answer."""
    road = Road()
    client = road.client()

    client.send(GET)
    first = road.engine
    first.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
    client.send(GET)

    assert client.taken == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    assert first.lost
    assert len(road.pool.sockets) == 2


def test_an_idle_connection_that_speaks_is_thrown_away() -> None:
    """No request was sent, so its bytes are no answer."""
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    first = road.engine
    first.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    client.send(GET)

    assert first.lost
    assert len(road.pool.sockets) == 2


def test_an_idle_connection_is_not_used_after_three_seconds() -> None:
    """Uvicorn closes after five: a POST must not race with that."""
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    road.clock.later(3.1)
    client.send(GET)

    assert len(road.pool.sockets) == 2


def test_the_limit_of_idling_learns_from_an_engine_that_closes_sooner() -> None:
    """If an engine closes after 0.4 s, a connection idle for 0.3 s is not used until it was well for five minutes."""
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    road.clock.later(0.4)
    road.engine.end()

    client.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    road.clock.later(0.3)
    client.send(GET)

    assert len(road.pool.sockets) == 3
    road.traffic.sweep(road.clock.later(301))
    assert road.pool.idle_seconds == 3.0


def test_an_engine_that_closes_after_every_answer_is_not_raced_with() -> None:
    """It states keep-alive and closes 1 ms later. Not even a request that comes at once uses such a connection."""
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=5\r\n\r\n")
    road.clock.later(0.001)
    road.engine.end()

    for _ in range(3):
        client.send(GET)
        road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=5\r\n\r\n")
    assert len(road.pool.sockets) == 4

    road.traffic.sweep(road.clock.later(299))
    road.client().send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=5\r\n\r\n")
    road.clock.later(0.001)
    road.engine.end()
    road.traffic.sweep(road.clock.later(2))
    assert road.pool.idle_seconds == 0.0, "what was learned is forgotten only when it is no longer so"


def test_after_a_stream_of_llama_cpp_its_connection_is_not_used_again() -> None:
    """It states keep-alive and closes each stream 1 ms after its end (b11434): known from the first one on. JSON
    answers are kept alive.
    """
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(
        b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nContent-Length: 2\r\nKeep-Alive: timeout=5, max=100\r\n\r\n{}"
    )
    client.send(GET)
    assert len(road.pool.sockets) == 1

    stream = b"Transfer-Encoding: chunked\r\nKeep-Alive: timeout=5, max=100\r\n\r\n3\r\n:\n\n\r\n0\r\n\r\n"
    road.engine.send(b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\n" + stream)
    client.send(GET)

    assert len(road.pool.sockets) == 2
    assert road.outcomes == [Outcome.OK, Outcome.OK]


# --- the client leaves ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end", "lose"])
@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        pytest.param(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 9\r\n\r\nbo", b"", id="upload"),
        pytest.param(POST, b"", id="waiting"),
        pytest.param(POST, STREAM, id="headers"),
        pytest.param(POST, STREAM + b"5\r\nhello\r\n", id="streaming"),
    ],
)
def test_when_the_client_leaves_the_engine_is_told_at_once(sent: bytes, answered: bytes, how: str) -> None:
    """The engine's connection is closed in the same callback that reports the client's end."""
    road = Road()
    client = road.client()
    client.send(sent)
    road.engine.send(answered)

    getattr(client, how)()

    assert road.engine.reset
    assert [(Outcome.CLIENT_CANCELLED, None, 200 if answered else None)] == road.recordings[0].closed
    assert road.in_flight == 0


def test_a_client_that_leaves_after_the_streams_own_end_mark_has_everything() -> None:
    """Many clients close on [DONE] without reading the end of the framing: that is no cancel."""
    road = Road()
    client = road.client()
    client.send(POST)
    road.recordings[0].done = True
    road.engine.send(STREAM + b"5\r\nhello\r\n")

    client.end()

    assert road.outcomes == [Outcome.OK]
    assert road.engine.reset


# --- a slow client -------------------------------------------------------------------------------------------------------


def test_a_slow_client_stops_the_reading_of_its_own_stream_and_of_no_other() -> None:
    """Above the high-water mark the engine is not read; below the low one it is again; the pause is reported."""
    road = Road()
    slow, fast = road.client(), road.client()
    slow.send(POST)
    held = road.engine
    fast.send(POST)
    flowing = road.engine
    slow.room = 0
    held.send(STREAM)

    road.clock.later(1)
    held.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
    flowing.send(STREAM + b"5\r\nhello\r\n")

    assert not held.reading
    assert flowing.reading
    assert fast.taken == STREAM_OUT + b"5\r\nhello\r\n"
    road.clock.later(2)
    slow.take(None)
    assert held.reading
    assert road.recordings[0].instants("paused", "resumed") == [("paused", 101.0), ("resumed", 103.0)]


def test_flushed_is_when_the_clients_socket_has_the_last_byte() -> None:
    """The engine's connection is free once the engine is done; the request ends when the client has the answer."""
    road = Road()
    client = road.client()
    client.send(POST)
    client.room = 0
    road.engine.send(STREAM + b"5\r\nhello\r\n0\r\n\r\n")
    assert road.recordings[0].instants("flushed") == []
    assert road.in_flight == 1

    road.clock.later(4)
    client.take(None)

    assert road.recordings[0].instants("ended", "flushed") == [("ended", 100.0), ("flushed", 104.0)]
    assert road.outcomes == [Outcome.OK]


def test_a_client_that_takes_nothing_for_a_minute_is_gone() -> None:
    """A client that takes a byte now and then may be as slow as it likes."""
    road = Road()
    client = road.client()
    client.send(POST)
    client.room = 0
    road.engine.send(STREAM)
    road.engine.send(b"7d0\r\n" + b"x" * 2000 + b"\r\n")

    road.traffic.sweep(road.clock.later(59))
    client.take(10)
    road.traffic.sweep(road.clock.later(59))
    assert road.outcomes == []
    road.traffic.sweep(road.clock.later(61))

    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.CLIENT_WRITE_STALLED, 200)]
    assert client.reset
    assert road.engine.reset


# --- an upload -----------------------------------------------------------------------------------------------------------


def test_a_body_beyond_the_look_in_bound_streams_on() -> None:
    """Classification sees the beginning; then nothing is held back, and the rest passes as it comes."""
    road = Road()
    client = road.client()

    client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 3000\r\n\r\n" + b"a" * 1000)
    assert road.pool.sockets == []
    client.send(b"b" * 1000)

    assert road.recordings[0].told == [("request_body", (b"a" * 1000 + b"b" * 1000, False))]
    assert road.engine.taken.endswith(b"a" * 1000 + b"b" * 1000)
    client.send(b"c" * 1000)
    assert road.engine.taken.endswith(b"c" * 1000)


def test_an_engine_that_does_not_take_the_upload_stops_the_client() -> None:
    """The upload waits in the client's own socket; `sent` is when the engine's socket has the last byte."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 8\r\n\r\n")
    road.engine.room = 0

    client.send(b"1234")
    assert not client.reading
    road.clock.later(1)
    road.engine.take(4)
    assert client.reading
    client.send(b"5678")
    road.clock.later(1)
    road.engine.take(None)

    assert road.engine.taken.endswith(b"12345678")
    assert road.recordings[0].instants("received", "sent") == [("received", 101.0), ("sent", 102.0)]


def test_spliced_bytes_change_the_length_and_ask_for_plain_text() -> None:
    """The bytes that the observer returns go to the engine instead, framed anew, with Accept-Encoding: identity."""
    road = Road()
    client = road.client()
    client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nAccept-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    )
    road.recordings[0].instead = b"longer body"

    client.send(b"body")

    assert (
        road.engine.taken
        == b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 11\r\nAccept-Encoding: identity\r\n\r\nlonger body"
    )


def test_an_early_answer_reaches_the_client_and_closes_what_was_not_finished() -> None:
    """The engine refuses in mid-upload: the answer is whole, the upload's rest dropped, no connection is reused."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 100\r\n\r\nsome")

    road.engine.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno")
    client.send(b"more")

    assert client.taken == b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nConnection: close\r\n\r\nno"
    assert client.ended
    assert road.engine.reset
    assert road.engine.taken.endswith(b"some")
    assert road.recordings[0].closed == [(Outcome.CLIENT_ERROR, None, 401)]
    road.traffic.sweep(road.clock.later(3))
    assert client.lost


# --- failures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answered", "then", "visible"),
    [
        pytest.param(STREAM + b"5\r\nhello\r\n", "end", STREAM_OUT + b"5\r\nhello\r\n", id="chunked, closed"),
        pytest.param(STREAM + b"5\r\nhello\r\n", "lose", STREAM_OUT + b"5\r\nhello\r\n", id="chunked, reset"),
        pytest.param(STREAM + b"5\r\nhello\r\nxyz\r\n", None, STREAM_OUT + b"5\r\nhello\r\n", id="chunked, garbage"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel",
            "end",
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel",
            id="length, closed",
        ),
    ],
)
def test_a_response_cut_short_is_cut_short_for_the_client(answered: bytes, then: str | None, visible: bytes) -> None:
    """Bytes that came go out, missing ones are not made up, and the connection closes without the message's end."""
    road = Road()
    client = road.client()
    client.send(POST)

    road.engine.send(answered)
    if then is not None:
        getattr(road.engine, then)()

    assert visible == client.taken
    assert client.lost
    assert road.recordings[0].closed == [(Outcome.ENGINE_TRUNCATED, Failure.ENGINE_TRUNCATED, 200)]


def test_a_body_that_ends_with_the_connection_ends_so_for_the_client_too() -> None:
    """The close is its framing: it is relayed as such, and a reset is relayed as a reset."""
    road = Road()
    for how, error in (("end", None), ("reset", ConnectionResetError())):
        client = road.client()
        client.send(POST)
        road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nhello")
        road.engine.lose(error)

        assert client.taken.endswith(b"Connection: close\r\n\r\nhello"), how
        assert client.lost
        assert client.reset is (error is not None)

    assert road.outcomes == [Outcome.OK, Outcome.ENGINE_TRUNCATED]


@pytest.mark.parametrize(
    ("seconds", "answered", "failure"),
    [
        pytest.param(601, b"", Failure.ENGINE_FIRST_BYTE_TIMEOUT, id="no answer"),
        pytest.param(301, STREAM, Failure.ENGINE_GAP_TIMEOUT, id="silence inside the answer"),
    ],
)
def test_an_engine_that_takes_too_long_is_left(seconds: float, answered: bytes, failure: Failure) -> None:
    """504 before the first byte, a cut response afterwards; each is one request, and the engine's connection closes."""
    road = Road()
    client = road.client()
    client.send(POST)
    road.engine.send(answered)

    road.traffic.sweep(road.clock.later(seconds - 2))
    assert road.outcomes == []
    road.traffic.sweep(road.clock.later(2))

    assert [(Outcome.ENGINE_TIMEOUT, failure, 200 if answered else None)] == road.recordings[0].closed
    assert road.engine.reset
    assert client.taken.startswith(b"HTTP/1.1 200" if answered else b"HTTP/1.1 504")
    assert client.lost


def test_an_upload_that_stops_is_answered_408_and_counted_as_the_clients_leaving() -> None:
    """The client went silent; neither the engine nor the sidecar failed."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 9\r\n\r\nbo")

    road.traffic.sweep(road.clock.later(61))

    assert client.taken.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.UPLOAD_STALLED, None)]
    assert road.engine.reset


def test_beyond_the_gate_requests_are_rejected_and_counted() -> None:
    """A request above `max_in_flight` gets a 503 with Retry-After; one that leaves makes room."""
    road = Road(LIMITS.model_copy(update={"max_in_flight": 1}))
    first, second, third = road.client(), road.client(), road.client()
    first.send(GET)
    second.send(GET)

    assert second.taken.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 1\r\n" in second.taken
    assert b"\r\nx-sidecar-error: too_many_in_flight\r\n" in second.taken
    assert road.outcomes == [Outcome.REJECTED]
    first.end()
    third.send(GET)
    assert third.taken == b""
    assert road.in_flight == 1


# --- tunnels -------------------------------------------------------------------------------------------------------------


WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
)


def test_after_the_engines_own_101_bytes_pass_both_ways() -> None:
    """Early bytes of the client wait for the 101 and go into the tunnel; an end on either side ends the other."""
    road = Road()
    client = road.client()

    client.send(WEBSOCKET + b"early")
    road.engine.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
    client.send(b" late")

    assert road.engine.taken.endswith(b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly late")
    assert client.taken.endswith(b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
    road.engine.end()
    assert client.lost
    assert road.outcomes == [Outcome.OK]


def test_where_the_engine_declines_early_bytes_are_the_next_request() -> None:
    """The connection continues with HTTP."""
    road = Road()
    client = road.client()

    client.send(WEBSOCKET + GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno")
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")

    assert client.taken.endswith(b"noHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")
    assert road.outcomes == [Outcome.OK, Outcome.OK]


# --- the end -------------------------------------------------------------------------------------------------------------


def test_while_draining_requests_are_served_and_answers_say_close() -> None:
    """A client that has not noticed must not be refused; idle connections are closed once no more may come."""
    road = Road()
    idle, busy, late = road.client(), road.client(), road.client()
    busy.send(GET)

    road.traffic.drain()
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    road.traffic.sweep(road.clock.later(1))
    late.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    assert busy.taken == late.taken == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: close\r\n\r\nok"
    assert busy.lost
    assert late.lost
    assert not idle.lost
    road.traffic.stop_accepting()
    assert idle.lost


def test_when_the_grace_is_over_what_is_left_is_cut_and_counted() -> None:
    """A stream is cut, a waiting request is answered 503, each once."""
    road = Road()
    streaming, waiting = road.client(), road.client()
    streaming.send(POST)
    road.engine.send(STREAM + b"5\r\nhello\r\n")
    waiting.send(POST)

    road.traffic.abandon()

    assert streaming.taken == STREAM_OUT + b"5\r\nhello\r\n"
    assert streaming.lost
    assert waiting.taken.startswith(b"HTTP/1.1 503 ")
    assert road.outcomes == [Outcome.SIDECAR_ERROR, Outcome.SIDECAR_ERROR]
    assert road.in_flight == 0
