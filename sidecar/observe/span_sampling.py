"""Which requests have a span of their own in the user's collector: as the client decided, else a share of them.

A client with a trace has decided already (W3C Trace Context, `sampled`), and the sidecar decides as it did: a span below an
unsampled parent would be an orphan, and a sampled trace without it would have a hole. A request without a trace begins one, and a
ratio of those is kept. That decision is read off the trace id, whose last 7 bytes are random (Trace Context level 2, 4.2), so that
all who ask for it, at any time, get the same answer, and nothing is remembered. Pure; it refuses to know where spans go.
"""

from collections.abc import Callable, Container
from typing import NamedTuple

from sidecar.classify.trace import Minted, TraceContext


RANDOM_DIGITS = 14
"""Hex digits at the end of a trace id that are random."""


class SpanIds(NamedTuple):
    trace_id: str
    span_id: str
    parent_id: str
    """Empty where the trace begins here."""


class SpanSampling:
    """The decisions of one process. `untraced_ratio`: share of the requests without a trace, 0 to 1."""

    def __init__(self, untraced_ratio: float, random_hex: Callable[[int], str]) -> None:
        self._below = round(untraced_ratio * (1 << 4 * RANDOM_DIGITS))
        self._random_hex = random_hex

    def begins(self, trace_id: str) -> bool:
        """Whether a trace that begins here, with this id, is kept."""
        return int(trace_id[-RANDOM_DIGITS:], 16) < self._below

    def exports(self, minted: Minted) -> bool:
        """Whether the request for which this span was minted has its own span in the collector, under the minted id."""
        return self.begins(minted.trace_id) if minted.client is None else minted.client.sampled

    def ids(self, client: TraceContext | None, minted: Minted | None) -> SpanIds | None:
        """The ids of a request's own span; None if it has none. `client`: its trace; `minted`: the span that the engine was told of."""
        if client is not None:
            if not client.sampled:
                return None
            span_id = self._random_hex(8) if minted is None else minted.span_id
            return SpanIds(client.trace_id, span_id, client.parent_id)
        if not self._below:
            return None
        trace_id = self._random_hex(16) if minted is None else minted.trace_id
        if not self.begins(trace_id):
            return None
        return SpanIds(trace_id, self._random_hex(8) if minted is None else minted.span_id, "")


class SampledTraces:
    """The ids of all traces whose spans go on to the collector: those that clients had sampled, and those that begin here and are kept.

    `sampling`: None where no request has a span of its own, so that none of the traces that begin here is kept.
    """

    def __init__(self, of_clients: Container[str], own: Container[str], sampling: SpanSampling | None) -> None:
        self._of_clients = of_clients
        self._own = own
        self._sampling = sampling

    def __contains__(self, trace_id: object) -> bool:
        if trace_id in self._of_clients:
            return True
        sampling = self._sampling
        return (
            sampling is not None and isinstance(trace_id, str) and trace_id in self._own and sampling.begins(trace_id)
        )
