"""The facts of SGLang (read in 0.5.23, `srt/observability/req_time_stats.py` and `trace.py`; from fixtures). Pure.

**In the answer** it states times in the `meta_info` of its own `/generate`, there with `--enable-metrics`: `queue_time` in
seconds, the scheduler's wait, and the instants `forward_entry_time` and `prefill_finished_time`, both of the scheduler's
clock, between which lies the prefill. Its OpenAI paths carry none of them (`return_meta_info` is refused for streams); for
those there are its spans and its exported file. The decode is not stated, so the wire's stands. Of a request that was
retracted `queue_time` holds a wait after its first token, in some builds only that one: its queue is then not stated. Older
builds (0.5.5) gave `forward_entry_time` on another clock than the prefill's end: the difference is then absurd, and the
ledger refuses it against the wire. `include_usage` is not added: chunks made by pydantic (completions, tool calls, hidden
states) carry `usage: null`.

**In spans** a request is a root (attributes `rid` and `module`), whose parent is the span that the sidecar minted; below it
one span for each thread that handled the request (`thread_label`); below the scheduler's the slices `prefill_waiting`, which
is the queue, `prefill_forward`, which is the prefill, and `decode_forward`. They come in several batches from several
processes, and the slices of a long request long before its root: so they are put together here, in bounded tables. Slices end
before their thread and are exported in that order, so with the thread a scheduler's report is whole. Decode runs from the end
of the prefill to the end of `decode_forward`: two instants of one process. The root's
`gen_ai.latency.time_in_model_prefill` is refused: vLLM's name, but there it includes the queue. Of a request that was
retracted, the first slices count: its second wait lies in decode. Where tensor ranks each send slices, the first rank to be
whole speaks; they run in step. Of a disaggregated pair only the prefill side splits the TTFT, and it states the transfer of
its cache, which is part of first_token. Several samples are told apart by nothing: `reports_on` says so.

**In files** (`--export-metrics-to-file`, 0.5.6 and newer; `srt/observability/request_metrics_exporter.py`) it writes one line a
request: `request_parameters`, a string in which the prompt may stand, and behind it the fields of `meta_info`, its `id` being
the answer's. A file is `sglang-request-metrics-YYYYMMDD_HH.log` of the engine's local time.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from sidecar.engines.durations import between, between_nanoseconds, instant_of, seconds_of
from sidecar.engines.kind import Assembler, Channel, EngineKind, Start, Wire
from sidecar.engines.probe.replies import SERVER_INFO, Answers, Identity, text_at
from sidecar.engines.probe.state_names import Count, Name, PageTime, StateNames
from sidecar.engines.reports.report_sources import ExportedFiles
from sidecar.engines.span import Span, request_in, usage_in
from sidecar.ledger.phase_parts import Part, StatedPart
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, response_key
from sidecar.timeline.events import UNREADABLE
from sidecar.timeline.response_id import MAX_ID_CHARACTERS


QUEUE, PREFILL, DECODE = "prefill_waiting", "prefill_forward", "decode_forward"
TRANSFER = "prefill_transfer_kv_cache"
SLICES = (QUEUE, PREFILL, DECODE, TRANSFER)
SCOPE = "sglang server"
"""Names of its tracer: spans of its other stages are known and not needed."""
MAX_REQUESTS = 8192
"""Entries in each table: the slices of a request that runs for minutes wait as long for its root."""


class _Line(msgspec.Struct, frozen=True):
    id: Any = None
    queue_time: Any = None
    forward_entry_time: Any = None
    prefill_finished_time: Any = None
    num_retractions: Any = None


_LINE = msgspec.json.Decoder(_Line)


def report_in_line(line: bytes) -> KeyedReport | None:
    """The report in one line of a file; None where it is no request's, or states none of its times. Never raises."""
    try:
        said = _LINE.decode(line)
    except UNREADABLE:
        return None
    if not isinstance(said.id, str) or not 0 < len(said.id) <= MAX_ID_CHARACTERS:
        return None
    report = report_of(msgspec.structs.asdict(said))
    return None if report is None else KeyedReport((response_key(said.id),), report)


class SGLang(EngineKind):
    name = "sglang"
    title = "SGLang"
    started = Start(
        known_by="sglang",
        port=30000,
        flags=("--port",),
        on_loopback=True,
        tls_flags=("--ssl-certfile", "--ssl-keyfile"),
        drains_with="curl",
    )
    channels = (
        Channel(
            name="meta_info",
            source="`meta_info` of `/generate`, streamed and whole",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-metrics`",
            exact="queue, prefill",
            missing="decode (the sidecar's own measurement is used); several prompts or samples in one request; the OpenAI paths",
            follows="`srt/observability/req_time_stats.py`, `srt/managers/tokenizer_manager.py` of 0.5.23",
        ),
        Channel(
            name="files",
            source="files that it exports, one line per request",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-metrics --export-metrics-to-file --export-metrics-to-file-dir=DIR` (`--log-requests --log-requests-level=0` keeps prompts out of the files), and the sidecar's `engine.sglang_metrics_dir`",
            exact="queue, prefill; every API",
            missing="decode (the sidecar's own measurement is used); several samples in one request; the queue of a request that was retracted",
            follows="`srt/observability/request_metrics_exporter.py` of 0.5.23",
        ),
        Channel(
            name="spans",
            source="OTLP slices `prefill_waiting`, `prefill_forward`, `decode_forward` of the request's root",
            version="0.5.6; read in 0.5.23",
            flags="`--enable-trace --otlp-traces-endpoint=http://127.0.0.1:9901/v1/traces --trace-modules=request` with `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf SGLANG_TRACE_LEVEL=1`",
            exact="queue, prefill, decode; every API; the transfer of a disaggregated prefill",
            missing="several samples in one request",
            follows="`srt/observability/trace.py`, `srt/observability/req_time_stats.py` of 0.5.23",
        ),
    )
    answers_prove_models = False
    """It takes any name and answers with it; its list has the adapters."""
    owned_by = "sglang"
    metric_prefix = b"sglang:"
    asks = (SERVER_INFO,)
    state = StateNames(  # 0.5.23, srt/observability metrics collector; needs --enable-metrics
        waiting=Name("sglang:num_queue_reqs"),
        running=Name("sglang:num_running_reqs"),
        kv_cache_usage=Name("sglang:token_usage"),
        counts={
            Count.PREFIX_CACHE_QUERIES: (Name("sglang:prompt_tokens_total"),),
            Count.PREFIX_CACHE_HITS: (Name("sglang:cached_tokens_total"),),
            Count.PREEMPTIONS: (Name("sglang:num_retracted_requests_total"),),
            Count.OUTPUT_TOKENS: (Name("sglang:generation_tokens_total"),),
            Count.REQUESTS: (Name("sglang:num_requests_total"),),
            Count.QUEUE_SECONDS: (Name("sglang:queue_time_seconds_sum"),),
        },
        times={
            PageTime.FIRST_TOKEN: "sglang:time_to_first_token_seconds",
            PageTime.WHOLE: "sglang:e2e_request_latency_seconds",
            PageTime.QUEUE: "sglang:queue_time_seconds",
        },
        paces=("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        remarks={Count.PREEMPTIONS: "retractions"},
        same_ranks=("tp_rank", "pp_rank", "moe_ep_rank"),  # with --enable-metrics-for-all-schedulers each of them tells
        breakdown="priority",
    )
    reads_spans = True
    spans_tell_requests = True
    source = ExportedFiles(
        setting="sglang_metrics_dir",
        hint="set it to a read-only mount of the folder in SGLang's --export-metrics-to-file-dir",
        name=re.compile(r"sglang-request-metrics-[0-9]{8}_[0-9]{2}\.log"),
        passed_over=b"request_parameters",
        report_in=report_in_line,
    )
    late_report_seconds = 5.0
    """Its exporters send a batch every 0.5 s."""
    advice = "start SGLang with --enable-metrics (its /generate then states its times), and for its other APIs with --enable-trace --otlp-traces-endpoint or --export-metrics-to-file (docs/engines.md)"
    cached_advice = "--enable-cache-report makes SGLang state cached prompt tokens"
    page_advice = "--enable-metrics makes SGLang expose its queue and its cache"
    slots_flag = "--max-running-requests"
    flags_column = 2

    def same_model(self, name: str) -> str:
        """An adapter may be asked for as `BASE:ADAPTER` (`examples/runtime/lora.py`). That the list has its own name was not read in the source."""
        return name.partition(":")[2] or name

    def describes(self, answers: Answers) -> Identity:
        version, weights = (text_at(answers, SERVER_INFO, key) for key in ("version", "quantization"))
        return Identity(version, quantization=weights)

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        meta = extras.get("meta_info")
        if not isinstance(meta, Mapping) or wire.choices > 1:
            return None
        return report_of(meta)

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:  # noqa: ARG002  the root names its parent
        return Slices()


def report_of(meta: Mapping[str, object]) -> EngineReport | None:
    """The times in `meta_info`, wherever it stood; None where there is none that can be used."""
    begun, done = (instant_of(meta.get(name)) for name in ("forward_entry_time", "prefill_finished_time"))
    report = EngineReport(
        queue_seconds=None if meta.get("num_retractions") else seconds_of(meta.get("queue_time")),
        prefill_seconds=between(begun, done),
    )
    return None if report == NO_REPORT else report


_Thread = dict[str, tuple[int, int]]
"""The slices of one thread: the first of each name, by when it began, with its end."""


def _report_of_thread(slices: _Thread) -> EngineReport | None:
    """None if this thread is not the scheduler of a prefill."""
    if QUEUE not in slices or PREFILL not in slices:
        return None
    absent = (None, None)
    transfer = between_nanoseconds(*slices.get(TRANSFER, absent))
    return EngineReport(
        queue_seconds=between_nanoseconds(*slices[QUEUE]),
        prefill_seconds=between_nanoseconds(*slices[PREFILL]),
        decode_seconds=between_nanoseconds(slices[PREFILL][1], slices.get(DECODE, absent)[1]),
        kv_transfer_seconds=transfer,
        parts=() if transfer is None else (StatedPart(Part.KV_TRANSFER, transfer),),
    )


class Slices:
    """Assembles a request's slices. `lost`: number of requests of which a part was dropped because a table was full."""

    def __init__(self) -> None:
        self.lost = 0
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        """By the thread's span id, until it comes itself."""
        self._reports: OrderedDict[str, EngineReport] = OrderedDict()
        """By the root's span id, until it comes itself."""
        self._roots: OrderedDict[str, Span] = OrderedDict()
        self._told: OrderedDict[str, None] = OrderedDict()
        """Roots whose report is complete: other ranks come after the first."""

    def span(self, span: Span, at: float) -> Sequence[KeyedReport] | None:  # noqa: ARG002  the interface; nothing here waits for a time
        """The report that this span completes; None if it is not part of one."""
        attributes = span.attributes
        if span.name in SLICES:
            slices = self._threads.setdefault(span.parent_span_id, {})
            known = slices.get(span.name)
            if known is None or span.start_unix_nano < known[0]:
                slices[span.name] = (span.start_unix_nano, span.end_unix_nano)
            self._bound(self._threads)
            return ()
        if "thread_label" in attributes:
            return self._thread_ended(span)
        if isinstance(attributes.get("rid"), str) and str(attributes.get("module")).startswith("sglang::"):
            return self._root_ended(span)
        return () if span.scope == SCOPE else None

    def due(self, at: float) -> Sequence[KeyedReport]:  # noqa: ARG002  the interface
        return ()

    def _thread_ended(self, span: Span) -> Sequence[KeyedReport]:
        report = _report_of_thread(self._threads.pop(span.span_id, {}))
        root_id = span.parent_span_id
        if report is None or root_id in self._told or root_id in self._reports:
            return ()
        root = self._roots.pop(root_id, None)
        if root is not None:
            return (self._word(root, report),)
        self._reports[root_id] = report
        self._bound(self._reports)
        return ()

    def _root_ended(self, span: Span) -> Sequence[KeyedReport]:
        report = self._reports.pop(span.span_id, None)
        if report is not None:
            return (self._word(span, report),)
        if span.span_id not in self._told:
            self._roots[span.span_id] = span
            self._bound(self._roots)
        return ()

    def _word(self, root: Span, report: EngineReport) -> KeyedReport:
        self._told[root.span_id] = None
        if len(self._told) > MAX_REQUESTS:
            self._told.popitem(last=False)
        keys = (*root.parent_keys, response_key(str(root.attributes["rid"])))
        usage = usage_in(root.attributes)
        if usage is not None and report.kv_transfer_seconds is not None:
            usage = usage._replace(
                completion_tokens=None
            )  # another worker generates: this one made the first token only
        return KeyedReport(keys, replace(report, usage=usage), root.trace_id or None, request=request_in(root))

    def _bound(self, table: OrderedDict[str, Any]) -> None:
        if len(table) > MAX_REQUESTS:
            table.popitem(last=False)
            self.lost += 1
