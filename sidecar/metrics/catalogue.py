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
    EVENTS_PER_READ,
    LANE,
    LATENCY_SECONDS,
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
    TOKENS,
    WHOLE_REQUEST_SECONDS,
)
from sidecar.metrics.vocabulary import (
    INTER_TOKEN_SECONDS as INTER_TOKEN_BUCKETS,
)
from sidecar.slo.prefill_cost import Refusal


# --- requests ------------------------------------------------------------------------------------------------------------

REQUEST_PHASE_SECONDS = Histogram(
    "llm_request_phase_seconds",
    "Seconds that an inference request with outcome ok spent in one phase; the phases of a request add up to its"
    " llm_request_seconds. source says who measured: the engine for this very request, the wire here, or a difference."
    " A phase that nobody could tell is absent, and its time is in unattributed.",
    (*PER_LENGTH, STREAMING, PHASE, SOURCE),
    together=PHASES_TOGETHER,
    buckets=LATENCY_SECONDS,
    typical=0.13,
)
TIME_TO_FIRST_TOKEN_SECONDS = Histogram(
    "llm_time_to_first_token_seconds",
    "Seconds from the last byte of the request body to the first event with output, of every streamed inference request"
    " that got one, whatever its outcome. Measured here.",
    PER_LENGTH,
    buckets=LATENCY_SECONDS,
    typical=0.35,
)
INTER_TOKEN_SECONDS = Histogram(
    "llm_inter_token_seconds",
    "Seconds between two consecutive output events of one choice, every gap of every streamed inference request, as it"
    " happens. An event may carry several tokens. Measured here.",
    PER_LANE,
    buckets=INTER_TOKEN_BUCKETS,
    typical=0.5,
)
TIME_PER_OUTPUT_TOKEN_SECONDS = Histogram(
    "llm_time_per_output_token_seconds",
    "Seconds per output token after the first, of streamed inference requests with outcome ok, one choice and at least"
    " two tokens by the engine's usage: (last token - first token) / (completion tokens - 1).",
    PER_LANE,
    buckets=INTER_TOKEN_BUCKETS,
    typical=0.5,
)
REQUEST_SECONDS = Histogram(
    "llm_request_seconds",
    "Seconds from the last byte of the request body until the client's socket took the last byte of the answer, of"
    " inference requests with outcome ok. The denominator of the additive phase means. Measured here.",
    (*PER_LENGTH, STREAMING),
    buckets=WHOLE_REQUEST_SECONDS,
    typical=0.2,
)
REQUEST_UPLOAD_SECONDS = Histogram(
    "llm_request_upload_seconds",
    "Seconds from the first byte of the request head to the last byte of its body, of every inference request that"
    " arrived whole. The client's time, and no phase. Measured here.",
    (LANE,),
    buckets=LATENCY_SECONDS,
    typical=0.6,
)
ENGINE_CONNECT_SECONDS = Histogram(
    "llm_engine_connect_seconds",
    "Seconds to open a connection to the engine, of inference requests that needed a new one. Measured here.",
    (LANE,),
    buckets=LATENCY_SECONDS,
    typical=0.6,
)
KV_TRANSFER_SECONDS = Histogram(
    "llm_kv_transfer_seconds",
    "Seconds that a disaggregated engine took to move the KV cache of one request between its workers, of inference"
    " requests with outcome ok whose engine reported it in a report that was believed. A part of the phase that the"
    " engine's row in docs/engines.md names, not one beside it.",
    PER_LANE,
    buckets=LATENCY_SECONDS,
    typical=0.1,
)
PROMPT_TOKENS = Histogram(
    "llm_prompt_tokens",
    "Prompt tokens, cached ones included, of inference requests with outcome ok whose usage the engine stated. Its sum"
    " is the token counter.",
    PER_LANE,
    buckets=TOKENS,
    typical=0.5,
)
OUTPUT_TOKENS = Histogram(
    "llm_output_tokens",
    "Generated tokens, reasoning included, of inference requests with outcome ok whose usage the engine stated. Its sum"
    " is the token counter.",
    PER_LANE,
    buckets=TOKENS,
    typical=0.5,
)
CACHED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_cached_prompt_tokens_total",
    "Prompt tokens that came from the engine's prefix cache, by its usage, of inference requests with outcome ok.",
    PER_LANE,
)
REQUESTS_TOTAL = Counter(
    "llm_requests_total",
    "Inference requests that ended, each in exactly one outcome. The bucket is the usage's prompt length where stated,"
    " else a calibrated estimate, else unknown.",
    (*PER_LENGTH, OUTCOME),
)
REQUESTS_IN_FLIGHT = Gauge(
    "llm_requests_in_flight",
    "Inference requests inside the sidecar now: waiting until their first output (a non-streamed one until its end),"
    " then streaming.",
    (*PER_LANE, STATE),
)
OLDEST_REQUEST_SECONDS = Gauge(
    "llm_oldest_request_seconds",
    "Age, since the first byte of its head, of the oldest inference request now in this state; 0 where there is none.",
    (*PER_LANE, STATE),
)
CLIENT_CANCELS_TOTAL = Counter(
    "llm_client_cancels_total",
    "Inference requests whose client left before the end, by how far they had come. Neither successes nor errors.",
    (*PER_LANE, STAGE),
)
STREAM_PAUSED_SECONDS_TOTAL = Counter(
    "llm_stream_paused_seconds_total",
    "Seconds for which reading from the engine was paused because a client did not keep up, between first and last"
    " token, summed over streamed inference requests when they end.",
    (LANE,),
)
STREAM_EVENTS_PER_READ = Histogram(
    "llm_stream_events_per_read",
    "Output events that arrived in one read, of streamed inference requests. Many at once: something before the sidecar"
    " merges or buffers.",
    (LANE,),
    buckets=EVENTS_PER_READ,
    typical=0.6,
)
PHASE_ATTRIBUTION_TOTAL = Counter(
    "llm_phase_attribution_total",
    "Inference requests with outcome ok by how the time before the first token was split, or why it could not be"
    " (source none).",
    (LANE, Label("source", (*tuple(Source), "none")), Label("reason", tuple(Reason))),
    together=ATTRIBUTIONS_TOGETHER,
)
PASSTHROUGH_REQUESTS_TOTAL = Counter(
    "llm_passthrough_requests_total",
    "Requests that are no inference (health, models, tokenize, ...), which have no lane and no objective.",
    (OUTCOME,),
)

# --- the engine ----------------------------------------------------------------------------------------------------------

ENGINE_UP = Gauge(
    "llm_engine_up",
    "1 while the engine answers its health checks, 0 once it refuses or says itself that it cannot work; one that is silent"
    " is busy until it has missed three checks and sent no byte to anybody for 15 s. Absent before the first check.",
)
ENGINE_REQUESTS_WAITING = Gauge(
    "llm_engine_requests_waiting", "Requests in the engine's queue, by its own metrics, summed over ranks."
)
ENGINE_REQUESTS_RUNNING = Gauge(
    "llm_engine_requests_running", "Requests that the engine is executing, by its own metrics, summed over ranks."
)
ENGINE_KV_CACHE_USAGE_RATIO = Gauge(
    "llm_engine_kv_cache_usage_ratio", "Share of the engine's KV cache in use, 0 to 1, of its fullest rank."
)
ENGINE_PREFIX_CACHE_QUERIES_TOTAL = Counter(
    "llm_engine_prefix_cache_queries_total",
    "Growth, since this process began, of the engine's own count of prefix cache queries, in tokens"
    f"{remarks_on(Count.PREFIX_CACHE_QUERIES)}.",
)
ENGINE_PREFIX_CACHE_HITS_TOTAL = Counter(
    "llm_engine_prefix_cache_hits_total",
    "Growth, since this process began, of the engine's own count of prefix cache hits, in tokens"
    f"{remarks_on(Count.PREFIX_CACHE_HITS)}.",
)
ENGINE_PREEMPTIONS_TOTAL = Counter(
    "llm_engine_preemptions_total",
    "Growth, since this process began, of the engine's own count of preempted requests"
    f"{remarks_on(Count.PREEMPTIONS)}.",
)
ENGINE_RESTARTS_TOTAL = Counter(
    "llm_engine_restarts_total", "Restarts of the engine that the sidecar saw: its counters or start time fell back."
)
ENGINE_INFO = Info(
    "llm_engine_info",
    "What the engine says that it is.",
    (
        Label("engine", tuple(KINDS)),
        Label("version", told_by="the engine, at most 8 versions in a process's life", most=8),
    ),
    typical=0.02,
)
ENGINE_LABEL_MISMATCH = Gauge(
    "llm_engine_label_mismatch",
    "1 if the engine now says another value of this label than the one on every series, which is fixed once a page with"
    " requests on it was scraped; 0 if the same. Absent where the config states the label or the engine does not.",
    (Label("label", ("quantization", "gpu_type")),),
)
ENGINE_SCRAPES_TOTAL = Counter(
    "llm_engine_scrapes_total",
    "Readings of the engine's own metrics.",
    (Label("result", ("ok", "unreachable", "timeout", "bad_status", "too_large", "unreadable")),),
)
ENGINE_TRAFFIC_SEEN_RATIO = Gauge(
    "llm_engine_traffic_seen_ratio",
    "Inference requests with outcome ok here (each choice of several by itself) over requests that the engine counted as"
    " done, in the last ten minutes of its metrics. Below 1: somebody bypasses the sidecar, or uses an API that it does not"
    " measure. Absent until the engine counted 100, and 4 for each request in flight.",
)
ENGINE_REPORT_AGREEMENT_RATIO = Gauge(
    "llm_engine_report_agreement_ratio",
    "Seconds of a phase here, as the engine reported them request by request, over the growth of the engine's own sum, in"
    " the last ten minutes of its metrics. 1 is agreement; below it, requests bypass the sidecar or go without a report.",
    (Label("phase", ("queue", "prefill", "decode")),),
)

# --- the estimator -------------------------------------------------------------------------------------------------------

ESTIMATOR_READY = Gauge(
    "llm_estimator_ready",
    "1 if the estimator would split the time to first token of a request of this model on which nobody reports, at lengths"
    " that it has seen; else 0. Absent where it is switched off.",
    (MODEL,),
)
ESTIMATOR_SAMPLES = Gauge(
    "llm_estimator_samples",
    "Requests that the estimator remembers of this model: those that waited for nobody, by class of prompt length.",
    (MODEL,),
)
ESTIMATOR_ANSWERS_TOTAL = Counter(
    "llm_estimator_answers_total",
    "Streamed inference requests with outcome ok and a first token, by whether the estimator could say how much of their"
    " time to first token was prefill, or why not. Also counted where the engine reports and the answer is not used.",
    (MODEL, Label("result", ("answered", *(refusal for refusal in Refusal if refusal is not Refusal.NO_TOKEN)))),
)
ESTIMATOR_ERROR_SECONDS = Histogram(
    "llm_estimator_error_seconds",
    "Absolute difference between the estimated prefill and the one that the engine reported, of streamed inference requests"
    " with outcome ok that have both. side says which was larger; an estimate holds the front end's time too.",
    (MODEL, Label("side", ("over", "under"))),
    buckets=LATENCY_SECONDS,
    typical=0.6,
)
ESTIMATOR_VERDICTS_TOTAL = Counter(
    "llm_estimator_verdicts_total",
    "The same requests by whether the estimator would have been right about which was longer, queue or prefill.",
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
    return tuple(
        replace(metric, labels=PER_LENGTH, typical=0.35) if metric in split else metric for metric in CATALOGUE
    )


def series_ceiling(lanes: int, prompt_buckets: int, models: int, *, inter_token_by_prompt_bucket: bool = False) -> int:
    """The most series that a process can reach, process_* and python_* left out.

    All three numbers include the fallback: `other`, `unknown`, `other`. One model that the engine serves is models=2.
    """
    sizes = Sizes(lanes, prompt_buckets, models)
    return sum(metric.series(sizes) for metric in catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket))


def series_typical(lanes: int, prompt_buckets: int, models: int, inter_token_by_prompt_bucket: bool = False) -> int:
    """An estimate of the series that a usual pod has: nothing lands in `other`, and a few lengths and sources are seen."""
    sizes = Sizes(lanes, prompt_buckets, models)
    metrics = catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket)
    return round(sum(metric.series(sizes) * metric.typical for metric in metrics))
