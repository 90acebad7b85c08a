"""The facts of vLLM (V1 engine, 0.25 and newer; read in 0.33, seen on 0.32's wire).

**In the answer** it states `metrics`, which `--enable-per-request-metrics` adds: on the usage chunk of a stream (so
`include_usage` must be asked for, or forced by `--enable-force-include-usage`), in the body of a non-streamed answer,
and in the last event of `/v1/responses` (0.31). Not for several choices or prompts, not on `/v1/messages`, not with
`--disable-log-stats`. All values are milliseconds on the engine core's monotonic clock. The trap is in a name:
`time_to_first_token_ms` runs from *scheduled* to first token, so it is the prefill and no TTFT. A preempted request keeps
its first scheduling instant: its second wait lies in prefill or decode, not in queue. With `--enable-per-request-output-token-metrics`
(docs/features/per_request_metrics.md at e4deb7cd) `metrics` is there too, and times reasoning and content apart, both from the
scheduling on: if a stream has no reasoning in it, what was reasoned before its first content was decoded and not sent.

**In spans** (0.10.2 and newer; `v1/engine/output_processor.py` and `tracing/`) it states one, `llm_request`, that the
engine's front end makes of each generation when it has finished: durations in seconds on the same clock, the very numbers of
the in-band report, for every API and with every number of choices. Several choices or prompts are several generations, each
with a span under the same parent. It comes with the exporter's next batch (5 s). No span comes for a request that was cut
off, and none at all where the client's `traceparent` said unsampled; that is why the sidecar raises the flag.

A generation's id is the answer's with the part it is: `cmpl-X-0` is prompt 0 of `cmpl-X`, `resp_X_0` the first turn of
`resp_X`. Later turns are refused (they begin after the first token), and so is beam search (one generation a beam and step):
neither is the request's split. A worker that prefills for another one is asked for one token, and both of them send a span
(`ledger/workers.py`); the queue of the other one holds its wait for the KV cache: `WAITING_FOR_REMOTE_KVS` comes before the first
SCHEDULED event (`v1/core/sched/scheduler.py` of 0.32). What is left unsaid: of an answer that took several turns with the server's own
tools, decode is the first turn's. Nothing is repaired: a field that is no finite, non-negative number is not stated.

**Its Rust front end** (`VLLM_USE_RUST_FRONTEND=1`) says so on `/version` (`rust/src/server/src/routes/version.rs` at 030ea52e). Builds of
2026 end at once where they are given a flag that they have not got, both of ours among them (`rust/src/cmd/src/cli/unsupported.rs` at
01944f8e); later ones write the same `metrics` (`openai/utils/metrics.rs` at 615309a9), and send spans by gRPC alone (`otel.rs` at
91ff5e38). Usage is asked for and stated as by Python's, of several choices too (`parallel_sampling.rs` at de1caea1).
"""

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from sidecar.engines.durations import MILLISECONDS, between, seconds_of
from sidecar.engines.kind import Assembler, Channel, EngineKind, Start, Wire
from sidecar.engines.llm_d import RoutedSpans
from sidecar.engines.probe.replies import VERSION_PATH, Answers, Identity, text_at
from sidecar.engines.probe.state_names import ENDED_BADLY, Count, Name, StateNames, finished_seconds, request_times
from sidecar.engines.span import Span, is_part_of_another, request_in, seconds_in, usage_in
from sidecar.ledger.report import NO_REPORT, EngineReport, KeyedReport, response_key
from sidecar.timeline.events import Usage


SPAN = "llm_request"
DEVELOPMENT_INFO = "/server_info?config_format=json"
"""There only in its development mode (`VLLM_SERVER_DEV_MODE=1`)."""
IN_BAND_SINCE = (0, 25)
"""The version from which on it has `--enable-per-request-metrics`."""

RUST = "+rust"
"""Behind the version of an engine whose front end is not Python's."""

_PROMPT = re.compile(r"(cmpl-.+)-[0-9]+")
_TURN = re.compile(r"(resp_.+)_[0-9]+")
_FURTHER_PROMPT = re.compile(r"cmpl-.+-0*[1-9][0-9]*")
"""Each prompt states its own length: the first one's is not that of the whole request."""
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})")


class VLLM(EngineKind):
    name = "vllm"
    title = "vLLM"
    started = Start(
        known_by="vllm",
        port=8000,
        image="vllm/vllm-openai",
        flags=("--port",),
        tls_flags=("--ssl-certfile", "--ssl-keyfile"),
        socket_flags=("--uds",),
        drains_with="curl",
    )
    channels = (
        Channel(
            name="usage_chunk",
            source="usage chunk `metrics` (chat, completions), last event (`/v1/responses`), body of whole answers",
            version="0.25 (`/v1/responses` 0.31); seen on 0.32, read in 0.33",
            flags="`--enable-per-request-metrics`, or `--enable-per-request-output-token-metrics`, which also times reasoning apart from content (`llm_reasoning_seconds`)",
            exact="queue, prefill, decode",
            missing="several choices or prompts, `/v1/messages`; builds of the Rust front end that refuse the flag;"
            " a prefill on another worker, whose time is first_token, unless the spans of both tell of it (below)",
        ),
        Channel(
            name="spans",
            source="OTLP span `llm_request`",
            version="0.10.2; seen and read in 0.32",
            flags="`--otlp-traces-endpoint=http://127.0.0.1:9901/v1/traces` with `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf`",
            exact="queue, prefill, decode; every API; with several choices, queue and prefill of the first one with output",
            missing="requests that were cut off; beam search; decode of several choices",
        ),
        Channel(
            name="workers",
            source="OTLP spans `llm_request` of a prefill worker and of a decode worker (llm-d), if the sidecar stands in front of their router",
            version="0.10.2; read in 0.32",
            flags="the same on both workers, with the sidecar's address, and its `spans.receive_from: anywhere`",
            exact="queue and prefill of the one, decode of the other",
            missing="the decode worker's own queue, in which the KV cache moves: `unattributed`; the split, where only one of both sends its"
            " spans, or cannot be told from others: several choices, answers of one token, prefills that were tried again",
            follows="`v1/engine/output_processor.py`, `v1/core/sched/scheduler.py` of 0.32, llm-d-router's `connector_nixlv2.go` at ebab6879",
        ),
        Channel(
            name="router",
            source="OTLP spans `gateway.request_orchestration` and `gateway.request` of llm-d's router, gRPC only, if the sidecar stands in front of it",
            version="llm-d-router; read at ebab6879 of August 2026",
            flags="the router's `OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_ENDPOINT=http://SIDECAR:4317`, and the sidecar's `spans.grpc_listen_address`, beside the engine's spans",
            exact="the wait until a worker was chosen (flow control, tokenising, scheduling), as part `router` of the queue",
            missing="that wait where a proxy's own spans stand between; pickers of May 2026 and older, whose spans are in a trace of their own",
            follows="`pkg/epp/requestcontrol/director.go`, `pkg/epp/handlers/server.go` at ebab6879",
        ),
    )
    refuses_unknown_models = True
    """Status 404, `The model NAME does not exist`, on all APIs of OpenAI and Anthropic (`serving.py`, `_check_model`)."""
    owned_by = "vllm"
    metric_prefix = b"vllm:"
    asks = (VERSION_PATH, DEVELOPMENT_INFO)
    state = StateNames(  # 0.33, v1/metrics/loggers.py; seen on 0.32
        waiting=Name("vllm:num_requests_waiting"),
        running=Name("vllm:num_requests_running"),
        kv_cache_usage=Name("vllm:kv_cache_usage_perc"),
        awake=Name("vllm:engine_sleep_state", only=(b'sleep_state="awake"',)),
        counts={
            Count.PREFIX_CACHE_QUERIES: (Name("vllm:prefix_cache_queries_total"),),
            Count.PREFIX_CACHE_HITS: (Name("vllm:prefix_cache_hits_total"),),
            Count.PREEMPTIONS: (Name("vllm:num_preemptions_total"),),
            Count.DRAFT_TOKENS: (Name("vllm:spec_decode_num_draft_tokens_total"),),
            Count.ACCEPTED_DRAFT_TOKENS: (Name("vllm:spec_decode_num_accepted_tokens_total"),),
            Count.OUTPUT_TOKENS: (Name("vllm:generation_tokens_total"),),
            Count.REQUESTS: (Name("vllm:request_success_total", never=ENDED_BADLY),),
            **finished_seconds("vllm:"),
        },
        times=request_times("vllm:"),
        paces=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    )
    takes_include_usage_on = ("openai_chat", "openai_completions")
    usage_of_choices = True
    """Seen on 0.32 (`tests/streams/vllm-chat-two-choices.sse`, `vllm-completions-two-prompts.sse`)."""
    reads_spans = True
    spans_tell_requests = True
    late_report_seconds = 10.0
    """Its exporter sends a batch every 5 s, and again where that failed."""
    cached_advice = "--enable-prompt-tokens-details makes vLLM state cached prompt tokens"
    page_advice = "without --disable-log-stats vLLM exposes its queue and its cache"
    slots_flag = "--max-num-seqs"
    cache_info = "vllm:cache_config_info"
    flags_column = 1

    def describes(self, answers: Answers) -> Identity:
        """The version, and in development mode the weights' format."""
        weights = text_at(answers, DEVELOPMENT_INFO, "vllm_config", "model_config", "quantization")
        version = text_at(answers, VERSION_PATH, "version")
        if version is not None and text_at(answers, VERSION_PATH, "rust_frontend_version") is not None:
            version += RUST
        return Identity(version, quantization=weights)

    def advice_for(self, version: str | None, *, reports: bool = False, states_usage: bool = True) -> str:
        """A flag that this version has; a build without a release's number is taken for a new one."""
        if version is not None and version.endswith(RUST):
            return (
                "vLLM's Rust front end may end at once with --enable-per-request-metrics or --otlp-traces-endpoint: use what `vllm-rs serve"
                " --help` does not list as not implemented, or Python's front end (VLLM_USE_RUST_FRONTEND=0), which has both"
            )
        spans = "--otlp-traces-endpoint, with the sidecar's /v1/traces, covers every API"
        release = None if version is None else _RELEASE.match(version)
        if release is not None and (int(release[1]), int(release[2])) < IN_BAND_SINCE:
            return f"vLLM {version} has no flag that puts its times into the answer; {spans}"
        if not states_usage:
            return "they state no usage, beside which vLLM states its times; `sidecar doctor` tells why it is not asked for"
        if reports:
            return spans
        return f"--enable-per-request-metrics makes vLLM state its times (chat, completions and responses); {spans}"

    def shows_forced_usage(self, version: str | None) -> bool:
        """`--enable-force-include-usage` states usage in each event since pull request 37923 of March 2026 (0.25 is of
        July; read in 0.32); before it in one last chunk.
        """
        release = None if version is None else _RELEASE.match(version)
        return release is not None and (int(release[1]), int(release[2])) >= IN_BAND_SINCE

    def in_band(self, extras: Mapping[str, object], wire: Wire) -> EngineReport | None:
        report = report_of(extras)
        metrics = extras.get("metrics")
        if report is None or not isinstance(metrics, dict) or not isinstance(metrics.get("output_token_metrics"), dict):
            return report
        parts = metrics["output_token_metrics"]
        content = _first_token_of(parts.get("content"))
        reasoning = between(_first_token_of(parts.get("reasoning")), content)
        marks, unsent = wire.marks, 0.0
        if reasoning is not None and marks.first_token_at is not None and marks.first_answer_at == marks.first_token_at:
            unsent = between(report.prefill_seconds, content) or 0.0
        return replace(report, reasoning_seconds=reasoning, unsent_seconds=unsent)

    def assembler(self, is_minted: Callable[[str], bool]) -> Assembler:
        return RoutedSpans(report_in_span, is_minted)

    def reports_on(self, choices: int) -> int:
        """A span for each choice."""
        return choices


def report_of(extras: Mapping[str, object] | None) -> EngineReport | None:
    """The report in the extras of a stream event; None where vLLM reported nothing that can be used."""
    metrics = None if extras is None else extras.get("metrics")
    if not isinstance(metrics, dict):  # `Mapping` would be asked in Python, once for each request
        return None
    report = EngineReport(
        queue_seconds=seconds_of(metrics.get("queue_time_ms"), MILLISECONDS),
        prefill_seconds=seconds_of(metrics.get("time_to_first_token_ms"), MILLISECONDS),
        decode_seconds=seconds_of(metrics.get("generation_time_ms"), MILLISECONDS),
    )
    return None if report == NO_REPORT else report


def _first_token_of(part: object) -> float | None:
    """Seconds from the scheduling to the first token of the reasoning or of the content; None of a part without tokens."""
    if not isinstance(part, dict) or not part.get("token_count"):
        return None
    return seconds_of(part.get("time_to_first_token_ms"), MILLISECONDS)


def report_in_span(span: Span) -> KeyedReport | None:
    """The report in one span; None where it is no generation's, or one that does not split its request."""
    if span.name != SPAN:
        return None
    report = EngineReport(
        queue_seconds=seconds_in(span.attributes, "gen_ai.latency.time_in_queue"),
        prefill_seconds=seconds_in(span.attributes, "gen_ai.latency.time_in_model_prefill"),
        decode_seconds=seconds_in(span.attributes, "gen_ai.latency.time_in_model_decode"),
        usage=usage_in(span.attributes),
        ttft_seconds=seconds_in(span.attributes, "gen_ai.latency.time_to_first_token"),
        spoke_at=_spoke_at(span),
    )
    generation = span.attributes.get("gen_ai.request.id")
    if isinstance(generation, str) and report.usage is not None:
        report = replace(report, usage=_usage_of_request(report.usage, generation))
    if report == NO_REPORT or is_part_of_another(generation):
        return None
    keys = span.parent_keys
    if isinstance(generation, str) and generation:
        keys = (*keys, response_key(_answer_of(generation)))
    return KeyedReport(keys, report, span.trace_id or None, part=span.span_id, request=request_in(span))


def _usage_of_request(usage: Usage, generation: str) -> Usage:
    """Without the prompt of a further one, and without what a first turn made if others may follow. One token is a prefill worker's."""
    if _FURTHER_PROMPT.fullmatch(generation):
        return usage._replace(prompt_tokens=None)
    if _TURN.fullmatch(generation) and (usage.completion_tokens or 0) > 1:
        return usage._replace(completion_tokens=None)
    return usage


def _spoke_at(span: Span) -> float | None:
    """Both are of the front end's wall clock: the span begins with the request's arrival there."""
    first_token = seconds_in(span.attributes, "gen_ai.latency.time_to_first_token")
    return None if first_token is None else span.start_unix_nano / 1e9 + first_token


def _answer_of(generation: str) -> str:
    """The id that the answer gives itself, of the generation's id."""
    found = _PROMPT.fullmatch(generation) or _TURN.fullmatch(generation)
    return generation if found is None else found[1]
