"""One span in the form in which the receiver hands it on and an engine's file reads it; independent of OpenTelemetry's code.

Ids are lower-case hex (32 digits for a trace, 16 for a span; "" if absent). Instants are Unix nanoseconds on the engine's own
clock: only differences between instants of one span, or of spans of one process, are meaningful.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.engines.durations import seconds_of, whole_number
from sidecar.ledger.report import EngineReport, KeyedReport, RequestKey, SpanRequest, response_key, span_key
from sidecar.timeline.events import NO_USAGE, Usage


SLACK_SECONDS = 0.001
"""Between durations that were rounded, or taken from two clocks of one process."""
COUNTS = ("prompt", "cached", "completion")
_BEAM_OR_LATER_TURN = re.compile(r".+-beam-[0-9]+|resp_.+_0*[1-9][0-9]*")


@dataclass(frozen=True, slots=True)
class Span:
    """One finished span. Attribute values are plain; arrays and maps are left out."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Mapping[str, str | int | float | bool]
    scope: str = ""
    service: str = ""
    trace_state: str = ""
    """The `tracestate` that came with the client's trace, as engines hand it on to their spans (W3C Trace Context 3.3)."""

    @property
    def parent_keys(self) -> tuple[RequestKey, ...]:
        """The key of the request for which its parent was minted, if it has a parent."""
        return (span_key(self.parent_span_id),) if self.parent_span_id else ()


def seconds_in(attributes: Mapping[str, str | int | float | bool], name: str) -> float | None:
    """A duration that is stated as a number of seconds; None where it is absent, or no finite, non-negative number."""
    return seconds_of(attributes.get(name))


def usage_in(attributes: Mapping[str, str | int | float | bool]) -> Usage | None:
    """The token counts under the names that vLLM, SGLang and TensorRT-LLM share; None where none is stated.

    vLLM 0.32 `tracing/utils.py`, SGLang 0.5.23 `req_time_stats.py` (which alone states the cached ones), TensorRT-LLM `llmapi/tracing.py`
    at 0fb7f758. As in an answer's usage, the prompt's tokens include the cached ones.
    """
    prompt, cached, completion = (whole_number(attributes.get(f"gen_ai.usage.{name}_tokens")) for name in COUNTS)
    usage = Usage(prompt, cached, completion)
    return None if usage == NO_USAGE else usage


def is_part_of_another(generation: object) -> bool:
    """Whether vLLM's id of a generation says that it splits no request: a beam's step, or a turn after the first token."""
    return isinstance(generation, str) and _BEAM_OR_LATER_TURN.fullmatch(generation) is not None


def report_of_any(span: Span) -> KeyedReport | None:
    """The report in a span of an engine whose kind is not known; None where it splits no request.

    It is read as vLLM means the attributes, whose names other engines took over. Not all of them took over the meaning: SGLang's
    prefill includes the queue, and routers have spans that are only named after phases. So both have to be stated in one span, and
    to fit into the TTFT if that stands beside them. A span that states the whole as well tells its request by itself.
    """
    queue, prefill, decode, first_token = (
        seconds_in(span.attributes, f"gen_ai.latency.{name}")
        for name in ("time_in_queue", "time_in_model_prefill", "time_in_model_decode", "time_to_first_token")
    )
    if queue is None or prefill is None or (first_token is not None and queue + prefill > first_token + SLACK_SECONDS):
        return None
    generation = span.attributes.get("gen_ai.request.id")
    if is_part_of_another(generation):
        return None
    keys = (response_key(generation),) if isinstance(generation, str) and generation else ()
    report = EngineReport(queue, prefill, decode, usage=usage_in(span.attributes), ttft_seconds=first_token)
    keys = (*span.parent_keys, *keys)
    return KeyedReport(keys, report, span.trace_id or None, part=span.span_id, request=request_in(span))


def request_in(span: Span) -> SpanRequest | None:
    """The request in a span with the attributes `gen_ai.*` that vLLM and SGLang share; None without its times.

    TTFT and whole are of the server's own clock, as the span's beginning is (vLLM: `do_tracing` of `v1/engine/output_processor.py`, seen on
    0.32 and read at d0782260; SGLang: `srt/observability/req_time_stats.py` of 0.5.23). The words with which answers finished are a JSON
    list; releases of vLLM state none, and send no span of a request that was cut off.
    """
    said = span.attributes
    ttft_seconds, e2e_seconds = (seconds_in(said, f"gen_ai.latency.{name}") for name in ("time_to_first_token", "e2e"))
    if ttft_seconds is None or e2e_seconds is None or not 0.0 < ttft_seconds <= e2e_seconds:
        return None
    model = said.get("gen_ai.response.model")
    finish = [said.get(f"gen_ai.response.{name}") for name in ("finish_reasons", "finish_reason")]
    return SpanRequest(
        ended_at_unix=span.start_unix_nano / 1e9 + e2e_seconds,
        ttft_seconds=ttft_seconds,
        e2e_seconds=e2e_seconds,
        usage=usage_in(said) or NO_USAGE,
        max_tokens=whole_number(said.get("gen_ai.request.max_tokens")),
        model=model if isinstance(model, str) else None,
        aborted=any(isinstance(each, str) and "abort" in each.lower() for each in finish),
        said=said,
        trace_state=span.trace_state,
    )
