"""Reports of an engine behind Dynamo: Dynamo's own spans lead to the request, whichever engine is behind it."""

import pytest

from sidecar.ledger.report import KeyedReport, span_key
from tests.engines.dynamo_family import ENGINE, FRONT, MINTED, REPORT, WORKER, descendants, heard
from tests.support.spans import fixture


def test_dynamos_own_spans_lead_up_to_the_request() -> None:
    """They may come in any order; the report is held for as long as another engine's could still come."""
    for spans in ((ENGINE, WORKER, FRONT), (FRONT, WORKER, ENGINE), (WORKER, ENGINE, FRONT)):
        assert heard(*spans) == [KeyedReport((span_key(MINTED),), REPORT, ENGINE.trace_id)]
    family = descendants()
    family.span(ENGINE, 0.0)
    assert list(family.due(5.9)) == []


def test_tensorrt_llm_may_stand_behind_it_too() -> None:
    """Both engines call their span llm_request, and state different things in it."""
    (span,) = fixture("tensorrt-llm").under(MINTED)

    assert [keyed.report.prefill_seconds for keyed in heard(span)] == [pytest.approx(0.3)]
