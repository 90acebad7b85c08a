"""A span as a decoder hands it on: what it says, and the bytes that would have to be sent on. Pure."""

from dataclasses import dataclass

from sidecar.engines.span import Span


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands around a span in its request, as protobuf fields ready to be written again."""

    resource: bytes
    """All fields of its ResourceSpans but the spans."""
    scope: bytes
    """All fields of its ScopeSpans but the spans."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One well-formed span. Where it came as JSON there are no bytes to send on."""

    span: Span
    body: bytes | bytearray = b""
    """The whole request; the span's own fields lie from `start` to `end`."""
    start: int = 0
    end: int = 0
    around: Surroundings | None = None

    @property
    def raw(self) -> bytes:
        """The Span message's fields."""
        return bytes(self.body[self.start : self.end])
