"""The relay of the soak passes every byte in order, breaks what it is told to, and counts what it broke."""

import asyncio
import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.soak.chaos_relay import ChaosRelay, End
from bench.soak.faults import INJURES, MOST_SECONDS, Fault, Kind, Side, cut, delivered, drawn


def fault(kind: Kind, seconds: float = 2.0) -> Fault:
    return Fault(kind, Side.CLIENT, 1.0, seconds, 0.25, 1000.0, 7)


# --- the plan, without sockets -------------------------------------------------------------------------------------------


@given(
    data=st.binary(min_size=1, max_size=5000), kind=st.sampled_from(sorted(set(Kind) - INJURES)), behind=st.floats(0, 5)
)
def test_a_delay_keeps_all_bytes_and_their_order(data: bytes, kind: Kind, behind: float) -> None:
    pieces = delivered(data, fault(kind), 10.0, 12.0, 10.0 + behind)

    assert b"".join(piece for _, piece in pieces) == data
    assert [at for at, _ in pieces] == sorted(at for at, _ in pieces)
    assert pieces[0][0] >= 10.0 + behind


@given(data=st.binary(max_size=300), seed=st.integers(0, 1000))
def test_an_engines_cuts_keep_all_bytes(data: bytes, seed: int) -> None:
    pieces = cut(data, random.Random(seed))

    assert b"".join(pieces) == data
    assert len(pieces) == 1 or all(pieces)


def test_an_engine_cuts_behind_a_size_line_beside_it_and_anywhere_and_leaves_most_writes_whole() -> None:
    data = b"9\r\ndata: 1\n\n\r\n"
    draw = random.Random(1)

    drawn_cuts = Counter(tuple(map(len, cut(data, draw))) for _ in range(4000))

    assert {(3, 11), (2, 12), (3, 1, 10), (3, 9, 2)} <= drawn_cuts.keys()
    assert all((place, len(data) - place) in drawn_cuts for place in range(1, len(data)))
    assert drawn_cuts[len(data),] > 3000


def test_each_delay_is_the_one_that_it_says() -> None:
    def due(kind: Kind) -> list[tuple[float, int]]:
        return [(round(at, 3), len(piece)) for at, piece in delivered(b"x" * 500, fault(kind), 10.0, 12.0, 0.0)]

    assert due(Kind.LATENCY) == [(10.25, 500)]
    assert due(Kind.STOP) == [(12.0, 500)]
    assert due(Kind.BANDWIDTH) == [(10.5, 500)]
    assert len(due(Kind.SLICING)) > 3
    assert delivered(b"x", fault(Kind.STOP), 12.0, 12.0, 0.0) == [(12.0, b"x")], "it is over"


def test_a_seed_draws_the_same_faults_again_and_each_kind_as_often_on_each_side() -> None:
    faults = list(itertools.islice(drawn(3), 24))

    assert faults == list(itertools.islice(drawn(3), 24))
    assert faults != list(itertools.islice(drawn(4), 24))
    assert set(Counter((each.kind, each.side) for each in faults).values()) == {2}
    assert len({(each.kind, each.side) for each in faults}) == 12
    assert all(each.seconds <= MOST_SECONDS for each in faults)
    assert Fault.from_words(faults[0].as_words()) == faults[0]


# --- the relay, on transports that keep what they get --------------------------------------------------------------------


class Kept:
    """A transport: its bytes, and what was done to it."""

    def __init__(self) -> None:
        self.written = b""
        self.did: list[str] = []

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return "abort" in self.did or "close" in self.did

    def can_write_eof(self) -> bool:
        return True

    def get_extra_info(self, _: str) -> "Kept":
        return self

    def __getattr__(self, name: str) -> object:
        return lambda *_: self.did.append(name)


class Connection:
    """One connection through a relay whose clock stands still until it is told."""

    def __init__(self) -> None:
        self.relay = ChaosRelay(0)
        self.now = 100.0
        self.due: list[tuple[float, object]] = []
        self.relay.clock = lambda: self.now
        self.relay.call_later = self._later  # type: ignore[assignment]
        self.client, self.target = Kept(), Kept()
        self.accepted, self.onward = End(self.relay), End(self.relay)
        self.relay.came = lambda accepted: None  # type: ignore[method-assign] # noqa: ARG005
        self.accepted.connection_made(self.client)  # type: ignore[arg-type]
        self.onward.peer = self.accepted
        self.onward.connection_made(self.target)  # type: ignore[arg-type]

    def joined(self) -> "Connection":
        self.relay._open[self.accepted] = self.onward
        self.accepted.joined(self.onward)
        return self

    def _later(self, seconds: float, work: object) -> "Connection":
        self.due.append((self.now + seconds, work))
        return self

    def cancel(self) -> None:
        self.due.clear()

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for at, work in list(self.due):
            if at <= self.now + 1e-9:
                self.due.remove((at, work))
                work()  # type: ignore[operator]


def test_what_came_before_the_way_was_open_goes_first() -> None:
    connection = Connection()
    connection.accepted.data_received(b"a")
    connection.joined()
    connection.accepted.data_received(b"b")
    connection.onward.data_received(b"c")

    assert (connection.target.written, connection.client.written) == (b"ab", b"c")


def test_a_latency_holds_bytes_back_and_bytes_behind_it_never_pass_them() -> None:
    connection = Connection().joined()
    connection.accepted.suffer(fault(Kind.LATENCY, seconds=0.1))
    connection.accepted.data_received(b"late")
    connection.now += 0.15
    connection.accepted.data_received(b" behind")
    assert connection.target.written == b""

    connection.wait(0.1)

    assert connection.target.written == b"late behind"
    connection.accepted.data_received(b" free")
    assert connection.target.written == b"late behind free"


def test_an_end_waits_for_the_bytes_before_it() -> None:
    connection = Connection().joined()
    connection.accepted.suffer(fault(Kind.STOP))
    connection.accepted.data_received(b"last")
    assert connection.accepted.eof_received()
    assert "write_eof" not in connection.target.did

    connection.wait(2.0)

    assert connection.target.written == b"last"
    assert "write_eof" in connection.target.did


def test_a_reset_ends_both_sides_and_is_counted() -> None:
    connection = Connection().joined()

    assert connection.relay.break_some(fault(Kind.RESET)) == 1

    assert (connection.client.did[-2:], connection.target.did[-2:]) == (["setsockopt", "abort"],) * 2
    assert connection.relay.injured == 1


def test_a_half_close_ends_one_direction_and_is_counted() -> None:
    connection = Connection().joined()
    connection.onward.suffer(fault(Kind.HALF_CLOSE))
    connection.onward.data_received(b"dropped")
    connection.accepted.data_received(b"passes")

    assert (connection.client.written, connection.target.written) == (b"", b"passes")
    assert "write_eof" in connection.client.did
    connection.relay.break_some(fault(Kind.HALF_CLOSE))
    assert connection.relay.injured == 1


def test_a_delay_is_no_injury() -> None:
    connection = Connection().joined()
    for kind in set(Kind) - INJURES:
        connection.relay.break_some(fault(kind))

    assert connection.relay.injured == 0


def test_a_party_that_takes_nothing_stops_the_reading_of_the_other() -> None:
    connection = Connection().joined()
    connection.onward.pause_writing()
    assert connection.client.did[-1] == "pause_reading"
    connection.onward.resume_writing()
    assert connection.client.did[-1] == "resume_reading"


def test_the_relay_connects_two_parties_on_real_sockets() -> None:
    async def scenario() -> tuple[bytes, int]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read())
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        relay = ChaosRelay(server.sockets[0].getsockname()[1])
        await relay.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"hello")
        writer.write_eof()
        said = await reader.read()
        writer.close()
        await writer.wait_closed()
        await relay.stop()
        server.close()
        return said, relay.connections

    assert asyncio.run(scenario()) == (b"hello", 1)


@pytest.mark.parametrize("kind", sorted(INJURES))
def test_every_injury_ends_a_message_in_its_middle(kind: Kind) -> None:
    assert delivered(b"x", fault(kind), 1.0, 2.0, 0.0) == [(1.0, b"x")]
