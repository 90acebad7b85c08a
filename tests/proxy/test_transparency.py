"""Byte transparency as properties: legal messages pass unchanged, in any pieces and at any pace."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.proxy.headers import RequestHead, ResponseHead
from sidecar.proxy.observer import Cutter
from sidecar.proxy.unobserved import Unobserved
from sidecar.timeline.outcome import Outcome
from tests.support.examples import examples
from tests.support.memory import Recording, Road, Socket
from tests.support.messages import Message, pieces, read, requests, responses, sizes


paces = st.none() | st.sampled_from([1, 10, 333, 5000])
"""Bytes that a far end takes at once; None: everything."""
play = settings(max_examples=examples(600), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def send(sender: Socket, receiver: Socket | None, data: bytes, cuts: list[int], pace: int | None) -> None:
    """Send in pieces; where the relay holds the sender back, the receiver takes some more."""
    for piece in pieces(data, cuts):
        while not sender.reading and receiver is not None:
            receiver.take(pace)
        sender.send(piece)


def drain(receiver: Socket) -> None:
    """Let the receiver take everything that is left for it."""
    receiver.take(None)


def request_at(engine: Socket, already: int) -> bytes:
    return bytes(engine.taken[already:])


@play
@given(st.lists(st.tuples(requests(), responses()), min_size=1, max_size=4), sizes, sizes, paces, paces)
def test_what_goes_in_comes_out(
    exchanges: list[tuple[Message, Message]],
    client_cuts: list[int],
    engine_cuts: list[int],
    client_pace: int | None,
    engine_pace: int | None,
) -> None:
    """Several requests on one connection, both ways: start line, end-to-end fields in order, body, nothing more."""
    road = Road()
    client = road.client()
    answered = 0
    for request, response in exchanges:
        before = {id(socket): len(socket.taken) for socket in road.pool.sockets}
        if client_pace is not None:
            client.room = 0
        if engine_pace is not None:
            for socket in road.pool.sockets:
                socket.room = 0
        for piece in pieces(request.raw, client_cuts):
            while not client.reading:
                road.engine.take(engine_pace)
            client.send(piece)
        engine = road.engine
        drain(engine)

        start, fields, body, rest = read(request_at(engine, before.get(id(engine), 0)))
        assert (start, fields, body, rest) == (request.start, request.end_to_end, request.body, b"")

        send(engine, client, response.raw, engine_cuts, client_pace)
        if response.framing == "close":
            while not engine.reading:
                client.take(client_pace)
            engine.end()
        drain(client)

        start, fields, body, rest = read(bytes(client.taken[answered:]))
        assert (start, fields, body, rest) == (response.start, response.end_to_end, response.body, b"")
        one = road.recordings[-1]
        assert one.body == response.body
        assert len(one.closed) == 1
        answered = len(client.taken)
        assert client.lost == (response.framing == "close")
        if client.lost:
            break
    assert road.in_flight == 0


@pytest.mark.long
@settings(play, max_examples=examples(300))
@given(st.lists(st.tuples(requests(), responses()), min_size=2, max_size=4), sizes, sizes)
def test_pipelined_requests_are_carried_whole_and_in_order(
    exchanges: list[tuple[Message, Message]], client_cuts: list[int], engine_cuts: list[int]
) -> None:
    """All requests are sent before the first answer, cut anywhere, across their borders too."""
    road = Road()
    client = road.client()
    unsent = b"".join(request.raw for request, _ in exchanges)
    queue = pieces(unsent, client_cuts)
    answered, at_engine = 0, 0
    engine: Socket | None = None
    for request, response in exchanges:
        while queue and client.reading:
            client.send(queue.pop(0))
        if road.engine is not engine:
            engine, at_engine = road.engine, 0
        start, fields, body, rest = read(request_at(engine, at_engine))
        assert (start, fields, body, rest) == (request.start, request.end_to_end, request.body, b"")
        at_engine = len(engine.taken)

        for piece in pieces(response.raw, engine_cuts):
            engine.send(piece)
        if response.framing == "close":
            engine.end()
        start, fields, body, rest = read(bytes(client.taken[answered:]))
        assert (start, fields, body, rest) == (response.start, response.end_to_end, response.body, b"")
        answered = len(client.taken)
        if response.framing == "close":
            assert client.lost
            break


class Holding(Unobserved):
    """An observer that cuts nothing, but holds back some bytes, as one that looks for the usage chunk does."""

    def __init__(self, holds: list[int]) -> None:
        self._held = b""
        self._holds = holds
        self.closed: list[Outcome] = []

    def head(self, at: float, head: ResponseHead) -> Cutter | None:
        del at, head
        return self

    def cut(self, data: bytes) -> bytes:
        self._held += data
        self._holds.append(self._holds.pop(0))
        keep = min(self._holds[0], len(self._held))
        now, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return now

    def rest(self) -> bytes:
        rest, self._held = self._held, b""
        return rest


@pytest.mark.long
@settings(play, max_examples=examples(500))
@given(responses(), sizes, st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_what_is_held_back_for_a_while_is_not_lost(response: Message, engine_cuts: list[int], holds: list[int]) -> None:
    """A cutter may keep bytes for later; with the end of the message they all go out, in any framing."""
    road = Road(observe=lambda _head: Holding(list(holds)))
    client = road.client()

    client.send(b"POST / HTTP/1.1\r\nHost: pod\r\n\r\n")
    engine = road.engine
    for piece in pieces(response.raw, engine_cuts):
        engine.send(piece)
    if response.framing == "close":
        engine.end()

    start, fields, body, rest = read(bytes(client.taken))
    assert (start, fields, body, rest) == (response.start, response.end_to_end, response.body, b"")


@settings(play, max_examples=examples(500))
@given(requests(), responses(), sizes, st.integers(0, 6000))
def test_a_response_that_breaks_off_never_looks_whole(
    request: Message, response: Message, engine_cuts: list[int], cut: int
) -> None:
    """The client can see that something is missing: by the framing, or by a reset where there is none."""
    road = Road()
    client = road.client()
    raw = response.raw
    end = min(cut, len(raw) - 1)

    client.send(request.raw)
    engine = road.engine
    for piece in pieces(raw[:end], engine_cuts):
        engine.send(piece)
    whole = response.framing == "none" and raw[:end].endswith(b"\r\n\r\n")
    engine.lose(ConnectionResetError())

    head = raw.partition(b"\r\n\r\n")[0]
    if whole:
        assert len(road.outcomes) == 1
    elif end < len(head) + 4:
        assert client.taken.startswith(b"HTTP/1.1 502 ")
        assert b"x-sidecar-error: engine_closed_before_response\r\n" in client.taken
    elif response.framing == "close":
        assert client.reset
    else:
        try:
            read(bytes(client.taken))
        except ValueError:
            looks_whole = False
        else:
            looks_whole = True
        assert not looks_whole
        assert client.lost
        assert road.outcomes == [Outcome.ENGINE_TRUNCATED]
    assert engine.lost
    assert road.in_flight == 0


@settings(play, max_examples=examples(400))
@given(st.binary(max_size=300), sizes)
def test_bytes_that_are_no_http_break_nothing(noise: bytes, cuts: list[int]) -> None:
    """From either side: no exception, no request that is not closed, and no byte of the noise in an answer."""
    road = Road()
    client, other = road.client(), road.client()

    for piece in pieces(noise, cuts):
        client.send(piece)
    other.send(b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n")
    engine = road.engine
    for piece in pieces(noise, cuts):
        engine.send(piece)
    engine.lose()
    client.lose()
    other.lose()

    assert road.in_flight == 0
    assert all(len(one.closed) == 1 for one in road.recordings)


def test_the_observer_sees_what_the_engine_sent() -> None:
    """The control of the properties above: they would notice an observer that gets fewer bytes."""
    road = Road()
    road.client().send(b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n")
    road.engine.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    assert isinstance(road.recordings[0], Recording)
    assert isinstance(road.recordings[0].request, RequestHead)
    assert road.recordings[0].body == b"ok"
