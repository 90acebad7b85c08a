"""Failed exchanges: the answer, the outcome and the closed connections when the engine or a limit ends a request."""

import gc

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.forward import EngineConnection
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET, POST, STREAM, STREAM_OUT
from tests.support.memory import LIMITS, Road


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
