"""Ends of connections, and what is known at that time: clients that vanish at the worst moment, in memory."""

from sidecar.timeline.outcome import Outcome
from tests.support.memory import Recording, Road


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_client_that_resets_before_it_took_the_end_has_not_everything() -> None:
    """The stream's own end mark was written, but still waits in the sidecar's buffer: that is a cancel."""
    road = Road()
    client = road.client()

    client.send(GET)
    client.room = 10
    road.engine.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ne\r\ndata: [DONE]\n\n\r\n")
    observer = road.recordings[0]
    assert isinstance(observer, Recording)
    observer.done = True
    client.lose(ConnectionResetError())

    assert road.outcomes == [Outcome.CLIENT_CANCELLED]


def test_an_answer_without_a_client_is_not_ok() -> None:
    """The client's socket failed while the last bytes were written; asyncio reports it a moment later."""
    road = Road()
    client = road.client()

    client.send(GET)
    client._closing = True
    road.engine.send(OK)
    client.lose(BrokenPipeError())

    assert road.outcomes == [Outcome.CLIENT_CANCELLED]
    assert road.in_flight == 0


def test_a_client_that_connects_while_we_drain_is_served() -> None:
    """Its first request may be a moment away: the sweep that closes idle connections leaves it open."""
    road = Road()
    road.traffic.drain()
    late = road.client()

    road.traffic.sweep(road.clock.later(0.25))
    late.send(GET)
    road.engine.send(OK)

    assert late.taken == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
    assert late.lost
