"""A gateway's rules as pure functions: which fields cross the hop, and how a message is framed."""

import pytest

from sidecar.proxy.errors import Failure
from sidecar.proxy.headers import (
    TWINNED,
    TWINNED_FAMILIES,
    Framing,
    RequestHead,
    ResponseHead,
    check_request,
    members,
    read_response_framing,
    request_bytes,
    response_bytes,
    values_of,
)


def request(
    fields: list[tuple[bytes, bytes]], *, framing: Framing = Framing.NONE, websocket: bool = False
) -> RequestHead:
    return RequestHead(b"POST", b"/x", "1.1", fields, True, 0.0, framing=framing, websocket=websocket)


def crossing(fields: list[tuple[bytes, bytes]]) -> bytes:
    """The lines of an answer's fields that reach the client."""
    sent = response_bytes(ResponseHead(200, b"OK", fields, Framing.LENGTH), Framing.LENGTH, close=False)
    return sent.removeprefix(b"HTTP/1.1 200 OK\r\n").removesuffix(b"\r\n")


def test_fields_for_this_hop_stay_here_and_the_others_keep_order_case_and_duplicates() -> None:
    """RFC 9110 7.6.1: Connection and the fields for one connection are dropped."""
    fields = [
        (b"X-One", b"1"),
        (b"connection", b"Keep-Alive"),
        (b"x-one", b"2"),
        (b"HTTP2-Settings", b"AAMAAABk"),
        (b"Keep-Alive", b"timeout=5"),
        (b"TE", b"trailers"),
        (b"Trailer", b"X-Sum"),
        (b"Upgrade", b"h2c"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Proxy-Connection", b"close"),
        (b"X-One", b"1"),
    ]

    assert crossing(fields) == b"X-One: 1\r\nx-one: 2\r\nX-One: 1\r\n"


def test_an_answer_cannot_delete_its_own_fields_by_connection() -> None:
    """Requests that try this are refused; an answer keeps the fields, whatever `Connection` says about them."""
    fields = [(b"Connection", b"content-length, set-cookie"), (b"Content-Length", b"2"), (b"Set-Cookie", b"a")]

    assert crossing(fields) == b"Content-Length: 2\r\nSet-Cookie: a\r\n"


@pytest.mark.parametrize("field", sorted(TWINNED | {family + b"x" for family in TWINNED_FAMILIES}))
def test_each_field_that_an_edge_acts_on_is_refused_with_an_underscore(field: bytes) -> None:
    """One underscore among the hyphens is enough, in any case; with hyphens the same field passes."""
    one, all_of_them = field.replace(b"-", b"_", 1), field.replace(b"-", b"_").upper()
    verdicts = [
        check_request(
            RequestHead(b"GET", b"/x", "1.1", [(b"Host", b"pod"), (name, b"1")], True, 0.0),
            max_headers=2,
            max_body_bytes=1,
        )
        for name in (one, all_of_them, b"x" + field)
    ]

    assert verdicts == [Failure.UNDERSCORE_TWIN, Failure.UNDERSCORE_TWIN, None]


def test_lists_are_read_over_all_their_lines() -> None:
    """Members are in lower case, empty ones are left out (RFC 9110 5.6.1)."""
    fields = [(b"Connection", b"Close , ,X-a"), (b"Host", b"pod"), (b"CONNECTION", b"upgrade")]

    values = values_of(fields, b"connection")

    assert values == [b"Close , ,X-a", b"upgrade"]
    assert request(fields).found == {b"connection": values, b"host": [b"pod"]}
    assert members(values) == [b"close", b"x-a", b"upgrade"]


def test_a_request_is_forwarded_as_it_came() -> None:
    """Fields meant for the sidecar are left out; a request without Host gets the engine's."""
    with_host = request([(b"host", b"pod"), (b"Expect", b"100-continue"), (b"Content-Length", b"2")])
    without = RequestHead(b"POST", b"/x", "1.0", [(b"X", b"y"), (b"Content-Length", b"2")], True, 0.0)
    chunked = request([(b"Host", b"pod"), (b"Transfer-Encoding", b"chunked")], framing=Framing.CHUNKED)

    assert request_bytes(with_host, engine_authority=b"e:1") == (
        b"POST /x HTTP/1.1\r\nhost: pod\r\nContent-Length: 2\r\n\r\n"
    )
    assert request_bytes(without, engine_authority=b"e:1", via=b"1.1 sidecar") == (
        b"POST /x HTTP/1.1\r\nHost: e:1\r\nX: y\r\nContent-Length: 2\r\nVia: 1.1 sidecar\r\n\r\n"
    )
    assert request_bytes(chunked, engine_authority=b"e:1") == (
        b"POST /x HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n"
    )


def test_a_spliced_request_states_its_new_length_and_asks_for_plain_text() -> None:
    """The new length has the place and the case of the old one; the client's own Accept-Encoding is replaced."""
    head = request([(b"Host", b"pod"), (b"content-LENGTH", b"2"), (b"accept-encoding", b"gzip"), (b"X", b"y")])

    assert request_bytes(head, engine_authority=b"e:1", content_length=40, identity=True) == (
        b"POST /x HTTP/1.1\r\nHost: pod\r\ncontent-LENGTH: 40\r\nX: y\r\nAccept-Encoding: identity\r\n\r\n"
    )


def test_a_websocket_request_asks_the_engine_in_our_own_words() -> None:
    """Connection is per hop, so the sidecar writes its own."""
    head = request(
        [(b"Host", b"pod"), (b"Connection", b"keep-alive, Upgrade"), (b"Upgrade", b"websocket")], websocket=True
    )

    assert request_bytes(head, engine_authority=b"e:1") == (
        b"POST /x HTTP/1.1\r\nHost: pod\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )


def test_an_answer_keeps_the_engines_status_reason_and_fields() -> None:
    """It is framed for this client, whatever the engine's framing was."""
    head = ResponseHead(299, b"Fine, \xe9", [(b"Set-Cookie", b"a"), (b"set-cookie", b"b")], Framing.CHUNKED)
    cookies = b"HTTP/1.1 299 Fine, \xe9\r\nSet-Cookie: a\r\nset-cookie: b\r\n"

    assert response_bytes(head, Framing.CHUNKED, close=False) == cookies + b"Transfer-Encoding: chunked\r\n\r\n"
    assert response_bytes(head, Framing.UNTIL_CLOSE, close=True) == cookies + b"Connection: close\r\n\r\n"
    assert response_bytes(head, Framing.LENGTH, close=False, keep_alive=True) == (
        cookies + b"Connection: keep-alive\r\n\r\n"
    )


LENGTH = [(b"Content-Length", b"5")]
CHUNKED = [(b"transfer-encoding", b"Chunked")]


@pytest.mark.parametrize(
    ("method", "status", "fields", "framing"),
    [
        (b"GET", 200, LENGTH, (Framing.LENGTH, 5)),
        (b"GET", 200, CHUNKED, (Framing.CHUNKED, 0)),
        (b"GET", 200, [], (Framing.UNTIL_CLOSE, 0)),
        (b"HEAD", 200, LENGTH, (Framing.NONE, 0)),
        (b"HEAD", 200, CHUNKED, (Framing.NONE, 0)),
        (b"GET", 204, LENGTH, (Framing.NONE, 0)),
        (b"GET", 304, LENGTH, (Framing.NONE, 0)),
        (b"GET", 103, [], (Framing.NONE, 0)),
        (b"GET", 103, LENGTH, None),
        (b"GET", 101, CHUNKED, None),
        (b"GET", 99, LENGTH, None),
        (b"GET", 200, LENGTH + CHUNKED, None),
        (b"GET", 200, LENGTH + LENGTH, None),
        (b"GET", 200, [(b"Content-Length", b"5, 5")], None),
        (b"GET", 200, [(b"Content-Length", b"-5")], None),
        (b"GET", 200, [(b"Content-Length", b"")], None),
        (b"GET", 200, [(b"Content-Length", b"9" * 19)], None),
        (b"GET", 200, [(b"Transfer-Encoding", b"gzip, chunked")], None),
        (b"GET", 200, [(b"Transfer-Encoding", b"identity")], None),
    ],
)
def test_where_a_body_ends(
    method: bytes, status: int, fields: list[tuple[bytes, bytes]], framing: tuple[Framing, int] | None
) -> None:
    """RFC 9112 6.3; None for an answer that cannot be trusted to end where it says."""
    assert read_response_framing(method, status, ResponseHead(status, b"", fields, Framing.NONE).found) == framing
