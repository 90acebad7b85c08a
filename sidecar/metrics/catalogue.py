"""The catalogue: every metric that this process can expose, declared once (design section 6).

Each HELP states population, unit and source, because a number of unknown population is worse than none. Labels are
closed sets; the only ones filled at run time are lanes (config), prompt buckets (config) and models (engine or config).
Holds no values. docs/metrics.md is generated from this file, and a test compares the two.
"""

from dataclasses import replace

from sidecar.engines.kinds import KINDS, remarks_on
from sidecar.engines.probe.state_names import Count
from sidecar.ledger.account import Reason, Source
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info, Label, Metric, Sizes
from sidecar.metrics.self_metrics import OWN
from sidecar.metrics.slo_metrics import SLO_METRICS
from sidecar.metrics.vocabulary import (
    ATTRIBUTIONS_TOGETHER,
    EVENTS_PER_READ_BUCKETS,
    FEW_EVENTS,
    FINISH_REASON,
    INTER_TOKEN_BUCKETS,
    LANE,
    LATENCY_BUCKETS,
    MODEL,
    OUTCOME,
    PER_LANE,
    PER_LENGTH,
    PHASE,
    PHASES_TOGETHER,
    SOURCE,
    STAGE,
    STATE,
    STREAMING,
    TOKEN_BUCKETS,
    WHOLE_REQUEST_BUCKETS,
)
from sidecar.slo.prefill_cost import Refusal


# --- requests ------------------------------------------------------------------------------------------------------------

REQUEST_PHASE_SECONDS = Histogram(
    "llm_request_phase_seconds",
    "Seconds that an inference request with outcome ok spent in one phase. The phases of a request add up to its"
    " llm_request_seconds. Label source names who measured: engine (it reported this very request), wire (the sidecar), derived"
    " (a difference) or estimated. A phase that no source can tell is absent; its time is in unattributed.",
    (*PER_LENGTH, STREAMING, PHASE, SOURCE),
    together=PHASES_TOGETHER,
    buckets=LATENCY_BUCKETS,
    used=5,  # of a stream whose engine reports: each phase from one source
)
TIME_TO_FIRST_TOKEN_SECONDS = Histogram(
    "llm_time_to_first_token_seconds",
    "Seconds from the last byte of the request body to the first event with output, of streamed inference requests that got"
    " one, whatever their outcome. Measured by the sidecar.",
    PER_LENGTH,
    buckets=LATENCY_BUCKETS,
)
INTER_TOKEN_SECONDS = Histogram(
    "llm_inter_token_seconds",
    "Seconds between two consecutive output events of one choice, of streamed inference requests. Every gap is counted when it"
    " ends. An event may carry several tokens. Measured by the sidecar.",
    PER_LANE,
    buckets=INTER_TOKEN_BUCKETS,
)
TIME_PER_OUTPUT_TOKEN_SECONDS = Histogram(
    "llm_time_per_output_token_seconds",
    "Seconds per output token after the first, of streamed inference requests with outcome ok, one choice and at least"
    " two tokens by the engine's usage: (last token - first token) / (completion tokens - 1). Undefined, and not counted, where"
    " all output came at one instant or the answer was held back (llm_answers_held_back_total).",
    PER_LANE,
    buckets=INTER_TOKEN_BUCKETS,
)
REQUEST_SECONDS = Histogram(
    "llm_request_seconds",
    "Seconds from the last byte of the request body until the client's socket took the last byte of the answer, of inference"
    " requests with outcome ok. The denominator for mean seconds per phase. Measured by the sidecar.",
    (*PER_LENGTH, STREAMING),
    buckets=WHOLE_REQUEST_BUCKETS,
    used=1,  # streamed
)
REQUEST_UPLOAD_SECONDS = Histogram(
    "llm_request_upload_seconds",
    "Seconds from the first byte of the request head to the last byte of its body, of inference requests that arrived whole. It"
    " is the client's time and belongs to no phase. Measured by the sidecar.",
    (LANE,),
    buckets=LATENCY_BUCKETS,
)
ENGINE_CONNECT_SECONDS = Histogram(
    "llm_engine_connect_seconds",
    "Seconds to open a connection to the engine, of inference requests that needed a new one. Measured by the sidecar.",
    (LANE,),
    buckets=LATENCY_BUCKETS,
)
KV_TRANSFER_SECONDS = Histogram(
    "llm_kv_transfer_seconds",
    "Seconds that a disaggregated engine took to move the KV cache of one request between its workers, of inference requests"
    " with outcome ok whose engine reported it and whose report was accepted. These seconds are already included in a phase;"
    " docs/engines.md names it for each engine.",
    PER_LANE,
    buckets=LATENCY_BUCKETS,
    used=0,  # few engines report it
)
PROMPT_TOKENS = Histogram(
    "llm_prompt_tokens",
    "Prompt tokens, cached ones included, of inference requests with outcome ok whose usage the engine stated. The histogram's"
    " sum counts the tokens.",
    PER_LANE,
    buckets=TOKEN_BUCKETS,
)
STATED_PROMPTS_TOTAL = Counter(
    "llm_stated_prompts_total",
    "Inference requests with outcome ok whose prompt tokens the engine's usage stated: those of llm_prompt_tokens, as a counter for"
    " rules.",
    PER_LANE,
)
STATED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_stated_prompt_tokens_total",
    "Prompt tokens, cached ones included, of the requests in llm_stated_prompts_total.",
    PER_LANE,
)
OUTPUT_TOKENS = Histogram(
    "llm_output_tokens",
    "Generated tokens, reasoning included, of inference requests with outcome ok whose usage the engine stated. The histogram's"
    " sum counts the tokens.",
    PER_LANE,
    buckets=TOKEN_BUCKETS,
)
CACHED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_cached_prompt_tokens_total",
    "Prompt tokens taken from the engine's prefix cache, of inference requests with outcome ok. Stated in the engine's usage.",
    PER_LANE,
)
REQUESTS_TOTAL = Counter(
    "llm_requests_total",
    "Inference requests that ended, each with exactly one outcome. The prompt bucket follows the prompt length in the engine's"
    " usage, else a calibrated estimate, else it is unknown.",
    (*PER_LENGTH, OUTCOME),
)
REQUESTS_IN_FLIGHT = Gauge(
    "llm_requests_in_flight",
    "Inference requests inside the sidecar now. waiting: no output yet, or not streamed; streaming: a stream with output.",
    (*PER_LANE, STATE),
)
OLDEST_REQUEST_SECONDS = Gauge(
    "llm_oldest_request_seconds",
    "Age in seconds, since the first byte of its head, of the oldest inference request in this state now; 0 if there is none.",
    (*PER_LANE, STATE),
)
CLIENT_CANCELS_TOTAL = Counter(
    "llm_client_cancels_total",
    "Inference requests whose client left before the end, by the stage that they had reached. They are neither successes nor errors.",
    (*PER_LANE, STAGE),
)
STREAM_PAUSED_SECONDS_TOTAL = Counter(
    "llm_stream_paused_seconds_total",
    "Seconds between first and last token for which the sidecar did not read from the engine because the client did not keep"
    " up, of streamed inference requests, added when each ends.",
    (LANE,),
)
STREAM_EVENTS_PER_READ = Histogram(
    "llm_stream_events_per_read",
    "Output events that arrived in one read, of streamed inference requests. If there are many in one read, something before"
    " the sidecar merges or buffers the stream.",
    (LANE,),
    buckets=EVENTS_PER_READ_BUCKETS,
)
STREAM_READS_TOTAL = Counter(
    "llm_stream_reads_total",
    "Reads that brought output events, of streamed inference requests, by the number of events: few (at most"
    f" {FEW_EVENTS:g}) or many. Those of llm_stream_events_per_read, as a counter for rules.",
    (LANE, Label("result", ("few", "many"))),
)
ANSWERS_HELD_BACK_TOTAL = Counter(
    "llm_answers_held_back_total",
    "Streamed inference requests with outcome ok whose tokens came at once: the output events span less time than any engine"
    " takes for so many tokens, by the engine's usage or the number of events. Their time per output token is undefined, their"
    " decode is unattributed, and nothing is learned from their time to first token.",
    PER_LANE,
)
ANSWERS_TOTAL = Counter(
    "llm_answers_total",
    "Inference requests with outcome ok, by the finish reason that their answer states; of several choices the first one that is"
    " stated. length: the answer was cut at a limit of tokens; repetition: the engine ended it because it repeated itself, which"
    " some engines do for requests that ask for it; other: the server stated another word; unknown: it stated none, or the answer could"
    " not be read.",
    (*PER_LANE, FINISH_REASON),
    used=3,  # stop, length and tool calls are there from the start
)
EMPTY_ANSWERS_TOTAL = Counter(
    "llm_empty_answers_total",
    "Inference requests with outcome ok whose answer says nothing: no text, no reasoning and no tool call, at most an end mark."
    " Only answers that were read whole.",
    PER_LANE,
)
PHASE_ATTRIBUTION_TOTAL = Counter(
    "llm_phase_attribution_total",
    "Inference requests with outcome ok, by the source that split the time before the first token. With source none it was not"
    " split; reason says why.",
    (LANE, Label("source", (*tuple(Source), "none")), Label("reason", tuple(Reason))),
    together=ATTRIBUTIONS_TOGETHER,
)
PASSTHROUGH_REQUESTS_TOTAL = Counter(
    "llm_passthrough_requests_total",
    "Requests that are not inference (health, models, tokenize, ...). They have no lane and no objective.",
    (OUTCOME,),
)

# --- the engine ----------------------------------------------------------------------------------------------------------

ENGINE_UP = Gauge(
    "llm_engine_up",
    "1 while the engine answers its health checks; 0 once it refuses connections or states that it cannot work. A silent engine"
    " counts as busy (1) until it has missed three checks and sent no byte on any connection for 15 s. 0 also while llm_engine_stalled"
    " is 1. Absent before the first check.",
)
ENGINE_STALLED = Gauge(
    "llm_engine_stalled",
    "1 while the engine has stopped in the middle of its work: it answers its health checks, streams are read from it, and it is"
    " silent for longer than its pending work explains (more than 8 s and more than 3 x llm_engine_silence_expected_seconds). It"
    " stays 1 until output comes, its own counts of work grow, it restarts, or 75 s have passed since the last silent request"
    " left. 0 also while that cannot be known.",
)
ENGINE_REQUESTS_WAITING = Gauge(
    "llm_engine_requests_waiting", "Requests in the engine's queue, by the engine's own metrics, summed over ranks."
)
ENGINE_REQUESTS_RUNNING = Gauge(
    "llm_engine_requests_running",
    "Requests that the engine is executing, by the engine's own metrics, summed over ranks.",
)
ENGINE_KV_CACHE_USAGE_RATIO = Gauge(
    "llm_engine_kv_cache_usage_ratio",
    "Share of the engine's KV cache in use, 0 to 1, of its fullest rank, by the engine's own metrics.",
)
ENGINE_PREFIX_CACHE_QUERIES_TOTAL = Counter(
    "llm_engine_prefix_cache_queries_total",
    "Prefix cache queries that the engine counted since the sidecar started, in"
    f" tokens{remarks_on(Count.PREFIX_CACHE_QUERIES)}.",
)
ENGINE_PREFIX_CACHE_HITS_TOTAL = Counter(
    "llm_engine_prefix_cache_hits_total",
    f"Prefix cache hits that the engine counted since the sidecar started, in tokens{remarks_on(Count.PREFIX_CACHE_HITS)}.",
)
ENGINE_PREEMPTIONS_TOTAL = Counter(
    "llm_engine_preemptions_total",
    f"Preemptions of requests that the engine counted since the sidecar started{remarks_on(Count.PREEMPTIONS)}.",
)
ENGINE_DRAFT_TOKENS_TOTAL = Counter(
    "llm_engine_draft_tokens_total",
    "Tokens that speculative decoding proposed, as the engine counted them since the sidecar started"
    f"{remarks_on(Count.DRAFT_TOKENS)}. Absent where the engine states none.",
)
ENGINE_ACCEPTED_DRAFT_TOKENS_TOTAL = Counter(
    "llm_engine_accepted_draft_tokens_total",
    "Tokens of llm_engine_draft_tokens_total that the model accepted. The fewer, the less speculation helps; a new model with an"
    " old draft shows here.",
)
ENGINE_RESTARTS_TOTAL = Counter(
    "llm_engine_restarts_total",
    "Restarts of the engine that the sidecar noticed: its counters or its start time fell back.",
)
ENGINE_INFO = Info(
    "llm_engine_info",
    "Always 1. The labels name the kind of engine and the version that the engine states.",
    (
        Label("engine", tuple(KINDS)),
        Label("version", told_by="the engine, at most 8 versions in a process's life", most=8),
    ),
    used=1,
)
ENGINE_LABEL_MISMATCH = Gauge(
    "llm_engine_label_mismatch",
    "1 if the engine now states another value for this label than the value on every series; 0 if the same. The value on the"
    " series is fixed at the first scrape of this page that has requests on it. Absent where the config sets the label or the"
    " engine states none.",
    (Label("label", ("quantization", "gpu_type")),),
)
ENGINE_SCRAPES_TOTAL = Counter(
    "llm_engine_scrapes_total",
    "Scrapes of the engine's own metrics by the sidecar, by result.",
    (Label("result", ("ok", "unreachable", "timeout", "bad_status", "too_large", "unreadable")),),
)
ENGINE_TRAFFIC_SEEN_RATIO = Gauge(
    "llm_engine_traffic_seen_ratio",
    "Inference requests with outcome ok at the sidecar (each choice of a request counts) over requests that the engine counted"
    " as done, in the last ten minutes of the engine's metrics. Below 1, clients bypass the sidecar or use an API that it does"
    " not measure. Absent until the engine has counted 100 requests, and 4 for each one in flight.",
)
ENGINE_REPORT_AGREEMENT_RATIO = Gauge(
    "llm_engine_report_agreement_ratio",
    "Seconds of a phase that the engine reported request by request, over the growth of the engine's own sum for that phase, in"
    " the last ten minutes of its metrics. 1 is agreement. Below 1, requests bypass the sidecar or have no report.",
    (Label("phase", ("queue", "prefill", "decode")),),
)

# --- the estimator -------------------------------------------------------------------------------------------------------

ESTIMATOR_READY = Gauge(
    "llm_estimator_ready",
    "1 if the estimator can split the time to first token of a request of this model without an engine report, at prompt"
    " lengths that it has seen; else 0. Absent if the estimator is switched off, and until the models are known.",
    (MODEL,),
)
ESTIMATOR_SAMPLES = Gauge(
    "llm_estimator_samples",
    "Requests of this model that the estimator keeps as samples: requests that did not queue, limited per class of prompt length.",
    (MODEL,),
)
ESTIMATOR_ANSWERS_TOTAL = Counter(
    "llm_estimator_answers_total",
    "Streamed inference requests with outcome ok and a first token, by the estimator's result: answered (it could tell how much"
    " of the time to first token was prefill) or the reason why not. Requests with an engine report are counted too; their"
    " estimate is not used.",
    (MODEL, Label("result", ("answered", *(refusal for refusal in Refusal if refusal is not Refusal.NO_TOKEN)))),
)
ESTIMATOR_ERROR_SECONDS = Histogram(
    "llm_estimator_error_seconds",
    "Absolute difference in seconds between the estimated prefill and the prefill that the engine reported, of streamed"
    " inference requests with outcome ok that have both. Label side says whether the estimate was over or under. The estimate"
    " includes the engine's front end.",
    (MODEL, Label("side", ("over", "under"))),
    buckets=LATENCY_BUCKETS,
)
ESTIMATOR_VERDICTS_TOTAL = Counter(
    "llm_estimator_verdicts_total",
    "The requests of llm_estimator_error_seconds, by whether the estimate names the same longer phase as the engine's report,"
    " queue or prefill.",
    (MODEL, Label("result", ("right", "wrong"))),
)

# --- objectives and evidence, declared in slo_metrics.py, and the sidecar itself, in self_metrics.py ---------------------

CATALOGUE: tuple[Metric, ...] = (
    *(value for value in list(globals().values()) if isinstance(value, Metric)),
    *SLO_METRICS,
    *OWN,
)
"""In the order of the page: this file, then slo_metrics.py and self_metrics.py."""


def catalogue(*, inter_token_by_prompt_bucket: bool = False) -> tuple[Metric, ...]:
    """The catalogue of one process: the two inter-token histograms carry the prompt bucket where the config asks for it."""
    if not inter_token_by_prompt_bucket:
        return CATALOGUE
    split = (INTER_TOKEN_SECONDS, TIME_PER_OUTPUT_TOKEN_SECONDS)
    return tuple(replace(metric, labels=PER_LENGTH) if metric in split else metric for metric in CATALOGUE)


def series_ceiling(lanes: int, prompt_buckets: int, models: int, *, inter_token_by_prompt_bucket: bool = False) -> int:
    """The most series that a process can reach, process_* and python_* left out.

    All three numbers include the fallback: `other`, `unknown`, `other`. One model that the engine serves is models=2.
    """
    sizes = Sizes(lanes, prompt_buckets, models)
    return sum(metric.series(sizes) for metric in catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket))


def series_in_use(
    lanes: int,
    prompt_buckets: int,
    models: int,
    *,
    aimed: float = 1.0,
    inter_token_by_prompt_bucket: bool = False,
) -> int:
    """The series of a process in full use, within 20 % (`Metric.in_use` says what is full use and what `aimed` is).

    The numbers include the fallbacks, as those of `series_ceiling` do. A lane that is answered in both ways, or by engines
    that report on some of its requests only, has more.
    """
    sizes = Sizes(lanes, prompt_buckets, models)
    metrics = catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket)
    return round(sum(metric.in_use(sizes, aimed) for metric in metrics))
