"""Pipelined requests: answered in order, within a limit, and never mistaken for one another."""

from sidecar.proxy.waiting import PIPELINE_BYTES
from sidecar.timeline.outcome import Outcome
from tests.support.memory import Road


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
WEBSOCKET = b"GET /v1/realtime HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def get(path: bytes) -> bytes:
    return b"GET %s HTTP/1.1\r\nHost: pod\r\n\r\n" % path


def post(path: bytes, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n%b" % (path, len(body), body)


def test_pipelined_requests_reach_the_engine_one_after_the_other() -> None:
    """The next one starts when the one before it has been answered, and the answers come in that order."""
    road = Road()
    client = road.client()

    client.send(post(b"/1", b"one") + get(b"/2") + post(b"/3", b"three"))
    assert post(b"/1", b"one") == road.engine.taken
    road.engine.send(OK)
    assert post(b"/1", b"one") + get(b"/2") == road.engine.taken
    road.engine.send(OK)
    road.engine.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    assert post(b"/1", b"one") + get(b"/2") + post(b"/3", b"three") == road.engine.taken
    assert client.taken == OK + OK + b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    assert road.outcomes == [Outcome.OK, Outcome.OK, Outcome.CLIENT_ERROR]


def test_what_waits_is_bounded_however_many_answers_go_out_meanwhile() -> None:
    """An answer frees only as many bytes as its request had."""
    road = Road()
    client = road.client()
    sent = answered = 0

    while client.reading and sent < 10_000:
        client.send(get(b"/"))
        sent += 1
        if sent % 10 == 0 and sent > 20:
            road.engine.send(OK)
            answered += 1

    waiting = sent - answered
    assert not client.reading
    assert waiting * len(get(b"/")) <= PIPELINE_BYTES


def test_long_heads_that_wait_weigh_what_they_are() -> None:
    """Ten requests with heads of 4 KB fill the limit by as many bytes as they have."""
    road = Road()
    client = road.client()
    long_head = get(b"/" + b"x" * 3900)

    client.send(get(b"/first"))
    sent = 0
    while client.reading and sent < 1000:
        client.send(long_head)
        sent += 1

    assert sent * len(long_head) <= PIPELINE_BYTES + 2 * len(long_head)


def test_a_bad_request_behind_a_good_one_is_refused_after_the_good_one_is_answered() -> None:
    """The good one is answered first, then comes 400 and the close."""
    road = Road()
    client = road.client()

    client.send(get(b"/good") + b"GET /bad HTTP/1.1\nHost: pod\n\n")
    assert client.taken == b""
    road.engine.send(OK)

    assert client.taken.startswith(OK + b"HTTP/1.1 400 Bad Request\r\n")
    assert client.ended
    assert get(b"/good") == road.engine.taken


def test_a_pipelined_request_whose_body_goes_bad_is_refused_in_its_turn() -> None:
    """Its head had waited as a good one; the broken chunk after it must not hang until a timeout."""
    road = Road()
    client = road.client()

    client.send(
        get(b"/good") + b"POST /bad HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nZZ\r\n"
    )
    road.engine.send(OK)

    assert client.taken.startswith(OK + b"HTTP/1.1 400 Bad Request\r\n")
    assert road.outcomes == [Outcome.OK, Outcome.CLIENT_ERROR]
    assert road.in_flight == 0


def test_h2c_is_declined_in_silence_and_the_next_request_is_read() -> None:
    """The request goes on without its Upgrade; the bytes after it are HTTP."""
    road = Road()
    client = road.client()
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"

    client.send(b"GET /1 HTTP/1.1\r\nHost: pod\r\n" + upgrade + b"\r\n" + get(b"/2"))
    road.engine.send(OK)
    road.engine.send(OK)

    assert get(b"/1") + get(b"/2") == road.engine.taken
    assert client.taken == OK + OK


def test_h2c_behind_a_body_is_declined_as_well() -> None:
    """The parser reports the upgrade only after the body; nothing in between is lost."""
    road = Road()
    client = road.client()

    client.send(
        b"POST /1 HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi"
        + get(b"/2"),
        size=7,
    )
    road.engine.send(OK)
    road.engine.send(OK)

    assert post(b"/1", b"hi") + get(b"/2") == road.engine.taken


def test_a_websocket_request_that_had_to_wait_is_no_websocket_request() -> None:
    """After another request, the client's next bytes were already read as HTTP: the engine is not asked to switch."""
    road = Road()
    client = road.client()

    client.send(get(b"/1") + WEBSOCKET)
    road.engine.send(OK)
    client.send(get(b"/3"))
    road.engine.send(OK)
    road.engine.send(OK)

    assert get(b"/1") + get(b"/v1/realtime") + get(b"/3") == road.engine.taken
    assert client.taken == OK * 3


def test_a_websocket_request_is_one_wherever_its_bytes_are_split() -> None:
    """The tunnel's first bytes may come in the read of the head, or much later."""
    for size in (1, 5, 40, len(WEBSOCKET), 1000):
        road = Road()
        client = road.client()

        client.send(WEBSOCKET + b"\x81\x05early", size=size)
        road.engine.send(SWITCH + b"\x81\x02hi")
        client.send(b"late")
        road.engine.end()

        assert road.engine.taken == WEBSOCKET + b"\x81\x05earlylate"
        assert client.taken == SWITCH + b"\x81\x02hi"
        assert client.lost
        assert road.outcomes == [Outcome.OK]
