"""At most 64 KiB of one connection are read per turn of the loop: order and counts, in memory and on uvloop."""

import asyncio
import socket
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Observer, Unobserved
from sidecar.proxy.read_limit import TURN_BYTES, ReadLimit
from sidecar.proxy.upload import Upload
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road, Socket
from tests.support.origin import Origin, Visit, answering
from tests.support.proxy import RawClient, running
from tests.support.scenario_loop import play


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
SIZE = 3 * TURN_BYTES
"""With a head before it, it takes four turns."""


def turns(road: Road) -> int:
    """Run the loop until no turn is scheduled; returns the number of turns."""
    count = 0
    while road.turn():
        count += 1
    return count


def test_a_stranger_is_answered_between_two_parts_of_a_large_upload() -> None:
    """A read of 192 KiB takes four turns of 64 KiB; another client's request in the second turn is answered in it."""
    road = Road()
    large, stranger = road.client(), road.client()
    seen = []

    large.send(POST % SIZE + b"x" * SIZE)
    upload = road.engine
    seen.append(upload.taken.count(b"x"))
    stranger.send(GET)
    road.engine.send(OK)
    assert stranger.taken == OK
    while road.turn():
        seen.append(upload.taken.count(b"x"))

    head = len(POST % SIZE)
    assert seen == [TURN_BYTES - head, 2 * TURN_BYTES - head, 3 * TURN_BYTES - head, SIZE, SIZE]
    assert large.reading


def test_a_stranger_is_answered_between_two_parts_of_a_large_answer() -> None:
    """The same limit holds for the engine's connections."""
    road = Road()
    large, stranger = road.client(), road.client()
    large.send(GET)
    engine = road.engine
    stranger.send(GET)

    engine.send(LONG % SIZE + b"x" * SIZE)
    first = large.taken.count(b"x")
    road.engine.send(OK)

    assert first == TURN_BYTES - len(LONG % SIZE)
    assert stranger.taken == OK
    assert turns(road) == 4
    assert large.taken == LONG % SIZE + b"x" * SIZE
    assert road.outcomes == [Outcome.OK, Outcome.OK]
    assert len(road.pool._idle) == 2


def test_a_read_of_64_kib_is_one_turn() -> None:
    """The limit costs reads within it nothing."""
    road = Road()
    client = road.client()

    client.send(POST % SIZE)
    client.send(b"x" * TURN_BYTES)

    assert client.reading
    assert not road.turn()


def test_a_connection_rests_for_a_whole_turn_behind_the_last_part() -> None:
    """The rest of a read and a new read never share a turn."""
    road = Road()
    client = road.client()

    client.send(POST % SIZE + b"x" * (TURN_BYTES))
    assert not client.reading
    road.turn()
    assert not client.reading
    road.turn()

    assert client.reading


def test_an_upload_that_the_engine_does_not_take_waits_with_its_rest() -> None:
    """Back-pressure also holds bytes already read; once the engine takes bytes again, these come first."""
    road = Road()
    client = road.client()
    client.send(POST % (SIZE + 4))
    road.engine.room = 0

    client.send(b"x" * SIZE)
    assert turns(road) == 1
    assert len(road.engine._unsent) == TURN_BYTES
    assert not client.reading
    road.engine.take(None)
    assert not client.reading
    turns(road)
    client.send(b"last")

    assert road.engine.taken.endswith(b"x" * SIZE + b"last")
    assert client.reading


def test_an_answer_that_its_client_does_not_take_waits_with_its_rest() -> None:
    """The same holds in the other direction."""
    road = Road()
    client = road.client()
    client.send(GET)
    client.room = 0

    road.engine.send(LONG % SIZE + b"x" * SIZE)
    turns(road)
    assert len(client._unsent) == TURN_BYTES
    assert not road.engine.reading
    while not client.taken.endswith(b"x" * SIZE):
        client.take(TURN_BYTES)
        turns(road)

    assert client.taken == LONG % SIZE + b"x" * SIZE
    assert road.outcomes == [Outcome.OK]


def test_an_engine_that_leaves_behind_a_large_read_has_still_said_all_of_it() -> None:
    """Its bytes came before its end: the answer is whole."""
    road = Road()
    client = road.client()

    client.send(GET)
    road.engine.send(LONG % SIZE + b"x" * SIZE)
    road.engine.lose(ConnectionResetError())

    assert client.taken == LONG % SIZE + b"x" * SIZE
    assert road.outcomes == [Outcome.OK]
    turns(road)


def test_a_client_that_leaves_behind_a_large_read_has_left() -> None:
    """The rest of its upload is dropped."""
    road = Road()
    client = road.client()

    client.send(POST % SIZE + b"x" * SIZE)
    client.lose()
    turns(road)

    assert road.engine.reset
    assert road.outcomes == [Outcome.CLIENT_CANCELLED]
    assert road.engine.taken.count(b"x") < TURN_BYTES


def test_a_connection_with_a_rest_behind_its_answer_serves_no_other_request() -> None:
    """The answer ends exactly with the turn, and more was read: it is excess just as if it had been parsed."""
    road = Road()
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
    road = Road()
    client = road.client()
    posts = [POST % 30_000 + b"%d" % number * 30_000 for number in range(8)]

    client.send(b"".join(posts))
    for _ in posts:
        turns(road)
        road.engine.send(OK)

    assert road.engine.taken == b"".join(posts)
    assert client.taken == OK * len(posts)
    assert client.reading


class Fed(ReadLimit):
    """A connection that records its data."""

    def __init__(self, road: Road) -> None:
        super().__init__(road.pool.soon)
        self.given: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.given.append(self.first_part(data) if len(data) > TURN_BYTES else data)


@given(st.lists(st.integers(0, 4 * TURN_BYTES) | st.sampled_from(["pause", "resume", "turn"]), max_size=30))
def test_nothing_is_lost_doubled_or_reordered_whatever_pauses_it(scenario: list[int | str]) -> None:
    """Reads of any size, pauses, resumptions, turns in any order: the same bytes come out, at most 64 KiB at once."""
    road = Road()
    fed = Fed(road)
    fed.transport = far_end = Socket(fed)
    sent = b""
    for step in scenario:
        given = len(fed.given)
        if isinstance(step, int) and far_end.reading:
            data = bytes([len(sent) % 251]) * step
            sent += data
            far_end.send(data)
        elif step == "turn":
            road.turn()
        elif step == "pause":
            fed.pause_reading()
        elif step == "resume":
            fed.resume_reading()
        assert len(fed.given) - given <= 1
        assert not (fed.reading_paused and far_end.reading)
    fed.resume_reading()
    turns(road)

    assert b"".join(fed.given) == sent
    assert max(map(len, fed.given), default=0) <= TURN_BYTES
    assert far_end.reading


def test_uvloop_reads_a_stranger_between_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have sent before the loop polls: the second client's head is read before the other's second 64 KiB."""
    read: list[int | str] = []
    body = Upload.body

    def noted(upload: Upload, data: bytes) -> None:
        read.append(len(data))
        body(upload, data)

    def observe(head: RequestHead) -> Observer:
        read.append(head.method.decode())
        return Unobserved()

    monkeypatch.setattr(Upload, "body", noted)

    async def scenario() -> None:
        async with Origin(answering(OK)).listening() as origin, running(origin.port, observe=observe) as relay:
            large, stranger = await RawClient.connect(relay.port), await RawClient.connect(relay.port)
            large.send(POST % 10_000_000)
            while relay.pool.open_connections == 0:  # noqa: ASYNC110  until the upload goes on as it comes
                await asyncio.sleep(0.001)
            large.send(b"x" * 1_000_000)  # the kernel takes as much of it as it has room for
            stranger.send(GET)
            await stranger.until(b"ok")
            large.leave()
            await stranger.close()

    play(scenario())
    assert [index for index, what in enumerate(read) if isinstance(what, str)] == [0, 2]
    assert max(what for what in read if isinstance(what, int)) <= 65536
    assert len(read) > 3


def test_no_turn_of_uvloop_reads_more_of_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread sends 16 MiB as fast as the kernel takes them; libuv alone would read 8 MB of them in one turn."""
    size, turn = 16 << 20, 0
    read: Counter[int] = Counter()
    body = Upload.body

    def noted(upload: Upload, data: bytes) -> None:
        read[turn] += len(data)
        body(upload, data)

    monkeypatch.setattr(Upload, "body", noted)

    async def listens(visit: Visit) -> None:
        await visit.head()
        await visit.until_left()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with Origin(listens).listening() as origin, running(origin.port) as relay:
            counting = asyncio.create_task(count_turns())
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                await asyncio.to_thread(client.sendall, POST % size + b"x" * size)
                while read.total() < size:  # noqa: ASYNC110  what the kernel still holds
                    await asyncio.sleep(0.001)
            await relay.settled()
            counting.cancel()

    play(scenario())
    assert max(read.values()) <= 65536
