"""At most 64 KiB and 200 us of one connection a turn of the loop: order, counts and a fake clock."""

from collections.abc import Callable
from functools import partial
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.proxy.read_limit import (
    FIRST_FED_BYTES,
    LOOP_SECONDS,
    MOST_FED_BYTES,
    MOST_HEADS,
    PARSE_SECONDS,
    SMALL_BYTES,
    TURN_BYTES,
    ReadLimit,
)
from tests.support.memory import Road, Socket


GET = b"GET /health HTTP/1.1\r\nHost: pod\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


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


@pytest.mark.reaches_in
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


@pytest.mark.reaches_in
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


@pytest.mark.reaches_in
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


@pytest.mark.reaches_in
def test_a_request_waits_while_the_turn_has_no_time_left() -> None:
    """However small its head is: requests cost more than tokens. In the next turn it is served, its pieces in order."""
    road = turning()
    client, flood = road.client(), Fed(road, 1e-6)
    flood.far_end.send(b"x" * FIRST_FED_BYTES)

    client.send(GET, size=7)
    assert road.pool.sockets == []
    road.turn()

    assert road.engine.taken.startswith(b"GET /health")
    assert client.reading


def test_little_work_does_not_count_for_later_turns() -> None:
    """Ten heads of two fifths of a turn's time, each in a turn of its own: none waits. The third of a turn takes the last of it."""
    road = turning()
    turns, waited = road.shared.turns, []
    for head in range(13):
        began_at = road.clock.now
        road.clock.later(LOOP_SECONDS * 0.4)
        turns.spend(began_at)
        waited.append(turns.busy)
        if head < 10:
            road.turn()

    assert waited == [False] * 12 + [True]


@pytest.mark.reaches_in
def test_a_connection_whose_small_read_waits_stops_when_more_comes() -> None:
    road = turning()
    client, flood = road.client(), Fed(road, 1e-6)
    flood.far_end.send(b"x" * FIRST_FED_BYTES)

    client.send(GET)
    assert client.reading
    client.send(b"x" * SMALL_BYTES)

    assert not client.reading


@pytest.mark.reaches_in
def test_a_small_read_that_waits_is_given_in_one_piece() -> None:
    """However dear the bytes before it were: an answer in two pieces is written twice, and its events are read on the long way."""
    road = turning()
    dear, flood = Fed(road, 1e-6), Fed(road, 1e-6)
    dear.far_end.send(b"x" * (SMALL_BYTES + FIRST_FED_BYTES))
    road.turns()
    flood.far_end.send(b"x" * FIRST_FED_BYTES)

    dear.far_end.send(b"y" * SMALL_BYTES)
    waits = dear.given[-1][:1]
    road.turns()

    assert len(dear.given[1]) < SMALL_BYTES
    assert (waits, dear.given[-1]) == (b"x", b"y" * SMALL_BYTES)


@pytest.mark.reaches_in
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


@pytest.mark.reaches_in
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


@pytest.mark.reaches_in
def test_a_connection_that_closes_itself_is_given_nothing_more() -> None:
    """In the middle of a read, and for good."""
    road = turning()
    fed = Fed(road)
    fed.then = fed.far_end.abort

    fed.far_end.send(b"x" * 5000)
    road.turns()

    assert fed.given_bytes == FIRST_FED_BYTES
    assert fed.unread_bytes == 0


@pytest.mark.reaches_in
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


@pytest.mark.reaches_in
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
