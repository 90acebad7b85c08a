"""The readers of what engines say beside their answers: pages of metrics, exported lines, records, sums, answers about themselves.

A page that Prometheus' own parser reads line by line gives the same sums. Cuts change nothing. No engine's file raises,
whatever stands in its answers, in the fields that it adds to an API's own, or in a span's attributes.
"""

import json
import math
import re

from prometheus_client.parser import text_string_to_metric_families

from sidecar.engines.kind import EngineKind, Wire
from sidecar.engines.kinds import KINDS
from sidecar.engines.probe.detect import next_question, order, recognised
from sidecar.engines.probe.identity import identity_of
from sidecar.engines.probe.replies import Answer, info_labels
from sidecar.engines.probe.state import EngineState, GrowthReader, PageScan
from sidecar.engines.reports.export_lines import ExportLines
from sidecar.engines.reports.lone_requests import SumsScan
from sidecar.engines.reports.report_sources import ExportedFiles, LoneSums, PolledRecords
from sidecar.engines.span import Span
from sidecar.ledger.report import EngineReport, KeyedReport
from sidecar.timeline.marks import Marks
from tests.fuzz.target import Target, cuts


_KINDS = tuple(KINDS.values())
_WITH_PAGE = tuple(kind.state for kind in _KINDS if kind.state is not None)
_SIMPLE_LINE = re.compile(
    rb'(?:[a-z_:]+(?:\{[a-z_]+="[^"\\\n{}]*"(?:,[a-z_]+="[^"\\\n{}]*")*\})? [0-9]{1,9}(?:\.[0-9]{1,9})?|# [A-Za-z ]*|)\Z'
)
"""Lines on which every reader of the format agrees."""


def _kind(data: bytes) -> tuple[EngineKind, bytes]:
    return _KINDS[(data[0] if data else 0) % len(_KINDS)], data[1:]


# --- pages of metrics ----------------------------------------------------------------------------------------------------


def check_state_pages(data: bytes) -> None:
    names, page = _WITH_PAGE[(data[0] if data else 0) % len(_WITH_PAGE)], data[1:]

    def read(pieces: list[bytes]) -> EngineState | None:
        scan = PageScan(names)
        for piece in pieces:
            scan.feed(piece)
        return scan.finish()

    whole = read([page])
    for pieces in cuts(page):
        assert read(pieces) == whole, "the cuts change the state"
    if whole is None:
        return
    assert all(math.isfinite(value) for series in whole.counters.values() for value in series.values())
    assert all(value >= 0 for value in GrowthReader().read(whole).counters.values())
    waiting = names.waiting
    if waiting is None or names.same_ranks or names.breakdown or not all(map(_SIMPLE_LINE.match, page.split(b"\n"))):
        return
    lines = [line for line in page.split(b"\n") if line and line[:1] != b"#"]
    if len({line.rpartition(b" ")[0] for line in lines}) < len(lines):
        return  # a series twice
    try:
        families = list(text_string_to_metric_families(page.decode()))
    except ValueError:
        return
    samples = [sample for family in families for sample in family.samples if sample.name == waiting.name]
    counted = [sample.value for sample in samples if not waiting.only and not waiting.never]
    assert whole.requests_waiting == (sum(counted) if counted else None), "Prometheus reads another number"


def check_sums_pages(data: bytes) -> None:
    sources = [source for kind in _KINDS for source in kind.sources if isinstance(source, LoneSums)]
    source, page = sources[(data[0] if data else 0) % len(sources)], data[1:]

    def read(pieces: list[bytes]) -> object:
        scan = SumsScan(source.names)
        for piece in pieces:
            scan.feed(piece)
        return scan.finish()

    whole = read([page])
    for pieces in cuts(page):
        assert read(pieces) == whole, "the cuts change the sums"


# --- exported lines and records ------------------------------------------------------------------------------------------


def _sound(report: EngineReport) -> None:
    for seconds in (report.queue_seconds, report.prefill_seconds, report.decode_seconds):
        assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


def _sound_keyed(report: KeyedReport | None) -> None:
    if report is not None:
        _sound(report.report)


def check_export_lines(data: bytes) -> None:
    for files in (source for kind in _KINDS for source in kind.sources if isinstance(source, ExportedFiles)):

        def read(pieces: list[bytes], files: ExportedFiles = files) -> tuple[list[KeyedReport], int]:
            lines = ExportLines(files)
            reports = [report for piece in pieces for report in lines.feed(piece)]
            return reports, lines.unreadable

        whole = read([data])
        for pieces in cuts(data):
            assert read(pieces) == whole, "the cuts change the reports"
        for report in whole[0]:
            _sound_keyed(report)
        lines = [line for line in data.split(b"\n")[:-1] if line.strip()]
        assert len(whole[0]) + whole[1] <= len(lines), "more lines are counted than there are"


def check_records(data: bytes) -> None:
    for source in (source for kind in _KINDS for source in kind.sources if isinstance(source, PolledRecords)):
        reports = list(source.reports_in(data))
        for report in reports:
            _sound_keyed(report)
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            continue
        assert sum(report is not None for report in reports) <= (len(said) if isinstance(said, list) else 0)


# --- answers of an engine about itself, and what it adds to an API's own ---------------------------------------------------


def check_answers(data: bytes) -> None:
    """The bytes are one answer on each path, or several, divided by zero bytes."""
    bodies = data.split(b"\0")
    answers = {path: Answer(200, bodies[number % len(bodies)], "") for number, path in enumerate(order())}
    kind = recognised(answers)
    assert kind is None or kind in KINDS
    for path in order():
        given = {asked: answers[asked] for asked in order() if asked != path}
        assert next_question(given) in (None, path)
    for each in _KINDS:
        for body in bodies:
            each.is_own(body)
        identity = identity_of(each, {**answers, **{path: Answer(200, bodies[0]) for path in each.asks}})
        labels = (identity.version, identity.quantization, identity.gpu_type)
        assert all(label is None or (label.isascii() and label.isprintable() and len(label) <= 64) for label in labels)
    info_labels(data, b"vllm:cache_config_info")


_MARKS = Marks(accepted_at=0.0, received_at=0.1, headers_at=0.2, first_token_at=0.5, last_token_at=1.0, ended_at=1.1)


def check_in_band(data: bytes) -> None:
    """Fields that an engine adds to its answer, as any JSON object; the same object as the attributes of a span."""
    kind, data = _kind(data)
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = {}
    if not isinstance(said, dict):
        return
    fields = [(str(name).encode(errors="replace"), str(value).encode(errors="replace")) for name, value in said.items()]
    for streaming in (True, False):
        report = kind.in_band(said, Wire(_MARKS, streaming, fields, 1))
        if report is not None:
            _sound(report)
    plain = {name: value for name, value in said.items() if isinstance(value, str | int | float | bool)}
    began, ended = (
        value if type(value) is int and 0 <= value < 1 << 64 else 0 for value in (said.get("start"), said.get("end"))
    )
    name, scope = str(said.get("name", "llm_request")), str(said.get("scope", ""))
    span = Span("a" * 32, "b" * 16, "c" * 16, name, began, ended, plain, scope)
    _sound_keyed(kind.span(span))
    assembler = kind.assembler(lambda _: True)
    if assembler is not None:
        for keyed in (*(assembler.span(span, 0.0) or ()), *assembler.due(1e9)):
            _sound_keyed(keyed)


_PAGE = (
    b"# HELP vllm:num_requests_waiting x\n# TYPE vllm:num_requests_waiting gauge\n"
    b'vllm:num_requests_waiting{engine="0",model_name="m"} 3.0\nvllm:num_requests_running{engine="0"} 1\n'
    b'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:prefix_cache_queries_total{engine="0"} 10\nprocess_start_time_seconds 1.7e+09\n'
)
_SGLANG = (
    b'{"request_parameters": "{\\"prompt\\": \\"a\\"}", "id": "x", "queue_time": 0.1, "prefill_launch_latency": 0.2}\n'
)
_RECORDS = (
    b'[{"request_id":1,"perf_metrics":{"timing_metrics":{"arrival_time":1.0,"first_scheduled_time":1.5,"first_token_time":2,'
    b'"last_token_time":3}}}]'
)
_METRIC_WORDS = (
    *(name.encode() for names in _WITH_PAGE for name in names.names()),
    *(b'{engine="0"}', b"} 1\n", b"NaN", b"+Inf", b"1e308", b'\\"', b"process_start_time_seconds 1\n", b"\n# ", b"\t"),
    *(b"_sum", b"_count", b" 0.5\n", b"1e-5\n"),
)
_SAID_WORDS = (
    *(
        b'"metrics":{',
        b'"timings":{',
        b'"meta_info":{',
        b'"queue_time_ms":',
        b'"prompt_ms":',
        b'"total_duration":',
        b"1e999",
    ),
    *(
        b'"gen_ai.latency.time_in_queue":',
        b'"nvext":{',
        b'"timing":{',
        b"NaN",
        b"-1",
        b"true",
        b'"x-queue-time":"',
        b"[]",
        b"{}",
    ),
    *(b'"gen_ai.latency.time_to_first_token":', b'"queue_time":', b'"scope":"', b'"name":"', b'"start":', b'"end":'),
)
_MODELS = b'{"object":"list","data":[{"id":"m","owned_by":"vllm","parent":null}]}'

ENGINE_PAGES = (
    Target(
        "state_pages",
        check_state_pages,
        tuple(bytes([number]) + _PAGE for number in range(len(_WITH_PAGE))),
        _METRIC_WORDS,
        768,
    ),
    Target(
        "sums_pages",
        check_sums_pages,
        (b"\0a_sum 1\na_count 1\n", b"\1" + _PAGE),
        (*_METRIC_WORDS, b"lmdeploy:", b"sglang:"),
        768,
    ),
    Target(
        "export_lines",
        check_export_lines,
        (_SGLANG, _SGLANG + _SGLANG),
        (b'{"request_parameters": "', b'\\"', b"\\\\", b"\n", b"null"),
        512,
    ),
    Target(
        "records",
        check_records,
        (_RECORDS, b"[{},null,1]"),
        (b'"perf_metrics":{', b'"timing_metrics":{', b"null", b"1e999", b"[", b"{}"),
        512,
    ),
    Target(
        "answers",
        check_answers,
        (
            _MODELS,
            _MODELS + b"\0" + _PAGE,
            b'{"version":"0.33.0"}\0{"models":[{"name":"m","details":{"quantization_level":"Q4_K_M"}}]}',
        ),
        (
            *_SAID_WORDS,
            b'"version":"',
            b'"models":[',
            b'"owned_by":"',
            b'"quantization":"',
            b"\0",
            b"vllm:",
            b'"build_info":',
        ),
        512,
        calls_a_byte=2000,
    ),
    Target(
        "in_band",
        check_in_band,
        (
            *(
                bytes([number]) + b'{"metrics":{"queue_time_ms":1,"time_to_first_token_ms":2,"generation_time_ms":3}}'
                for number in range(9)
            ),
            b'\1{"timings":{"prompt_ms":1.5,"predicted_ms":2,"prompt_n":1}}',
            b'\5{"server_timing":"server_queue;dur=1.5, server_ttft;dur=9","Server-Timing":"db;desc=\\"x\\", queue;dur=1,prefill;dur=2"}',
            b'\4{"meta_info":{"queue_time":0.1,"e2e_latency":1}}',
            b'\3{"total_duration":5,"load_duration":1,"prompt_eval_duration":2,"eval_duration":2}',
            b'\x08{"gen_ai.latency.time_in_queue":0.1,"gen_ai.latency.time_to_first_token":0.2,"start":1,"end":99}',
        ),
        _SAID_WORDS,
        512,
    ),
)
