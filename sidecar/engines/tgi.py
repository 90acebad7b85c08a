"""What Hugging Face TGI says about the time a request took (read in 3.3.6-dev0, db931fcf, `router/src/server.rs`).

It knows the headers of answers that are not streamed: `x-queue-time` is the wait for a batch, in whole milliseconds, cut
off and not rounded. `x-inference-time` runs from the batch to the end of the answer, prefill and decode together, and
nothing separates them, so neither is stated here. Streamed answers have no such headers; for them there are its spans.
The chunks of its OpenAI paths were not proven to be free of `usage: null`, so `include_usage` is not added.
"""

from collections.abc import Callable, Mapping, Sequence

from sidecar.engines.ancestry import Descendants
from sidecar.engines.durations import MILLISECONDS, seconds_of, whole_number
from sidecar.engines.kind import Assembler, Channel, EngineKind, Ran, Wire
from sidecar.engines.tgi_spans import report_of
from sidecar.ledger.report import EngineReport


class TGI(EngineKind):
    """Text Generation Inference."""

    name = "tgi"
    title = "Hugging Face TGI"
    channels = (
        Channel(
            source="header `x-queue-time` of whole answers (all paths)",
            version="any; read in 3.3.6-dev0",
            flags="",
            exact="queue, in whole milliseconds cut off",
            missing="prefill and decode (stated as one number); streams",
            ran=Ran.FIXTURES,
            follows="`router/src/server.rs` of db931fcf",
        ),
        Channel(
            source="OTLP span of the handler (`generate_stream`, `chat_completions`, ...), gRPC only",
            version="2.0; read in 3.3.6-dev0",
            flags="`--otlp-endpoint=http://127.0.0.1:4317`",
            exact="queue of streams",
            missing="prefill is what validation and queue leave of the TTFT; decode; whole answers; several prompts",
            ran=Ran.FIXTURES,
            follows="`router/src/server.rs`, `router/src/logging.rs` of db931fcf",
        ),
    )
    reads_spans = True
    late_report_seconds = 12.0
    """Its exporter sends a batch every 5 s; the two spans of a request may lie in two of them."""

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        """The headers of a whole answer."""
        if wire.streaming:
            return None
        queue = seconds_of(whole_number(_header(wire.fields, b"x-queue-time")), MILLISECONDS)
        return None if queue is None else EngineReport(queue_seconds=queue)

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:
        """The handler's span hangs under one for the HTTP request."""
        return Descendants(report_of, is_minted, hold_seconds=6.0)


def _header(fields: Sequence[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The value of a field that stands exactly once; several would contradict each other."""
    found = [value for stated, value in fields if stated.lower() == name]
    return found[0].decode("ascii", "replace").strip() if len(found) == 1 else None
