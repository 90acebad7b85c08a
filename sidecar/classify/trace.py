"""The client's trace context, from its `traceparent` (W3C Trace Context, level 2, section 3.2), and the one that goes to the engine. Pure.

The user's tracing stays intact: their trace id is continued. Where the engine's spans are wanted, the sidecar puts a span
of its own between (that is how the engine's word finds its request) and raises the sampled flag, towards the engine only.
Only a trace that its owner keeps becomes an exemplar or is forwarded.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass


TRACEPARENT = b"traceparent"
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|\Z)")
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A well-formed traceparent: ids in lower-case hex, 32 and 16 digits."""

    trace_id: str
    parent_id: str
    sampled: bool


@dataclass(frozen=True, slots=True)
class Minted:
    """A span that stands between the client's and the engine's, so that the engine's word finds its request."""

    trace_id: str
    span_id: str
    client: TraceContext | None
    """What the client sent: what is forwarded to the user's collector must hang under this again, if it was sampled."""


def trace_context(fields: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """The client's trace context, or None: no header, more than one, or malformed."""
    values = [value.strip() for name, value in fields if len(name) == 11 and name.lower() == TRACEPARENT]
    if len(values) != 1:
        return None
    found = _TRACEPARENT.match(values[0])
    if found is None:
        return None
    return TraceContext(found[1].decode(), found[2].decode(), bool(int(found[3], 16) & _SAMPLED))


def traceparent(trace_id: str, span_id: str) -> bytes:
    """The header value that names this span as the parent, sampled."""
    return f"00-{trace_id}-{span_id}-01".encode()
