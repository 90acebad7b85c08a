"""Floors of pace: a client that is slow on purpose is told so, and one that the engine holds back is not."""

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.pace import UPLOAD_GRACE_SECONDS, UploadPace
from sidecar.proxy.standstill import Now, Standstills
from sidecar.timeline.outcome import Outcome
from tests.support.memory import LIMITS, WEBSOCKET, Road, Socket, limits_with


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 100000\r\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def now(at: float) -> Now:
    """The process has never stood still."""
    return Now(at, Standstills(0.0))


def trickle(road: Road, client: Socket, *, seconds: float, every: float, size: int) -> None:
    """Send `size` bytes `every` so many seconds, and sweep after each."""
    for _ in range(round(seconds / every)):
        road.clock.later(every)
        if client.ended or client.lost:
            return
        client.send(b"x" * size)
        road.traffic.sweep(road.clock.now)


def test_a_body_that_trickles_is_answered_408_after_its_grace() -> None:
    """A byte a second keeps no upload any more."""
    road = Road()
    client = road.client()
    client.send(HEAD)

    trickle(road, client, seconds=UPLOAD_GRACE_SECONDS, every=1, size=1)
    assert road.outcomes == []
    trickle(road, client, seconds=2, every=1, size=1)

    assert b"x-sidecar-error: request_body_too_slow\r\n" in client.taken
    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.UPLOAD_TOO_SLOW, None)]


def test_a_body_at_twice_the_floor_may_take_its_time_up_to_the_deadline() -> None:
    road = Road(limits_with(look_in_bytes=200_000))
    client = road.client()
    client.send(HEAD.replace(b"100000", b"900000"))

    trickle(road, client, seconds=600, every=10, size=4800)
    assert road.outcomes == []
    trickle(road, client, seconds=10, every=10, size=4800)

    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.UPLOAD_TIMEOUT, None)]


def test_time_in_which_the_engine_takes_nothing_is_not_the_clients() -> None:
    """The sidecar does not read then, so the client cannot send."""
    pace = UploadPace(0.0)
    for at in range(10, 500, 10):
        assert pace.failure(now(at), 0.0, 100, LIMITS, excused=True) is None

    assert pace.failure(now(505.0), 500.0, 5000, LIMITS, excused=False) is None


def test_an_engine_that_takes_the_upload_in_gulps_is_not_charged_to_its_client() -> None:
    """It takes nothing for four minutes, three times: the client is not read then, and sends at once what it may send."""
    road = Road()
    client = road.client()
    client.send(HEAD.replace(b"100000", b"500000") + b"x" * 100_000)
    for _ in range(3):
        road.engine.room = 0
        client.send(b"x" * 1000)
        assert not client.reading
        for _ in range(250):
            road.traffic.sweep(road.clock.later(1))
        road.engine.take(None)
        road.traffic.sweep(road.clock.later(1))
    assert road.outcomes == []

    trickle(road, client, seconds=500, every=10, size=1)
    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.UPLOAD_TOO_SLOW, None)]


def test_a_floor_of_zero_is_none() -> None:
    limits = limits_with(upload_min_bytes_per_second=0)

    assert UploadPace(0.0).failure(now(590.0), 580.0, 1, limits, excused=False) is None


@pytest.mark.parametrize(("size", "cut"), [(1, True), (900, False)], ids=["a byte a second", "900 bytes a second"])
def test_a_client_must_take_what_waits_for_it_at_the_floor(*, size: int, cut: bool) -> None:
    """240 B/s over a minute, and only while bytes wait here: a slow engine is no slow client."""
    road = Road(limits_with(client_buffer_bytes=65_536))
    client = road.client()
    client.send(b"GET /x HTTP/1.1\r\nHost: pod\r\n\r\n")
    client.room = 0
    road.engine.send(STREAM + b"186a0\r\n" + b"x" * 100_000 + b"\r\n")
    while road.turn():
        pass

    for _ in range(70):
        road.clock.later(1)
        client.take(size)
        road.traffic.sweep(road.clock.now)

    assert client.lost is cut
    ends = [(Outcome.CLIENT_CANCELLED, Failure.CLIENT_TAKES_TOO_SLOWLY, 200)]
    assert road.recordings[0].closed == (ends if cut else [])


def test_a_stream_whose_engine_is_slow_has_no_floor() -> None:
    """A token every 50 s: the client has taken all that there is."""
    road = Road()
    client = road.client()
    client.send(b"GET /x HTTP/1.1\r\nHost: pod\r\n\r\n")
    road.engine.send(STREAM)
    for _ in range(20):
        road.traffic.sweep(road.clock.later(50))
        road.engine.send(b"1\r\nx\r\n")

    assert road.outcomes == []


# --- tunnels -------------------------------------------------------------------------------------------------------------


def test_a_tunnel_without_a_byte_for_an_hour_is_closed() -> None:
    """A byte of either side counts."""
    road = Road()
    client = road.tunnel()
    for say in (client.send, road.engine.send):
        road.traffic.sweep(road.clock.later(3500))
        say(b"ping")
    road.traffic.sweep(road.clock.later(3500))
    assert not client.lost
    road.traffic.sweep(road.clock.later(101))

    assert client.lost
    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.TUNNEL_IDLE, 101)]
    assert road.budgets.tunnels.used == 0


def test_a_tunnel_lives_a_day_at_most() -> None:
    road = Road()
    client = road.tunnel()
    for _ in range(24):
        client.send(b"ping")
        road.traffic.sweep(road.clock.later(3599))
    assert not client.lost
    client.send(b"ping")
    road.traffic.sweep(road.clock.later(100))

    assert road.recordings[0].closed == [(Outcome.REJECTED, Failure.TUNNEL_TOO_OLD, 101)]


def test_tunnels_have_places_of_their_own() -> None:
    """One in four of the requests in flight, by default: of four, one. Requests beside it have all of theirs."""
    road = Road()
    road.tunnel()
    second = road.client()
    second.send(WEBSOCKET)

    assert b"x-sidecar-error: too_many_tunnels\r\n" in second.taken
    assert (road.budgets.tunnels.used, road.budgets.tunnels.exceeded, road.budgets.requests.used) == (1, 1, 0)
