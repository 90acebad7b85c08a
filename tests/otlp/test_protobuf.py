"""ExportTraceServiceRequest in protobuf: the values of each span are read, and no body can do harm."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.engines.span import Span
from sidecar.otlp.limits import (
    MAX_ATTRIBUTES,
    MAX_FIELDS,
    MAX_SPAN_BYTES,
    MAX_SPAN_FIELDS,
    MAX_SPANS,
    MAX_VALUE_BYTES,
    PAUSE_FIELDS,
    MalformedError,
    RefusedError,
    Tally,
    TooLargeError,
)
from sidecar.otlp.protobuf import _Walk, spans
from tests.support.otlp import (
    IDS,
    PARENT,
    PLAIN,
    SPAN,
    TRACE,
    Plain,
    field,
    many_attributes,
    nested_value,
    request_around,
    request_of,
    varint,
)


def read(body: bytes) -> tuple[list[Span], Tally]:
    tally = Tally()
    return [received.span for received in spans(body, tally) if received is not None], tally


def outcome(body: bytes) -> type:
    """Whether the body was read or refused; any other exception is raised."""
    try:
        read(body)
    except RefusedError:
        return RefusedError
    return Span


def test_a_span_says_here_what_its_sender_wrote() -> None:
    """Ids in hex, instants in nanoseconds, plain attributes; arrays, maps and bytes are left out."""
    found, tally = read(request_of({"trace_state": "lane=batch"}).SerializeToString())

    assert found == [
        Span(
            trace_id=TRACE,
            span_id=SPAN,
            parent_span_id=PARENT,
            name="llm_request",
            start_unix_nano=1_700_000_000_000_000_000,
            end_unix_nano=1_700_000_001_500_000_000,
            attributes=PLAIN,
            scope="vllm.llm_engine",
            service="vllm",
            trace_state="lane=batch",
        )
    ]
    assert tally == Tally()


def test_a_resource_and_a_scope_that_stand_behind_their_spans_are_theirs_all_the_same() -> None:
    """The sender may choose the order of fields."""
    scope = field(1, field(1, b"scope"))
    resource = field(1, field(1, field(1, b"service.name") + field(2, field(1, b"late"))))
    body = field(1, field(2, field(2, IDS) + scope) + resource)

    found, _ = read(body)

    assert [(span.scope, span.service) for span in found] == [("scope", "late")]


def test_a_span_that_ends_before_it_begins_is_handed_on_as_it_is() -> None:
    """Clocks step back, and the engine's file judges its instants. A span that comes twice is handed on twice: the join counts it
    once."""
    found, tally = read(request_of({"start_time_unix_nano": 5, "end_time_unix_nano": 3}, {}, {}).SerializeToString())

    assert [span.end_unix_nano - span.start_unix_nano for span in found] == [-2, 1_500_000_000, 1_500_000_000]
    assert tally.rejected == 0


@pytest.mark.parametrize(
    ("span", "why"),
    [
        pytest.param(b"", "without a trace id", id="empty"),
        pytest.param(field(1, bytes(16)) + field(2, b"12345678"), "without a trace id", id="trace id of zeros"),
        pytest.param(field(1, b"short") + field(2, b"12345678"), "wrong length", id="short trace id"),
        pytest.param(IDS + field(5, b"\xff\xfe"), "not UTF-8", id="a name that is no text"),
        pytest.param(IDS + field(5, b"n" * 1025), "longer than 1024", id="a name without end"),
        pytest.param(IDS + b"\x08\x01" * (MAX_SPAN_FIELDS + 1), "fields", id="too many fields"),
    ],
)
def test_a_span_that_cannot_be_taken_costs_itself_and_no_other(span: bytes, why: str) -> None:
    body = field(1, field(2, field(2, span) + field(2, IDS)))

    found, tally = read(body)

    assert [each.span_id for each in found] == [SPAN]
    assert tally.rejected == 1
    assert why in tally.why


@pytest.mark.parametrize(
    ("count", "why"),
    [
        pytest.param(1_000_000, f"more than {MAX_SPAN_BYTES} bytes", id="a million"),
        pytest.param(10_000, f"more than {MAX_ATTRIBUTES} attributes", id="ten thousand"),
    ],
)
def test_more_attributes_than_any_engine_sends_cost_their_span_and_no_work(count: int, why: str) -> None:
    """The span's length is known, so the rest of it is skipped in one step."""
    tally = Tally()
    walk = _Walk(many_attributes(count), tally)

    assert [received for received in walk.request() if received is not None] == []
    assert tally == Tally(rejected=1, why=f"a span {'of' if count > 10_000 else 'with'} {why}")
    assert MAX_FIELDS - walk._fields.left < 5 * MAX_ATTRIBUTES


def test_what_is_too_long_to_be_a_report_is_left_out_and_not_cut() -> None:
    attributes: dict[str, Plain] = {
        "long": "x" * (MAX_VALUE_BYTES + 1),
        "k" * 300: 1.5,
        "k" * 200: 2.5,
        "fits": "x" * MAX_VALUE_BYTES,
    }

    ((span,), tally) = read(request_of({}, attributes=attributes).SerializeToString())

    assert list(span.attributes) == ["k" * 200, "fits"]
    assert tally.rejected == 0


def test_ten_thousand_nested_values_are_stepped_over_and_not_entered() -> None:
    """The parser does not recurse, so the stack cannot be exhausted."""
    attribute = field(9, field(1, b"deep") + field(2, nested_value(10_000)))
    plain = field(9, field(1, b"plain") + field(2, b"\x18\x07"))

    ((span,), _) = read(request_around(IDS + attribute + plain))

    assert span.attributes == {"plain": 7}


def test_spans_beyond_ten_thousand_are_counted_and_not_read() -> None:
    body = field(1, field(2, field(2, IDS) * (MAX_SPANS + 7)))

    found, tally = read(body)

    assert len(found) == MAX_SPANS
    assert tally.rejected == 7


@pytest.mark.long
def test_a_request_of_nothing_but_fields_ends_at_their_bound() -> None:
    """The bound holds for fields outside of spans and for fields within many spans."""
    with pytest.raises(TooLargeError):
        read(b"\x08\x01" * (MAX_FIELDS + PAUSE_FIELDS + 1))
    span = field(2, IDS + b"\x40\x01" * (MAX_SPAN_FIELDS - 10))
    with pytest.raises(TooLargeError):
        read(field(1, field(2, span * 1100)))


def test_a_request_cut_short_anywhere_is_refused() -> None:
    """Cut at every byte: no prefix but the empty one is a request."""
    body = request_of({}).SerializeToString()

    refused = []
    for size in range(1, len(body)):
        with pytest.raises(MalformedError) as error:
            read(body[:size])
        refused.append(error.value.status)

    assert refused == [400] * (len(body) - 1)
    assert read(b"") == ([], Tally())


@pytest.mark.parametrize(
    "junk",
    [
        pytest.param(b"\xff" * 11, id="a varint without end"),
        pytest.param(b"\x08" + b"\xff" * 9 + b"\x7f", id="a varint beyond 64 bits"),
        pytest.param(b"\x00\x01", id="field number 0"),
        pytest.param(varint(1 << 35) + b"\x01", id="a field number beyond its range"),
        pytest.param(b"\x0b\x0c", id="a group"),
        pytest.param(b"\x0e", id="wire type 6"),
        pytest.param(b"\x0a\xff\xff\xff\xff\x0f", id="longer than everything"),
        pytest.param(b"\x09\x01", id="fixed64 cut short"),
    ],
)
def test_what_is_no_protobuf_is_refused_at_every_depth(junk: bytes) -> None:
    for body in (junk, field(1, junk), field(1, field(2, junk)), request_around(IDS + junk)):
        with pytest.raises(MalformedError):
            read(body)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_read_and_nothing_else(body: bytes) -> None:
    assert outcome(body) in (RefusedError, Span)


@given(st.data())
def test_a_request_with_any_one_byte_changed_is_refused_or_read(data: st.DataObject) -> None:
    """Changed bytes reach deeper than random bytes; where the reference parser reads the body, the number of spans with
    ids is the same."""
    body = bytearray(request_of({}, {}).SerializeToString())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found, tally = read(bytes(body))
    except MalformedError:
        return
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(bytes(body))
    except Exception:  # noqa: BLE001  what stands in stepped-over parts is not judged here
        return
    theirs = sum(len(scope.spans) for around in request.resource_spans for scope in around.scope_spans)
    assert len(found) + tally.rejected == theirs


def test_the_next_pause_is_never_far() -> None:
    """Between two checks of the clock lie at most a pause's fields and one span's, for any body."""
    hostile = {
        "junk": b"\x08\x01" * 20_000,
        "resources": field(1, field(1, b"")) * 5_000,
        "spans at their limit": field(1, field(2, field(2, IDS + b"\x40\x01" * (MAX_SPAN_FIELDS - 10)) * 50)),
        "spans beyond it": field(1, field(2, field(2, IDS + b"\x40\x01" * 5_000) * 50)),
        "empty spans": field(1, field(2, field(2, b"") * 9_000)),
    }
    for name, body in hostile.items():
        walk = _Walk(body, Tally())
        left = [MAX_FIELDS, *(walk._fields.left for _ in walk.request())]
        longest = max(before - after for before, after in pairwise([*left, walk._fields.left]))

        assert longest <= PAUSE_FIELDS + MAX_SPAN_FIELDS + 20, name
