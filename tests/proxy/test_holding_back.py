"""Bytes of a client that is not read: they are counted, and its upload stands at the gate as what it is."""

from collections.abc import Callable

import pytest

from sidecar.budgets.budgets import Kind
from sidecar.proxy.leavers import Leavers
from sidecar.proxy.read_limit import TURN_BYTES
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road


GET = b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST /%b HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
SIZE = 3 * TURN_BYTES


def test_what_was_read_of_a_client_that_is_read_no_further_is_counted_as_held() -> None:
    """One read is up to 256,000 bytes; all of it stays in memory while the engine does not take the upload."""
    road = Road()
    client = road.client()
    client.send(POST % (b"a", SIZE))
    road.engine.room = 0

    client.send(b"x" * SIZE)
    assert not client.reading
    assert road.budgets.held.used == SIZE

    road.engine.take(None)
    road.turns()
    assert road.budgets.held.used == 0
    assert road.engine.taken.count(b"x") == SIZE


def test_what_is_held_of_a_client_that_leaves_is_given_back() -> None:
    """Its pipeline is full, and the rest of its last read waits behind that."""
    road = Road()
    client = road.client()
    client.send(GET * 7000)
    assert road.budgets.held.used > len(GET * 7000)

    client.lose()

    assert road.budgets.held.used == 0


@pytest.mark.reaches_in
def test_a_client_that_leaves_between_an_answer_and_its_next_turn_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pipeline is full, so it is not read; the kernel's word comes while none of its requests is being answered."""
    told: list[Callable[[], None]] = []
    monkeypatch.setattr(Leavers, "watch", lambda _leavers, _socket, left: told.append(left))
    road = Road(turns_by_itself=False)
    client = road.client()
    monkeypatch.setattr(client, "get_extra_info", lambda _name, _default=None: object())
    client.send(GET * 7000)
    while client.reading and road.turn():
        pass
    (left,) = told
    road.engine.send(OK)
    assert road.in_flight == 0

    left()

    road.turns()
    assert client.lost
    assert road.outcomes == [Outcome.OK]
    assert road.budgets.held.used == 0


def test_an_upload_that_came_whole_ends_no_other_however_long_it_is() -> None:
    """It is parsed in pieces, the last of them some turns later; it never stood at the gate."""
    road = Road(budgets={Kind.UPLOADS: 1})
    slow, whole = road.client(), road.client()
    slow.send(POST % (b"slow", 5000))

    whole.send(POST % (b"whole", SIZE) + b"x" * SIZE)

    assert slow.taken == b""
    assert (road.budgets.uploads.used, road.budgets.uploads.exceeded) == (1, 0)
    assert road.engine.taken.count(b"x") == SIZE


def test_an_upload_that_came_whole_behind_another_request_ends_no_other_either() -> None:
    """Its head waited, and its body is in the read that was stopped: in its turn it is taken whole."""
    road = Road(budgets={Kind.UPLOADS: 1})
    slow, client = road.client(), road.client()
    slow.send(POST % (b"slow", 5000))

    client.send(GET + POST % (b"whole", SIZE) + b"x" * SIZE)
    engine = road.engine
    engine.send(OK)

    assert slow.taken == b""
    assert road.budgets.uploads.exceeded == 0
    assert engine.taken.count(b"x") == SIZE


def test_a_malformed_upload_ends_no_other() -> None:
    """It is refused at once, and needs no place."""
    road = Road(budgets={Kind.UPLOADS: 1})
    slow, bad = road.client(), road.client()
    slow.send(POST % (b"slow", 5000))

    bad.send(b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")

    assert bad.taken.startswith(b"HTTP/1.1 400 ")
    assert slow.taken == b""


def test_an_upload_that_the_engine_stops_half_read_stands_at_the_gate() -> None:
    """It is not whole, and may stop for long; that half of it was read makes no difference."""
    road = Road(turns_by_itself=False)
    client = road.client()
    client.send(POST % (b"a", SIZE) + b"x" * SIZE)
    assert road.budgets.uploads.used == 0

    road.engine.protocol.pause_writing()

    assert road.budgets.uploads.used == 1
    road.engine.protocol.resume_writing()
    road.turns()
    assert (road.budgets.uploads.used, road.budgets.requests.used) == (0, 1)
