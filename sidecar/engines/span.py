"""One span as OpenTelemetry carries it, without OpenTelemetry: what the receiver hands on, and what an engine's file reads.

Ids are lower-case hex (32 digits a trace, 16 a span; "" where absent). Instants are Unix nanoseconds on the engine's own clock:
only differences between two of one span, or of spans of one process, mean anything here.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from sidecar.ledger.report import EngineReport


@dataclass(frozen=True, slots=True)
class Span:
    """One finished span. Attribute values are plain; what is none (arrays, maps) is left out."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Mapping[str, str | int | float | bool]
    scope: str = ""
    service: str = ""

    @property
    def seconds(self) -> float | None:
        """How long it took; None where it ends before it begins."""
        nanoseconds = self.end_unix_nano - self.start_unix_nano
        return nanoseconds / 1e9 if nanoseconds >= 0 else None


@dataclass(frozen=True, slots=True)
class Word:
    """An engine's word on one request, from wherever it came, with the keys by which its request is found."""

    keys: tuple[Hashable, ...]
    """`response_key(id)`, `span_key(parent)`: those that only this request has."""
    report: EngineReport
    trace_id: str | None = None
    """Of a span: within it alone its ids count, and without any of them it counts by itself while one request has it."""
    part: Hashable | None = None
    """What tells this word from others on the same request, of an engine that has one on each choice; None: it is the only one."""


def response_key(response_id: str) -> Hashable:
    """The key of a request by the id that its answer gave itself."""
    return ("response", response_id)


def span_key(span_id: str) -> Hashable:
    """The key of a request by the span that the sidecar minted for it, the parent of the engine's own."""
    return ("span", span_id)


def traced_key(key: Hashable, trace_id: str) -> Hashable:
    """A key that counts within one trace: a client may choose its ids, and so may somebody who goes past the sidecar."""
    return ("traced", key, trace_id)


def seconds_in(attributes: Mapping[str, str | int | float | bool], name: str) -> float | None:
    """A duration that is stated as a number of seconds; None where it is absent, or no finite, non-negative number."""
    value = attributes.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:  # an int beyond what a float can hold
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
