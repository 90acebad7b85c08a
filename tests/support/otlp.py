"""OTLP requests of spans as OpenTelemetry's own messages, and hostile ones written by hand.

Knows opentelemetry-proto (a development dependency) and nothing of the sidecar.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = "00f067aa0ba902b7"
Plain = str | int | float | bool | bytes | Sequence[int] | Mapping[str, int]
ATTRIBUTES: dict[str, Plain] = {
    "gen_ai.request.id": "chatcmpl-1",
    "gen_ai.latency.time_in_queue": 0.25,
    "gen_ai.usage.prompt_tokens": 1200,
    "negative": -(2**63),
    "streamed": True,
    "text": "Grüße, 世界",
    "array": [1, 2, 3],
    "map": {"a": 1},
    "bytes": b"\x00\xff",
}
PLAIN = {name: value for name, value in ATTRIBUTES.items() if isinstance(value, str | int | float | bool)}
"""The attributes of types that the sidecar's spans keep."""


def fill(value: Any, content: Plain) -> None:
    """Put the content into an AnyValue."""
    if isinstance(content, bool):
        value.bool_value = content
    elif isinstance(content, str):
        value.string_value = content
    elif isinstance(content, int):
        value.int_value = content
    elif isinstance(content, float):
        value.double_value = content
    elif isinstance(content, bytes):
        value.bytes_value = content
    elif isinstance(content, Mapping):
        value.kvlist_value.SetInParent()
        for key, each in content.items():
            entry = value.kvlist_value.values.add(key=key)
            fill(entry.value, each)
    else:
        value.array_value.SetInParent()
        for each in content:
            fill(value.array_value.values.add(), each)


def request_of(
    *spans: Mapping[str, Any],
    service: str = "vllm",
    scope: str = "vllm.llm_engine",
    attributes: Mapping[str, Plain] | None = None,
) -> Any:
    """A request with these spans; each is given as fields of a Span, ids in hex, over an engine's usual ones."""
    request = ExportTraceServiceRequest()
    around = request.resource_spans.add()
    fill(around.resource.attributes.add(key="service.name").value, service)
    inner = around.scope_spans.add()
    inner.scope.name = scope
    for given in spans:
        fields = {"trace_id": TRACE, "span_id": SPAN, "parent_span_id": PARENT, "name": "llm_request", **given}
        for name in ("trace_id", "span_id", "parent_span_id"):
            fields[name] = bytes.fromhex(fields[name])
        fields.setdefault("start_time_unix_nano", 1_700_000_000_000_000_000)
        fields.setdefault("end_time_unix_nano", 1_700_000_001_500_000_000)
        span = inner.spans.add(kind=2, **fields)
        for key, value in (ATTRIBUTES if attributes is None else attributes).items():
            fill(span.attributes.add(key=key).value, value)
    return request


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


IDS = field(1, bytes.fromhex(TRACE)) + field(2, bytes.fromhex(SPAN))
"""The least fields that a span must have."""


def request_around(span: bytes) -> bytes:
    """A request with one span of these fields."""
    return field(1, field(2, field(2, span)))


def nested_value(depth: int) -> bytes:
    """An AnyValue of arrays nested `depth` levels."""
    value = b"\x18\x01"
    for _ in range(depth):
        value = field(5, field(1, value))
    return value


def many_attributes(count: int) -> bytes:
    """A request with one span of `count` attributes, about 14 bytes each."""
    attribute = field(9, field(1, b"key") + field(2, b"\x18\x01"))
    return request_around(IDS + attribute * count)
