"""Clients that leave take turns too: each of their requests ends once, as what it was when its client left."""

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.read_limit import LOOP_SECONDS
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET, OK, POST
from tests.support.costly import turning
from tests.support.memory import SWITCHED, WEBSOCKET, Road, Socket


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"5\r\ntoken\r\n"


def streams_of(road: Road, count: int) -> tuple[list[Socket], list[Socket]]:
    """So many streams that run: their clients, and their connections to the engine."""
    clients = [road.client() for _ in range(count)]
    for client in clients:
        client.send(GET)
        road.engine.send(CHUNKED + CHUNK)
        road.turns()
    return clients, road.pool.sockets


def test_clients_that_leave_all_at_once_take_turns() -> None:
    """Ten streams whose clients close at the same instant; the end of each costs two fifths of a turn's time. Three of them
    end in a turn of the loop, the others wait in order; a token that came with them passes, and the engine stops for each of them.
    """
    road = turning(end_seconds=LOOP_SECONDS * 0.4)
    (stays, *leaving), (streaming, *engines) = streams_of(road, 11)

    ended = []
    for client in leaving:
        client.end()
    streaming.send(CHUNK)
    ended.append(len(road.outcomes))
    token_passed = stays.taken.endswith(CHUNK * 2)
    while road.turn():
        ended.append(len(road.outcomes))

    assert token_passed
    assert ended == [3, 6, 9, 10, 10]
    assert road.outcomes == [Outcome.CLIENT_CANCELLED] * 10
    assert all(engine.reset for engine in engines)
    assert all(client.lost for client in leaving)
    assert road.in_flight == 1


def test_a_client_that_is_reset_before_its_turn_has_left_once() -> None:
    """The reset comes behind the close: the request ends at it, and the turn finds nothing to end."""
    road = turning(end_seconds=LOOP_SECONDS)
    leaving, _ = streams_of(road, 2)
    for client in leaving:
        client.end()
    waiting = road.in_flight

    leaving[1].lose(ConnectionResetError())
    road.turns()

    assert waiting == 1
    assert road.outcomes == [Outcome.CLIENT_CANCELLED] * 2
    assert road.in_flight == 0


def test_an_answer_that_ends_before_the_turn_of_its_leaving_client_is_an_answer() -> None:
    """Its last bytes came before the sidecar had looked at the client's end: they were sent, and the connection is closed."""
    road = turning(end_seconds=LOOP_SECONDS)
    leaving, engines = streams_of(road, 2)
    for client in leaving:
        client.end()

    engines[1].send(b"0\r\n\r\n")
    road.turns()

    assert road.outcomes == [Outcome.CLIENT_CANCELLED, Outcome.OK]
    assert leaving[1].taken.endswith(b"0\r\n\r\n")
    assert leaving[1].lost


def test_who_left_before_the_grace_was_over_has_cancelled() -> None:
    """Its turn has not come when the requests in flight are cut: its outcome is its own, that of the others is the shutdown."""
    road = turning(end_seconds=LOOP_SECONDS)
    (first, left, _), engines = streams_of(road, 3)
    first.end()
    left.end()

    road.traffic.abandon()
    road.turns()

    assert road.outcomes == [Outcome.CLIENT_CANCELLED, Outcome.CLIENT_CANCELLED, Outcome.SIDECAR_ERROR]
    assert all(engine.reset for engine in engines)
    assert road.in_flight == 0


CANCELLED, UNREAD = [Outcome.CLIENT_CANCELLED], ["request_unread"]
LEFT: dict[str, tuple[bytes, list[Outcome], list[str]]] = {
    "nothing": (b"", [], []),
    "half a request line": (GET[:6], [], UNREAD),
    "half a head": (GET[:-4], [], UNREAD),
    "a request": (GET, CANCELLED, []),
    "a request with its body": (POST, CANCELLED, []),
    "a request with half its body": (POST[:-2], CANCELLED, []),
    "a request and half of another": (GET + POST[:30], CANCELLED, UNREAD),
    "a request and two more": (GET * 3, CANCELLED, UNREAD),
    "a websocket and what belongs to it": (WEBSOCKET + b"early", CANCELLED, []),
}
"""The bytes that came: how their requests end, and what is counted as unread."""


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize(("came", "outcomes", "unread"), LEFT.values(), ids=list(LEFT))
def test_what_a_client_leaves_behind_is_in_one_count(
    came: bytes, outcomes: list[Outcome], unread: list[str], *, reset: bool
) -> None:
    """A request that has begun ends, and what has come of others on its connection is counted once, in however many pieces it is told."""
    road = Road()
    client = road.client()
    if came:
        client.send(came)
    leave(client, reset=reset)
    road.turns()

    assert (road.outcomes, road.dropped) == (outcomes, unread)
    assert road.in_flight == 0


def test_clients_that_leave_before_their_turn_are_counted() -> None:
    """Ten come and leave in one turn of the loop that has time for three of them: each is in exactly one count."""
    road = turning(end_seconds=LOOP_SECONDS * 0.4)
    clients = [road.client() for _ in range(10)]
    for client in clients:
        client.send(GET)
        client.end()
    road.turns()

    assert (road.outcomes, road.dropped) == (CANCELLED * 3, UNREAD * 7)


def test_a_reset_that_is_told_after_the_next_turn_is_counted_too() -> None:
    """uvloop closes the transport at once and tells of it in the next turn of its loop; that of the connection may come before."""
    road = turning(end_seconds=LOOP_SECONDS)
    first, client = road.client(), road.client()
    first.send(GET)
    first.end()
    client.send(GET)
    client._closing = True
    road.turns()
    client.lose(ConnectionResetError())

    assert (road.outcomes, road.dropped) == (CANCELLED, UNREAD)


def test_what_is_answered_or_refused_is_not_counted_as_unread() -> None:
    """An answered client that goes, one whose bytes are no HTTP, and a websocket in which bytes wait."""
    road = Road()
    answered, refused, tunnel = road.client(), road.client(), road.client()
    answered.send(GET)
    road.engine.send(OK)
    refused.send(b"no HTTP\r\n\r\n")
    tunnel.send(WEBSOCKET)
    road.engine.send(SWITCHED)
    tunnel.send(b"bytes")
    for client in (answered, refused, tunnel):
        client.end()

    assert (road.outcomes, road.refused, road.dropped) == ([Outcome.OK] * 2, [Failure.BAD_REQUEST], [])


def leave(client: Socket, *, reset: bool) -> None:
    if reset:
        client.lose(ConnectionResetError())
    else:
        client.end()
