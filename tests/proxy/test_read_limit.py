"""At most 64 KiB and 200 us of one connection a turn of the loop: order, counts and a fake clock, in memory and on uvloop."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.proxy.headers import RequestHead
from sidecar.proxy.observer import Observer, Unobserved
from sidecar.proxy.read_limit import (
    FIRST_FED_BYTES,
    LOOP_SECONDS,
    MOST_FED_BYTES,
    MOST_HEADS,
    PARSE_SECONDS,
    TURN_BYTES,
    ReadLimit,
)
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


class Fed(ReadLimit):
    """A connection that records its data; each byte costs `byte_seconds` of the road's clock."""

    def __init__(self, road: Road, byte_seconds: float = 0.0) -> None:
        super().__init__(road.shared.turns)
        self.given: list[bytes] = []
        self.byte_seconds = byte_seconds
        self.then: Callable[[], None] = lambda: None
        self.clock = road.clock
        self.transport = self.far_end = Socket(self)

    def data_received(self, data: bytes) -> None:
        if not self.slicing:
            self.take_in_turn(data)
            return
        self.given.append(data)
        self.clock.later(len(data) * self.byte_seconds)
        self.then()

    @property
    def given_bytes(self) -> int:
        return sum(map(len, self.given))


def turning() -> Road:
    """A road whose loop turns only when the test says so."""
    return Road(turns_by_itself=False)


# --- one relay -------------------------------------------------------------------------------------------------------


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


def test_a_connection_that_had_its_turn_waits_for_the_next_turn_of_the_loop() -> None:
    """A read that was parsed whole was its turn; a second read waits."""
    road = turning()
    fed = Fed(road)

    fed.far_end.send(b"x" * TURN_BYTES)
    fed.far_end.send(b"y" * 2000)
    before = fed.given_bytes
    road.turn()

    assert (before, fed.given_bytes) == (TURN_BYTES, TURN_BYTES + 2000)
    assert fed.far_end.reading


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


# --- turns -----------------------------------------------------------------------------------------------------------


def test_who_costs_200_us_gives_way_and_all_together_cost_half_a_millisecond() -> None:
    """Ten that cost 0.1 us a byte: each has some 2,000 bytes a turn, about three have one before the sockets are polled."""
    road = turning()
    crowd = [Fed(road, 1e-7) for _ in range(10)]
    order: list[int] = []
    for index, fed in enumerate(crowd):
        fed.then = partial(order.append, index)
        fed.far_end.send(b"x" * 20_000)

    took = []
    for _ in range(16):
        began_at = road.clock.now
        road.turn()
        took.append(road.clock.now - began_at)

    runs = [index for index, _ in groupby(order)]
    assert runs[runs.index(9) + 1 :][:20] == [*range(10)] * 2
    assert max(took) < LOOP_SECONDS + 2 * PARSE_SECONDS
    road.turns()
    assert [fed.given_bytes for fed in crowd] == [20_000] * 10


def test_a_token_does_not_wait_for_those_that_wait() -> None:
    """A small read from the engine passes at once, while a flood waits for its turns."""
    road = turning()
    client = road.client()
    client.send(GET)
    flood = Fed(road, 1e-6)
    flood.far_end.send(b"x" * 100_000)
    assert road.shared.turns.busy

    road.engine.send(OK)

    assert client.taken == OK


def test_a_request_waits_while_the_turn_has_no_time_left() -> None:
    """However small its head is: requests cost more than tokens. In the next turn it is served."""
    road = turning()
    client, flood = road.client(), Fed(road, 1e-6)
    flood.far_end.send(b"x" * FIRST_FED_BYTES)

    client.send(GET)
    assert road.pool.sockets == []
    assert not client.reading
    road.turn()

    assert road.engine.taken.startswith(b"GET /health")
    assert client.reading


def test_pieces_shrink_where_bytes_are_dear_and_grow_where_they_are_cheap() -> None:
    """A piece of dear bytes takes about a turn; one of cheap bytes has 16 KiB."""
    road = turning()
    dear, cheap = Fed(road, 1e-7), Fed(road, 1e-10)
    for fed in (dear, cheap):
        fed.far_end.send(b"x" * 200_000)
        road.turns()

    assert max(map(len, dear.given[3:])) * dear.byte_seconds <= 1.25 * PARSE_SECONDS
    assert max(map(len, cheap.given)) == MOST_FED_BYTES
    assert (dear.given_bytes, cheap.given_bytes) == (200_000, 200_000)


def test_a_piece_has_few_heads_even_behind_cheap_bytes() -> None:
    """Requests of 26 bytes behind a long body: the clock has told nothing of them yet."""
    road = turning()
    fed = Fed(road)

    fed.far_end.send(b"x" * TURN_BYTES)
    road.turns()
    fed.far_end.send(b"GET / HTTP/1.1\r\nHost:a\r\n\r\n" * 300)
    road.turns()

    assert max(piece.count(b"\r\n\r\n") for piece in fed.given) == MOST_HEADS
    assert fed.given_bytes == TURN_BYTES + 300 * 26


def test_a_connection_that_closes_itself_is_given_nothing_more() -> None:
    """In the middle of a read, and for good."""
    road = turning()
    fed = Fed(road)
    fed.then = fed.far_end.abort

    fed.far_end.send(b"x" * 5000)
    road.turns()

    assert fed.given_bytes == FIRST_FED_BYTES
    assert fed.unread_bytes == 0


def test_an_error_costs_its_own_connection_alone() -> None:
    """It is closed; the one behind it has its turn."""
    road = turning()
    broken, other = Fed(road), Fed(road)
    broken.far_end.send(b"x" * 2 * TURN_BYTES)
    other.far_end.send(b"y" * 2 * TURN_BYTES)

    def fail() -> None:
        raise ZeroDivisionError

    broken.then = fail
    with pytest.raises(ZeroDivisionError):
        road.turn()
    road.turns()

    assert broken.far_end.reset
    assert other.given_bytes == 2 * TURN_BYTES


STEPS = st.integers(0, 4 * TURN_BYTES) | st.sampled_from(["pause", "resume", "turn", "pause within", "resume within"])


@given(st.lists(STEPS, max_size=30), st.sampled_from([0.0, 1e-9, 1e-7]))
def test_nothing_is_lost_doubled_or_reordered_whatever_pauses_it(scenario: list[int | str], cost: float) -> None:
    """Reads of any size, pauses, resumptions, turns in any order, within a piece or between: the same bytes come out."""
    road = turning()
    fed = Fed(road, cost)
    far_end = fed.far_end
    sent = b""
    for step in scenario:
        given = fed.given_bytes
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
        elif step == "pause within":
            fed.then = fed.pause_reading
        elif step == "resume within":
            fed.then = fed.resume_reading
        assert fed.given_bytes - given <= TURN_BYTES
        assert not (fed.reading_paused and far_end.reading)
    fed.then = lambda: None
    fed.resume_reading()
    road.turns()

    assert b"".join(fed.given) == sent
    assert max(map(len, fed.given), default=0) <= MOST_FED_BYTES
    assert fed.unread_bytes == 0
    assert far_end.reading


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


# --- on uvloop -------------------------------------------------------------------------------------------------------


def test_uvloop_reads_a_stranger_between_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have sent before the loop polls: the second client's head is read before the other's third 64 KiB."""
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
    second = read.index("GET")
    assert sum(what for what in read[:second] if isinstance(what, int)) <= 2 * TURN_BYTES
    assert max(what for what in read if isinstance(what, int)) <= MOST_FED_BYTES
    assert len(read) > second + 3


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
