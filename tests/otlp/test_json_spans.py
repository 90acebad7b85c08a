"""OTLP/JSON gives the same spans, the same refusals and the same pauses as protobuf."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.span import Span
from sidecar.otlp import json_spans, protobuf
from sidecar.otlp.limits import (
    MAX_ATTRIBUTES,
    MAX_JSON_SPAN_BYTES,
    MAX_JSON_SPAN_TOKENS,
    MAX_SPANS,
    MalformedError,
    RefusedError,
    Tally,
    TooLargeError,
)
from tests.support.otlp import SPAN, TRACE, json_of, request_of


IDS = {"traceId": TRACE, "spanId": SPAN}


def read(body: bytes) -> tuple[list[Span], Tally]:
    tally = Tally()
    return [received.span for received in json_spans.spans(body, tally) if received is not None], tally


def outcome(body: bytes) -> type:
    """Whether the body was read or refused; any other exception is raised."""
    try:
        read(body)
    except RefusedError:
        return RefusedError
    return Span


def around(*spans: object) -> bytes:
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}).encode()


_IDS = st.binary(min_size=8, max_size=8).filter(any).map(bytes.hex)
_SPANS = st.fixed_dictionaries(
    {
        "span_id": _IDS,
        "parent_span_id": st.one_of(st.just(""), _IDS),
        "name": st.text(max_size=30),
        "trace_state": st.text(max_size=30),
        "start_time_unix_nano": st.integers(0, 2**64 - 1),
        "end_time_unix_nano": st.integers(0, 2**64 - 1),
    }
)
_VALUES = st.one_of(
    st.text(max_size=20),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=5),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3),
)


@given(
    st.lists(_SPANS, max_size=4),
    st.text(max_size=10),
    st.dictionaries(st.text(min_size=1, max_size=20), _VALUES, max_size=5),
)
def test_json_and_protobuf_of_one_request_give_the_same_spans(
    fields: list[dict[str, Any]], service: str, attributes: dict[str, Any]
) -> None:
    request = request_of(*fields, service=service, attributes=attributes)

    theirs = [
        received.span for received in protobuf.spans(request.SerializeToString(), Tally()) if received is not None
    ]
    assert read(json_of(request)) == (theirs, Tally())


def test_the_order_of_members_is_the_senders_choice_and_null_is_absent() -> None:
    """Spans may come before their scope, and scopes before their resource; a null list is an empty one."""
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "late"}}]}
    body = {
        "else": [1, "[", {"a": '\\"}'}],
        "resourceSpans": [
            {"scopeSpans": [{"spans": [IDS], "scope": {"name": "scope"}}], "resource": service},
            {"scopeSpans": None},
            {"resource": None, "scopeSpans": [{"scope": None, "spans": None}, {"scope": {}, "spans": []}]},
        ],
    }

    found, tally = read(json.dumps(body, indent=2).encode())

    assert [(span.span_id, span.scope, span.service) for span in found] == [(SPAN, "scope", "late")]
    assert tally == Tally()


@pytest.mark.parametrize(
    ("span", "why"),
    [
        pytest.param({}, "without a trace id", id="empty"),
        pytest.param({"traceId": "0" * 32, "spanId": SPAN}, "without a trace id", id="trace id of zeros"),
        pytest.param({**IDS, "traceId": "Cvd2UZFs1DzYRIuyHIAxnA=="}, "wrong length", id="an id in base64"),
        pytest.param({**IDS, "spanId": "zz" * 8}, "alphabet", id="an id that is not hex"),
        pytest.param({**IDS, "startTimeUnixNano": "-1"}, "instant", id="before 1970"),
        pytest.param({**IDS, "endTimeUnixNano": "soon"}, "instant", id="an instant that is none"),
        pytest.param({**IDS, "name": 7}, "not OTLP/JSON", id="a name that is a number"),
        pytest.param({**IDS, "attributes": [{}] * (MAX_ATTRIBUTES + 1)}, "attributes", id="too many attributes"),
        pytest.param({**IDS, "x": "y" * MAX_JSON_SPAN_BYTES}, "bytes of JSON", id="too long"),
        pytest.param({**IDS, "x": [[]] * MAX_JSON_SPAN_TOKENS}, "brackets of JSON", id="too many brackets"),
        pytest.param([], "not OTLP/JSON", id="a list"),
    ],
)
def test_a_span_that_cannot_be_taken_costs_itself_and_no_other(span: object, why: str) -> None:
    found, tally = read(around(span, IDS))

    assert [each.span_id for each in found] == [SPAN]
    assert tally.rejected == 1
    assert why in tally.why


def test_as_many_attributes_as_are_allowed_are_read_also_with_values_that_are_left_out() -> None:
    """Each value here is an array of three texts: 18 brackets an attribute."""
    array = {"arrayValue": {"values": [{"stringValue": "x"}] * 3}}
    attributes = [{"key": f"n{n}", "value": array} for n in range(MAX_ATTRIBUTES - 1)]
    last = {"key": "last", "value": {"intValue": 1}}

    ((span,), tally) = read(around({**IDS, "attributes": [*attributes, last]}))

    assert (span.attributes, tally) == ({"last": 1}, Tally())


def test_numbers_come_as_strings_or_as_numbers() -> None:
    values = [{"intValue": "-5"}, {"intValue": 7}, {"doubleValue": 1}, {"doubleValue": "Infinity"}, {"intValue": "x"}]
    attributes = [{"key": str(n), "value": value} for n, value in enumerate([*values, {}, None])]

    ((span,), _) = read(around({**IDS, "startTimeUnixNano": 5, "endTimeUnixNano": "8", "attributes": attributes}))

    assert (span.start_unix_nano, span.end_unix_nano) == (5, 8)
    assert span.attributes == {"0": -5, "1": 7, "2": 1.0, "3": float("inf")}
    assert [type(value) for value in span.attributes.values()] == [int, int, float, float]


def test_a_request_cut_short_anywhere_is_refused() -> None:
    body = json_of(request_of({}))

    refused = []
    for size in range(len(body)):
        with pytest.raises(MalformedError) as error:
            read(body[:size])
        refused.append(error.value.status)

    assert refused == [400] * len(body)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"[]", MalformedError, id="a list"),
        pytest.param(b"{} {}", MalformedError, id="two"),
        pytest.param(b'{"resourceSpans": 5}', MalformedError, id="a number for a list"),
        pytest.param(b'{"resourceSpans": [5]}', MalformedError, id="a number for an object"),
        pytest.param(b'{"a": [}', MalformedError, id="closed by another"),
        pytest.param(b'{"a" 1}', MalformedError, id="no colon"),
        pytest.param(b'{"a": 1,}', MalformedError, id="a comma too many"),
        pytest.param(b'{"a": "' + b"\\" * 5001 + b'"}', MalformedError, id="backslashes without end"),
        pytest.param(b" " * 10_000 + b"{}", MalformedError, id="space without end"),
        pytest.param(b'{"a": ' + b"9" * 200_000 + b"}", MalformedError, id="a number without end"),
        pytest.param(b'{"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", TooLargeError, id="10,000 deep"),
        pytest.param(
            b'{"a": [' + b"[]," * 600_000 + b"[]]}", TooLargeError, id="brackets without end", marks=pytest.mark.long
        ),
    ],
)
def test_what_is_no_such_request_is_refused(body: bytes, error: type[RefusedError]) -> None:
    with pytest.raises(error):
        read(body)


def test_spans_beyond_ten_thousand_are_counted_and_not_read() -> None:
    found, tally = read(around(*[IDS] * (MAX_SPANS + 3)))

    assert len(found) == MAX_SPANS
    assert tally.rejected == 3


@given(st.one_of(st.binary(max_size=200), st.text(alphabet='{}[]":,\\ nulresoucSpa0', max_size=200).map(str.encode)))
def test_random_bytes_are_refused_or_read_and_nothing_else(body: bytes) -> None:
    assert outcome(body) in (RefusedError, Span)


@given(st.data())
def test_a_request_with_any_one_byte_changed_is_refused_or_read(data: st.DataObject) -> None:
    body = bytearray(json_of(request_of({}, {})))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found, tally = read(bytes(body))
    except MalformedError:
        return
    assert len(found) + tally.rejected <= 2


def test_the_next_pause_is_never_far() -> None:
    """Objects without end, strings without end and a long span are all read in steps of a few hundred tokens."""
    hostile = [
        b'{"resourceSpans": [' + b'{"scopeSpans":[{"spans":[{}]}]},' * 5_000 + b"{}]}",
        b'{"a": "' + b'\\"' * 20_000 + b'"}',
        b'{"a": [' + b'"x",' * 20_000 + b'"x"]}',
        b'{"a": "' + b"x" * 4_000_000 + b'"}',
        b'{"a": [' + b"1," * 1_000_000 + b"1]}",
        b'{"a": "' + b"\\" * 4_000_000 + b'"}',
        b'{"' + b"\\n" * 1_000_000 + b'\\"": 1}',
    ]
    for body in hostile:
        walk = json_spans._Walk(body, Tally())
        tokens = [0, *(walk._text.tokens for _ in walk.request())]
        steps = [after - before for before, after in zip(tokens, [*tokens[1:], walk._text.tokens], strict=True)]

        assert max(steps) <= 600
