"""The readers of spans: OTLP in protobuf, and the inflation of a compressed body.

Google's protobuf and zlib read the same bytes: each span that is taken must be one of theirs, in their order,
and each of theirs is taken or counted as rejected.
"""

import gzip
import zlib

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sidecar.otlp import protobuf
from sidecar.otlp.inflation import PIECE_BYTES, Inflation
from sidecar.otlp.limits import MAX_DECODED_BYTES, MalformedError, RefusedError, Tally, TooLargeError
from tests.fuzz.target import Target, cuts


Read = tuple[str, str, str, str, int, int]
"""One span: trace id, its own, its parent's, name, and its two instants."""


def _rises(found: list[Read], among: list[Read]) -> bool:
    """Whether `found` are some of `among`, in their order."""
    rest = iter(among)
    return all(any(one == other for other in rest) for one in found)


def _id(raw: bytes) -> str:
    return raw.hex() if any(raw) else ""


def check_protobuf(data: bytes) -> None:
    tally, found, raw = Tally(), [], []
    try:
        for received in protobuf.spans(data, tally):
            if received is not None:
                span = received.span
                found.append(
                    (
                        *(span.trace_id, span.span_id, span.parent_span_id, span.name),
                        span.start_unix_nano,
                        span.end_unix_nano,
                    )
                )
                raw.append(received.raw)
    except RefusedError:
        return
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return  # it enters what we step over
    spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
    stated = [
        (
            *(_id(span.trace_id), _id(span.span_id), _id(span.parent_span_id), span.name),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
        )
        for span in spans
    ]
    assert len(found) + tally.rejected == len(spans), "a span is neither taken nor rejected"
    assert _rises(found, stated), "google's protobuf reads another span"
    assert all(one[0] and one[1] for one in found)
    assert [_id(Span.FromString(part).trace_id) for part in raw] == [one[0] for one in found], (
        "other bytes would be sent on"
    )


# --- gzip ----------------------------------------------------------------------------------------------------------------


def _inflated(pieces: list[bytes]) -> bytes | type[RefusedError]:
    inflation, out = Inflation(), b""
    try:
        for piece in pieces:
            for part in inflation.feed(piece):
                assert len(part) <= PIECE_BYTES
                out += part
        inflation.end()
    except RefusedError as refused:
        return type(refused)
    assert len(out) <= MAX_DECODED_BYTES
    return out


def check_inflation(data: bytes) -> None:
    """The first byte says what is inflated: the bytes, or they compressed, repeated, in members, or with one bit turned."""
    mode, said = (data[0] % 5 if data else 0), data[1:]
    body = said
    if mode:
        parts = (said,) if mode != 3 else (said[: len(said) // 2], said[len(said) // 2 :])
        parts = (said * 5000,) if mode == 2 else parts
        body = b"".join(gzip.compress(part, 1, mtime=0) for part in parts)
    if mode == 4 and said:
        place = said[0] % len(body)
        body = body[:place] + bytes([body[place] ^ 1 << said[-1] % 8]) + body[place + 1 :]
    whole = _inflated([body])
    for pieces in cuts(body):
        one = _inflated(pieces)
        # A ratio is looked at after each segment: bombs are refused sooner or later, other bodies alike.
        assert one == whole or TooLargeError in (one, whole), "the cuts change the body"
    try:
        expected = gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        assert whole in (MalformedError, TooLargeError) or isinstance(whole, bytes)
        return
    assert whole in (expected, TooLargeError) or not body or body.endswith(b"\0")


def _request() -> bytes:
    """A real request, as the library writes it."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.schema_url = "s"
    attribute = resource.resource.attributes.add(key="service.name")
    attribute.value.string_value = "vllm"
    scope = resource.scope_spans.add()
    scope.scope.name = "vllm.llm_engine"
    span = scope.spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, parent_span_id=b"p" * 8, name="llm_request")
    span.start_time_unix_nano, span.end_time_unix_nano = 1, 2
    span.attributes.add(key="gen_ai.latency.time_in_queue").value.double_value = 0.5
    span.attributes.add(key="n").value.int_value = -1
    span.attributes.add(key="b").value.bool_value = True
    span.attributes.add(key="a").value.array_value.values.add().int_value = 1
    span.events.add(name="e", time_unix_nano=3)
    written: bytes = request.SerializeToString()
    return written


SPANS = (
    Target(
        "otlp_protobuf",
        check_protobuf,
        (_request(), b"", _request() + _request()),
        (b"\x0a\x10", b"\x12\x08", b"\x12\x09\x21"),
        512,
    ),
    Target(
        "inflation",
        check_inflation,
        (b"\1hello", b"\2" + bytes(99), b"\3hello you", b"\4hello you", b"\0" + gzip.compress(b"x", mtime=0)),
        (b"\x1f\x8b\x08",),
        256,
        calls_a_byte=20_000,
    ),
)
