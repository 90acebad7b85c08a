"""Answers to requests of spans, read by the real protobuf types of OpenTelemetry and of Google's Status."""

import json

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sidecar.otlp.limits import BusyError, MalformedError, RefusedError, Tally, TooLargeError
from sidecar.otlp.responses import response, status


def test_a_request_taken_whole_is_answered_by_an_empty_message() -> None:
    """Spans that no report is made of are not refused: their sender did nothing wrong."""
    tally = Tally(taken=3, unknown=500)

    assert (response(tally), json.loads(response(tally, json=True))) == (b"", {})


@pytest.mark.parametrize("rejected", [1, 127, 128, 10_000])
def test_rejected_spans_are_counted_with_the_reason_for_the_first(rejected: int) -> None:
    """In both encodings; a count above 127 takes two bytes and more."""
    tally = Tally()
    for number in range(rejected):
        tally.reject("a name of 2000 bytes" if number == 0 else "another reason")

    partial = ExportTraceServiceResponse.FromString(response(tally)).partial_success
    assert (partial.rejected_spans, partial.error_message) == (rejected, "a name of 2000 bytes")
    assert json.loads(response(tally, json=True)) == {
        "partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": "a name of 2000 bytes"}
    }


@pytest.mark.parametrize("error", [MalformedError("cut short"), TooLargeError("x" * 300), BusyError("4 are held")])
def test_a_refusal_is_a_status_with_its_code_and_text(error: RefusedError) -> None:
    packed = Status.FromString(status(error))

    assert (packed.code, packed.message) == (error.code, str(error))
    assert json.loads(status(error, json=True)) == {"code": error.code, "message": str(error)}
