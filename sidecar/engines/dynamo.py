"""What NVIDIA Dynamo says about the time a request took (1.6.1, `lib/llm/src/protocols/openai/nvext.rs`, `common/timing.rs`).

It knows `nvext.timing` on the last chunk: its `prefill_wait_time_ms` is the wait in the front end and its router, and its
`prefill_time_ms` runs from the dispatch to a worker until the first token, so the engine's own queue hides in it. Neither
is a phase of ours: the two come as one, and the TTFT is `unattributed`, reason `engine_merges_phases`. The engine behind
Dynamo can be asked instead: its spans have the same trace.

It is read where the client asked for it, and never asked for. Asking would be safe for the request (`nvext` is an object
that ignores what it does not know), but the answer could not be taken out again: it stands in the chunk with the finish
reason, not in one of its own, and it would not split the TTFT anyway.
"""

from collections.abc import Callable, Mapping

from sidecar.engines.ancestry import Descendants
from sidecar.engines.durations import MILLISECONDS, seconds_of
from sidecar.engines.dynamo_spans import HOLD_SECONDS, report_of
from sidecar.engines.kind import Assembler, Channel, EngineKind, Ran, Wire
from sidecar.ledger.report import EngineReport


MERGED = ("prefill_wait_time_ms", "prefill_time_ms", "ttft_ms")


class Dynamo(EngineKind):
    """Dynamo."""

    name = "dynamo"
    title = "NVIDIA Dynamo"
    channels = (
        Channel(
            source="`nvext.timing` on the last chunk",
            version="read in 1.6.1",
            flags='each request: `"nvext": {"extra_fields": ["timing"]}`',
            exact="nothing",
            missing="queue and prefill come as one: unattributed, reason `engine_merges_phases`",
            ran=Ran.FIXTURES,
            follows="`lib/llm/src/protocols/openai/nvext.rs` at 03f06d19",
        ),
        Channel(
            source="OTLP span `llm_request` of the engine behind it (vLLM, TensorRT-LLM)",
            version="read in 1.6.1",
            flags="the engine's own, as in its rows; for traces that several requests share also `OTEL_EXPORT_ENABLED=1`, gRPC only",
            exact="queue, prefill, decode, of one engine that did all of it",
            missing="disaggregated prefill and decode",
            ran=Ran.FIXTURES,
            follows="`docs/observability/tracing.md` at 0b71cf84, and the engine's own files",
        ),
    )
    reads_spans = True
    late_report_seconds = 5.0 + HOLD_SECONDS + 5.0
    """The engine's batch, the hold, and room for an exporter that had to try again."""
    advice = "let the engine behind Dynamo export its spans to the sidecar: Dynamo alone states queue and prefill as one number"

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """That it merges the phases, where it says anything about them."""
        nvext = extras.get("nvext")
        timing = nvext.get("timing") if isinstance(nvext, Mapping) else None
        if not isinstance(timing, Mapping):
            return None
        stated = any(seconds_of(timing.get(name), MILLISECONDS) is not None for name in MERGED)
        return EngineReport(merged=True) if stated else None

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:
        """The engine's span hangs under Dynamo's own."""
        return Descendants(report_of, is_minted, hold_seconds=HOLD_SECONDS, alone=True)
