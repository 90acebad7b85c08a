"""The relay in turns: large uploads and answers pass in parts, heads wait while others have the time, and no byte is lost."""

import pytest

from sidecar.proxy.read_limit import FIRST_FED_BYTES, LOOP_SECONDS, MOST_FED_BYTES, TURN_BYTES
from sidecar.timeline.outcome import Outcome
from tests.support.costly import turning
from tests.support.memory import Road


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
SIZE = 3 * TURN_BYTES
"""With a head before it, it takes four turns."""


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"5\r\ntoken\r\n"


def test_a_stranger_is_answered_between_two_parts_of_a_large_upload() -> None:
    """A read of 192 KiB takes four turns of 64 KiB; another client's request, read in the first, is taken in the second."""
    road = turning()
    large, stranger = road.client(), road.client()
    seen = []

    large.send(POST % SIZE + b"x" * SIZE)
    upload = road.engine
    seen.append(upload.taken.count(b"x"))
    stranger.send(GET)
    while road.turn():
        seen.append(upload.taken.count(b"x"))
        if road.engine is not upload and not stranger.taken:
            assert len(seen) == 2
            road.engine.send(OK)
    assert stranger.taken == OK

    head = len(POST % SIZE)
    assert seen == [TURN_BYTES - head, 2 * TURN_BYTES - head, 3 * TURN_BYTES - head, SIZE, SIZE]
    assert large.reading


def test_a_stranger_is_answered_between_two_parts_of_a_large_answer() -> None:
    """The same limit holds for the engine's connections."""
    road = turning()
    large, stranger = road.client(), road.client()
    large.send(GET)
    engine = road.engine
    stranger.send(GET)

    engine.send(LONG % SIZE + b"x" * SIZE)
    first = large.taken.count(b"x")
    road.engine.send(OK)

    assert first == TURN_BYTES - len(LONG % SIZE)
    assert stranger.taken == OK
    assert road.turns() == 4
    assert large.taken == LONG % SIZE + b"x" * SIZE
    assert road.outcomes == [Outcome.OK, Outcome.OK]
    assert len(road.pool._idle) == 2


def test_a_read_of_64_kib_is_one_turn() -> None:
    """It is parsed at once, in pieces of at most 16 KiB, and the transport is not stopped."""
    road = turning()
    client = road.client()

    client.send(POST % SIZE)
    client.send(b"x" * (TURN_BYTES - len(POST % SIZE)))

    assert client.reading
    assert road.engine.taken.endswith(b"x" * (TURN_BYTES - len(POST % SIZE)))


def test_answers_that_come_all_at_once_take_turns() -> None:
    """Ten answers of one read each, in one turn of the loop; each costs two fifths of a turn's time. Three of them are passed on
    in a turn, the others wait in order; a token that came with them passes before those that wait. Work of earlier turns does not count.
    """
    road = turning(head_seconds=LOOP_SECONDS * 0.4)
    stream, *clients = [road.client() for _ in range(11)]
    stream.send(GET)
    road.engine.send(CHUNKED + CHUNK)
    road.turns()
    for client in clients:
        client.send(GET)
    road.turns()
    streaming, *engines = road.pool.sockets

    seen = []
    for engine in engines:
        engine.send(OK)
    streaming.send(CHUNK)
    seen.append([client.taken == OK for client in clients].count(True))
    token_passed = stream.taken.endswith(CHUNK * 2)
    while road.turn():
        seen.append([client.taken == OK for client in clients].count(True))

    assert token_passed
    assert seen == [3, 6, 9, 10, 10]
    assert road.outcomes == [Outcome.OK] * 10
    assert all(engine.reading for engine in engines)


def test_the_head_of_an_answer_does_not_wait_for_all_floods() -> None:
    """Ten long answers have taken the time of this turn and wait for the next one; the head has that turn with the first."""
    road = turning(head_seconds=LOOP_SECONDS * 0.4)
    client, *flooded = [road.client() for _ in range(11)]
    for each in (client, *flooded):
        each.send(GET)
    road.turns()
    engine, *flooding = road.pool.sockets
    for each in flooding:
        each.send(LONG % SIZE + b"x" * SIZE)

    engine.send(OK)
    before = bytes(client.taken)
    road.turn()

    assert (before, bytes(client.taken)) == (b"", OK)
    assert any(not each.taken for each in flooded)


def test_an_upload_that_the_engine_does_not_take_waits_with_its_rest() -> None:
    """Back-pressure also holds bytes already read; once the engine takes bytes again, these come first."""
    road = turning()
    client = road.client()
    client.send(POST % (SIZE + 4))
    road.turns()
    road.engine.room = 0

    client.send(b"x" * SIZE)
    road.turns()
    assert len(road.engine._unsent) <= MOST_FED_BYTES
    assert not client.reading
    road.engine.take(None)
    assert not client.reading
    road.turns()
    client.send(b"last")

    assert road.engine.taken.endswith(b"x" * SIZE + b"last")
    assert client.reading


def test_an_answer_that_its_client_does_not_take_waits_with_its_rest() -> None:
    """The same holds in the other direction."""
    road = turning()
    client = road.client()
    client.send(GET)
    client.room = 0

    road.engine.send(LONG % SIZE + b"x" * SIZE)
    road.turns()
    assert len(client._unsent) <= MOST_FED_BYTES
    assert not road.engine.reading
    while not client.taken.endswith(b"x" * SIZE):
        client.take(TURN_BYTES)
        road.turns()

    assert client.taken == LONG % SIZE + b"x" * SIZE
    assert road.outcomes == [Outcome.OK]


def test_what_comes_of_an_upload_before_the_turn_of_its_rest_comes_behind_it() -> None:
    """The engine takes bytes again, and the client is read on at once: its rest is short."""
    road = turning()
    client = road.client()
    client.send(POST % 3000)
    road.engine.room = 0
    client.send(b"a" * FIRST_FED_BYTES + b"b" * 1000)

    road.engine.take(None)
    client.send(b"c" * 976)
    road.turns()

    assert road.engine.taken.endswith(b"\r\n\r\n" + b"a" * FIRST_FED_BYTES + b"b" * 1000 + b"c" * 976)


def test_what_comes_of_an_answer_before_the_turn_of_its_rest_comes_behind_it() -> None:
    """The client takes bytes again, and the engine is read on at once: its rest is short."""
    road = turning()
    client = road.client()
    client.send(GET)
    client.room = 0
    road.engine.send(LONG % 3000 + b"a" * 1500)

    client.take(None)
    road.engine.send(b"c" * 900)
    road.turns()
    road.engine.send(b"d" * 600)

    assert client.taken == LONG % 3000 + b"a" * 1500 + b"c" * 900 + b"d" * 600


def test_an_engine_that_leaves_behind_a_large_read_has_still_said_all_of_it() -> None:
    """Its bytes came before its end: the answer is whole, in turns like any other, and its client may take its time."""
    road = turning()
    client = road.client()

    client.send(GET)
    client.room = 0
    road.engine.send(LONG % SIZE + b"x" * SIZE)
    road.engine.lose(ConnectionResetError())
    road.turns()
    assert road.outcomes == []
    while not client.taken.endswith(b"x" * SIZE):
        client.take(TURN_BYTES)
        road.turns()

    assert client.taken == LONG % SIZE + b"x" * SIZE
    assert road.outcomes == [Outcome.OK]
    assert road.pool.open_connections == 0


def test_a_short_answer_that_waits_for_its_turn_outlives_its_engine() -> None:
    """Its connection is read on while it waits, so the engine's close comes before its turn."""
    road = turning(head_seconds=LOOP_SECONDS)
    first, second = road.client(), road.client()
    first.send(GET)
    second.send(GET)
    engines = road.pool.sockets

    engines[0].send(OK)
    engines[1].send(OK)
    waiting = bytes(second.taken)
    engines[1].end()
    road.turns()

    assert waiting == b""
    assert second.taken == OK
    assert road.outcomes == [Outcome.OK, Outcome.OK]


def test_an_early_answer_that_was_read_outlives_a_failed_write() -> None:
    """The engine answers 413 and closes; the upload's next write fails while most of the answer waits for its turn."""
    road = turning()
    client = road.client()

    client.send(POST % 50_000 + b"u" * 100)
    engine = road.engine
    engine.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: %d\r\n\r\n" % SIZE + b"x" * SIZE)
    engine._closing = True  # as uvloop does at once; it tells of the loss in a later turn
    road.turns()
    engine.lost = True
    engine.protocol.connection_lost(BrokenPipeError())
    road.turns()

    assert client.taken.endswith(b"\r\n\r\n" + b"x" * SIZE)
    assert road.outcomes == [Outcome.CLIENT_ERROR]
    assert road.pool.open_connections == 0


def test_an_engine_that_leaves_behind_half_an_answer_has_broken_off() -> None:
    """The half goes to the client first."""
    road = turning()
    client = road.client()

    client.send(GET)
    road.engine.send(LONG % (SIZE + 1) + b"x" * SIZE)
    road.engine.end()
    road.turns()

    assert client.taken == LONG % (SIZE + 1) + b"x" * SIZE
    assert road.outcomes == [Outcome.ENGINE_TRUNCATED]
    assert road.pool.open_connections == 0


def test_who_leaves_a_lost_engines_unread_answer_behind_leaves_nothing_open() -> None:
    """The client goes while bytes of a connection that is gone wait for it."""
    road = turning()
    client = road.client()

    client.send(GET)
    client.room = 0
    road.engine.send(LONG % SIZE + b"x" * SIZE)
    road.engine.lose()
    client.lose()
    road.turns()

    assert road.outcomes == [Outcome.CLIENT_CANCELLED]
    assert road.pool.open_connections == 0


def test_a_client_that_leaves_behind_a_large_read_has_left() -> None:
    """The rest of its upload is dropped."""
    road = turning()
    client = road.client()

    client.send(POST % SIZE + b"x" * SIZE)
    client.lose()
    road.turns()

    assert road.engine.reset
    assert road.outcomes == [Outcome.CLIENT_CANCELLED]
    assert road.engine.taken.count(b"x") < TURN_BYTES


def test_a_connection_with_a_rest_behind_its_answer_serves_no_other_request() -> None:
    """The answer ends exactly with the turn, and more was read: it is excess just as if it had been parsed."""
    road = turning()
    client = road.client()
    size = TURN_BYTES - len(LONG % 10_000)

    client.send(GET)
    first = road.engine
    first.send(LONG % size + b"x" * size + OK)
    client.send(GET)

    assert client.taken == LONG % size + b"x" * size
    assert first.lost
    assert len(road.pool.sockets) == 2


def test_pipelined_requests_that_were_read_at_once_are_answered_in_order() -> None:
    """Turns cut their heads, and each request is answered whole."""
    road = turning()
    client = road.client()
    posts = [POST % 30_000 + b"%d" % number * 30_000 for number in range(8)]

    client.send(b"".join(posts))
    for _ in posts:
        road.turns()
        road.engine.send(OK)

    assert road.engine.taken == b"".join(posts)
    assert client.taken == OK * len(posts)
    assert client.reading


def test_upgrades_that_are_not_supported_may_follow_each_other_without_end() -> None:
    """Each ends llhttp's reading, and the rest is given again: three hundred in one read, each answered."""
    road = Road()
    client = road.client()
    upgrade = b"GET / HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"

    client.send(upgrade * 300)
    for _ in range(300):
        road.engine.send(OK)

    assert client.taken == OK * 300
    assert client.reading


@pytest.mark.parametrize("size", [1, 7, None])
def test_a_message_is_the_same_at_every_split(size: int | None) -> None:
    """Byte by byte, and in two reads, the second of which waits for a turn."""
    message = POST % 5000 + bytes(range(250)) * 20
    for cut in [0] if size else range(1, len(message), 97):
        road = Road()
        client = road.client()
        if size:
            client.send(message, size)
        else:
            client.send(message[:cut])
            client.send(message[cut:])
        road.engine.send(OK)
        assert road.engine.taken == message
        assert client.taken == OK
