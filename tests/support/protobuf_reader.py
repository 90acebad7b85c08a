"""Reads a protobuf page with Google's own decoder, from the fields of Prometheus' client_model 0.6 (metrics.proto)."""

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "io.prometheus.client"
_MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "LabelPair": ((1, "name", "string"), (2, "value", "string")),
    "Gauge": ((1, "value", "double"),),
    "Counter": ((1, "value", "double"),),
    "Timestamp": ((1, "seconds", "int64"), (2, "nanos", "int32")),
    "Exemplar": ((1, "label", "*LabelPair"), (2, "value", "double"), (3, "timestamp", "Timestamp")),
    "Bucket": ((1, "cumulative_count", "uint64"), (2, "upper_bound", "double"), (3, "exemplar", "Exemplar")),
    "BucketSpan": ((1, "offset", "sint32"), (2, "length", "uint32")),
    "Histogram": (
        *(
            (1, "sample_count", "uint64"),
            (2, "sample_sum", "double"),
            (3, "bucket", "*Bucket"),
            (5, "schema", "sint32"),
        ),
        *((6, "zero_threshold", "double"), (7, "zero_count", "uint64"), (12, "positive_span", "*BucketSpan")),
        *((13, "positive_delta", "*sint64"), (16, "exemplars", "*Exemplar")),
    ),
    "Metric": (
        *((1, "label", "*LabelPair"), (2, "gauge", "Gauge"), (3, "counter", "Counter"), (7, "histogram", "Histogram")),
    ),
    "MetricFamily": ((1, "name", "string"), (2, "help", "string"), (3, "type", "int32"), (4, "metric", "*Metric")),
}
"""By message: number, name and type of each field; `*` is repeated."""


def _decoder() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, kind in fields:
            plain = kind.removeprefix("*")
            own = plain in _MESSAGES
            message.field.add(
                name=field,
                number=number,
                label=_FIELD.LABEL_OPTIONAL if plain == kind else _FIELD.LABEL_REPEATED,
                type=_FIELD.TYPE_MESSAGE if own else getattr(_FIELD, f"TYPE_{plain.upper()}"),
                type_name=f".{_PACKAGE}.{plain}" if own else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


_Family = _decoder()


def families_of(page: bytes) -> Iterator[Any]:
    """Every MetricFamily of a page. Raises DecodeError, or AssertionError for fields that client_model does not have."""
    at = 0
    while at < len(page):
        size = shift = 0
        while True:
            byte = page[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        content = page[at : at + size]
        assert len(content) == size, "the page ends within a family"
        family = _Family.FromString(content)
        bare = _Family.FromString(content)
        bare.DiscardUnknownFields()
        assert bare.ByteSize() == family.ByteSize(), f"{family.name} has fields that client_model does not have"
        yield family
        at += size


def buckets_of(histogram: Any) -> dict[int, int]:
    """The native buckets that are not empty: key to count, from spans and deltas as Prometheus reads them."""
    found: dict[int, int] = {}
    deltas = iter(histogram.positive_delta)
    key = count = 0
    for span in histogram.positive_span:
        key += span.offset
        for _ in range(span.length):
            count += next(deltas)
            if count:
                found[key] = count
            key += 1
    assert next(deltas, None) is None, "more deltas than the spans have buckets"
    return found
