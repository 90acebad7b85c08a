"""TensorRT-LLM's span: differences on one clock, no zero for an absent queue, no split from a disaggregated half."""

from dataclasses import replace

import pytest

from sidecar.engines.tensorrt_llm import report_in_span, times_in_span
from sidecar.ledger.report import EngineReport, response_key, span_key
from tests.support.spans import fixture


(SPAN,) = fixture("tensorrt-llm").under("00000000000000aa")
QUEUE, TTFT, E2E = (f"gen_ai.latency.{name}" for name in ("time_in_queue", "time_to_first_token", "e2e"))


def seconds(**changed: float) -> EngineReport | None:
    """The report of a span with only these of the three times."""
    names = {"queue": QUEUE, "ttft": TTFT, "e2e": E2E}
    kept = {name: value for name, value in SPAN.attributes.items() if name not in names.values()}
    return times_in_span(replace(SPAN, attributes=kept | {names[name]: value for name, value in changed.items()}))


def test_the_word_finds_its_request_by_the_number_in_its_answers_id() -> None:
    """Chat and completions write the same number after their own prefix."""
    keyed = report_in_span(SPAN)

    assert keyed is not None
    assert keyed.keys == (span_key("00000000000000aa"), response_key("chatcmpl-7"), response_key("cmpl-7"))


@pytest.mark.parametrize(
    ("stated", "report"),
    [
        ({"queue": 0.25, "ttft": 0.75, "e2e": 1.75}, EngineReport(0.25, 0.5, 1.0)),
        ({"ttft": 0.75, "e2e": 1.75}, EngineReport(None, None, 1.0)),
        ({"queue": 0.25}, EngineReport(0.25, None, None)),
        ({"queue": 0.75, "ttft": 0.25, "e2e": 1.25}, EngineReport(0.75, None, 1.0)),
        ({"queue": 0.25, "ttft": -1.0, "e2e": float("nan")}, EngineReport(0.25, None, None)),
        ({}, None),
    ],
)
def test_a_difference_needs_both_its_sides(stated: dict[str, float], report: EngineReport | None) -> None:
    """Builds of 2025 omit a queue of zero: then the queue is unstated, and not zero."""
    assert seconds(**stated) == report


def test_a_server_that_was_handed_the_cache_says_how_long_that_took_and_nothing_of_the_prompt() -> None:
    """The prompt's queue and prefill were on another server."""
    (span,) = fixture("tensorrt-llm-disaggregated-generation").spans
    report = times_in_span(span)

    assert report is not None
    assert (report.queue_seconds, report.prefill_seconds, report.kv_transfer_seconds) == (None, None, 0.02)
