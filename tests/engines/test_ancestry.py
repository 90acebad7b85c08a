"""A span is joined to its request by the spans between them, by a trace that has one request only, or not at all."""

from dataclasses import replace

import pytest

from sidecar.engines.ancestry import MAX_HELD, MAX_OF_A_TRACE, Descendants
from sidecar.engines.dynamo import report_in_span
from sidecar.ledger.report import KeyedReport, span_key
from tests.engines.dynamo_family import ENGINE, FRONT, MINTED, REPORT, WORKER, descendants, heard


def test_where_they_do_not_come_only_the_trace_is_known() -> None:
    """The settlement decides whether that trace has one request only."""
    assert heard(ENGINE) == [KeyedReport((), REPORT, ENGINE.trace_id, part=ENGINE.span_id)]


def test_two_engines_in_one_request_report_each_for_itself() -> None:
    """With a prefill worker and a decode worker, neither's numbers are the request's: they are told apart as parts."""
    decode = replace(ENGINE, span_id="d000000000000009")

    found = heard(ENGINE, decode, WORKER, FRONT)

    assert [(keyed.keys, keyed.part) for keyed in found] == [
        ((span_key(MINTED),), ENGINE.span_id),
        ((span_key(MINTED),), decode.span_id),
    ]


@pytest.mark.parametrize("known", [True, False])
def test_two_requests_in_one_trace_are_told_apart_only_by_their_parents(known: bool) -> None:
    """Without Dynamo's spans nothing tells which report is which request's."""
    second = [
        replace(
            span,
            span_id=f"e{span.span_id[1:]}",
            parent_span_id="00000000000000bb" if span is FRONT else f"e{span.parent_span_id[1:]}",
        )
        for span in (ENGINE, WORKER, FRONT)
    ]
    family = Descendants(report_in_span, {MINTED, "00000000000000bb"}.__contains__, hold_seconds=6.0)
    told = [
        keyed
        for span in ((ENGINE, *second, WORKER, FRONT) if known else (ENGINE, second[0]))
        for keyed in family.span(span, 0.0) or ()
    ]
    told += family.due(6.0)

    assert [keyed.keys for keyed in told] == ([(span_key("00000000000000bb"),), (span_key(MINTED),)] if known else [])
    assert family.lost == (0 if known else 2)


def test_what_is_held_is_bounded() -> None:
    """There is a bound in all and one per trace, so that a trace shared by all requests takes only its share."""
    family = descendants()
    for number in range(MAX_HELD + 2):
        family.span(replace(ENGINE, span_id=f"{number:016x}", trace_id=f"{number:032x}"), 0.0)
    one_trace = descendants()
    for number in range(MAX_OF_A_TRACE + 2):
        one_trace.span(replace(ENGINE, span_id=f"{number:016x}"), 0.0)

    assert (family.lost, one_trace.lost) == (2, 2)


def test_a_circle_of_spans_ends_the_search() -> None:
    """Ids come from outside, and may form a circle."""
    assert heard(replace(ENGINE, parent_span_id=ENGINE.span_id)) == [
        KeyedReport((), REPORT, ENGINE.trace_id, part=ENGINE.span_id)
    ]
