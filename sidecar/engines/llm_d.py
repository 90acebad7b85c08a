"""The facts of llm-d's router (read in llm-d-router at ebab6879). Pure.

Its endpoint picker states no time in an answer or a header, and the queue of its flow control in a histogram over all requests alone
(`flow_control_request_queue_duration_seconds`, `pkg/epp/flowcontrol/controller/internal/item.go`). But each request has a span,
`gateway.request_orchestration` (`HandleRequest` of `pkg/epp/requestcontrol/director.go`), from the body's last byte until a worker is chosen: `Admit`
waits in it for as long as flow control holds the request, and so do the producers of data, such as a tokeniser. That is the whole time in front of
the workers, the part `router`. It hangs below `gateway.request` (`pkg/epp/handlers/server.go`), whose parent the request brought along, and which
ends with the answer, so that it comes later. Where a proxy's own span stands between, or the sidecar stands behind the router, it is not used:
its time is then another's, or no part of the request's time here. Older pickers begin a trace of their own with it (llm-d-inference-scheduler at
520af478, Gateway API Inference Extension at 014fd184), which leads to no request.

Its routing sidecar has spans that are named after phases, and are none (`tests/engines/test_span_llm_d.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from sidecar.engines.durations import between_nanoseconds
from sidecar.engines.span import Span
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport, KeyedReport, span_key


REQUEST, ORCHESTRATION = "gateway.request", "gateway.request_orchestration"
MAX_WAITS = 8192
"""Requests whose answer has not ended, so that their first span waits for the second."""


class RoutedSpans:
    """An `Assembler` for an engine that reports a request in one span, with the router's wait before it."""

    def __init__(self, report_in: Callable[[Span], KeyedReport | None], is_minted: Callable[[str], bool]) -> None:
        self.lost = 0
        self._report_in = report_in
        self._is_minted = is_minted
        self._waits: OrderedDict[str, float] = OrderedDict()
        """Seconds, by the id of the span above."""

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:  # noqa: ARG002  the interface; nothing here waits for a time
        """The report in this span, or the wait that it completes."""
        if span.name == ORCHESTRATION:
            self._holds(span)
            return ()
        if span.name == REQUEST:
            wait = self._waits.pop(span.span_id, None)
            if wait is None or not self._is_minted(span.parent_span_id):
                return ()
            report = EngineReport(parts=(StatedPart(Part.ROUTER, wait),))
            return (KeyedReport((span_key(span.parent_span_id),), report, span.trace_id or None, part=span.span_id),)
        keyed = self._report_in(span)
        return None if keyed is None else (keyed,)

    def due(self, at: float) -> Sequence[KeyedReport]:  # noqa: ARG002  the interface
        return ()

    def _holds(self, span: Span) -> None:
        wait = between_nanoseconds(span.start_unix_nano, span.end_unix_nano)
        if wait is None or not span.parent_span_id:
            return
        self._waits[span.parent_span_id] = wait
        if len(self._waits) > MAX_WAITS:
            self._waits.popitem(last=False)
            self.lost += 1
