"""Clients that leave take turns too: each of their requests ends once, as what it was when its client left."""

from sidecar.proxy.read_limit import LOOP_SECONDS
from sidecar.timeline.outcome import Outcome
from tests.proxy.sample_messages import GET
from tests.support.costly import turning
from tests.support.memory import Road, Socket


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
