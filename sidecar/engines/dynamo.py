"""The facts of NVIDIA Dynamo (1.6.1, `lib/llm/src/protocols/openai/nvext.rs`, `common/timing.rs`; from fixtures).

**In the answer** it states `nvext.timing` on the last chunk: its `prefill_wait_time_ms` is the wait in the front end and its
router, and its `prefill_time_ms` runs from the dispatch to a worker until the first token, so the engine's own queue hides in
it. Neither is a phase of ours: the two come as one, and the TTFT is `unattributed`, reason `engine_merges_phases`. It is read
where the client asked for it, and never asked for. Asking would be safe for the request (`nvext` is an object that ignores
what it does not know), but the answer could not be taken out again: it stands in the chunk with the finish reason, not in one
of its own, and it would not split the TTFT anyway.

**In spans** (`docs/observability/tracing.md`) the engine behind it speaks: Dynamo hands the trace on to its workers, so that
the engine's own `llm_request` (vLLM's or TensorRT-LLM's) hangs somewhere under the minted span, below Dynamo's `http-request`
and `handle_payload`. Dynamo's own spans say nothing of the split, but lead up to the request (`ancestry.py`) where they come
here too; else the trace alone leads there, while it is one request's. It refuses where two engines had a part in one request
(disaggregated prefill and decode): neither's numbers are the request's, and nothing in a span says which it is. That is why a
report is held until another would have come.
"""

from collections.abc import Callable, Mapping

from sidecar.engines import tensorrt_llm, vllm
from sidecar.engines.ancestry import Descendants
from sidecar.engines.durations import MILLISECONDS, seconds_of
from sidecar.engines.kind import Assembler, Channel, EngineKind, Start, Wire
from sidecar.engines.probe.state_names import Count, Name, PageTime, StateNames
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport


MERGED = ("prefill_wait_time_ms", "prefill_time_ms", "ttft_ms")
HOLD_SECONDS = 6.0
"""Longest time between the batches of two engines: each sends one every 5 s."""


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
            version="read in 1.6.1",
            flags='each request: `"nvext": {"extra_fields": ["timing"]}`',
            exact="nothing",
            missing="queue and prefill are stated as one number: unattributed, reason `engine_merges_phases`",
            follows="`lib/llm/src/protocols/openai/nvext.rs` at 03f06d19",
        ),
        Channel(
            name="spans",
            source="OTLP span `llm_request` of the engine behind it (vLLM, TensorRT-LLM)",
            version="read in 1.6.1",
            flags="the flags of that engine, as in its section; if several requests share a trace, also `OTEL_EXPORT_ENABLED=1` (gRPC only)",
            exact="queue, prefill, decode, if one engine did all of them",
            missing="disaggregated prefill and decode",
            follows="`docs/observability/tracing.md` at 0b71cf84, and the engine's own files",
        ),
    )
    owned_by = "nvidia"
    owner_is_shared = True
    metric_prefix = b"dynamo_frontend_"
    shows_engine_inside = True
    # 1.6.1, the frontend; its workers' pages stand on other ports. Its count of requests before their first token is no queue.
    state = StateNames(
        counts={Count.REQUESTS: (Name("dynamo_frontend_requests_total", only=(b'status="success"',)),)},
        times={
            PageTime.FIRST_TOKEN: "dynamo_frontend_time_to_first_token_seconds",
            PageTime.WHOLE: "dynamo_frontend_request_duration_seconds",
        },
    )
    takes_include_usage_on = ("openai_chat", "openai_completions")
    null_usage_on = ("openai_completions",)
    """Seen in 1.6.1: `create_choice` of `openai/completions/delta.rs` leaves `usage` out of no chunk."""
    reads_spans = True
    late_report_seconds = 5.0 + HOLD_SECONDS + 5.0
    """The engine's batch, the hold, and room for an exporter that had to try again."""
    advice = "let the engine behind Dynamo export its spans to the sidecar: Dynamo alone states queue and prefill as one number"

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """A report that the phases are merged, if it states any of them."""
        nvext = extras.get("nvext")
        timing = nvext.get("timing") if isinstance(nvext, Mapping) else None
        if not isinstance(timing, Mapping):
            return None
        stated = any(seconds_of(timing.get(name), MILLISECONDS) is not None for name in MERGED)
        return EngineReport(merged=True) if stated else None

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:
        return Descendants(report_in_span, is_minted, hold_seconds=HOLD_SECONDS, alone=True)


def report_in_span(span: Span) -> EngineReport | None:
    """The report in the span of either engine; vLLM alone states its prefill as such."""
    if "gen_ai.latency.time_in_model_prefill" in span.attributes:
        found = vllm.report_in_span(span)
        return None if found is None else found.report
    return tensorrt_llm.times_in_span(span)
