"""A span as a decoder hands it on: the decoded `Span`, and the bytes needed to send it on. Pure."""

from dataclasses import dataclass

from sidecar.engines.span import Span
from sidecar.otlp.wire_format import Body


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Resource and scope of a span in its request, as protobuf fields ready to be written again."""

    resource: bytes
    """All fields of the span's ResourceSpans except the spans."""
    scope: bytes
    """All fields of the span's ScopeSpans except the spans."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One well-formed span."""

    span: Span
    body: Body
    """The whole request, until its last span has been handed on; the span's own fields lie from `start` to `end`."""
    start: int
    end: int
    around: Surroundings

    @property
    def raw(self) -> bytes:
        """The Span message's fields."""
        return bytes(self.body[self.start : self.end])
