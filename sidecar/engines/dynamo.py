"""The facts of NVIDIA Dynamo (1.6.1; `lib/llm/src/protocols/openai/nvext.rs` at 03f06d19, `common/timing.rs` at 0353adc8, and a real one).

**In the answer** it states `nvext.timing` on the last chunk, in milliseconds of its frontend's clock: `prefill_wait_time_ms` is the wait in the
frontend and its router until the request went to a worker, and `prefill_time_ms` runs from there until the first token, so that the engine's own
queue hides in it. The two come as one number, their sum, which an estimate splits; the router's wait is a part of the queue, whatever the rest is.
With prefill and decode on workers of their own, that first token is the prefill worker's, and `kv_transfer_estimated_latency_ms` runs from
there to the decode worker's first one: the KV cache's move, and one step of the decode (`kv_transfer_estimated_latency_secs`: "upper bound").
It is a part of first_token. The wait for a place at the decode worker is in it too, and estimated as decode_admission, a part of the queue
(`observe/admissions.py`). It is exactly 0 where the decode worker was first (workers that meet by bootstrap ports): then it is not known, and
that time is the rest of first_token. `router_queue_depth` is a number of requests and no time: it is not used.

The timing is read where the client asked for it, and never asked for: it stands in the chunk with the finish reason, from which it could not
be taken out again. Usage is asked for: its chunk stands alone.

**In spans** (`docs/observability/tracing.md`) the engine behind it speaks: Dynamo hands the trace on to its workers, so that
the engine's own `llm_request` (vLLM's or TensorRT-LLM's) hangs somewhere under the minted span, below Dynamo's `http-request`
and `handle_payload`. Dynamo's own spans say nothing of the split, but lead up to the request (`ancestry.py`) where they come
here too; else the trace alone leads there, while it is one request's. Where two engines had a part in one request (disaggregated prefill
and decode), neither's numbers are the request's: they are put together (`ledger/workers.py`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from sidecar.engines import sglang, tensorrt_llm, vllm
from sidecar.engines.ancestry import Descendants
from sidecar.engines.durations import MILLISECONDS, seconds_of
from sidecar.engines.kind import Assembler, Channel, EngineKind, Start, Wire
from sidecar.engines.probe.state_names import Count, Name, PageTime, StateNames
from sidecar.engines.reports.report_sources import ExportedFiles
from sidecar.engines.span import Span
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import EngineReport, KeyedReport, response_key
from sidecar.timeline.dialects.json_fields import count
from sidecar.timeline.events import NO_USAGE, UNREADABLE, Usage
from sidecar.timeline.response_id import MAX_ID_CHARACTERS


MERGED = ("prefill_wait_time_ms", "prefill_time_ms", "ttft_ms")
TRANSFER_ESTIMATED = "kv_transfer_estimated_latency_ms"
ANSWERS = ("chatcmpl", "cmpl")
"""The beginnings of an answer's id, on chat and on completions; behind it stands the id in the trace."""
MOST_CHARACTERS = MAX_ID_CHARACTERS - max(len(f"{api}-") for api in ANSWERS)
HOLD_SECONDS = 6.0
"""Longest time between the batches of two engines: each sends one every 5 s."""


class _Request(msgspec.Struct, frozen=True):
    request_id: Any = None
    input_tokens: Any = None
    output_tokens: Any = None
    cached_tokens: Any = None
    prefill_wait_time_ms: Any = None
    prefill_time_ms: Any = None
    ttft_ms: Any = None
    kv_transfer_estimated_latency_ms: Any = None


class _Event(msgspec.Struct, frozen=True):
    event_type: Any = None
    request: _Request | None = None


class _Line(msgspec.Struct, frozen=True):
    event: _Event | None = None


_TRACE_LINE = msgspec.json.Decoder(_Line)


def report_in_line(line: bytes) -> KeyedReport | None:
    """The report in one line of a request trace; None where it is no request's, or states none of its times. Never raises."""
    try:
        said = _TRACE_LINE.decode(line).event
    except UNREADABLE:
        return None
    request = None if said is None or said.event_type != "request_end" else said.request
    if request is None or not isinstance(request.request_id, str) or not 0 < len(request.request_id) <= MOST_CHARACTERS:
        return None
    report = report_of_timing(msgspec.structs.asdict(request))
    if report is None:
        return None
    counts = (count(each) for each in (request.input_tokens, request.cached_tokens, request.output_tokens))
    usage = Usage(*counts)
    keys = tuple(response_key(f"{api}-{request.request_id}") for api in ANSWERS)
    return KeyedReport(keys, replace(report, usage=None if usage == NO_USAGE else usage))


class Dynamo(EngineKind):
    name = "dynamo"
    title = "NVIDIA Dynamo"
    started = Start(
        known_by=r"dynamo[.-]frontend|ai-dynamo",
        port=8000,
        flags=("--http-port",),
        variable="DYN_HTTP_PORT",
        tls_flags=("--tls-cert-path", "--tls-key-path"),
        drains_with="python3",
    )
    channels = (
        Channel(
            name="timing",
            source="`nvext.timing` on the last chunk",
            version="seen on 1.6.1",
            flags='each request: `"nvext": {"extra_fields": ["timing"]}`',
            exact="queue and prefill as one number, the router's wait in it; the KV cache's move behind it, with a step of the decode",
            missing="the split of that number, which is estimated, or else unattributed with reason `engine_merges_phases`; the decode worker's"
            " queue, which is estimated; the move of workers that meet by bootstrap ports",
        ),
        Channel(
            name="trace",
            source="its request trace, one line per request, plain or gzip",
            version="seen on 1.6.1",
            flags="`DYN_REQUEST_TRACE=1 DYN_REQUEST_TRACE_OUTPUT_PATH=DIR/requests` (gzip), or beside it `DYN_REQUEST_TRACE_SINKS=jsonl` and"
            " a path that ends in `.jsonl`; and the sidecar's `engine.request_trace_dir`",
            exact="what `nvext.timing` states, for every client; the counts of tokens",
            missing="the split and the decode worker's queue, as above; several choices or prompts, which the trace leaves out; `/v1/responses`"
            " and `/v1/messages`, whose answers have ids of their own",
        ),
        Channel(
            name="spans",
            source="OTLP span `llm_request` of the engine behind it (vLLM, TensorRT-LLM)",
            version="read in 1.6.1",
            flags="the flags of that engine, as in its section; if several requests share a trace, also `OTEL_EXPORT_ENABLED=1` (gRPC only)",
            exact="queue, prefill, decode; of a prefill worker and a decode worker (vLLM), queue and prefill of the one, decode of the other",
            missing="a decode worker's own queue, in which the KV cache moves; the split, where only one of both workers sends its spans",
            follows="`docs/observability/tracing.md` at 0b71cf84, and the engine's own files",
        ),
    )
    owned_by = "nvidia"
    owner_is_shared = True
    metric_prefix = b"dynamo_frontend_"
    shows_engine_inside = True
    # 1.6.1, the frontend. Its count of requests before their first token is no queue. Its router's queue is there with --router-mode kv alone.
    state = StateNames(
        before_workers=Name("dynamo_frontend_router_queue_pending_requests"),
        counts={Count.REQUESTS: (Name("dynamo_frontend_requests_total", only=(b'status="success"',)),)},
        times={
            PageTime.FIRST_TOKEN: "dynamo_frontend_time_to_first_token_seconds",
            PageTime.WHOLE: "dynamo_frontend_request_duration_seconds",
        },
    )
    worker_states = (vllm.VLLM.state, sglang.SGLang.state, tensorrt_llm.TensorRTLLM.state)
    """The mocker's page has vLLM's names. Seen on 1.6.1, at DYN_SYSTEM_PORT."""
    takes_include_usage_on = ("openai_chat", "openai_completions")
    null_usage_on = ("openai_completions",)
    """Seen in 1.6.1: `create_choice` of `openai/completions/delta.rs` leaves `usage` out of no chunk."""
    reads_spans = True
    source = ExportedFiles(
        setting="request_trace_dir",
        hint="set it to a read-only mount of the folder in which Dynamo's DYN_REQUEST_TRACE_OUTPUT_PATH lies",
        name=re.compile(r".+?((?:\.[0-9]{6,})?)\.jsonl(?:\.gz)?"),
        passed_over=b"",
        report_in=report_in_line,
    )
    late_report_seconds = 5.0 + HOLD_SECONDS + 5.0
    """The engine's batch, the hold, and room for an exporter that had to try again."""
    advice = "let the engine behind Dynamo export its spans to the sidecar: Dynamo alone states queue and prefill as one number"

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        nvext = extras.get("nvext")
        timing = nvext.get("timing") if isinstance(nvext, Mapping) else None
        return report_of_timing(timing) if isinstance(timing, Mapping) else None

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:
        return Descendants(report_in_span, is_minted, hold_seconds=HOLD_SECONDS)


def report_of_timing(timing: Mapping[str, object]) -> EngineReport | None:
    """A report that the phases are merged, with their sum and the parts that are known; None if it states none of them."""
    wait, prefill, ttft = (seconds_of(timing.get(name), MILLISECONDS) for name in MERGED)
    if wait is None and prefill is None and ttft is None:
        return None
    both = wait + prefill if wait is not None and prefill is not None else ttft
    transfer = seconds_of(timing.get(TRANSFER_ESTIMATED), MILLISECONDS) or None
    stated = ((Part.ROUTER, wait), (Part.KV_TRANSFER, transfer))
    parts = tuple(StatedPart(part, seconds) for part, seconds in stated if seconds is not None)
    return EngineReport(merged=True, merged_seconds=both, kv_transfer_seconds=transfer, parts=parts)


def report_in_span(span: Span) -> EngineReport | None:
    """The report in the span of either engine; vLLM alone states its prefill as such."""
    if "gen_ai.latency.time_in_model_prefill" in span.attributes:
        found = vllm.report_in_span(span)
        return None if found is None else found.report
    return tensorrt_llm.times_in_span(span)
