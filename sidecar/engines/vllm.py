"""What vLLM says in the answer itself about the time it took (V1 engine, 0.25 and newer; read in 0.33, seen on 0.32's wire).

It knows the `metrics` object that `--enable-per-request-metrics` adds: on the usage chunk of a stream (so
`include_usage` must be asked for, or forced by `--enable-force-include-usage`), in the body of a non-streamed answer,
and in the last event of `/v1/responses` (0.31). Not for several choices or prompts, not on `/v1/messages`, not with
`--disable-log-stats`. All values are milliseconds on the engine core's monotonic clock. The trap is in a name:
`time_to_first_token_ms` runs from *scheduled* to first token, so it is the prefill and no TTFT. A preempted request keeps
its first scheduling instant: its second wait lies in prefill or decode, not in queue.
It refuses to repair: a field that is no finite, non-negative number is not stated.
"""

import math
from collections.abc import Mapping

from sidecar.engines.kind import Channel, EngineKind, Ran, Wire
from sidecar.engines.span import Span
from sidecar.engines.vllm_spans import word_of
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport


def report_of(extras: Mapping[str, object] | None) -> EngineReport | None:
    """The report in a reading's extras; None where vLLM reported nothing that can be used."""
    metrics = None if extras is None else extras.get("metrics")
    if not isinstance(metrics, Mapping):
        return None
    report = EngineReport(
        queue_seconds=_seconds(metrics.get("queue_time_ms")),
        prefill_seconds=_seconds(metrics.get("time_to_first_token_ms")),
        decode_seconds=_seconds(metrics.get("generation_time_ms")),
    )
    return None if report == NO_REPORT else report


def _seconds(milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    try:
        seconds = float(milliseconds) / 1000.0
    except OverflowError:  # an int beyond what a float can hold
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


class VLLM(EngineKind):
    """vLLM, V1 engine."""

    name = "vllm"
    title = "vLLM"
    channels = (
        Channel(
            source="usage chunk `metrics` (chat, completions), last event (`/v1/responses`), body of whole answers",
            version="0.25 (`/v1/responses` 0.31); seen on 0.32, read in 0.33",
            flags="`--enable-per-request-metrics`",
            exact="queue, prefill, decode",
            missing="several choices or prompts, `/v1/messages`",
            ran=Ran.REAL,
        ),
        Channel(
            source="OTLP span `llm_request`",
            version="0.10.2; seen and read in 0.32",
            flags="`--otlp-traces-endpoint=http://127.0.0.1:9901/v1/traces` with `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf`",
            exact="queue, prefill, decode; every API; of several choices queue and prefill of the first to speak",
            missing="requests that were cut off; beam search; decode of several choices",
            ran=Ran.REAL,
        ),
    )
    accepts_include_usage = True
    reads_spans = True
    late_report_seconds = 10.0
    """Its exporter sends a batch every 5 s, and again where that failed."""

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """The `metrics` object, wherever it stood."""
        return report_of(extras)

    def span(self, span: Span) -> KeyedReport | None:
        """`llm_request`."""
        return word_of(span)

    def reports_on(self, choices: int) -> int:
        """A span for each choice."""
        return choices
