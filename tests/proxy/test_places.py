"""Places: no more whole requests are with the engine than `proxy.max_in_flight`, and silent websockets make room."""

import pytest

from sidecar.budgets.budgets import Kind
from sidecar.proxy.errors import Failure
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road, Socket


GET = b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
LENGTH = b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbod"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"


@pytest.mark.parametrize(("unfinished", "rest"), [(LENGTH, b"y"), (CHUNKED, b"0\r\n\r\n")], ids=["length", "chunked"])
def test_an_upload_that_ends_when_all_places_are_taken_is_refused(unfinished: bytes, rest: bytes) -> None:
    """It went to the engine unread, before the places were taken. The engine never gets its end, so it may be sent again."""
    road = Road(budgets={Kind.REQUESTS: 1})
    upload, busy = road.client(), road.client()
    upload.send(unfinished)
    half = road.engine
    sent = bytes(half.taken)
    busy.send(GET)

    upload.send(rest)

    requests = road.budgets.requests
    assert upload.taken.startswith(b"HTTP/1.1 503 ")
    assert b"x-sidecar-error: too_many_in_flight\r\n" in upload.taken
    assert (bytes(half.taken), half.reset) == (sent, True)
    assert (requests.used, requests.exceeded, road.outcomes) == (1, 1, [Outcome.REJECTED])
    road.engine.send(OK)
    assert (bytes(busy.taken), requests.used) == (OK, 0)


def test_an_upload_that_ends_after_its_answer_has_begun_is_counted_and_not_cut() -> None:
    """The engine works for it already, and its client has a part of the answer."""
    road = Road(budgets={Kind.REQUESTS: 1})
    upload, busy = road.client(), road.client()
    upload.send(LENGTH)
    early = road.engine
    early.send(OK[:-1])
    busy.send(GET)

    upload.send(b"y")
    assert (road.budgets.requests.used, road.budgets.requests.exceeded) == (2, 0)
    early.send(OK[-1:])
    road.engine.send(OK)

    assert (upload.taken.endswith(b"\r\n\r\nok"), bytes(busy.taken)) == (True, OK)
    assert (road.budgets.requests.used, road.outcomes) == (0, [Outcome.OK, Outcome.OK])


# --- websockets ----------------------------------------------------------------------------------------------------------

WEBSOCKET = (
    b"GET /ws HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def asked(road: Road) -> Socket:
    client = road.client()
    client.send(WEBSOCKET)
    return client


def tunnel(road: Road) -> Socket:
    client = asked(road)
    road.engine.send(SWITCHED)
    return client


def test_the_websocket_that_is_silent_for_longest_makes_room_after_a_minute() -> None:
    """A byte of either side counts. One that waits for the engine's 101 is none yet."""
    road = Road(budgets={Kind.TUNNELS: 3})
    asked(road)
    first, second = tunnel(road), tunnel(road)
    road.clock.later(50)
    first.send(b"ping")
    road.clock.later(11)

    new = tunnel(road)
    late = asked(road)

    assert [client.lost for client in (first, second, new)] == [False, True, False]
    assert new.taken.startswith(b"HTTP/1.1 101 ")
    assert b"x-sidecar-error: too_many_tunnels\r\n" in late.taken
    assert road.recordings[2].closed == [(Outcome.CLIENT_CANCELLED, Failure.TUNNEL_IDLE, 101)]
    assert (road.budgets.tunnels.used, road.budgets.tunnels.exceeded) == (3, 2)


def test_a_silent_websocket_keeps_its_place_as_long_as_there_is_room() -> None:
    road = Road(budgets={Kind.TUNNELS: 2})
    silent = tunnel(road)
    road.clock.later(3000)

    tunnel(road)

    assert not silent.lost
