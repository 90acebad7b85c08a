"""Bytes that wait on a connection are counted at what they cost in memory, and given back to the last one."""

from sidecar.budgets.budgets import Kind
from sidecar.proxy.errors import Failure
from sidecar.proxy.waiting import FREE_HEAD_BYTES, PIECE_COST_BYTES
from tests.support.memory import Road, limits_with


GET = b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n"
LONG = limits_with(max_head_bytes=65_536)


def test_a_byte_that_waits_costs_what_its_object_costs() -> None:
    """A thousand pieces of one byte are 64 KB of memory, not 1 KB: then the connection is not read any more."""
    road = Road()
    client = road.client()
    client.send(GET + b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 5000\r\n\r\n")
    before = road.budgets.held.used
    sent = 0
    while client.reading:
        client.send(b"x")
        sent += 1

    assert sent <= 1024
    assert road.budgets.held.used - before == sent * (PIECE_COST_BYTES + 1)
    client.lose()
    assert road.budgets.held.used == 0


def test_requests_that_wait_are_given_back_when_their_turn_comes() -> None:
    road = Road()
    client = road.client()
    client.send(GET * 3)
    assert road.budgets.held.used > 0

    for _ in range(3):
        road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    assert road.budgets.held.used == 0


def test_beyond_the_budget_less_may_wait() -> None:
    """A connection that has more than 8 KiB waiting is not read until its answers are sent; nothing is refused."""
    road = Road(budgets={Kind.HELD_BYTES: 4096})
    client = road.client()
    waiting = 0
    client.send(GET)
    while client.reading:
        client.send(GET)
        waiting += 1

    assert waiting < 12
    for _ in range(waiting + 1):
        road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert client.taken.count(b"200 OK") == waiting + 1
    assert client.reading


def test_a_long_unfinished_head_is_counted_and_refused_where_there_is_no_room() -> None:
    """A short one never is: its first 8 KiB belong to the cost of a connection."""
    road = Road(LONG, budgets={Kind.HELD_BYTES: 20_000})
    first, second, short = road.client(), road.client(), road.client()
    first.send(b"GET / HTTP/1.1\r\nx-long: " + b"a" * 24_000)
    assert road.budgets.held.used == 24_000 + 24 - FREE_HEAD_BYTES
    second.send(b"GET / HTTP/1.1\r\nx-long: " + b"a" * 24_000)
    short.send(GET[:-2])

    assert b"x-sidecar-error: no_room_for_head\r\n" in second.taken
    assert road.refused == [Failure.NO_ROOM_FOR_HEAD]
    short.send(b"\r\n")
    assert road.engine.taken == GET
    first.send(b"\r\nHost: pod\r\n\r\n")
    assert road.refused == [Failure.NO_ROOM_FOR_HEAD]
    second.lose()
    first.lose()
    assert road.budgets.held.used == 0


def test_a_head_of_many_small_fields_is_refused_before_it_is_complete() -> None:
    """Each field costs ten times its text; the limit of fields is not for complete heads alone."""
    road = Road()
    client = road.client()

    client.send(b"GET / HTTP/1.1\r\nHost: pod\r\n" + b"a:b\r\n" * 20)

    assert client.taken.startswith(b"HTTP/1.1 431 ")


def test_a_long_head_that_came_whole_needs_no_room() -> None:
    """It is parsed in pieces, and before the last one it looks unfinished; also where its first part came alone."""
    road = Road(LONG, budgets={Kind.HELD_BYTES: 4000})
    head = GET[:-2] + b"x-long: " + b"a" * 40_000 + b"\r\n\r\n"
    road.client().send(head)
    in_two = road.client()
    in_two.send(head[:12_000])
    assert 0 < road.budgets.held.used < 4000
    in_two.send(head[12_000:])

    assert road.refused == []
    assert [bytes(socket.taken) for socket in road.pool.sockets] == [head, head]
    assert road.budgets.held.used == 0
