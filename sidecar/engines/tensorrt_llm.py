"""The facts of TensorRT-LLM's `trtllm-serve` (read in 1.4.0rc1 and in sources of 2026, `tensorrt_llm/serve/`; from fixtures).

**In the answer** it states times to who asks for them by the field `X-TRTLLM-return-metrics: 1`, with `return_perf_metrics: true` and
since PR 16668 of July 2026, on chat, completions, `/v1/responses` and `/v1/messages`: in fields of the head of a whole answer
(`serve/perf_metrics.py`, `_test_openai_perf_metrics.py` at 1264e78b), and of a stream in one event behind the end mark
(`serve/openai_client.py` at 00cc02a3 reads it in the same way). `server_queue`, `server_ttft` and `server_e2e` run from the same arrival.
Beside them stand instants, and times of each step, up to 80 KiB: all that is neither read nor passed on. Each call of the engine for one
request adds its own list, so that a name stands twice for several prompts, or for the turns of a tool's loop: such a list is refused, and so
are several choices, of which the first alone is stated. A disaggregated front end calls its times otherwise, and is refused.
The answer's id is `chatcmpl-` or `cmpl-` and the number by which its records and
its spans call the request; it begins anew when the engine does. `include_usage` is not added. Completions write
`usage: null` into every chunk, asked or not. Chat sends one usage chunk at the end, but for gpt-oss models builds of 2025
(`harmony_adapter.py` at 02238b67) send it unasked too: cut out, a client would lose what it gets today.

**In spans** (`tensorrt_llm/llmapi/tracing.py`, `executor/result.py`) it states one, `llm_request`, of each request, with
`return_perf_metrics` and `otlp_traces_endpoint`: `time_in_queue` from arrival to first scheduled, `time_to_first_token` and
`e2e` from the same arrival, all of one steady clock and in seconds. So the prefill is the difference of the first two, and the
decode that of the last two: subtractions on one clock, as exact as their operands. It refuses to make a zero of an absent
queue (builds of 2025 leave out what is not above zero), and to split the request of a disaggregated generation server, whose
span tells of a transferred cache: its first token is not the prompt's.

**In records** it states each finished request. Since PR 16668 it appends them as lines to a file of its own for each of its processes
(`perf_metrics_output_dir`); before, `GET /perf_metrics` answered an array to the first who asked and emptied it
(`return_perf_metrics: true`, `perf_metrics_max_requests` above 0). A record has `perf_metrics.timing_metrics` beside a numeric
`request_id` (`serve/openai_server.py` at 00057725), or a text id, nulls and a `status`, as the lines have
(`serve/_perf_metrics_schema.py` at 4856bb73). Instants are seconds of one steady clock; one of 0 was never taken, and only
differences are used. Builds before `_ensure_stream_metadata` made up ids of their own: their records find no request. The
transfer of the KV cache is stated apart; on a generation worker it lies before the first scheduling, that is in the queue.
The records of a disaggregated front end are refused (`ctx_server`, `gen_server`): each of its workers numbers its requests by
itself, so that two of them may have the same id.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sidecar.engines.durations import between, instant_of
from sidecar.engines.kind import AskedReport, Channel, EngineKind, Start, Wire
from sidecar.engines.probe.replies import VERSION_PATH, Answers, Identity, body_at, info_labels, text_at
from sidecar.engines.probe.state_names import ENDED_BADLY, Count, Name, StateNames, finished_seconds, request_times
from sidecar.engines.reports.report_sources import ExportedFiles, PolledRecords
from sidecar.engines.server_timing import report_in_timing
from sidecar.engines.span import Span, seconds_in, usage_in
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, RequestKey, response_key
from sidecar.timeline.events import UNREADABLE


REQUEST_SPAN = "llm_request"
MAX_REQUEST_ID_CHARACTERS = 128
METRICS_OF_PROMETHEUS = "/prometheus/metrics"
"""Its /metrics is another page, whose statistics each read removes: it is never read."""

_LISTED = rb"[\w-]++;(?:dur|ts)=[-+.0-9e]++"
"""One entry of a list of times, as `build_metrics_headers` writes it."""


class _Timing(msgspec.Struct, frozen=True):
    arrival_time: Any = None
    first_scheduled_time: Any = None
    first_token_time: Any = None
    last_token_time: Any = None
    kv_cache_transfer_start: Any = None
    kv_cache_transfer_end: Any = None


class _Part(msgspec.Struct, frozen=True):
    timing_metrics: _Timing | None = None


class Record(msgspec.Struct, frozen=True):
    """The fields of one finished request that are read."""

    request_id: Any = None
    perf_metrics: _Part | None = None


_RECORDS = msgspec.json.Decoder(list[Record])
_RECORD = msgspec.json.Decoder(Record)
_EACH = msgspec.json.Decoder(list[msgspec.Raw])


def reports_in_records(body: bytes) -> Iterator[KeyedReport | None]:
    """The report of each record in one answer; a body that is no array is one record that cannot be read. Never raises."""
    records: Sequence[Record | msgspec.Raw | None]
    try:
        records = _RECORDS.decode(body)
    except UNREADABLE:
        # One record of another shape must not cost the others: they are decoded one by one.
        try:
            records = _EACH.decode(body)
        except UNREADABLE:
            records = [None]
    return map(report_in_record, records)


def report_in_line(line: bytes) -> KeyedReport | None:
    """The report in one line of a file; None where it is no request's, or states none of its times. Never raises."""
    return report_in_record(msgspec.Raw(line))


def report_in_record(record: Record | msgspec.Raw | None) -> KeyedReport | None:
    """The report in one record; None where it is no request's, or states none of its times. Never raises."""
    if isinstance(record, msgspec.Raw):
        try:
            record = _RECORD.decode(record)
        except UNREADABLE:
            return None
    if record is None:
        return None
    request_id = _id_of(record.request_id)
    timing = record.perf_metrics.timing_metrics if record.perf_metrics is not None else None
    if request_id is None or timing is None:
        return None
    # In the order of the fields of `_Timing`.
    arrived, scheduled, first, last, moving, moved = map(instant_of, msgspec.structs.astuple(timing))
    report = EngineReport(
        queue_seconds=between(arrived, scheduled),
        prefill_seconds=between(scheduled, first),
        decode_seconds=between(first, last),
        kv_transfer_seconds=between(moving, moved),
    )
    if report == NO_REPORT:
        return None
    return KeyedReport(_answers_numbered(request_id), report)


def _id_of(value: object) -> str | None:
    if isinstance(value, str):
        return value if 0 < len(value) <= MAX_REQUEST_ID_CHARACTERS else None
    return str(value) if type(value) is int and value >= 0 else None


def _answers_numbered(number: int | str) -> tuple[RequestKey, ...]:
    """The ids that the answer to the request of this number may carry."""
    return response_key(f"chatcmpl-{number}"), response_key(f"cmpl-{number}")


class TensorRTLLM(EngineKind):
    name = "tensorrt_llm"
    title = "TensorRT-LLM"
    started = Start(
        known_by="trtllm-serve|tensorrt-llm|tensorrt_llm",
        port=8000,
        flags=("--port",),
        on_loopback=True,
        drains_with="python3",
    )
    channels = (
        Channel(
            name="server_timing",
            source="`Server-Timing` of a whole answer, and the same in an event behind the end mark of a stream (chat, completions, `/v1/responses`, `/v1/messages`); the sidecar asks for it",
            version="PR 16668 of July 2026; read in sources of 2026",
            flags="`return_perf_metrics: true` in its YAML config",
            exact="queue, prefill, decode",
            missing="several choices or prompts; tools that the engine itself calls; a disaggregated front end; clients that leave at the end mark",
            follows="`tensorrt_llm/serve/openai_client.py` at 00cc02a3, `tests/unittest/llmapi/apps/_test_openai_perf_metrics.py` at 1264e78b, `tensorrt_llm/serve/perf_metrics.py` as PR 16668 wrote it",
        ),
        Channel(
            name="files",
            source="lines of its `perf_metrics_output_dir`, one per request",
            version="PR 16668 of July 2026; read in sources of 2026",
            flags="`return_perf_metrics: true` and `perf_metrics_output_dir: DIR` in its YAML config, and the sidecar's `engine.perf_metrics_dir`",
            exact="queue, prefill, decode; the transfer of the KV cache, which on a generation worker is part of the queue",
            missing="several choices or prompts; `/v1/responses` and `/v1/messages`, whose answers have ids of their own; lines above 256 KiB (some 1,000 tokens); a disaggregated front end; several front-end processes",
            follows="`tensorrt_llm/serve/_perf_metrics_schema.py` at 4856bb73, `tests/unittest/llmapi/apps/_test_openai_perf_metrics.py` at 1264e78b, `tensorrt_llm/serve/perf_metrics.py` as PR 16668 wrote it",
        ),
        Channel(
            name="perf_metrics",
            source="records of `/perf_metrics`; each read removes them for all other readers",
            version="1.2 until PR 16668 of July 2026 removed it",
            flags="`return_perf_metrics: true`, `perf_metrics_max_requests: 1000` in its YAML config, and the sidecar's `engine.poll_perf_metrics`",
            exact="queue, prefill, decode; the transfer of the KV cache, which on a generation worker is part of the queue",
            missing="several choices or prompts; `/v1/responses`; gpt-oss models; builds whose answers carry other ids than their records; a disaggregated front end; several front-end processes",
            follows="`tensorrt_llm/serve/openai_server.py` at 00057725, `tensorrt_llm/serve/_perf_metrics_schema.py` at 4856bb73",
        ),
        Channel(
            name="spans",
            source="OTLP span `llm_request`",
            version="1.2; read in sources of 2026",
            flags="`otlp_traces_endpoint: http://127.0.0.1:9901/v1/traces` and `return_perf_metrics: true` with `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf`",
            exact="queue, prefill, decode",
            missing="several choices; disaggregated serving; a queue of zero in builds of 2025",
            follows="`tensorrt_llm/llmapi/tracing.py` at 0fb7f758, `tensorrt_llm/executor/result.py` at 5f158410",
        ),
    )
    owned_by = "tensorrt_llm"
    metric_prefix = b"trtllm_"
    asks = (VERSION_PATH, METRICS_OF_PROMETHEUS)
    state = StateNames(  # metrics/collector.py of 2026; needs return_perf_metrics. `num_paused_requests` is a gauge: no count.
        path=METRICS_OF_PROMETHEUS,
        waiting=Name("trtllm_num_requests_waiting"),
        running=Name("trtllm_num_requests_running"),
        kv_cache_usage=Name("trtllm_kv_cache_utilization"),
        counts={
            Count.PREFIX_CACHE_QUERIES: (
                Name("trtllm_kv_cache_reused_blocks_total"),
                Name("trtllm_kv_cache_missed_blocks_total"),
            ),
            Count.PREFIX_CACHE_HITS: (Name("trtllm_kv_cache_reused_blocks_total"),),
            Count.REQUESTS: (Name("trtllm_request_success_total", never=ENDED_BADLY),),
            **finished_seconds("trtllm_"),
        },
        times=request_times("trtllm_"),
        remarks=dict.fromkeys((Count.PREFIX_CACHE_QUERIES, Count.PREFIX_CACHE_HITS), "in blocks"),
    )
    reads_spans = True
    asked_report = AskedReport(
        field=(b"X-TRTLLM-return-metrics", b"1"),
        # `x-trtllm-server-state` comes unasked, and its value is no such list. Another server's Server-Timing has other words.
        caused=re.compile(
            rb"(?i:server-timing: (?=(?:server|disagg|ctx|gen)_)|x-trtllm-[\w-]++: )"
            + _LISTED
            + rb"(?:, "
            + _LISTED
            + rb")*+"
        ),
        event=b"event: trtllm.perf_metrics",
    )
    source = ExportedFiles(
        setting="perf_metrics_dir",
        hint="set it to a read-only mount of the folder in TensorRT-LLM's perf_metrics_output_dir",
        name=re.compile(r"perf_metrics-(?!disagg-).+-([0-9]{8}T[0-9]{6}Z)\.jsonl"),
        passed_over=b"",
        report_in=report_in_line,
    )
    older_source = PolledRecords(
        setting="poll_perf_metrics",
        path="/perf_metrics",
        hint="TensorRT-LLM needs return_perf_metrics: true in its YAML config",
        gone=(
            "this release of TensorRT-LLM has no /perf_metrics (PR 16668 removed it in July 2026), so set engine.poll_perf_metrics to false: with"
            " return_perf_metrics: true in its YAML config it states its times in its answers, where the sidecar asks for them"
        ),
        reports_in=reports_in_records,
    )
    late_report_seconds = 10.0
    """Its exporter sends a batch every 5 s, and again where that failed."""

    advice = (
        "return_perf_metrics: true in TensorRT-LLM's YAML config makes it state the times of each request in its answers; before PR 16668 of July 2026"
        " it needs perf_metrics_max_requests: 1000 and the sidecar's engine.poll_perf_metrics as well"
    )
    page_advice = "return_perf_metrics: true in TensorRT-LLM's YAML config makes it expose its queue and its cache"
    flags_column = 3

    def describes(self, answers: Answers) -> Identity:
        labels = info_labels(body_at(answers, METRICS_OF_PROMETHEUS), b"trtllm_model_config_info")
        version = text_at(answers, VERSION_PATH, "version")
        return Identity(version, quantization=labels.get("quantization"), gpu_type=labels.get("gpu_type"))

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        if wire.choices > 1:
            return None
        return report_in_timing(extras.get("server_timing") if wire.streaming else wire.list_of(b"server-timing"))

    def span(self, span: Span) -> KeyedReport | None:
        return report_in_span(span)


def times_in_span(span: Span) -> EngineReport | None:
    """The times in one span; None where it is no request's."""
    if span.name != REQUEST_SPAN:
        return None
    queue = seconds_in(span.attributes, "gen_ai.latency.time_in_queue")
    first_token = seconds_in(span.attributes, "gen_ai.latency.time_to_first_token")
    end = seconds_in(span.attributes, "gen_ai.latency.e2e")
    transfer = seconds_in(span.attributes, "gen_ai.latency.kv_cache_transfer_time")
    received_its_cache = transfer is not None and transfer > 0
    report = EngineReport(
        queue_seconds=None if received_its_cache else queue,
        prefill_seconds=None if received_its_cache else between(queue, first_token),
        decode_seconds=between(first_token, end),
        kv_transfer_seconds=transfer if received_its_cache else None,
        usage=usage_in(span.attributes),
    )
    return None if report == NO_REPORT else report


def report_in_span(span: Span) -> KeyedReport | None:
    """The report in one span; None where it is no request's."""
    report = times_in_span(span)
    if report is None:
        return None
    keys = span.parent_keys
    number = span.attributes.get("gen_ai.request.id")
    if not isinstance(number, bool) and isinstance(number, int | str) and number != "":
        keys = (*keys, *_answers_numbered(number))
    return KeyedReport(keys, report, span.trace_id or None)
