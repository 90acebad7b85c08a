"""The strict reader reads what the RFCs allow, and stops at everything else."""

import pytest

from tests.garden.strict_reader import INCOMPLETE, read_answers, read_requests


HOST = b"Host: a\r\n"


def request(*lines: bytes, start: bytes = b"POST /a HTTP/1.1") -> bytes:
    return b"\r\n".join((start, b"Host: a", *lines, b"", b""))


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (request(), [(b"POST", b"/a", b"")]),
        (request(b"Content-Length: 3") + b"abc" + request(), [(b"POST", b"/a", b"abc"), (b"POST", b"/a", b"")]),
        (
            request(b"Transfer-Encoding: chunked") + b"2;x=y\r\nab\r\n01\r\nc\r\n0\r\nT: z\r\n\r\n",
            [(b"POST", b"/a", b"abc")],
        ),
        (request(start=b"GET http://b:1?q HTTP/1.1"), [(b"GET", b"/?q", b"")]),
        (request(start=b"OPTIONS * HTTP/1.1"), [(b"OPTIONS", b"*", b"")]),
        (b"\r\n\r\n" + request(), [(b"POST", b"/a", b"")]),
        (b"GET /a HTTP/1.0\r\n\r\n" + request(), [(b"GET", b"/a", b"")]),
        (request(b"Connection: close") + request(), [(b"POST", b"/a", b"")]),
    ],
)
def test_good_requests_are_read_whole(sent: bytes, words: list[tuple[bytes, bytes, bytes]]) -> None:
    reading = read_requests(sent)

    assert [message.words for message in reading.messages] == words
    assert reading.problem is None


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (request(b"Content-Length: 1", b"Transfer-Encoding: chunked"), "both Content-Length and Transfer-Encoding"),
        (request(b"Content-Length: 1", b"Content-Length: 1"), "a Content-Length that is no number"),
        (request(b"Content-Length: +1"), "a Content-Length that is no number"),
        (request(b"Transfer-Encoding: gzip, chunked"), "a transfer coding other than chunked"),
        (request(b"Transfer-Encoding: ,"), "a transfer coding other than chunked"),
        (request(b"Transfer-Encoding: chunked", start=b"POST /a HTTP/1.0"), "Transfer-Encoding in HTTP/1.0"),
        (request(b"Transfer-Encoding: chunked") + b"0x2\r\nab\r\n0\r\n\r\n", "no size of a chunk"),
        (request(b"Transfer-Encoding: chunked") + b"2\r\nabXX", "a chunk without its end"),
        (request(b"Transfer-Encoding: chunked") + b"2\r\nabX", "a chunk without its end"),
        (request(b"X: y\nY: z"), "a line that ends with a bare LF"),
        (request(b"X : y"), "a line that is no field"),
        (request(b"X: y", b" folded"), "a line that is no field"),
        (request(b"X: a\x00"), "a line that is no field"),
        (request(b"Host: b"), "not one valid Host"),
        (b"GET / HTTP/1.1\r\n\r\n", "not one valid Host"),
        (request(start=b"GET /a HTTP/2.0"), "no request line"),
        (request(start=b"GET /a#b HTTP/1.1"), "a fragment in the target"),
        (request(start=b"CONNECT a:1 HTTP/1.1"), "the method CONNECT"),
        (request(start=b"GET a HTTP/1.1"), "a target of no known form"),
        (request()[:-1], INCOMPLETE),
        (request(b"Content-Length: 2") + b"a", INCOMPLETE),
        (request(b"Transfer-Encoding: chunked") + b"2\r\nab\r", INCOMPLETE),
    ],
)
def test_reading_stops_at_the_first_doubt(sent: bytes, problem: str) -> None:
    """A good request before it is read, and nothing behind it."""
    reading = read_requests(request() + sent + request())
    alone = read_requests(sent)

    assert len(reading.messages) == 1 or problem == INCOMPLETE
    assert (alone.messages, alone.problem, alone.end) == ((), problem, 0)


def test_answers_end_where_their_requests_say() -> None:
    """The answer to HEAD has no body, a 1xx is no final answer, and the end of the connection ends a body without a length."""
    sent = (
        b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
        b"HTTP/1.1 200 \r\n\r\nuntil the end"
    )
    reading = read_answers(sent, [b"HEAD", b"GET"], ended=True)

    assert [(message.status, message.body) for message in reading.messages] == [
        (103, b""),
        (200, b""),
        (200, b"until the end"),
    ]
    assert reading.problem is None
    assert read_answers(sent, [b"HEAD", b"GET"], ended=False).problem == INCOMPLETE


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"HTTP/1.1 200 O\x00K\r\n\r\n", "no status line"),
        (b"RTSP/1.0 200 OK\r\n\r\n", "no status line"),
        (b"HTTP/1.1 103 X\r\nContent-Length: 0\r\n\r\n", "a framing in a 1xx"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\nmore", "bytes behind the last answer"),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore", "bytes behind the last answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", INCOMPLETE),
    ],
)
def test_bad_answers_are_told(sent: bytes, problem: str) -> None:
    assert read_answers(sent, [b"GET"], ended=True).problem == problem
