"""The way of a request to the engine: framing, back-pressure, bodies shown to the observer, and uploads that stop."""

from collections.abc import Iterator

import pytest

from sidecar.proxy import upload
from sidecar.proxy.errors import Failure
from sidecar.proxy.observer import UNCHANGED, End, Instead, Splice
from sidecar.proxy.sending import Buffer
from sidecar.proxy.unobserved import Unobserved
from sidecar.proxy.upload import parted
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Clock, Road, limits_with


LAST = Splice(102_400, 102_400, b"at the end")


def test_an_upload_in_a_hundred_chunks_that_came_together_is_one_write() -> None:
    """A chunk that costs its sender seven bytes must not cost the sidecar a write each."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n")
    head, writes = len(road.engine.taken), road.engine.writes

    client.send(b"2\r\nab\r\n" * 100)

    assert road.engine.writes == writes + 1
    assert road.engine.taken[head:] == b"c8\r\n" + b"ab" * 100 + b"\r\n"


# --- an upload -----------------------------------------------------------------------------------------------------------


def test_a_body_beyond_the_look_in_bound_streams_on() -> None:
    """Classification sees the beginning; nothing is held back, and the rest is seen as it passes."""
    road = Road()
    client = road.client()

    client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 3000\r\n\r\n" + b"a" * 1000)
    assert road.pool.sockets == []
    client.send(b"b" * 1000)
    assert road.engine.taken.endswith(b"a" * 1000 + b"b" * 1000)
    client.send(b"c" * 500)
    assert road.engine.taken.endswith(b"c" * 500)

    told = [(hook, what) for hook, what in road.recordings[0].told if hook.startswith("request")]
    assert told == [("request_body", (b"a" * 1000 + b"b" * 1000, False)), ("request_data", b"c" * 500)]


def test_a_body_of_no_stated_length_streams_on_beyond_the_look_in_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is collected up to the bound. What is long is seen at once, because there may be more than one turn can read."""
    monkeypatch.setattr(upload, "LONG_BODY_BYTES", 500)
    road = Road()
    client = road.client()

    client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n")
    for letter in (b"a", b"b", b"c", b"d"):
        client.send(b"190\r\n" + letter * 400 + b"\r\n")
    assert road.engine.taken.endswith(b"d" * 400 + b"\r\n")

    first = b"a" * 400 + b"b" * 400
    told = [(hook, what) for hook, what in road.recordings[0].told if hook.startswith("request")]
    assert told == [
        *(("request_data", first), ("request_data", b"c" * 400)),
        *(("request_body", (first + b"c" * 400, False)), ("request_data", b"d" * 400)),
    ]


class Looking(Unobserved):
    """Looks at a long body in steps that take two turns of the loop, and raises in the last one if it is told to."""

    wants_body = True

    def __init__(self, told: list[object], *, raises: bool = False) -> None:
        self.told = told
        self._raises = raises

    def look(self, body: bytes | bytearray) -> Iterator[None]:
        for step in range(4):
            self.told.append(step)
            self.clock.later(0.0001)
            yield
        if self._raises:
            raise RuntimeError(len(body))

    def request_body(self, body: bytes | bytearray, *, whole: bool) -> Instead:
        self.told.append((len(body), whole))
        return UNCHANGED

    def close(self, at: float, end: End) -> None:
        del at
        self.told.append(end.outcome)

    clock = Clock()


LONG_POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 70000\r\n\r\n" + b"a" * 70_000


def looking(told: list[object], *, raises: bool = False) -> Road:
    """A road whose loop turns only when told, and whose observer takes 0.1 ms for each step."""
    observer = Looking(told, raises=raises)
    limits = limits_with(look_in_bytes=100_000)
    road = Road(limits, lambda _head: observer, turns_by_itself=False)
    observer.clock = road.clock
    return road


def test_a_long_body_is_looked_at_in_turns_of_the_loop() -> None:
    """Two steps of 0.1 ms are one turn; what is read, what is shown and what is sent have turns of their own."""
    told: list[object] = []
    road = looking(told)
    road.client().send(LONG_POST)

    seen = []
    while road.turn():
        seen.append((len(told), len(road.pool.sockets)))

    assert told == [0, 1, 2, 3, (70_000, True)]
    assert sorted(set(seen)) == [(0, 0), (2, 0), (4, 0), (5, 0), (5, 1)]
    assert road.engine.taken.endswith(b"a" * 70_000)


def test_a_look_that_raises_is_not_felt() -> None:
    told: list[object] = []
    road = looking(told, raises=True)
    road.client().send(LONG_POST)
    road.turns()

    assert road.engine.taken.endswith(b"a" * 70_000)
    assert road.dropped == ["observer_error"]


def test_a_client_that_leaves_while_its_body_is_looked_at_is_never_sent() -> None:
    told: list[object] = []
    road = looking(told)
    client = road.client()
    client.send(LONG_POST)
    while not told:
        assert road.turn()
    client.end()
    road.turns()

    assert told == [0, 1, Outcome.CLIENT_CANCELLED]
    assert road.pool.sockets == []
    assert road.in_flight == 0


def test_an_engine_that_does_not_take_the_upload_stops_the_client() -> None:
    """The upload waits in the client's own socket; `sent` is when the engine's socket has the last byte."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 8\r\n\r\n")
    road.engine.room = 0

    client.send(b"1234")
    assert not client.reading
    road.clock.later(1)
    road.engine.take(4)
    assert client.reading
    client.send(b"5678")
    road.clock.later(1)
    road.engine.take(None)

    assert road.engine.taken.endswith(b"12345678")
    assert road.recordings[0].instants("received", "sent") == [("received", 101.0), ("sent", 102.0)]


def test_spliced_bytes_change_the_length_and_ask_for_plain_text() -> None:
    """The bytes that the observer returns go to the engine instead, framed anew, with Accept-Encoding: identity."""
    road = Road()
    client = road.client()
    client.send(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nAccept-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"
    )
    road.recordings[0].splice = Splice(0, 0, b"longer ")

    client.send(b"body")

    assert (
        road.engine.taken
        == b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\nContent-Length: 11\r\nAccept-Encoding: identity\r\n\r\nlonger body"
    )


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("earlier", "writes"), [(0, 1), (1, 2)])
@pytest.mark.parametrize("splice", [None, Splice(0, 0, b"at the beginning"), Splice(40_000, 41_000, b"within"), LAST])
def test_a_long_body_is_not_copied_and_goes_out_as_one_or_as_two_writes(
    chunked: bool, earlier: int, writes: int, splice: Splice | None
) -> None:
    """On a connection that served before, the first write asks whether the engine still listens."""
    road = Road(limits_with(look_in_bytes=200_000))
    client = road.client()
    for _ in range(earlier):
        client.send(b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n")
        road.engine.send(b"HTTP/1.1 204 No Content\r\n\r\n")
    body = bytes(range(256)) * 400
    start, end, text = splice or (0, 0, b"")
    expected = body[:start] + text + body[end:]
    framing, framed = (
        (b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n") if chunked else (b"Content-Length: %d", b"%b%b")
    )
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: pod\r\n"
    client.send(head + (framing if chunked else framing % len(body)) + b"\r\n\r\n")
    road.recordings[-1].splice = splice
    before = (0, 0) if not road.pool.sockets else (road.engine.writes, len(road.engine.taken))
    client.send(framed % (len(body) if chunked else b"", body))

    taken = bytes(road.engine.taken[before[1] :])
    asked, sent = taken[: taken.index(b"\r\n\r\n") + 4], taken[taken.index(b"\r\n\r\n") + 4 :]
    assert sent == framed % (len(expected) if chunked else b"", expected)
    assert (framing if chunked else framing % len(expected)) in asked
    assert road.engine.writes - before[0] == writes
    long = [each for each in road.engine.given if len(each) > 10_000]
    assert all(memoryview(each).obj is road.recordings[-1].shown for each in long)
    assert sum(map(len, long)) > 80_000


def test_the_first_bytes_of_a_long_request_may_end_with_a_piece_of_it() -> None:
    pieces: list[Buffer] = [b"h" * 100, b"b" * 65_436, b"\r\n", b"0\r\n\r\n"]

    assert parted(pieces, 65_536) == (pieces[:2], pieces[2:])
    assert parted(pieces, 65_535) == ([pieces[0], b"b" * 65_435], [b"b", *pieces[2:]])
    assert parted(pieces, 1 << 20) == (pieces, [])


def test_an_early_answer_reaches_the_client_and_closes_what_was_not_finished() -> None:
    """The engine refuses in mid-upload: the answer is whole, the upload's rest dropped, no connection is reused."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 100\r\n\r\nsome")

    road.engine.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno")
    client.send(b"more")

    assert client.taken == b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nConnection: close\r\n\r\nno"
    assert client.ended
    assert road.engine.reset
    assert road.engine.taken.endswith(b"some")
    assert road.recordings[0].closed == [(Outcome.CLIENT_ERROR, None, 401)]
    road.traffic.sweep(road.clock.later(3))
    assert client.lost


def test_after_an_early_answer_to_a_whole_upload_the_kept_connection_is_read_again() -> None:
    """The engine refuses without taking the last bytes: they held the client back, and hold back nothing any more."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 5000\r\n\r\n")
    refused = road.engine
    refused.room = 4990
    client.send(b"a" * 5000)
    assert not client.reading

    refused.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno")
    client.send(b"GET /x HTTP/1.1\r\nHost: pod\r\n\r\n")
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")

    assert client.taken.endswith(b"\r\n\r\nnoHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nyes")
    assert refused.reset
    assert road.outcomes == [Outcome.CLIENT_ERROR, Outcome.OK]


# --- failures ------------------------------------------------------------------------------------------------------------


def test_an_upload_that_stops_is_answered_408_and_counted_as_the_clients_leaving() -> None:
    """The client went silent; neither the engine nor the sidecar failed."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 9\r\n\r\nbo")

    road.traffic.sweep(road.clock.later(61))

    assert client.taken.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert road.recordings[0].closed == [(Outcome.CLIENT_CANCELLED, Failure.UPLOAD_STALLED, None)]
    assert road.engine.reset


@pytest.mark.parametrize(
    ("paused_seconds", "held_back", "failure"),
    [
        pytest.param(60, False, Failure.UPLOAD_STALLED, id="the hop's body timeout"),
        pytest.param(2, False, Failure.ENGINE_CLOSED, id="a short pause"),
        pytest.param(60, True, Failure.ENGINE_CLOSED, id="the sidecar did not read"),
    ],
)
def test_an_engine_that_ends_a_stalled_upload_is_not_at_fault(
    paused_seconds: float, failure: Failure, *, held_back: bool
) -> None:
    """nginx closes without an answer, 60 s after the last byte of a body: the same time as the sidecar's own."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 5000\r\n\r\nhalf")
    if held_back:
        road.engine.room = 0
        client.send(b"x" * 10)
        road.engine.protocol.pause_writing()
    road.clock.later(paused_seconds)

    road.engine.end()

    assert road.recordings[0].closed == [(failure.outcome, failure, None)]
    assert b"x-sidecar-error: %b\r\n" % failure.reason.encode() in client.taken


def test_time_in_which_the_engine_took_nothing_is_no_pause_of_the_client() -> None:
    """The engine that takes the bytes late is the one that closes."""
    road = Road()
    client = road.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 5000\r\n\r\nhalf")
    road.clock.later(10)
    road.engine.protocol.pause_writing()
    road.engine.protocol.resume_writing()
    road.clock.later(1)

    road.engine.end()

    assert road.outcomes == [Outcome.ENGINE_UNREACHABLE]
