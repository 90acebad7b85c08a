"""Bounds on a request of spans, the same for both transports, and the errors that refuse it.

Real exporters stay far below all bounds: OpenTelemetry SDKs send batches of 512 spans with at most 128 attributes each.
A span that exceeds a bound is rejected alone: it is counted and named in `partial_success`. A request that exceeds a
bound is refused as a whole: 413, and no more work. Pure; it refuses to know how either is decoded.
"""

from dataclasses import dataclass


MAX_EXPORT_BYTES = 4 << 20
"""Size of a request on the wire, before decompression."""
MAX_DECODED_BYTES = 16 << 20
"""Size after decompression (the OpenTelemetry collector's own bound is 20 MiB)."""
MAX_RATIO = 100
"""Decompressed over compressed bytes, above RATIO_FROM_BYTES of output; spans, with random ids, reach about 15."""
RATIO_FROM_BYTES = 256 << 10
MAX_GZIP_MEMBERS = 16
"""RFC 1952 allows several members; each needs a new decompressor."""
MAX_SPANS = 10_000
MAX_FIELDS = 1_000_000
"""Protobuf fields read in one request: up to a second of work, which slices with rests between them spread over three; no
slice holds the loop longer than one field or span needs. 10,000 spans of 25 attributes have as many."""
MAX_SPAN_FIELDS = 1024
"""Fields of one span, four for each attribute included, but not those inside events and links: under 1 ms of work."""
MAX_ATTRIBUTES = 128
"""The default limit of OpenTelemetry's SDKs."""
MAX_SPAN_BYTES = 1 << 20
MAX_AROUND_BYTES = 64 << 10
"""Bytes of one resource or of one scope."""
MAX_SPAN_NAME_BYTES = 1024
MAX_KEY_BYTES = 256
MAX_VALUE_BYTES = 4096
"""Attributes with a longer key or value are left out, not cut: no engine reports a time in 4 KiB of text."""
PAUSE_FIELDS = 256
"""Fields between two pauses, at which the intake reads the clock."""


class RefusedError(Exception):
    """The request as a whole is not taken. `status`: the HTTP status; `code`: google.rpc.Code for gRPC and the Status body."""

    status = 400
    code = 3  # INVALID_ARGUMENT


class MalformedError(RefusedError):
    """The request is no OTLP trace request, or a truncated one. Sending it again would not help."""


class TooLargeError(RefusedError):
    """The request exceeds a bound of this module."""

    status = 413  # the code stays INVALID_ARGUMENT: after RESOURCE_EXHAUSTED exporters send the same request again


class UnknownEncodingError(RefusedError):
    """The receiver does not take the request's content type or content encoding."""

    status = 415


class BusyError(RefusedError):
    """Too many requests are held or wait: the sender may try again."""

    status = 503
    code = 14  # UNAVAILABLE


@dataclass(slots=True)
class Tally:
    """Numbers of spans of one request, by result."""

    taken: int = 0
    """Spans that a report is made of, for a request that waits or will wait for it."""
    unknown: int = 0
    """Well-formed spans that no report is made of: dropped, but not refused, since the sender did nothing wrong."""
    rejected: int = 0
    """Spans that are malformed or exceed a bound."""
    why: str = ""
    """Reason for which the first span was rejected; empty if none was."""

    def reject(self, why: str) -> None:
        """Count a rejected span; `why` is kept for the first."""
        self.rejected += 1
        self.why = self.why or why
