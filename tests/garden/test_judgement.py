"""Verdicts on attacks: a hop that lets nothing through passes, and each way of being led astray is named."""

import pytest

from tests.garden.hostile_answers import HostileAnswer
from tests.garden.judgement import Exchanged, expected_methods, judge_answer, judge_sequence
from tests.garden.recording_origin import SeenRequest
from tests.garden.sequence import SMUGGLED, Family, Trick, chunked, marked, post, sequence_of
from tests.garden.strict_reader import read_requests


GOOD = sequence_of(Trick(Family.BODIES, "a request in a body", post(b"Content-Length: 56", body=SMUGGLED)), 3)
BAD = sequence_of(
    Trick(Family.FRAMING, "both", post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=chunked(SMUGGLED))), 3
)
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def seen(*requests: bytes) -> list[SeenRequest]:
    """The requests at the origin; the first has index 10."""
    found = []
    for index, data in enumerate(requests):
        (message,) = read_requests(marked(data, 3)).messages
        found.append(SeenRequest(10 + index, message, frozenset({3})))
    return found


def answers(*indexes: int, ended: bool = False) -> Exchanged:
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-garden-seen: %d\r\n\r\nok"
    return Exchanged(b"".join(body % index for index in indexes), ended)


ATTACK = post(b"Content-Length: 56", body=SMUGGLED)
CANARY = b"GET /garden/GARDENID/canary HTTP/1.1\r\nHost: garden\r\n\r\n"


def test_a_hop_that_passes_on_what_it_was_sent_is_sound() -> None:
    assert judge_sequence(GOOD, answers(10, 11), seen(ATTACK, CANARY), strict=True) is None


def test_a_hop_that_refuses_and_closes_is_sound() -> None:
    assert judge_sequence(BAD, Exchanged(REFUSED, ended=True), [], strict=True) is None


@pytest.mark.parametrize(
    ("got", "at_the_origin", "fault"),
    [
        (
            answers(10, 11),
            seen(ATTACK, SMUGGLED, CANARY),
            "the origin read 3 requests, and the client got answers to 2",
        ),
        (answers(10, 99), seen(ATTACK, CANARY), "the client got the answer to request 99, which another client sent"),
        (answers(10), seen(ATTACK), "1 answers to 2 good requests, and no end of the connection"),
        (answers(10, 11, 12), seen(ATTACK, CANARY, CANARY), "3 answers to 2 requests"),
        (
            answers(10, 11),
            seen(ATTACK.replace(b"garden\r\n\r\n", b"gardem\r\n\r\n"), CANARY),
            "the origin read requests that",
        ),
        (Exchanged(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", ended=True), [], "an answer was cut short"),
        (Exchanged(b"HTTP/1.1 200 O\x00K\r\n\r\n", ended=True), [], "the client got no valid answer: no status line"),
    ],
)
def test_each_fault_is_named(got: Exchanged, at_the_origin: list[SeenRequest], fault: str) -> None:
    """A smuggled request, an answer of another client, silence, a request too many, a changed body, answers that are none."""
    told = judge_sequence(GOOD, got, at_the_origin, strict=True)

    assert told is not None
    assert told.startswith(fault)


def test_a_twin_of_the_framing_at_the_origin_is_a_fault() -> None:
    twin = ATTACK.replace(b"Host: garden\r\n", b"Host: garden\r\nTransfer_Encoding: chunked\r\n", 1)
    told = judge_sequence(GOOD, answers(10, 11), seen(twin, CANARY), strict=False)

    assert told == "the origin got a field that some servers take for the framing: Transfer_Encoding"


def test_bytes_that_the_origin_cannot_read_are_a_fault() -> None:
    """Two framings in one request are another request for some servers; a target of an odd form is none."""
    refused = Exchanged(REFUSED, ended=True)
    problem = "both Content-Length and Transfer-Encoding"

    told = judge_sequence(BAD, refused, [], problem=problem, strict=False)
    assert told == f"the origin got bytes that some servers read as another request: {problem}"
    assert judge_sequence(BAD, refused, [], problem="a target of no known form", strict=False) is None


def test_more_answers_than_requests_are_a_fault() -> None:
    assert judge_sequence(GOOD, answers(1, 2, 3), [], strict=False) == "3 answers to 2 requests"


def test_an_answer_to_http_0_9_is_a_body_alone() -> None:
    """A hop that speaks HTTP/0.9 sends no head; the strict hop must not speak it."""
    old = sequence_of(Trick(Family.VERSIONS, "0.9", b"GET /garden/GARDENID\r\n"), 3)
    got = Exchanged(b"garden-seen 10\n", ended=True)
    at_the_origin = seen(b"GET /garden/GARDENID HTTP/1.1\r\nHost: a\r\n\r\n")

    assert judge_sequence(old, got, at_the_origin, strict=False) is None
    assert (
        judge_sequence(old, got, at_the_origin, strict=True)
        == "the client got no valid answer: a line that ends with a bare LF"
    )


def test_an_answer_in_http_2_is_none_of_ours() -> None:
    """HAProxy speaks HTTP/2 to its preface; the strict hop must not."""
    preface = sequence_of(Trick(Family.VERSIONS, "2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 3)
    got = Exchanged(bytes.fromhex("00000007000000000000"), ended=True)

    assert judge_sequence(preface, got, [], strict=False) is None
    assert judge_sequence(preface, got, [], strict=True) == "an answer was cut short"


def test_a_refusal_of_head_may_have_a_body() -> None:
    """A hop that could not read the request line need not know that it was a HEAD; then it must close."""
    head = sequence_of(Trick(Family.TARGETS, "HEAD", b"HEAD a#GARDENID HTTP/1.1\r\nHost: a\r\n\r\n"), 3)
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    assert expected_methods(head.sent, read_requests(head.sent)) == [b"HEAD"]
    assert judge_sequence(head, Exchanged(refused, ended=True), [], strict=True) is None


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
NEXT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n11"


@pytest.mark.parametrize(
    ("sent", "got", "ended", "fault"),
    [
        (OK, OK + NEXT, False, None),
        (OK + OK, OK + NEXT, False, None),
        (OK + OK, OK + OK, False, "the next request got other bytes: b'hello'"),
        (OK, OK.replace(b"hello", b"HELLO"), True, "status or body differ: 200 with 5 bytes"),
        (OK[:-1], OK[:-1], True, None),
        (
            OK[:-1],
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",
            False,
            "the origin's answer had no valid end, and",
        ),
        (b"garbage\n", b"HTTP/1.1 502 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", True, None),
        (b"garbage\n", b"", False, "no answer, and no end of the connection"),
        (b"garbage\n", b"garbage\n", True, "the client got no valid answer: "),
    ],
)
def test_an_answer_reaches_the_client_whole_or_not_at_all(
    sent: bytes, got: bytes, ended: bool, fault: str | None
) -> None:
    answer = HostileAnswer("x", "y", (sent,), closes=ended)
    told = judge_answer(answer, b"GET", Exchanged(got, ended), b"11")

    assert (told is None) == (fault is None)
    assert (told or "").startswith(fault or "")
