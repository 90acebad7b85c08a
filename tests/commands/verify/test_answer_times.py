"""An answer's times by the client's clock, and what is said against an answer that is none."""

import pytest

from sidecar.commands.verify.answer_times import told_in
from sidecar.engines.probe.state_names import PageTime
from sidecar.ledger.account import Source
from sidecar.ledger.report import EngineReport
from tests.commands.verify.played import (
    SENT_AT,
    answer,
    cut_short,
    document,
    event,
    every,
    exchange,
    stream,
    token,
    usage,
)


METRICS = {"queue_time_ms": 20.0, "time_to_first_token_ms": 150.0, "generation_time_ms": 300.0}


def test_times_begin_when_the_request_was_written_and_the_engine_stands_beside_them() -> None:
    seen = exchange(
        stream(4, every(0.1, 4, 0.2), metrics=METRICS),
        ("server", "uvicorn"),
        ("x-user", "ann"),
    )
    found = answer(seen)

    assert (found.ttft_seconds, found.between_seconds, found.total_seconds) == pytest.approx((0.2, 0.1, 0.5))
    assert (found.good, found.reads, found.tokens, found.finish) == (True, 4, 4, "length")
    assert told_in(found.report) == {PageTime.QUEUE: 0.02, PageTime.PREFILL: 0.15, PageTime.DECODE: 0.3}
    assert found.fields == (("server", "uvicorn"),)


def test_a_stream_cut_at_every_byte_says_the_same() -> None:
    """All bytes come at one instant, in two reads that are cut anywhere."""
    ((at, data),) = stream(3, [0.5], metrics=METRICS)
    whole = answer(exchange([(at, data)]))

    for cut in range(1, len(data)):
        found = answer(exchange([(at, data[:cut]), (at, data[cut:])]))
        assert (found.marks, found.report, found.failure) == (whole.marks, whole.report, "")


def test_what_an_engine_does_not_measure_itself_is_not_told() -> None:
    """A queue that is a remainder, or queue and prefill as one number, is no second source."""
    derived = EngineReport(0.1, 0.2, 0.3, queue_source=Source.DERIVED)

    assert told_in(derived) == {PageTime.PREFILL: 0.2, PageTime.DECODE: 0.3}
    assert told_in(EngineReport(0.1, merged=True)) == told_in(None) == {}


@pytest.mark.parametrize(
    ("body", "status", "content_type", "words"),
    [
        (b"{}", 200, "application/json", "answers 200, and no output is in it"),
        (b"<html>busy</html>", 200, "application/json", "answers 200 with no JSON of this API (application/json)"),
        (b"data: [DONE]\n\n", 200, "text/event-stream", "answers 200, and no output is in it"),
        (b'data: {"error": {"message": "no"}}\n\n', 200, "text/event-stream", "the answer is an error"),
        (b"upstream\n  timeout", 504, "text/plain", "answers 504: upstream timeout"),
        (b"", 502, "text/plain", "answers 502: without a word"),
        (b"", 301, "text/html", "redirects (301)"),
    ],
)
def test_what_is_said_of_an_answer_that_is_none(body: bytes, status: int, content_type: str, words: str) -> None:
    found = answer(exchange([(SENT_AT + 1, body)], ("content-type", content_type), status=status))

    assert words in found.failure
    assert not found.good


def test_a_connection_that_breaks_is_no_answer() -> None:
    pieces = stream(64, every(0.01, 64, 0.2))[:5]

    assert answer(exchange(pieces, failure="closed the connection")).failure == "closed the connection"
    assert answer(exchange([], status=None)).failure == "does not answer"


def test_what_was_not_asked_for_is_no_good_answer() -> None:
    """A gateway that collects a stream gives one document; it is the worst buffer."""
    found = answer(exchange([(SENT_AT + 0.7, document(64))], ("content-type", "application/json")))

    assert (found.failure, found.collected) == (
        "answers 200: a stream was asked for, and one document came (application/json)",
        True,
    )


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        (b"", "answers 200, and ends in the middle: neither a finish reason nor the end mark came"),
        (usage(40, 2), "answers 200, and ends in the middle: neither a finish reason nor the end mark came"),
        (token("length"), ""),
        (event("[DONE]"), ""),
    ],
)
def test_a_stream_is_whole_by_either_mark_of_its_end(end: bytes, failure: str) -> None:
    assert answer(exchange([(SENT_AT + 0.5, token() + token() + end)])).failure == failure


@pytest.mark.parametrize("content_type", ["text/plain", "text/event-stream", "application/json", ""])
def test_nothing_said_of_a_200_repeats_its_text(content_type: str) -> None:
    """It may be a model's answer: the document is sent to strangers."""
    secret = b"The patient"
    bodies = [
        secret,
        document(3, text=secret.decode()),
        event({"error": {"message": secret.decode()}}),
        event({"choices": [{"index": 0, "delta": {"content": secret.decode()}}]}),
    ]
    found = [answer(exchange([(SENT_AT + 1, body)], ("content-type", content_type))).failure for body in bodies]

    assert any(found)
    assert all("patient" not in failure for failure in found)


def test_a_cut_stream_is_not_good_however_well_its_framing_ends() -> None:
    assert "ends in the middle" in cut_short("chat-short-64").answer.failure
