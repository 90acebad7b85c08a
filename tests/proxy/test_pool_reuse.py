"""Engine connections over whole exchanges: kept after exact ends, dropped after excess bytes, and too old to reuse."""

from sidecar.proxy.pool import CLOSED_AT_ONCE
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET
from tests.support.memory import Road, limits_with


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


def test_many_idle_connections_are_closed_a_few_at_a_time_oldest_first() -> None:
    """None of them is used meanwhile: the newest is too old as well, and the request gets a new connection."""
    road = Road(limits_with(max_in_flight=500))
    clients = [road.client() for _ in range(500)]
    for client in clients:
        client.send(GET)
    before = list(road.pool.sockets)
    for engine in before:
        engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    road.clock.later(3.1)
    road.pool.sweep(road.now())
    assert [engine.lost for engine in before] == [True] * CLOSED_AT_ONCE + [False] * (500 - CLOSED_AT_ONCE)

    clients[0].send(GET)
    assert len(road.pool.sockets) == 501
    for _ in range(500 // CLOSED_AT_ONCE):
        road.pool.sweep(road.now())
    assert road.pool.open_connections == 1
