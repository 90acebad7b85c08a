"""The client's connection: requests in order, limits on its bytes, and its state after each request."""

import pytest

from sidecar.proxy.accept import LINGER_SECONDS
from sidecar.proxy.errors import Failure
from sidecar.proxy.waiting import PIPELINE_BYTES
from sidecar.timeline.outcome import Outcome
from tests.support.memory import LIMITS, Road, limits_with


GET = b"GET /%d HTTP/1.1\r\nHost: pod\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d"


def test_pipelined_requests_are_answered_in_order_one_after_the_other() -> None:
    """The engine gets the second request only when the first is answered, so no answer overtakes another."""
    road = Road()
    client = road.client()

    client.send(GET % 1 + GET % 2 + GET % 3)
    for number in (1, 2, 3):
        assert GET % number == bytes(road.engine.taken[-len(GET % number) :])
        road.engine.send(OK % number)

    assert client.taken == OK % 1 + OK % 2 + OK % 3
    assert road.outcomes == [Outcome.OK] * 3


def test_pipelined_uploads_keep_their_bodies() -> None:
    """A body that waits behind an answer is forwarded with its own head."""
    road = Road()
    client = road.client()
    post = b"POST /%d HTTP/1.1\r\nHost: pod\r\nContent-Length: 5\r\n\r\nbody%d"

    client.send(post % (1, 1) + post % (2, 2), size=7)
    road.engine.send(OK % 1)
    assert road.engine.taken.endswith(post % (2, 2))
    road.engine.send(OK % 2)

    assert client.taken == OK % 1 + OK % 2


def test_a_client_that_pipelines_without_end_is_no_longer_read() -> None:
    """The bytes that wait are bounded; reading resumes once the waiting requests are served."""
    road = Road()
    client = road.client()
    client.send(GET % 1)
    many = GET % 2 * (PIPELINE_BYTES // 1024 + 1)

    client.send(many)

    assert not client.reading
    for _ in range(2 + PIPELINE_BYTES // 1024):
        road.engine.send(OK % 1)
    assert client.reading
    assert road.in_flight == 0


def test_garbage_behind_a_request_that_waits_for_its_turn_waits_too() -> None:
    """The first is answered, and in the same turn of the loop the garbage comes: the second is answered before it."""
    road = Road(turns_by_itself=False)
    client = road.client()
    client.send(GET % 1)
    client.send(GET % 2)
    road.engine.send(OK % 1)

    client.send(b"\x00bad\r\n\r\n")
    assert client.taken == OK % 1
    road.turns()
    road.engine.send(OK % 2)

    assert client.taken.startswith(OK % 1 + OK % 2 + b"HTTP/1.1 400 ")
    assert road.outcomes == [Outcome.OK] * 2


def test_the_request_behind_an_answer_does_not_begin_when_its_client_has_left() -> None:
    """The first is answered; before the turn in which the second would begin, the client closes its half."""
    road = Road(turns_by_itself=False)
    client = road.client()
    client.send(GET % 1)
    client.send(GET % 2)
    road.engine.send(OK % 1)

    assert not client.protocol.eof_received()
    road.turns()
    client.close()

    assert road.outcomes == [Outcome.OK]
    assert GET % 2 not in road.engine.taken


def test_an_upload_that_waited_long_behind_another_request_is_not_late() -> None:
    """Its head came in time. A sweep between that answer and the turn in which it is taken finds it waiting."""
    road = Road(turns_by_itself=False)
    client = road.client()
    client.send(GET % 1)
    client.send(b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 10\r\n\r\n12345")
    road.clock.later(LIMITS.head_timeout_seconds + 1)
    road.engine.send(OK % 1)

    road.traffic.sweep(road.clock.now)
    road.turns()
    client.send(b"67890")
    road.engine.send(OK % 2)

    assert client.taken == OK % 1 + OK % 2
    assert road.outcomes == [Outcome.OK] * 2


def test_garbage_behind_a_good_request_waits_until_that_one_is_answered() -> None:
    """The first is answered normally; then comes a 400, and nothing more is read from this connection."""
    road = Road()
    client = road.client()

    client.send(GET % 1 + b"NONSENSE\r\n\r\n" + GET % 2)
    assert client.taken == b""
    road.engine.send(OK % 1)

    assert client.taken.startswith(OK % 1 + b"HTTP/1.1 400 Bad Request\r\n")
    assert client.ended
    assert road.refused == [Failure.BAD_REQUEST]
    assert len(road.recordings) == 1


@pytest.mark.parametrize(
    ("request_bytes", "failure"),
    [
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: pod\r\nX: " + b"x" * 5000 + b"\r\n\r\n",
            Failure.HEAD_TOO_LARGE,
            id="a head too long",
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: pod\r\nX: " + b"x" * 5000, Failure.HEAD_TOO_LARGE, id="a head without end"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: pod\r\n" + b"X: y\r\n" * 16 + b"\r\n",
            Failure.HEAD_TOO_LARGE,
            id="too many fields",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: pod\r\nContent-Length: 2000000\r\n\r\n",
            Failure.BODY_TOO_LARGE,
            id="a declared body",
        ),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", Failure.BAD_HOST, id="no host"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: pod\r\n\r\n", Failure.UNSUPPORTED_VERSION, id="a version"),
    ],
)
@pytest.mark.parametrize("size", [None, 1, 100])
def test_what_may_not_pass_is_answered_here_whatever_pieces_it_comes_in(
    request_bytes: bytes, failure: Failure, size: int | None
) -> None:
    """Status, reason and shape of the error are the sidecar's; the engine gets nothing of the request."""
    road = Road()
    client = road.client()

    client.send(request_bytes, size)

    assert client.taken.startswith(b"HTTP/1.1 %d " % failure.value.status)
    assert b"x-sidecar-error: %s\r\n" % failure.reason.encode() in client.taken
    assert client.taken.count(b"\r\nx-sidecar-error: ") == 1
    assert road.pool.sockets == []
    assert len(road.refused) + len([observer for observer in road.recordings if observer.closed]) == 1
    assert road.in_flight == 0


def test_an_upload_without_end_of_its_framing_is_refused() -> None:
    """A chunk extension without end is no body; llhttp alone would read it for ever."""
    road = Road()
    client = road.client()
    client.send(b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n1;")

    client.send(b"x" * 5000, size=500)

    assert client.taken.startswith(b"HTTP/1.1 431 ")
    assert road.recordings[0].closed == [(Outcome.CLIENT_ERROR, Failure.HEAD_TOO_LARGE, None)]


def test_an_upload_whose_framing_outweighs_it_by_64_kib_is_refused() -> None:
    """Two bytes a chunk, without end: the engine's connection is dropped, and the client gets a 431 in mid-upload."""
    road = Road()
    client = road.client()
    client.send(b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n")

    for _ in range(3):
        client.send(b"2\r\naa\r\n" * 9000)

    assert client.taken.startswith(b"HTTP/1.1 431 ")
    assert road.engine.reset
    assert not road.engine.taken.endswith(b"0\r\n\r\n")
    assert road.recordings[0].closed == [(Outcome.CLIENT_ERROR, Failure.HEAD_TOO_LARGE, None)]


def test_a_chunked_body_over_the_limit_is_refused_in_mid_upload() -> None:
    """The engine's connection is dropped, the client is answered in mid-upload, and the rest is read for a moment."""
    road = Road(limits_with(max_body_bytes=10))
    client = road.client()
    client.send(b"POST / HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n")

    assert client.taken.startswith(b"HTTP/1.1 413 ")
    assert road.engine.reset
    assert road.recordings[0].closed == [(Outcome.CLIENT_ERROR, Failure.BODY_TOO_LARGE, None)]
    client.send(b"5\r\n12345\r\n0\r\n\r\n")
    assert not client.lost
    road.traffic.sweep(road.clock.later(LINGER_SECONDS + 0.1))
    assert client.lost


def test_an_expectation_is_answered_here_once_and_stays_here() -> None:
    """The sidecar invites the body; the engine does not get the expectation."""
    road = Road()
    client = road.client()

    client.send(b"POST /x HTTP/1.1\r\nHost: pod\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
    assert client.taken == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(b"body")
    road.engine.send(OK % 1)

    assert road.engine.taken == b"POST /x HTTP/1.1\r\nHost: pod\r\nContent-Length: 4\r\n\r\nbody"
    assert client.taken == b"HTTP/1.1 100 Continue\r\n\r\n" + OK % 1


def test_a_head_that_drips_is_given_up() -> None:
    """The deadline is for the whole head, not for each byte of it."""
    road = Road()
    client = road.client()
    for byte in b"GET / HTTP/1.1\r\nHost":
        client.send(bytes([byte]))
        road.traffic.sweep(road.clock.later(3.5))

    assert not client.lost
    road.traffic.sweep(road.clock.later(6))
    assert client.taken.startswith(b"HTTP/1.1 408 ")


def test_an_idle_connection_is_closed_after_its_time() -> None:
    """The time is counted from the last answer."""
    road = Road()
    client = road.client()
    client.send(GET % 1)
    road.clock.later(50)
    road.engine.send(OK % 1)

    road.traffic.sweep(road.clock.later(619))
    assert not client.lost
    road.traffic.sweep(road.clock.later(2))
    assert client.lost


@pytest.mark.parametrize(
    ("request_line", "kept"),
    [
        (b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nHost: pod\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nHost: pod\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_a_connection_is_kept_as_its_client_wishes(request_line: bytes, kept: bool) -> None:
    """The answer says whether it is kept."""
    road = Road()
    client = road.client()

    client.send(request_line)
    road.engine.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    assert kept is not client.lost
    assert (b"Connection: close" in client.taken) is not kept
