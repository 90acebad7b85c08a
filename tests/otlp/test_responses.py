"""Answers to requests of spans, read by the real protobuf types of OpenTelemetry and of Google's Status."""

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sidecar.otlp.limits import BusyError, MalformedError, RefusedError, Tally, TooLargeError
from sidecar.otlp.responses import ANSWER_FIELDS, rejected_spans, response, status
from tests.support.collector import partly


def test_a_request_taken_whole_is_answered_by_an_empty_message() -> None:
    """Spans that no report is made of are not refused: their sender did nothing wrong."""
    tally = Tally(taken=3, unknown=500)

    assert response(tally) == b""


@pytest.mark.parametrize("rejected", [1, 127, 128, 10_000])
def test_rejected_spans_are_counted_with_the_reason_for_the_first(rejected: int) -> None:
    """A count above 127 takes two bytes and more."""
    tally = Tally()
    for number in range(rejected):
        tally.reject("a name of 2000 bytes" if number == 0 else "another reason")

    partial = ExportTraceServiceResponse.FromString(response(tally)).partial_success
    assert (partial.rejected_spans, partial.error_message) == (rejected, "a name of 2000 bytes")


@pytest.mark.parametrize("error", [MalformedError("cut short"), TooLargeError("x" * 300), BusyError("4 are held")])
def test_a_refusal_is_a_status_with_its_code_and_text(error: RefusedError) -> None:
    packed = Status.FromString(status(error))

    assert (packed.code, packed.message) == (error.code, str(error))


@pytest.mark.parametrize(
    ("stated", "rejected"), [(0, 0), (1, 1), (127, 127), (128, 128), (500, 500), (501, 500), (-1, 0)]
)
def test_a_collectors_answer_says_how_many_of_the_sent_spans_it_rejected(stated: int, rejected: int) -> None:
    """Never more than were sent, and never fewer than none."""
    assert rejected_spans(partly(stated, "Gr\u00fc\u00dfe").body, 500) == (rejected, "Gr\u00fc\u00dfe")


def test_an_answer_cut_anywhere_rejects_none_or_what_it_says() -> None:
    """A part of it is no answer; unknown fields are passed over."""
    body = partly(300, "no ids").body

    assert {rejected_spans(body[:end], 500) for end in range(len(body))} == {(0, "")}
    assert rejected_spans(b"\x12\x01x\x18\x07" + body, 500) == (300, "no ids")


@pytest.mark.parametrize("inside", [False, True])
def test_an_answer_of_thousands_of_fields_is_not_read(inside: bool) -> None:
    """It would hold the loop; its status has said that the request was taken."""
    many = b"\x08\x05" * (ANSWER_FIELDS + 1)
    body = partly(0, "").body[:1] + b"\x82\x01" + many if inside else b"\x18\x01" * ANSWER_FIELDS + partly(5, "").body

    assert (len(many), rejected_spans(body, 500)) == (130, (0, ""))
