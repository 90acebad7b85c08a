"""The facts of Hugging Face TGI (read in 3.3.6-dev0, db931fcf, `router/src/server.rs`, `router/src/logging.rs`; from fixtures).

**In the answer** it states times in the headers of answers that are not streamed: `x-queue-time` is the wait for a batch, in
whole milliseconds, cut off and not rounded. `x-inference-time` runs from the batch to the end of the answer, prefill and
decode together, and nothing separates them, so neither is stated here. Streamed answers have no such headers. The chunks of
its OpenAI paths were not proven to be free of `usage: null`, so `include_usage` is not added.

**In spans** it states the times of each handler (`generate_stream`, `chat_completions`, ...), set when the last token has gone
out, of streams too: strings, as Rust writes a `Duration` for debugging: a decimal number and `ns`, `\u00b5s`, `ms` or `s`, at
full precision; there are no minutes. `validation_time` runs from the request to the queue, `queue_time` to the batch. The
handler's span hangs under one for the HTTP request, and that under the minted one, so it is led up there (`ancestry.py`).
It refuses to split `inference_time`, which is prefill and decode in one: the prefill is what validation and queue leave of
the TTFT on the wire (`derived`), the decode is the wire's. Of several prompts in one request the times overwrite each other:
`reports_on` says so.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from sidecar.engines.ancestry import Descendants
from sidecar.engines.durations import MILLISECONDS, seconds_of, whole_number
from sidecar.engines.kind import Assembler, Channel, EngineKind, Start, Wire
from sidecar.engines.probe.replies import decoded
from sidecar.engines.probe.state_names import Count, Name, PageTime, StateNames
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport
from sidecar.timeline.dialects.field_table import tgi
from sidecar.timeline.events import Dialect


# U+00B5 is what Rust writes; U+03BC looks the same, and "us" is what a log pipeline may make of them.
_PER_SECOND = {"ns": 1e9, "\u00b5s": 1e6, "\u03bcs": 1e6, "us": 1e6, "ms": 1e3, "s": 1.0}
_DURATION = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)(ns|\u00b5s|\u03bcs|us|ms|s)")


class _Info(msgspec.Struct):
    router: str | None = None
    waiting_served_ratio: float | None = None


class TGI(EngineKind):
    """Text Generation Inference."""

    name = "tgi"
    title = "Hugging Face TGI"
    started = Start(
        known_by="text-generation-inference|text-generation-launcher",
        port=80,
        flags=("--port", "-p"),
        variable="PORT",
        drains_with="curl",
    )
    channels = (
        Channel(
            name="header",
            source="header `x-queue-time` of whole answers (all paths)",
            version="any; read in 3.3.6-dev0",
            exact="queue, cut off to whole milliseconds",
            missing="prefill and decode (stated as one number); streams",
            follows="`router/src/server.rs` of db931fcf",
        ),
        Channel(
            name="spans",
            source="OTLP span of the handler (`generate_stream`, `chat_completions`, ...), gRPC only",
            version="2.0; read in 3.3.6-dev0",
            flags="`--otlp-endpoint=http://127.0.0.1:4317`",
            exact="queue of streams",
            missing="prefill is derived: TTFT minus validation and queue; decode; whole answers; several prompts",
            follows="`router/src/server.rs`, `router/src/logging.rs` of db931fcf",
        ),
    )
    page = "/info"
    page_turn = 2
    metric_prefix = b"tgi_"
    asks = ("/info",)
    state = StateNames(  # 3.3.6-dev0, router; the exporter writes counters without _total
        waiting=Name("tgi_queue_size"),
        running=Name("tgi_batch_current_size"),
        counts={
            Count.REQUESTS: (Name("tgi_request_success"),),
            Count.QUEUE_SECONDS: (Name("tgi_request_queue_duration_sum"),),
        },
        times={PageTime.WHOLE: "tgi_request_duration", PageTime.QUEUE: "tgi_request_queue_duration"},
    )
    paths: Mapping[bytes, Dialect] = {b"/": tgi()}
    answers_prove_models = False
    """Chat answers with the requested name, completions with the model's, whatever adapter was asked for (`server.rs`)."""
    reads_spans = True
    late_report_seconds = 12.0
    """Its exporter sends a batch every 5 s; the two spans of a request may lie in two of them."""
    advice = "--otlp-endpoint makes TGI send its spans to the sidecar"
    flags_column = 4

    def is_own(self, body: bytes) -> bool:
        """Its /info names its router; older ones have a field that no other has."""
        info = decoded(body, _Info) or _Info()
        return info.waiting_served_ratio is not None or (info.router or "").startswith("text-generation-router")

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:  # noqa: ARG002  the interface
        if wire.streaming:
            return None
        queue = seconds_of(whole_number(wire.field(b"x-queue-time")), MILLISECONDS)
        return None if queue is None else EngineReport(queue_seconds=queue)

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:
        return Descendants(report_in_span, is_minted, hold_seconds=6.0)


def report_in_span(span: Span) -> EngineReport | None:
    """The report in one span; None where it is no handler's that has answered."""
    queue = duration(span.attributes.get("queue_time"))
    validation = duration(span.attributes.get("validation_time"))
    if queue is None or "inference_time" not in span.attributes:
        return None
    return EngineReport(queue_seconds=queue, front_end_seconds=validation)


def duration(value: object) -> float | None:
    """Seconds, of a Rust `Duration` in its debug form; None where it is none."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else float(found[1]) / _PER_SECOND[found[2]]
