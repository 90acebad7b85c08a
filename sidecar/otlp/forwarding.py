"""Sends engine spans on to the user's own collector, if the client had sampled their trace, so that they stay visible.

A client that sampled its trace expects the engine's spans under its own. But the engine sends them to the sidecar, and
their parent is a span id that the sidecar minted. Where the sidecar exports its own span of the request under that id
(`exporting.py`), it stays their parent; else the client's span becomes their parent again. All other bytes stay as they came. A
trace that was sampled for the sidecar only is not sent on. This module knows the minted span ids and the sampled traces; how
spans reach the collector is known to `outbox.py`.
"""

from collections.abc import Callable, Container, Mapping

from sidecar.classify.trace import Minted
from sidecar.metrics.vocabulary import ACKNOWLEDGED
from sidecar.otlp.outbox import Bounds, Outbox
from sidecar.otlp.protobuf import PARENT
from sidecar.otlp.received import ReceivedSpan, Surroundings
from sidecar.otlp.wire_format import Fields, message


MOST_FORWARDED = Bounds(spans=4096, bytes=8 << 20)
"""Each span counts with its resource and scope, although neighbouring spans share them."""

Waiting = tuple[Surroundings, bytes]


class EveryTrace:
    """The traces to send on where the sidecar minted none: the engine has sent what its clients sampled, and no more."""

    def __contains__(self, trace: object) -> bool:
        return True


class Forward:
    """The way of engine spans to the collector at `url`. `minted`: span id to the context minted under it.

    `sampled`: ids of the traces to send on. `exported`: whether the request's own span is exported under its minted id; None: no
    request's is. `sent` and `dropped` are called with a number of spans.
    """

    def __init__(
        self,
        url: str,
        *,
        minted: Mapping[str, Minted],
        sampled: Container[str],
        sent: Callable[[int], None],
        dropped: Callable[[int], None],
        exported: Callable[[Minted], bool] | None = None,
    ) -> None:
        self._minted = minted
        self._sampled = sampled
        self._exported = exported
        self.outbox: Outbox[Waiting] = Outbox(
            "spans.forward_url",
            url,
            MOST_FORWARDED,
            _body_of,
            lambda fate, spans: (sent if fate == ACKNOWLEDGED else dropped)(spans),
        )

    def offer(self, received: ReceivedSpan) -> None:
        """Queue a span if its trace is sampled; ignore any other. A full queue drops and counts it."""
        span = received.span
        minted = self._minted.get(span.parent_span_id)
        if minted is None:
            if span.trace_id not in self._sampled:
                return
            parent = None
        elif minted.trace_id != span.trace_id:
            return
        elif self._exported is not None and self._exported(minted):
            parent = None
        elif minted.client is None or not minted.client.sampled:
            return
        else:
            parent = minted.client.parent_id
        around = received.around
        raw = received.raw if parent is None else with_parent(received.raw, parent)
        self.outbox.put((around, raw), size_bytes=len(raw) + len(around.resource) + len(around.scope))


async def _body_of(batch: list[Waiting]) -> bytes:
    return request_of(batch)


def with_parent(raw: bytes, parent_id: str) -> bytes:
    """The fields of a Span with this parent; all other bytes unchanged. `raw` must be well-formed."""
    out, copied = bytearray(), 0
    for tag, began, _, end in Fields(raw).between(0, len(raw)):
        if tag == PARENT:
            out += raw[copied:began]
            copied = end
    return bytes(out + raw[copied:] + message(4, bytes.fromhex(parent_id)))


def request_of(batch: list[Waiting]) -> bytes:
    """An ExportTraceServiceRequest; neighbouring spans of the same scope stay together."""
    out = bytearray()
    at = 0
    while at < len(batch):
        around = batch[at][0]
        scope = bytearray(around.scope)
        while at < len(batch) and (batch[at][0] is around or batch[at][0] == around):
            scope += message(2, batch[at][1])
            at += 1
        out += message(1, around.resource + message(2, bytes(scope)))
    return bytes(out)
