"""What SGLang says about the time a request took (read in 0.5.23, `srt/observability/req_time_stats.py`).

It knows the times in the `meta_info` of its own `/generate`, there with `--enable-metrics`: `queue_time` in seconds, the
scheduler's wait, and the instants `forward_entry_time` and
`prefill_finished_time`, both of the scheduler's clock, between which lies the prefill. Its OpenAI paths carry none of
them (`return_meta_info` is refused for streams); for those there are its spans and its exported file. The decode is not
stated, so the wire's stands. Of a request that was retracted `queue_time` holds a wait after its first token, in some
builds only that one: its queue is then not stated. Older builds (0.5.5) gave `forward_entry_time` on another clock than the prefill's end: the
difference is then absurd, and the ledger refuses it against the wire.
`include_usage` is not added: chunks made by pydantic (completions, tool calls, hidden states) carry `usage: null`.
"""

from collections.abc import Callable, Mapping

from sidecar.engines.durations import between, instant_of, seconds_of
from sidecar.engines.kind import Assembler, Channel, EngineKind, Ran, Wire
from sidecar.engines.sglang_spans import Slices
from sidecar.ledger.report import NO_REPORT, EngineReport


def report_of(meta: Mapping[str, object]) -> EngineReport | None:
    """The times in `meta_info`, wherever it stood; None where there is none that can be used."""
    begun, done = (instant_of(meta.get(name)) for name in ("forward_entry_time", "prefill_finished_time"))
    report = EngineReport(
        queue_seconds=None if meta.get("num_retractions") else seconds_of(meta.get("queue_time")),
        prefill_seconds=between(begun, done),
    )
    return None if report == NO_REPORT else report


class SGLang(EngineKind):
    """SGLang."""

    name = "sglang"
    title = "SGLang"
    channels = (
        Channel(
            source="`meta_info` of `/generate`, streamed and whole",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-metrics`",
            exact="queue, prefill",
            missing="decode (the wire's stands); several prompts or samples in one request; the OpenAI paths",
            ran=Ran.FIXTURES,
            follows="`srt/observability/req_time_stats.py`, `srt/managers/tokenizer_manager.py` of 0.5.23",
        ),
        Channel(
            source="the files that it exports, one line a request",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-metrics --export-metrics-to-file --export-metrics-to-file-dir=DIR` (`--log-requests --log-requests-level=0` keeps prompts out of the files), and the sidecar's `engine.sglang_metrics_dir`",
            exact="queue, prefill; every API",
            missing="decode (the wire's stands); several samples in one request; the queue of a request that was retracted",
            ran=Ran.FIXTURES,
            follows="`srt/observability/request_metrics_exporter.py` of 0.5.23",
        ),
        Channel(
            source="OTLP slices `prefill_waiting`, `prefill_forward`, `decode_forward` of the request's root",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-trace --otlp-traces-endpoint=http://127.0.0.1:9901/v1/traces --trace-modules=request` with `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf SGLANG_TRACE_LEVEL=1`",
            exact="queue, prefill, decode; every API; the transfer of a disaggregated prefill",
            missing="several samples in one request",
            ran=Ran.FIXTURES,
            follows="`srt/observability/trace.py`, `srt/observability/req_time_stats.py` of 0.5.23",
        ),
    )
    reads_spans = True
    late_report_seconds = 5.0
    """Its exporters send a batch every 0.5 s."""
    advice = (
        "start SGLang with --enable-metrics (its /generate then states its times), and for its other APIs with --enable-trace "
        "--otlp-traces-endpoint or --export-metrics-to-file, as docs/engines.md has it"
    )

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        """The times in `meta_info`."""
        meta = extras.get("meta_info")
        if not isinstance(meta, Mapping) or wire.choices > 1:
            return None
        return report_of(meta)

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:  # noqa: ARG002  the root names its parent
        """Its slices come in batches of several processes."""
        return Slices()
