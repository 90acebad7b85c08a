"""The gate of uploads: unfinished requests keep no other client out, and the slowest of them makes room."""

import pytest

from sidecar.budgets.budgets import Kind
from sidecar.proxy.errors import Failure
from sidecar.proxy.gate import COMPARED, Members
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road, Socket


CHAT = b"/v1/chat/completions"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def upload(path: bytes, size: int, body: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (path, size, body)


def test_unfinished_requests_take_no_place_of_those_in_flight() -> None:
    """Twenty heads without bodies, four places, and a whole request that comes after them is answered."""
    road = Road()
    clients = [road.client() for _ in range(20)]
    for number, client in enumerate(clients):
        client.send(upload(CHAT if number % 2 else b"/x", 10))

    innocent = road.client()
    innocent.send(upload(CHAT, 4, b"body"))
    road.engine.send(OK)

    assert innocent.taken == OK
    assert (road.budgets.uploads.used, road.budgets.requests.used) == (20 - road.budgets.uploads.exceeded, 0)


def test_when_the_gate_is_full_the_slowest_upload_makes_room() -> None:
    """The one that comes is never refused; the one that goes is told so, and is not counted against the engine."""
    road = Road(budgets={Kind.UPLOADS: 2})
    still, moving, late = road.client(), road.client(), road.client()
    still.send(upload(CHAT, 100))
    moving.send(upload(CHAT, 100))
    road.clock.later(1)
    moving.send(b"x")
    road.clock.later(1)
    late.send(upload(CHAT, 100, b"y"))

    assert still.taken.startswith(b"HTTP/1.1 408 ")
    assert b"x-sidecar-error: made_room\r\n" in still.taken
    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.MADE_ROOM, None)]
    assert moving.taken + late.taken == b""
    assert (road.budgets.uploads.used, road.budgets.uploads.exceeded) == (2, 1)


def test_dripping_uploads_throw_out_none_that_sends_steadily() -> None:
    """They send a byte each 0.1 s, and one that is thrown out is opened again; the steady one sends 8 KiB each 0.3 s."""
    road = Road(budgets={Kind.UPLOADS: 8})

    def drip() -> Socket:
        client = road.client()
        client.send(upload(CHAT, 100_000))
        return client

    drips = [drip() for _ in range(8)]
    road.clock.later(5)
    steady = road.client()
    steady.send(upload(CHAT, 81_920))
    engines = len(road.pool.sockets)
    for tenth in range(28):
        if tenth % 3 == 0:
            steady.send(b" " * 8192)
        drips = [drip() if client.lost or client.ended else client for client in drips]
        for client in drips:
            if not client.ended:
                client.send(b"x")
        road.clock.later(0.1)
    road.pool.sockets[engines].send(OK)

    assert steady.taken == OK
    assert road.budgets.uploads.exceeded > 20


def test_an_upload_is_not_slow_before_its_first_byte_can_be_here() -> None:
    """The others are old, and just above the lowest rate that is allowed."""
    road = Road(budgets={Kind.UPLOADS: 2})
    first, second = road.client(), road.client()
    for client in (first, second):
        client.send(upload(b"/x", 100_000))
    for _ in range(20):
        road.clock.later(1)
        for client in (first, second):
            client.send(b"x" * 250)
    new = road.client()
    new.send(upload(b"/x", 100_000))
    road.clock.later(2)

    road.client().send(upload(b"/x", 100_000))

    assert (first.ended, second.ended, new.ended) == (True, True, False)


@pytest.mark.parametrize("count", [1, COMPARED, COMPARED + 1, 1000])
def test_the_lowest_member_is_found_in_turns(count: int) -> None:
    """One call compares few, and after some calls the lowest of all is in front, wherever it stood."""
    members = Members[int]()
    for number in range(count, 0, -1):
        members.add(number)
    compared: list[int] = []

    def key(number: int) -> tuple[bool, float]:
        compared.append(number)
        return False, number

    found = [members.lowest(key) for _ in range(2 * count // COMPARED + 2)]

    assert (found[-1], set(compared)) == (1, set(range(1, count + 1)))
    assert len(compared) <= COMPARED * len(found)
    members.discard(1)
    members.discard(1)
    assert (1 in members, Members[int]().lowest(key)) == (False, None)


def test_an_upload_that_the_sidecar_does_not_read_goes_last() -> None:
    """It stands still because the engine takes nothing; its client is not at fault. Where all are so, the oldest goes."""
    road = Road(budgets={Kind.UPLOADS: 2})
    fast, trickles = road.client(), road.client()
    fast.send(upload(b"/fast", 50_000))
    stopped = road.engine
    stopped.room = 100
    fast.send(b"a" * 1000)
    assert not fast.reading
    road.clock.later(1)
    trickles.send(upload(b"/slow", 50_000))
    road.clock.later(1)

    road.client().send(upload(b"/third", 50_000))
    assert fast.taken == b""
    assert b"x-sidecar-error: made_room\r\n" in trickles.taken

    road.engine.room = 0
    road.engine.protocol.pause_writing()
    road.client().send(upload(b"/fourth", 50_000))
    assert b"x-sidecar-error: made_room\r\n" in fast.taken


def test_a_request_that_came_in_one_piece_never_passes_the_gate() -> None:
    road = Road(budgets={Kind.UPLOADS: 1})
    for _ in range(3):
        road.client().send(upload(CHAT, 4, b"body"))

    assert (road.budgets.uploads.used, road.budgets.uploads.exceeded) == (0, 0)
    assert road.budgets.requests.used == 3


def test_every_place_is_given_back_whatever_the_end() -> None:
    """The client leaves in mid-upload, the upload stops, the engine dies, the request is answered."""
    road = Road()
    leaves, stops, dies, whole = (road.client() for _ in range(4))
    leaves.send(upload(CHAT, 10, b"a"))
    stops.send(upload(b"/x", 10, b"a"))
    leaves.lose()
    road.traffic.sweep(road.clock.later(61))
    dies.send(upload(CHAT, 1, b"a"))
    road.engine.lose(ConnectionResetError())
    whole.send(upload(CHAT, 10, b"a"))
    whole.send(b"b" * 9)
    road.engine.send(OK)

    assert whole.taken == OK
    budgets = road.budgets
    assert (budgets.uploads.used, budgets.requests.used, budgets.held.used) == (0, 0, 0)


def test_an_upload_that_streams_to_the_engine_takes_its_place_when_it_is_whole() -> None:
    """Nothing of it can be answered before; then it counts as every other request."""
    road = Road()
    client = road.client()
    client.send(upload(b"/x", 4, b"bo"))
    assert (road.budgets.uploads.used, road.budgets.requests.used) == (1, 0)

    client.send(b"dy")
    assert (road.budgets.uploads.used, road.budgets.requests.used) == (0, 1)
