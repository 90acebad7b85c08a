"""SGLang's slices: joined over several processes, the first of each kind, and never the root's misleading number."""

from dataclasses import replace

import pytest

from sidecar.engines.sglang import MAX_REQUESTS, Slices
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport, response_key, span_key
from sidecar.timeline.events import Usage
from tests.support.spans import fixture


SPANS = fixture("sglang").under("00000000000000aa")
ROOT, SCHEDULER = SPANS[-1], SPANS[-2]
RID = "9c1de0a7b5f64c4e8b6a4a0f8b0a2f11"


def reports_of(spans: list[Span]) -> list[KeyedReport]:
    slices = Slices()
    return [keyed for span in spans for keyed in slices.span(span, 0.0) or ()]


def named(name: str) -> Span:
    return next(span for span in SPANS if span.name == name)


def test_the_slices_are_the_phases_and_the_roots_number_is_not() -> None:
    """The root states 0.41 s under the name of vLLM's prefill: there it is queue and prefill together."""
    (keyed,) = reports_of(SPANS)

    assert keyed == KeyedReport(
        (span_key("00000000000000aa"), response_key(RID)), EngineReport(0.1, 0.3, 0.2), ROOT.trace_id
    )
    assert ROOT.attributes["gen_ai.latency.time_in_model_prefill"] == 0.41


def test_the_roots_token_counts_are_read_and_a_prefill_workers_output_is_not() -> None:
    """The prefill side of a disaggregated pair makes the first token only, and its counts say so."""
    transfer = replace(named("prefill_forward"), name="prefill_transfer_kv_cache", span_id="a000000000000098")
    (whole,), (pair,) = reports_of(SPANS), reports_of([transfer, *SPANS])

    assert (whole.report.usage, pair.report.usage) == (Usage(600, 64, 2), Usage(600, 64, None))


def test_of_several_ranks_the_first_to_be_whole_speaks() -> None:
    """Each tensor rank has a scheduler of its own, with slices of its own."""
    other = [
        replace(
            span,
            span_id=f"e{span.span_id[1:]}",
            parent_span_id=span.parent_span_id if span is SCHEDULER else f"e{span.parent_span_id[1:]}",
            end_unix_nano=span.end_unix_nano + 1_000_000,
        )
        for span in SPANS[3:-1]
    ]

    assert [keyed.report for keyed in reports_of([*SPANS[:-1], *other, ROOT])] == [EngineReport(0.1, 0.3, 0.2)]
    assert [keyed.report for keyed in reports_of([*SPANS, *other])] == [EngineReport(0.1, 0.3, 0.2)]


def test_a_retracted_request_keeps_its_first_prefill() -> None:
    """Its second prefill lies inside decode_forward; a second slice of that name in the thread would still be later."""
    again = replace(
        named("prefill_forward"),
        span_id="a000000000000099",
        start_unix_nano=named("prefill_forward").start_unix_nano + 10**9,
        end_unix_nano=named("prefill_forward").end_unix_nano + 2 * 10**9,
    )

    assert [keyed.report.prefill_seconds for keyed in reports_of([again, *SPANS])] == [0.3]


@pytest.mark.parametrize(
    ("missing", "report"), [("decode_forward", EngineReport(0.1, 0.3, None)), ("prefill_waiting", None)]
)
def test_what_was_lost_on_the_way_is_not_stated(missing: str, report: EngineReport | None) -> None:
    """A lost decode leaves the decode unstated; without its queue, a thread is not a prefill's scheduler."""
    found = reports_of([span for span in SPANS if span.name != missing])

    assert [keyed.report for keyed in found] == ([] if report is None else [report])


def test_a_slice_that_ends_before_it_begins_is_no_duration() -> None:
    """Clocks may be set back."""
    back = replace(named("prefill_waiting"), end_unix_nano=1)

    assert [
        keyed.report.queue_seconds
        for keyed in reports_of([back if span.name == "prefill_waiting" else span for span in SPANS])
    ] == [None]


def test_requests_that_never_end_are_forgotten_in_the_end_and_counted() -> None:
    """Their number is bounded, and the oldest are dropped first."""
    slices = Slices()
    for number in range(MAX_REQUESTS + 3):
        slices.span(replace(named("prefill_waiting"), parent_span_id=f"{number:016x}"), 0.0)

    assert slices.lost == 3


def test_another_engines_spans_are_none_of_its_own() -> None:
    """SGLang's spans of other stages are recognised, and not needed."""
    slices = Slices()

    assert slices.span(fixture("vllm-chat").spans[0], 0.0) is None
    assert slices.span(named("tokenize"), 0.0) == ()
