"""The wire matrix: every request of `tests/wire`, whole and in pieces, gets exactly the verdict written beside it."""

import json

import pytest

from tests.support.memory import Road, Socket
from tests.support.wire import Case, cases


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: pod\r\n\r\n"


def seen_by_engine(road: Road) -> bytes:
    return b"".join(bytes(connection.taken) for connection in road.pool.sockets)


def assert_refused(answer: bytes, status: int, reason: bytes, client: Socket) -> None:
    """One whole answer in the OpenAI error shape, without any of the client's bytes, and then the connection's end."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 %d " % status)
    assert b"x-sidecar-error: %b" % reason in lines
    assert b"content-type: application/json" in lines
    assert b"content-length: %d" % len(body) in lines
    assert b"connection: close" in lines
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == reason.decode()
    assert b"CANARY" not in answer
    assert client.ended or client.lost


@pytest.mark.parametrize("size", [1, 3, 50, 100_000])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_request_gets_its_verdict(case: Case, size: int) -> None:
    """In segments of any size: refused as written, or at the engine byte for byte as written."""
    road = Road()
    client = road.client()
    expected_requests, expected_answers = b"", CONTINUE if case.continues else b""

    client.send(case.sent, size)
    for index, request in enumerate(case.engine):
        expected_requests += request
        last = index + 1 == len(case.engine)
        assert unchunked(seen_by_engine(road)) == unchunked(expected_requests)
        if last and not case.closes and case.refusal is None:
            client.send(NEXT)
        road.engine.send(OK)
        expected_answers += CLOSING if last and case.closes else KEPT if b"HTTP/1.0" in case.sent else OK

    assert client.taken.startswith(expected_answers)
    answer = bytes(client.taken[len(expected_answers) :])
    if case.refusal is not None:
        assert_refused(answer, *case.refusal, client)
        # Of a body that goes bad the engine may have seen the beginning. It must never see an end.
        if not case.in_body:
            assert unchunked(seen_by_engine(road)) == unchunked(expected_requests)
        else:
            assert not seen_by_engine(road).endswith(b"0\r\n\r\n")
            assert all(engine.lost for engine in road.pool.sockets)
    elif case.closes:
        assert answer == b""
        assert client.lost
    else:
        road.engine.send(OK)
        assert client.taken == expected_answers + OK
        assert seen_by_engine(road).endswith(NEXT)
    assert road.in_flight == 0
    assert all(len(observer.closed) == 1 for observer in road.recordings)


def unchunked(data: bytes) -> bytes:
    """Chunks may be cut anew on their way: join their contents for comparison."""
    head, separator, rest = data.partition(b"Transfer-Encoding: chunked\r\n\r\n")
    body = b""
    while separator and rest and not rest.startswith(b"0\r\n\r\n"):
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return head + separator + body + rest


def test_an_upload_in_chunks_that_grows_too_large_is_cut_off() -> None:
    """No length was declared, so its bytes are counted; the engine never sees its end."""
    road = Road()
    client = road.client()

    client.send(b"POST /CANARY HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(129):
        client.send(b"2000\r\n" + b"x" * 8192 + b"\r\n")

    assert_refused(bytes(client.taken), 413, b"request_body_too_large", client)
    assert road.engine.lost
    assert not road.engine.taken.endswith(b"0\r\n\r\n")


def test_a_refused_head_is_answered_without_a_body() -> None:
    """The length of the body that a GET would have got is stated all the same."""
    road = Road()
    client = road.client()

    client.send(b"HEAD /x#y HTTP/1.1\r\nHost: pod\r\n\r\n")

    head, _, body = bytes(client.taken).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-length: " in head
    assert body == b""


def test_a_head_that_does_not_come_is_answered_408() -> None:
    """Bytes now and then do not help: the limit is on the whole head."""
    road = Road()
    client = road.client()

    client.send(b"GET /CANARY HTTP/1.1\r\n")
    for _ in range(10):
        road.traffic.sweep(road.clock.later(7))
        client.send(b"X: y\r\n")
    assert client.taken == b""
    road.traffic.sweep(road.clock.later(6))

    assert_refused(bytes(client.taken), 408, b"request_head_timeout", client)


def test_beyond_the_gate_the_answer_says_when_to_come_back() -> None:
    """It is a 503 with Retry-After, at once."""
    road = Road()
    for _ in range(4):
        road.client().send(NEXT)
    client = road.client()
    client.send(NEXT)

    assert_refused(bytes(client.taken), 503, b"too_many_in_flight", client)
    assert b"retry-after: 1\r\n" in client.taken
