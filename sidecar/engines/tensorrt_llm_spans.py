"""What TensorRT-LLM says in its spans (`tensorrt_llm/llmapi/tracing.py`, `executor/result.py`; read in sources of 2026, from fixtures).

It knows the one span `llm_request` that `trtllm-serve` makes of each request, with `return_perf_metrics` and
`otlp_traces_endpoint`: `time_in_queue` from arrival to first scheduled, `time_to_first_token` and `e2e` from the same
arrival, all of one steady clock and in seconds. So the prefill is the difference of the first two, and the decode that of the
last two: subtractions on one clock, as exact as their operands. The answer's id is `chatcmpl-` or `cmpl-` and the
request's number, which begins anew when the engine does.

It refuses to make a zero of an absent queue (builds of 2025 leave out what is not above zero), and to split the request
of a disaggregated generation server, whose span tells of a transferred cache: its first token is not the prompt's.
"""

from sidecar.engines.span import Span, seconds_in
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, RequestKey, response_key, span_key


NAME = "llm_request"


def report_of(span: Span) -> EngineReport | None:
    """What one span says; None where it is no request's."""
    if span.name != NAME:
        return None
    queue = seconds_in(span.attributes, "gen_ai.latency.time_in_queue")
    first_token = seconds_in(span.attributes, "gen_ai.latency.time_to_first_token")
    end = seconds_in(span.attributes, "gen_ai.latency.e2e")
    transfer = seconds_in(span.attributes, "gen_ai.latency.kv_cache_transfer_time")
    received_its_cache = transfer is not None and transfer > 0
    report = EngineReport(
        queue_seconds=None if received_its_cache else queue,
        prefill_seconds=None if received_its_cache else _between(queue, first_token),
        decode_seconds=_between(first_token, end),
        kv_transfer_seconds=transfer if received_its_cache else None,
    )
    return None if report == NO_REPORT else report


def word_of(span: Span) -> KeyedReport | None:
    """The word in one span; None where it is no request's."""
    report = report_of(span)
    if report is None:
        return None
    keys: list[RequestKey] = [span_key(span.parent_span_id)] if span.parent_span_id else []
    number = span.attributes.get("gen_ai.request.id")
    if not isinstance(number, bool) and isinstance(number, int | str) and number != "":
        keys += [response_key(f"chatcmpl-{number}"), response_key(f"cmpl-{number}")]
    return KeyedReport(tuple(keys), report, span.trace_id or None)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None or end < start else end - start
