"""The exchange and its failures, as scenarios between a client and an engine in memory, with a fake clock."""

import gc

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection
from sidecar.proxy.headers import ResponseHead
from sidecar.proxy.observer import Cutter
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET, POST, STREAM, STREAM_OUT
from tests.support.memory import Road, limits_with


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


@pytest.mark.parametrize("cutting", [False, True])
@pytest.mark.parametrize(("chunks", "seen"), [(64, 64), (65, 1), (128, 1)])
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
    """A client that takes a byte now and then may be as slow as it likes, where the config sets no floor."""
    road = Road(limits_with(client_min_bytes_per_second=0))
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


def test_beyond_the_gate_requests_are_rejected_and_counted() -> None:
    """A request above `max_in_flight` gets a 503 with Retry-After; one that leaves makes room."""
    road = Road(limits_with(max_in_flight=1))
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


@pytest.mark.parametrize("breaks_off", ["client", "engine"])
def test_a_connection_to_the_engine_that_is_over_is_freed_at_once(breaks_off: str) -> None:
    """Its parser and it hold each other; left to the garbage collector, many of them would make a collection long, in which no
    token passes.
    """
    road = Road()
    client = road.client()
    client.send(GET)
    road.engine.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n")
    engine = road.engine

    gc.disable()
    try:
        (client if breaks_off == "client" else engine).lose(ConnectionResetError())
        del engine.protocol  # as uvloop's transport does
        left = [held for held in gc.get_objects() if isinstance(held, EngineConnection)]
    finally:
        gc.enable()

    assert left == []
    assert road.outcomes == [Outcome.CLIENT_CANCELLED if breaks_off == "client" else Outcome.ENGINE_TRUNCATED]
