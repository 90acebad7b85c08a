"""The client's trace context, from `traceparent` (W3C Trace Context, level 2, section 3.2), and the engine's. Pure.

The user's tracing stays intact: the trace id is continued. If the engine's spans are wanted, the sidecar inserts a span
of its own (by which the engine's report finds its request) and sets the sampled flag, towards the engine only. Only a
trace that the client itself samples becomes an exemplar or is forwarded. It refuses to repair a malformed
`traceparent`: there is none then.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple


TRACEPARENT = b"traceparent"
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-|\Z)")
_SAMPLED = 0x01


class TraceContext(NamedTuple):
    """A well-formed traceparent: ids in lower-case hex, 32 and 16 digits."""

    trace_id: str
    parent_id: str
    sampled: bool


class Minted(NamedTuple):
    """A span between the client's span and the engine's, by which the engine's report finds its request."""

    trace_id: str
    span_id: str
    client: TraceContext | None
    """The client's context. If it was sampled, spans forwarded to the user's collector must have it as their parent
    again."""


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
