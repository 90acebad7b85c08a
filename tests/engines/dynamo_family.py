"""A request's spans behind Dynamo, and the reports that are heard of them."""

from sidecar.engines.ancestry import Descendants
from sidecar.engines.dynamo import report_in_span
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport
from tests.support.spans import fixture


MINTED = "00000000000000aa"
ENGINE, WORKER, FRONT = fixture("dynamo-vllm").under(MINTED)
REPORT = EngineReport(0.1, 0.3, 0.2)


def descendants() -> Descendants:
    return Descendants(report_in_span, {MINTED}.__contains__, hold_seconds=6.0)


def heard(*spans: Span) -> list[KeyedReport]:
    """The reports in these spans, at once and when the hold is over."""
    family = descendants()
    return [keyed for span in spans for keyed in family.span(span, 0.0) or ()] + list(family.due(6.0))
