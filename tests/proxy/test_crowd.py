"""Which connection goes when a further one finds no room, and what a peer's share is."""

import errno

from sidecar.budgets.budgets import Kind
from sidecar.proxy.errors import Failure
from tests.support.memory import Road, Socket, limits_with


GET = b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_the_connection_that_was_idle_longest_makes_room() -> None:
    """One that was answered since is younger than one that only opened."""
    road = Road(budgets={Kind.CONNECTIONS: 2})
    first, second = road.client(), road.client()
    first.send(GET)
    road.engine.send(OK)

    third = road.client()

    assert [client.lost for client in (first, second, third)] == [False, True, False]
    assert (len(road.shared.crowd), road.budgets.connections.used, road.budgets.connections.exceeded) == (2, 2, 1)


def test_a_connection_with_a_request_is_never_closed_for_another() -> None:
    """Then the one that comes is told to come back, and nothing of its bytes is read."""
    road = Road(budgets={Kind.CONNECTIONS: 2})
    busy = [road.client(), road.client()]
    for client in busy:
        client.send(GET)

    late = road.client()

    assert late.taken.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in late.taken
    assert road.refused == [Failure.TOO_MANY_CONNECTIONS]
    assert [client.lost for client in (*busy, late)] == [False, False, True]


def test_an_unfinished_head_goes_before_a_request_but_after_an_idle_connection() -> None:
    road = Road(budgets={Kind.CONNECTIONS: 2})
    unfinished, idle = road.client(), road.client()
    unfinished.send(b"GET / HT")

    road.client()
    assert (unfinished.lost, idle.lost) == (False, True)
    newest = road.client()
    newest.send(GET)
    other = road.client()
    other.send(GET)

    assert unfinished.lost
    assert road.refused == [Failure.MADE_ROOM]


def test_where_all_have_requests_an_unfinished_upload_makes_room() -> None:
    road = Road(budgets={Kind.CONNECTIONS: 1})
    upload = road.client()
    upload.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 9\r\n\r\n")

    innocent = road.client()
    innocent.send(GET)
    road.engine.send(OK)

    assert b"x-sidecar-error: made_room\r\n" in upload.taken
    assert innocent.taken == OK


def test_a_connection_whose_file_is_one_of_those_kept_is_closed_at_once() -> None:
    """The kernel gives the lowest free number: a high one says that the files for traffic are used up."""
    road = Road()
    idle = road.client()
    limit = road.budgets.files.limit

    late = _client_with_file(road, limit)

    assert (late.lost, idle.lost) == (True, True)
    assert (road.budgets.files.exceeded, road.refused) == (1, [Failure.TOO_MANY_CONNECTIONS])
    assert not _client_with_file(road, limit - 1).lost


def test_a_peer_may_have_its_share_and_no_more_where_the_config_says_so() -> None:
    """Off by default: all clients of an ingress come from its one address."""
    road = Road(limits_with(max_connections_per_peer=2))
    same = [_client_from(road, "10.0.0.1") for _ in range(3)]
    other = _client_from(road, "10.0.0.2")

    assert [client.lost for client in (*same, other)] == [False, False, True, False]
    assert road.refused == [Failure.TOO_MANY_OF_ONE_PEER]
    same[0].lose()
    assert not _client_from(road, "10.0.0.1").lost


def test_a_peer_that_reset_before_it_was_accepted_is_let_go_like_any_other() -> None:
    """Its socket has no address any more. An error here would leave its file open, and its place taken."""
    road = Road(limits_with(max_connections_per_peer=2))

    gone = [_client_from(road, None) for _ in range(3)]
    for client in gone:
        client.lose(ConnectionResetError())

    assert (len(road.shared.crowd), road.budgets.connections.used, road.refused) == (0, 0, [])


def test_a_request_that_waits_for_its_turn_is_not_closed_for_another() -> None:
    """The one before it is answered; the turn in which it is taken comes after the new connection."""
    road = Road(budgets={Kind.CONNECTIONS: 1}, turns_by_itself=False)
    client = road.client()
    client.send(GET)
    client.send(GET)
    road.engine.send(OK)

    late = road.client()
    road.turns()
    road.engine.send(OK)

    assert late.taken.startswith(b"HTTP/1.1 503 ")
    assert client.taken == OK * 2
    road.client()
    assert client.lost


class _Known(Socket):
    """A fake transport that has a number, or an address."""

    file = 9
    peer: str | None = "10.0.0.1"

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self if name == "socket" else default

    def getpeername(self) -> tuple[str, int]:
        if self.peer is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self.peer, 4321

    def fileno(self) -> int:
        return self.file

    def setsockopt(self, *_option: object) -> None: ...

    def getsockopt(self, *_option: object) -> bytes:
        return b""


def _client_with_file(road: Road, file: int) -> Socket:
    connection = road.traffic.connection()
    socket = _Known(connection)
    socket.file = file
    connection.connection_made(socket)
    return socket


def _client_from(road: Road, peer: str | None) -> Socket:
    connection = road.traffic.connection()
    socket = _Known(connection)
    socket.peer = peer
    connection.connection_made(socket)
    return socket
