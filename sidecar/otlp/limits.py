"""What a request of spans may cost, and how it is refused: the bounds that hold for every encoding and both transports.

Real exporters stay far below all of them: OpenTelemetry SDKs send batches of 512 spans with at most 128 attributes each.
What one span exceeds costs that span (it is rejected, counted and named in `partial_success`); what the request exceeds
costs the request (413 and no more work). Pure.
"""

from dataclasses import dataclass


MAX_BODY_BYTES = 4 << 20
"""Of a request as it comes over the wire."""
MAX_DECODED_BYTES = 16 << 20
"""After decompression (the OpenTelemetry collector's own bound is 20 MiB)."""
MAX_RATIO = 100
"""Decompressed over compressed bytes, once RATIO_FROM_BYTES have come out; spans, with their random ids, reach about 15."""
RATIO_FROM_BYTES = 256 << 10
MAX_GZIP_MEMBERS = 16
"""RFC 1952 allows several; each costs a decompressor."""
MAX_SPANS = 10_000
MAX_FIELDS = 1_000_000
"""Protobuf fields looked at in one request: about 0.4 s of work, in slices. 10,000 spans of 25 attributes have as many."""
MAX_TOKENS = 1_000_000
"""The same for JSON: strings and brackets."""
MAX_SPAN_FIELDS = 1024
"""Within one span, its attributes' own fields included (four each), but not those of events and links: under a millisecond."""
MAX_ATTRIBUTES = 128
"""The default limit of OpenTelemetry's SDKs."""
MAX_SPAN_BYTES = 1 << 20
MAX_AROUND_BYTES = 64 << 10
"""A resource or a scope."""
MAX_JSON_SPAN_BYTES = 32 << 10
"""A span of JSON is decoded in one go, which takes up to a millisecond for this many bytes."""
MAX_NAME_BYTES = 1024
MAX_KEY_BYTES = 256
MAX_VALUE_BYTES = 4096
"""Attributes with a longer key or value are left out, not cut: no engine reports its times in four kilobytes."""
PAUSE_FIELDS = 256
"""How many fields or tokens may pass before somebody looks at the clock."""


class RefusedError(Exception):
    """The request as a whole is not taken. `status`: the HTTP status; `code`: google.rpc.Code for gRPC and the Status body."""

    status = 400
    code = 3  # INVALID_ARGUMENT


class MalformedError(RefusedError):
    """It is no OTLP trace request, or a truncated one. Sending it again would not help."""


class TooLargeError(RefusedError):
    """It exceeds a bound of this page."""

    status = 413  # the code stays INVALID_ARGUMENT: RESOURCE_EXHAUSTED has exporters send the same once more


class UnknownEncodingError(RefusedError):
    """Its content type or coding is none of ours."""

    status = 415


class BusyError(RefusedError):
    """Too many at once: this one may come again."""

    status = 503
    code = 14  # UNAVAILABLE


@dataclass(slots=True)
class Tally:
    """What became of the spans of one request."""

    taken: int = 0
    """Some request here waits, or will wait, for what they say."""
    unknown: int = 0
    """Well-formed, and nobody's word: dropped, but not refused, since the sender did nothing wrong."""
    rejected: int = 0
    """Malformed, or beyond a bound."""
    why: str = ""
    """Why the first one was rejected."""

    def reject(self, why: str) -> None:
        """Count a span that is not taken."""
        self.rejected += 1
        self.why = self.why or why
