"""What TensorRT-LLM's `trtllm-serve` says in the answer itself about the time it took: nothing (read in 1.4.0rc1, `tensorrt_llm/serve/`).

It knows that the answer's id is `chatcmpl-` or `cmpl-` and the number by which `/perf_metrics` and the engine's spans
call the request: what is told, is told there.
`include_usage` is not added. Completions write `usage: null` into every chunk, asked or not. Chat sends one usage chunk at
the end, but for gpt-oss models builds of 2025 (`harmony_adapter.py` at 02238b67) send it unasked too: cut out, a client
would lose what it gets today.
"""

from sidecar.engines.kind import Channel, EngineKind, Ran
from sidecar.engines.span import Span
from sidecar.engines.tensorrt_llm_spans import word_of
from sidecar.ledger.report import KeyedReport


class TensorRTLLM(EngineKind):
    """TensorRT-LLM."""

    name = "tensorrt_llm"
    title = "TensorRT-LLM"
    channels = (
        Channel(
            source="none in-band",
            version="read in 1.4.0rc1",
            flags="",
            exact="nothing",
            missing="everything: what it tells comes out-of-band",
            ran=Ran.FIXTURES,
            follows="`tensorrt_llm/serve/postprocess_handlers.py` at 01bf1923",
        ),
        Channel(
            source="records of `/perf_metrics`; reading empties them for everybody else",
            version="1.2; read in sources of 2026",
            flags="`return_perf_metrics: true`, `perf_metrics_max_requests: 1000` in its YAML config, and the sidecar's `engine.poll_perf_metrics`",
            exact="queue, prefill, decode; the transfer of the KV cache, which on a generation worker lies in the queue",
            missing="several choices or prompts; `/v1/responses`; gpt-oss models; builds that make up their answers' ids; a disaggregated front end; several front-end processes",
            ran=Ran.FIXTURES,
            follows="`tensorrt_llm/serve/openai_server.py` at 00057725, `tensorrt_llm/serve/_perf_metrics_schema.py` at 4856bb73",
        ),
        Channel(
            source="OTLP span `llm_request`",
            version="1.2; read in sources of 2026",
            flags="`otlp_traces_endpoint: http://127.0.0.1:9901/v1/traces` and `return_perf_metrics: true` with `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf`",
            exact="queue, prefill, decode",
            missing="several choices; disaggregated serving; a queue of zero in builds of 2025",
            ran=Ran.FIXTURES,
            follows="`tensorrt_llm/llmapi/tracing.py` at 0fb7f758, `tensorrt_llm/executor/result.py` at 5f158410",
        ),
    )
    reads_spans = True
    late_report_seconds = 10.0
    """Its exporter sends a batch every 5 s, and again where that failed."""

    def span(self, span: Span) -> KeyedReport | None:
        """`llm_request`."""
        return word_of(span)
