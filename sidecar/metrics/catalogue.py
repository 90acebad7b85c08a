"""The catalogue: every metric that this process can expose, declared once (design section 6).

Each HELP states population, unit and source, because a number of unknown population is worse than none. Labels are
closed sets; the only ones filled at run time are lanes (config), prompt buckets (config) and models (engine or config).
Measurements of requests and of the engine come first. Then come verdicts, of which alerts are made: each request is counted
once per objective, at its deadline, and rules only add and divide. The sidecar itself comes last: its cost, its refusals,
and the things that it could not measure. Holds no values. docs/metrics.md is generated from this file, and a test compares
the two.
"""

from dataclasses import replace
from typing import get_args

from sidecar import BUILDS
from sidecar.budgets.budgets import Kind
from sidecar.engines.kinds import KINDS, remarks_on
from sidecar.engines.probe.state_names import Count
from sidecar.engines.usage_asking import STOPS
from sidecar.ledger.account import Reason, Source
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info, Label, Metric, Profile, Sizes
from sidecar.metrics.vocabulary import (
    ATTRIBUTIONS_TOGETHER,
    BEGUN_LATE,
    BLAMED_PHASE,
    BLAMED_TOGETHER,
    DROP_REASONS,
    EVENTS_PER_READ_BUCKETS,
    FEW_EVENTS,
    FINISH_REASON,
    INTER_TOKEN_BUCKETS,
    LANE,
    LATE_READ_SECONDS,
    LATE_TIMER_SECONDS,
    LATENCY_BUCKETS,
    LOOP_LAG_BUCKETS,
    MISSED_TOGETHER,
    MODEL,
    OBJECTIVE,
    OUTCOME,
    OVERFLOWING,
    OVERHEAD_BUCKETS,
    PARTED_PHASE,
    PARTS_TOGETHER,
    PER,
    PER_LANE,
    PER_LENGTH,
    PER_OBJECTIVE,
    PHASE,
    PHASE_PART,
    PHASES_TOGETHER,
    PROMPT_BUCKET,
    RATIO_CAUSES,
    ROOT_CAUSE,
    ROOT_PHASE,
    SHORT_BUCKETS,
    SOURCE,
    SPAN_FATES,
    SPAN_RESULTS,
    STAGE,
    STATE,
    STREAMING,
    TOKEN_BUCKETS,
    UNCOUNTED_KINDS,
    UNKNOWN_LENGTHS,
    UNREAD_SIGNALS,
    USAGE_RESULTS,
    VERY_LATE_TIMER_SECONDS,
)
from sidecar.pod.causes import ROOTS, SIZED_ROOTS
from sidecar.pod.costs import cost_names
from sidecar.pod.costs.prefill_cost import Refusal
from sidecar.pod.costs.step_model import TYPICAL_CONTEXT, TYPICAL_SEQUENCES
from sidecar.pod.usual.learning import Came
from sidecar.proxy.errors import Failure
from sidecar.timeline.apis import API_NAMES
from sidecar.timeline.proof import Proof


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
REQUEST_PHASE_PART_SECONDS = Histogram(
    "llm_request_phase_part_seconds",
    "Seconds that an inference request with outcome ok spent in one part of a phase, of requests whose engine states a part of it. A"
    " phase's parts and its rest add up to the seconds of the phase. Of the queue: router (before a worker got the request),"
    " prefill_queue and decode_admission (at the worker of each); of the prefill: compute; of first_token: kv_transfer (an upper"
    " bound where docs/engines.md says so). decode_admission is estimated.",
    (*PER_LANE, PARTED_PHASE, PHASE_PART),
    together=PARTS_TOGETHER,
    buckets=LATENCY_BUCKETS,
    used=0,  # few engines state one
)
TIME_TO_FIRST_TOKEN_SECONDS = Histogram(
    "llm_time_to_first_token_seconds",
    "Seconds from the last byte of the request body to the first event with output, of streamed inference requests that got"
    " one, whatever their outcome; not of transcriptions. Measured by the sidecar.",
    PER_LENGTH,
    buckets=LATENCY_BUCKETS,
)
TIME_TO_FIRST_OUTPUT_TOKEN_SECONDS = Histogram(
    "llm_time_to_first_output_token_seconds",
    "Seconds from the last byte of the request body to the first event with output that is no reasoning, of streamed inference requests"
    " that got one, whatever their outcome; not of transcriptions. llm_time_to_first_token_seconds ends at the first output of any kind: for a model that"
    " reasons, a reader waits for this one. Measured by the sidecar.",
    PER_LANE,
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
    buckets=LATENCY_BUCKETS,
    used=1,  # streamed
)
REQUEST_UPLOAD_SECONDS = Histogram(
    "llm_request_upload_seconds",
    "Seconds from the first byte of the request head to the last byte of its body, of inference requests that arrived whole. It"
    " is the client's time and belongs to no phase. Measured by the sidecar.",
    (LANE,),
    buckets=SHORT_BUCKETS,
)
ENGINE_CONNECT_SECONDS = Histogram(
    "llm_engine_connect_seconds",
    "Seconds to open a connection to the engine, of inference requests that needed a new one. Measured by the sidecar.",
    (LANE,),
    buckets=SHORT_BUCKETS,
)
KV_TRANSFER_SECONDS = Histogram(
    "llm_kv_transfer_seconds",
    "Seconds that a disaggregated engine took to move the KV cache of one request between its workers, of inference requests"
    " with outcome ok whose engine reported it and whose report was accepted. These seconds are already included in a phase;"
    " docs/engines.md names it for each engine.",
    PER_LANE,
    buckets=SHORT_BUCKETS,
    used=0,  # few engines report it
)
REASONING_SECONDS = Histogram(
    "llm_reasoning_seconds",
    "Seconds from the first token of reasoning until the first token of the content, of inference requests with outcome ok, streamed or"
    " not, whose engine timed both (docs/engines.md says which ones do). They are a part of decode, also where the reasoning is not sent. Stated"
    " by the engine.",
    PER_LANE,
    buckets=LATENCY_BUCKETS,
    used=0,  # few engines state it
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
REASONING_TOKENS = Histogram(
    "llm_reasoning_tokens",
    "Generated tokens that are reasoning, of inference requests with outcome ok whose engine stated how many are, from a model's first"
    " answer with reasoning on: before it a stated 0 may say that nothing is counted. They are also in llm_output_tokens. Stated in the"
    " engine's usage.",
    PER_LANE,
    buckets=TOKEN_BUCKETS,
    used=0,  # few models reason
)
ANSWER_TOKENS = Histogram(
    "llm_answer_tokens",
    "Generated tokens that are no reasoning (content, tool calls, marks between the parts), of the requests of llm_reasoning_tokens. Both"
    " add up to the requests' llm_output_tokens.",
    PER_LANE,
    buckets=TOKEN_BUCKETS,
    used=0,
)
CACHED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_cached_prompt_tokens_total",
    "Prompt tokens taken from the engine's prefix cache, of inference requests with outcome ok. Stated in the engine's usage.",
    PER_LANE,
)
REQUESTS_TOTAL = Counter(
    "llm_requests_total",
    "Inference requests that ended, each with exactly one outcome. The prompt bucket follows the prompt length in the engine's"
    " usage, else a calibrated estimate, else it is unknown; of an engine that counts no tokens (docs/engines.md) it is that of the text, at"
    " four bytes a token.",
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
UNFINISHED_OUTPUT_TOKENS_TOTAL = Counter(
    "llm_unfinished_output_tokens_total",
    "Output tokens of inference requests that did not end well: cancelled, cut, failed. By the engine's usage if it came (source usage),"
    " else the events with output (source events), each of which has one token or more.",
    (*PER_LANE, OUTCOME, Label("source", ("usage", "events"))),
    used=2,  # cancelled ones, in most lanes
)
EMPTY_ANSWERS_TOTAL = Counter(
    "llm_empty_answers_total",
    "Inference requests with outcome ok whose answer says nothing: no text, no reasoning and no tool call, at most an end mark."
    " Only answers that were read whole.",
    PER_LANE,
)
ANSWER_PROOFS_TOTAL = Counter(
    "llm_answer_proofs_total",
    "Answers of inference requests that ended well by their HTTP framing, or whose end mark came, by API and by what proves that"
    " they are whole. unproved: no mark came, and this engine was not seen to set any. framing: the API has none, or the answer was not"
    " read. cut_behind_mark: the last bytes of the framing are missing. All these have outcome ok. missing: a mark that this engine sets"
    " is missing, and the outcome is engine_truncated.",
    (Label("api", API_NAMES), Label("proof", tuple(Proof))),
    used=4,  # one API or two, and what proves their answers
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
VERIFY_PROBES_TOTAL = Counter(
    "llm_sidecar_verify_probes_total",
    "Inference requests with the header x-llm-phase-sidecar-verify, which `sidecar verify` sends. apart: outside all lanes, objectives"
    " and gauges of lanes. as_usual: more of them came than a few runs send, so they count as every other request.",
    (Label("result", ("apart", "as_usual")),),
)

LANES_BY_LENGTH_TOTAL = Counter(
    "llm_lanes_by_length_total",
    "Inference requests of a config whose lanes depend on the length of the prompt, by whether the length that usage states gives the"
    " same lane (held) as the one that was known when they came (contradicted). Only requests whose usage states it.",
    (Label("result", ("held", "contradicted")),),
)
UNCOUNTED_INFERENCE_TOTAL = Counter(
    "llm_uncounted_inference_total",
    "Requests that passed and were not counted as inference, although they look like it: a POST that was answered by an event stream,"
    " a websocket on an inference path, or media (speech and pictures). The log names their paths; engine.paths.add counts those of event"
    " streams, and engine.paths.exclude leaves the others out.",
    (Label("kind", UNCOUNTED_KINDS),),
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
    "Scrapes of the engine's own metrics by the sidecar, by result. no_names: the page is whole, and has none of the names that are read (yet).",
    (Label("result", ("ok", "unreachable", "timeout", "bad_status", "too_large", "unreadable", "no_names")),),
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
    " the last ten minutes of its metrics. 1 is agreement. Requests and choices without a report took something between nothing and their"
    " time on the wire: the nearest of these is taken off the sum. Absent while they may have taken more than half of it. Below 1,"
    " requests bypass the sidecar, or reports say too little.",
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
    "Requests of this model that the estimator keeps as samples: those whose prefill the engine reported and those that did not queue,"
    " each limited per class of prompt length.",
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
    buckets=SHORT_BUCKETS,
)
ESTIMATOR_VERDICTS_TOTAL = Counter(
    "llm_estimator_verdicts_total",
    "The requests of llm_estimator_error_seconds, by whether the estimate names the same longer phase as the engine's report,"
    " queue or prefill.",
    (MODEL, Label("result", ("right", "wrong"))),
)
ESTIMATOR_INTERVALS_TOTAL = Counter(
    "llm_estimator_intervals_total",
    "The requests of llm_estimator_error_seconds, by whether the engine's prefill lies inside the estimate's interval of 80 %, below it or above"
    " it.",
    (MODEL, Label("result", ("inside", "below", "above"))),
)

# --- objectives ----------------------------------------------------------------------------------------------------------

SLO_REQUESTS_TOTAL = Counter(
    "llm_slo_requests_total",
    "Inference requests that count for an objective, counted when it is decided whether they meet it: at the first token or the"
    " deadline (ttft), at the end (tpot), at the end or the deadline (e2e, stall). A client's error or cancel counts only if the"
    " deadline had passed before. An answer that cannot be read (compressed) does not count. The prompt bucket is the one"
    " estimated at arrival. Of the gaps in a stream's output, docs/configuration.md says which count for stall.",
    (*PER_LENGTH, OBJECTIVE),
)
SLO_UNJUDGED_REQUESTS_TOTAL = Counter(
    "llm_slo_unjudged_requests_total",
    "Inference requests that were not judged by this objective, because the length of their prompt is not known and would decide: they"
    " were later than the threshold of the shortest prompt that it may be, and not later than that of the longest. They are in no other"
    " counter of objectives. reason says why the length is not known.",
    (*PER_LANE, OBJECTIVE, Label("reason", UNKNOWN_LENGTHS)),
    used=1,  # the fallbacks of few requests
)
SLO_MISSES_TOTAL = Counter(
    "llm_slo_misses_total",
    "Requests of llm_slo_requests_total that missed their objective, counted when the deadline passes, whether or not the"
    " request ever ends. Requests that the engine failed or that were rejected count as missed.",
    (*PER_LENGTH, OBJECTIVE),
)
SLO_ALLOWED_MISSES_TOTAL = Counter(
    "llm_slo_allowed_misses_total",
    "Error budget of the requests in llm_slo_requests_total: each adds 1 - target. llm_slo_misses_total over this is the burn"
    " rate, also across prompt buckets with different targets.",
    (*PER_LENGTH, OBJECTIVE),
)
SLO_BLAMED_MISSES_TOTAL = Counter(
    "llm_slo_blamed_misses_total",
    "Misses by the phase to which each is attributed, counted when the request's ledger is closed, which may be long after the"
    " miss. The phase says where the request waited; the cause may lie elsewhere. A request that was given up, has no report or"
    " was measured while the sidecar's own loop was late counts as unattributed, one that the engine failed as engine, a rejected"
    " one as queue.",
    (*PER_LANE, OBJECTIVE, BLAMED_PHASE),
    together=BLAMED_TOGETHER,
)
SLO_MISSED_PHASE_SECONDS_TOTAL = Counter(
    "llm_slo_missed_phase_seconds_total",
    "Seconds of each phase within the latency that missed, of requests with outcome ok that missed their objective, counted when"
    " the request's ledger is closed: of ttft the time to the first token, of tpot the time from the first to the last token, of"
    " e2e the whole answer; of stall none, because no ledger divides one gap. The phases of one objective add up to that latency, and sums over pods are exact: a phase's share is"
    " its seconds over those of all phases. Requests that failed have no ledger and are not in it.",
    (*PER_LANE, OBJECTIVE, PHASE),
    together=MISSED_TOGETHER,
)
SLO_ROOT_MISSES_TOTAL = Counter(
    "llm_slo_root_misses_total",
    "Misses by the phase of their root: what broke on this pod during the request's life. A miss is decided at the end of its"
    " request, at 15 s after the miss, or as soon as evidence is clear. One miss adds 1 in sum and may be divided, so values"
    " are not whole numbers. llm_slo_misses_total equals the sum over phases plus llm_slo_undecided_misses.",
    (*PER_LANE, OBJECTIVE, ROOT_PHASE),
)
SLO_UNDECIDED_MISSES = Gauge(
    "llm_slo_undecided_misses",
    "Misses of llm_slo_misses_total whose root is not decided yet; each is for at most 15 s and the second to the next look.",
    (*PER_LANE, OBJECTIVE),
)
SLO_ROOT_CAUSE_MISSES_TOTAL = Counter(
    "llm_slo_root_cause_misses_total",
    "The misses of llm_slo_root_misses_total by phase and cause, over all lanes and objectives. The causes of unattributed are"
    " reasons: young (no baseline yet), unclear (evidence for nothing, or for several causes alike).",
    (MODEL, ROOT_PHASE, ROOT_CAUSE),
    together=ROOTS,
)
SLO_THRESHOLD_SECONDS = Gauge(
    "llm_slo_threshold_seconds",
    "Threshold of an objective in seconds, from the config in force.",
    PER_OBJECTIVE,
)
SLO_TARGET_RATIO = Gauge(
    "llm_slo_target_ratio",
    "Target of an objective: the share of requests that must meet the threshold, 0 to 1, from the config in force.",
    PER_OBJECTIVE,
)
REQUESTS_OVERDUE = Gauge(
    "llm_requests_overdue",
    "Streamed inference requests in flight that have no token yet and are past their TTFT threshold now.",
    PER_LANE,
)
GOOD_REQUESTS_TOTAL = Counter(
    "llm_good_requests_total",
    "Inference requests with outcome ok that met every objective of their lane and prompt length (goodput). Lanes without"
    " objectives are not counted; embeddings and the like of the others are, which have no objective by default.",
    PER_LENGTH,
)
GOOD_OUTPUT_TOKENS_TOTAL = Counter(
    "llm_good_output_tokens_total",
    "Generated tokens of the requests in llm_good_requests_total, from the usage in the answer, if there is one.",
    PER_LENGTH,
)
TOKEN_DEADLINES_TOTAL = Counter(
    "llm_token_deadlines_total",
    "Output events of streams that have both a ttft and a tpot objective, counted when the stream ends. Each event has a"
    " deadline. An event may carry several tokens.",
    PER_LANE,
)
TOKEN_DEADLINE_MISSES_TOTAL = Counter(
    "llm_token_deadline_misses_total",
    "Events of llm_token_deadlines_total that came after their deadline. The first is due at the TTFT threshold, each later one"
    " a TPOT threshold after the deadline before it. After a late event, the next one is due a TPOT threshold after that event.",
    PER_LANE,
)

# --- evidence ------------------------------------------------------------------------------------------------------------

REQUESTS_RECEIVED_TOTAL = Counter(
    "llm_requests_received_total",
    "Inference requests whose body arrived whole, counted at arrival. This is the present load; counters of ended requests follow later.",
    PER_LANE,
)
RECEIVED_MEASURED_REQUESTS_TOTAL = Counter(
    "llm_received_measured_requests_total",
    "Requests of llm_requests_received_total whose prompt length was known or could be estimated at arrival.",
    PER_LANE,
)
RECEIVED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_received_prompt_tokens_total",
    "Prompt tokens of the requests in llm_received_measured_requests_total: counted if the request states token ids, else"
    " estimated from its text and calibrated on past usage.",
    PER_LANE,
)
UNCACHED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_uncached_prompt_tokens_total",
    "Prompt tokens that the engine had to compute, of inference requests with outcome ok whose usage states how many tokens"
    " were cached (those are in llm_cached_prompt_tokens_total).",
    PER_LANE,
)
PREFILL_OWN_SECONDS_TOTAL = Counter(
    "llm_prefill_own_seconds_total",
    "Seconds during which at least one prompt was in prefill; overlapping prefills are counted once. Holds streamed requests"
    " with outcome ok, by the engine's report; without a report, by the TTFT of requests that did not queue. Only prompts whose"
    " expected cost is known.",
    (MODEL,),
)
PREFILL_EXPECTED_SECONDS_TOTAL = Counter(
    "llm_prefill_expected_seconds_total",
    "Expected prefill seconds of the prompts in llm_prefill_own_seconds_total, each taken alone: an estimate from a function of"
    " uncached prompt length, learned while objectives are met. If own over expected rises above its past, prefill has become slower.",
    (MODEL,),
)
ENGINE_SILENCE_SECONDS = Gauge(
    "llm_engine_silence_seconds",
    "Seconds since the engine last sent output, while the sidecar reads at least one stream; else 0. Output of a request that"
    " is not streamed, is compressed or is probably held back, as the last ones of its lane were, cannot be seen as it comes. While such a request is in flight and no stream has begun,"
    " the value is 0 for as long as its whole answer may take (the lane's e2e threshold; 60 s without one), counted from the"
    " last output or the last such answer.",
)
ENGINE_SILENCE_EXPECTED_SECONDS = Gauge(
    "llm_engine_silence_expected_seconds",
    "Seconds of prefill work that were pending when the present silence began: an estimate; 0 if there is no silence. A prompt"
    " whose cost is unknown counts as the slowest of at least 30 that were learned from, longer ones in proportion, and as 20 s"
    " before; all such prompts together count as 20 s at most, or as the slowest of them if that is more.",
)
ENGINE_STALLED_SECONDS_TOTAL = Counter(
    "llm_engine_stalled_seconds_total",
    "Seconds for which llm_engine_silence_seconds was above 8 and also above 3 x llm_engine_silence_expected_seconds.",
)

EVIDENCE_RATIO = Gauge(
    "llm_evidence_ratio",
    "How many times its usual value each cause shows now: load (arrivals a second) over the last minute; longer_outputs (output"
    " tokens of an answer that ended in the last minute or, if they are clearly more, the output events of streams over what both"
    " the requests that came and the streams that ended usually bring, in the last 20 s, the last 60 s or since the queue began"
    " that stood in the last minute), prompt_mix (prompt tokens a request), uncached (uncached prompt tokens, as far as the cache explains them),"
    " prefill_cost and decode_cost (the same work) over the last 20 s or the last 60 to 90 s, whichever shows a change more"
    " clearly. Costs come from steps or, where these say nothing, from reported prefills and the gaps between tokens. The usual"
    " value is learned while no objective burns: an estimate. Absent while unknown.",
    (Label("cause", RATIO_CAUSES),),
)
INCIDENT_AGE_SECONDS = Gauge(
    "llm_incident_age_seconds",
    "Seconds since the present incident of this pod began: misses above the budget, with this leading root or, where"
    " none leads, the one with most of the misses or the reason for which it is not known. Absent while there is none.",
    (ROOT_PHASE, ROOT_CAUSE),
    together=ROOTS,
    used=1,  # one at a time
)
INCIDENT_SHOWN_AGE_SECONDS = Gauge(
    "llm_incident_shown_age_seconds",
    "Seconds since a miss last showed the root of the present incident by evidence of its own. Misses after it only wait behind what the"
    " root left, or have another root. Absent without an incident, and while its root is not known.",
    (ROOT_PHASE, ROOT_CAUSE),
    together=ROOTS,
    used=1,
)
INCIDENT_CONFIDENCE_RATIO = Gauge(
    "llm_incident_confidence_ratio",
    "Share, 0 to 1, that the phase of the present incident's root has in the decided misses of this pod, mostly of the minute before"
    " llm_incident_shown_age_seconds, whose value it keeps. Absent without an incident, and while its root is not known.",
    (ROOT_PHASE, ROOT_CAUSE),
    together=ROOTS,
    used=1,
)
INCIDENT_SIZE_RATIO = Gauge(
    "llm_incident_size_ratio",
    "How many times its usual value the cause of the present incident's root was while misses showed it: the upper quartile of"
    " llm_evidence_ratio over the last 5 minutes in which they did. So it stays as it is while a backlog drains, until the incident is over."
    " per: the unit of the work; step instead of token where nothing tells how many tokens a step gives. Absent for a cause that is no"
    " ratio, and below the ratio from which a cause is named (1.12 to 1.2).",
    (ROOT_PHASE, ROOT_CAUSE, PER),
    together=SIZED_ROOTS,
    used=1,
)
INCIDENT_SIZE_RATIO_LOW = Gauge(
    "llm_incident_size_ratio_low",
    "Lower end of the interval of llm_incident_size_ratio, an estimate of 95 %.",
    (ROOT_PHASE, ROOT_CAUSE, PER),
    together=SIZED_ROOTS,
    used=1,
)
INCIDENT_SIZE_RATIO_HIGH = Gauge(
    "llm_incident_size_ratio_high",
    "Upper end of the interval of llm_incident_size_ratio, an estimate of 95 %.",
    (ROOT_PHASE, ROOT_CAUSE, PER),
    together=SIZED_ROOTS,
    used=1,
)
BASELINE_INFO = Info(
    "llm_baseline_info",
    "Always 1. source: where the usual values of this pod came from: process (learned by this process), state (an earlier"
    " process of this pod, from state.directory), file (another pod, from baseline.file), none (nothing is usual yet)."
    " provisional=true: they were learned in the calmest tenth of a burn of an hour or more.",
    (Label("source", tuple(Came)), Label("provisional", ("false", "true"))),
    used=1,
)

_PART = Label("part", tuple(cost_names.Part))
ENGINE_COST_RATIO = Gauge(
    "llm_engine_cost_ratio",
    "Cost of the engine's work now over its cost while no objective burned, from the instants at which streams speak: an"
    " estimate. part=decode: a step of the same sequences and contexts, over the last minute or 1,024 steps (the last 3 s if each of"
    " them is clearly dearer, 10 s where prompts are in all steps); part=prefill: the same uncached prompt tokens, over the last 90 s. Where several fits of"
    " the calm time are about as good and differ for the present work, by the one by which least has changed; the interval holds all."
    " Absent while unknown: see llm_engine_cost_unknown.",
    (_PART,),
)
ENGINE_COST_RATIO_LOW = Gauge(
    "llm_engine_cost_ratio_low",
    "Lower end of the interval of llm_engine_cost_ratio, an estimate of 95 %. Well above 1: the work is dearer than it was.",
    (_PART,),
)
ENGINE_COST_RATIO_HIGH = Gauge(
    "llm_engine_cost_ratio_high",
    "Upper end of the interval of llm_engine_cost_ratio, an estimate of 95 %.",
    (_PART,),
)
ENGINE_COST_UNKNOWN = Gauge(
    "llm_engine_cost_unknown",
    "1 for the reason for which llm_engine_cost_ratio is absent, else 0. young: too few steps or prompts to know the usual cost;"
    " residuals: steps of the same shape take different times, or prompts share no steps with decodes; coverage: streams do"
    " not speak at each step (several schedulers behind one port, several tokens in an event), or the engine runs more requests"
    " than the sidecar has sent it (less than 80 % of them pass it); few: too few steps or prompts now, or prompts in all steps.",
    (_PART, Label("reason", tuple(cost_names.Unpriced))),
)
ENGINE_STEP_COST_SECONDS = Gauge(
    "llm_engine_step_cost_seconds",
    f"Estimated seconds of one decode step of {TYPICAL_SEQUENCES} sequences with {TYPICAL_CONTEXT} tokens of context each, as dear"
    " as steps are now: the same shape on each pod, so that pods can be compared. Absent while unknown, as where the"
    " batches of calm times do not tell it.",
)

# --- the sidecar itself --------------------------------------------------------------------------------------------------

SIDECAR_BUILD_INFO = Info(
    "llm_sidecar_build_info",
    "Always 1. The labels name the version of the sidecar, of the Python that runs it, its build, and metrics.profile: with lean,"
    " most of the catalogue is not on this page.",
    (
        Label("version", told_by="the sidecar", fallback=UNKNOWN, most=1),
        Label("python_version", told_by="the interpreter", fallback=UNKNOWN, most=1),
        Label("build", BUILDS),
        Label("profile", get_args(Profile)),
    ),
    used=1,
)
EVENT_LOOP_LAG_SECONDS = Histogram(
    "llm_sidecar_event_loop_lag_seconds",
    "Seconds by which a periodic timer of the event loop fired late: bytes may have waited as long in the sidecar.",
    buckets=LOOP_LAG_BUCKETS,
)
EVENT_LOOP_CHECKS_TOTAL = Counter(
    "llm_sidecar_event_loop_checks_total",
    "Timers of llm_sidecar_event_loop_lag_seconds, by their lag: late (above"
    f" {LATE_TIMER_SECONDS * 1e3:g} ms), very_late (above {VERY_LATE_TIMER_SECONDS * 1e3:g} ms), or in_time. A counter for rules.",
    (Label("result", ("in_time", "late", "very_late")),),
)
OVERHEAD_SECONDS = Histogram(
    "llm_sidecar_overhead_seconds",
    "Seconds from the return of the read to the return of the write of the same response bytes, of 1 read in 64.",
    buckets=OVERHEAD_BUCKETS,
)
TIMED_READS_TOTAL = Counter(
    "llm_sidecar_timed_reads_total",
    "Reads of llm_sidecar_overhead_seconds, which are 1 in 64, by the time until their bytes were written: late (above"
    f" {LATE_READ_SECONDS * 1e3:g} ms) or in_time. A counter for rules.",
    (Label("result", ("in_time", "late")),),
)
CONFIG_LAST_RELOAD_SUCCESSFUL = Gauge(
    "llm_sidecar_config_last_reload_successful",
    "1 if the last load of the config succeeded, and that of the file in web.config_file; 0 if one was refused, so that its"
    " previous content stays in force.",
)
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS = Gauge(
    "llm_sidecar_config_last_reload_success_timestamp_seconds",
    "Unix time, in seconds, of the last successful load of the config.",
)
SIDECAR_TIME_SECONDS = Gauge(
    "llm_sidecar_time_seconds",
    "Unix time by the clock of this pod. sidecar doctor compares it with Prometheus' clock, and rules reckon the process's age by it.",
)
READY = Gauge("llm_sidecar_ready", "1 while /-/ready answers 200, else 0.")
WITHOUT_PROXY = Gauge(
    "llm_sidecar_without_proxy",
    "1 with --no-proxy, where no request passes this sidecar and each is counted from its engine's span: then only those that ended well and"
    " whose trace was sampled are in any metric of requests, and what no span tells is absent (docs/no_proxy.md). Absent where requests pass.",
)
DRAINING = Gauge("llm_sidecar_draining", "1 once the shutdown has begun, else 0.")
DROPPED_TOTAL = Counter(
    "llm_sidecar_dropped_total",
    "Events, reports, spans and log lines that were not measured or not written, by reason. Traffic was not affected.",
    (Label("reason", DROP_REASONS),),
    used=len([reason for reason in DROP_REASONS if reason not in BEGUN_LATE]),
)
FAILURES_TOTAL = Counter(
    "llm_sidecar_failures_total",
    "Requests, inference or not, that the sidecar answered in the engine's place or cut short, by the reason in x-sidecar-error.",
    (Label("reason", tuple(failure.reason for failure in Failure)),),
)
RESENT_TOTAL = Counter(
    "llm_sidecar_resent_total",
    "Requests, inference or not, that were sent once more on a new connection, with proof: the engine had closed the idle connection"
    " before they came, and its kernel acknowledged no byte of them.",
)
LABEL_OVERFLOW_TOTAL = Counter(
    "llm_sidecar_label_overflow_total",
    "Observations with a label value outside its closed set, by label; they are counted under the label's fallback. series: the"
    " limit of series was reached.",
    (Label("label", OVERFLOWING),),
)
USAGE_INJECTION_TOTAL = Counter(
    "llm_sidecar_usage_injection_total",
    "Inference requests by result of asking for usage: asked (include_usage was added to the body), or the reason why not.",
    (Label("result", USAGE_RESULTS),),
)
USAGE_STOPPED = Gauge(
    "llm_sidecar_usage_stopped",
    "1 while the engine is no longer asked for usage, by why: usage_shows (streams in a row stated it to clients that did not ask, and it"
    " could not be cut) or compressed_answers (an answer came compressed although identity was asked for); else 0. Absent as long as"
    " nothing has stopped the asking.",
    (Label("reason", tuple(STOPS)),),
)
PROMPT_BUCKET_ESTIMATES_TOTAL = Counter(
    "llm_sidecar_prompt_bucket_estimates_total",
    "Prompts whose bucket was estimated from the body's bytes and whose tokens the engine then counted, by whether the count"
    " confirmed the estimated bucket or corrected it. The estimate is used only where the engine does not count.",
    (Label("result", ("confirmed", "corrected")),),
)
SPANS_TOTAL = Counter(
    "llm_sidecar_spans_total",
    "Spans received as OTLP: taken (a report on a request), unknown (of a kind that reports on no request) or rejected (malformed or too large)."
    " forwarded counts those of the first two that were passed on to the collector.",
    (Label("result", SPAN_RESULTS),),
)
EXPORTED_SPANS_TOTAL = Counter(
    "llm_sidecar_exported_spans_total",
    "Spans of requests and of their phases that were made for the collector in spans.export_url. Each is in flight or has one fate: the numbers"
    " of the next two metrics add up to this one.",
    used=0,
)
EXPORTED_SPANS_ENDED_TOTAL = Counter(
    "llm_sidecar_exported_spans_ended_total",
    "Such spans that have their fate: the collector acknowledged them, or they were dropped for the reason that the other values name.",
    (Label("result", SPAN_FATES),),
    used=0,
)
EXPORTED_SPANS_IN_FLIGHT = Gauge(
    "llm_sidecar_exported_spans_in_flight",
    "Such spans that have no fate yet: they wait, or are being sent.",
    used=0,
)
OTLP_DROPPED_TOTAL = Counter(
    "llm_sidecar_otlp_dropped_total",
    "Requests with logs or metrics that an OpenTelemetry exporter sent here, by what they carried. Only spans are read: these are answered"
    " with an empty success and dropped.",
    (Label("reason", UNREAD_SIGNALS),),
)
OPEN_CONNECTIONS = Gauge(
    "llm_sidecar_open_connections",
    "Connections that are open now, idle ones included, by side: to clients or to the engine.",
    (Label("side", ("client", "engine")),),
)
BUDGET_LIMIT = Gauge(
    "llm_sidecar_budget_limit",
    "The most that this process holds at once, by budget: bytes, or a number of files, connections, requests, ledgers or tunnels."
    " docs/budgets.md says what is counted and what happens beyond.",
    (Label("budget", tuple(kind.label for kind in Kind)),),
)
BUDGET_USED = Gauge(
    "llm_sidecar_budget_used",
    "What this process holds now, by budget, in the unit of llm_sidecar_budget_limit.",
    BUDGET_LIMIT.labels,
)
BUDGET_EXCEEDED_TOTAL = Counter(
    "llm_sidecar_budget_exceeded_total",
    "Bodies, connections, requests and other things that found no room, by budget. Some made another one end, some were refused, some"
    " passed unread.",
    BUDGET_LIMIT.labels,
)
OPEN_LEDGERS = Gauge(
    "llm_sidecar_open_ledgers", "Requests that ended and whose phases still wait for the engine's report."
)
SERIES = Gauge("llm_sidecar_series", "Series that this process holds, process_ and python_ ones left out.")
SCRAPES_TOTAL = Counter(
    "llm_sidecar_scrapes_total",
    "Scrapes of this page that began before the present one, by result.",
    (Label("result", ("ok", "abandoned", "refused")),),
)
SCRAPE_AGE_SECONDS = Gauge(
    "llm_sidecar_last_scrape_age_seconds",
    "Seconds since this page was last scraped whole, before the present scrape; those of `sidecar doctor` are left out. Absent before"
    " the first.",
)
LOGINS_TOTAL = Counter(
    "llm_sidecar_admin_logins_total",
    "Requests to the admin listener that needed a password, by result: ok, missing (no user and password were sent), wrong, or"
    " busy (too many waited for a check, and this one was refused unread).",
    (Label("result", ("ok", "missing", "wrong", "busy")),),
)
HOSTS_REFUSED_TOTAL = Counter(
    "llm_sidecar_admin_hosts_refused_total",
    "Requests to the admin listener that were answered 421, because they named a host that is not this process's own and not in"
    " web.allowed_hosts.",
)
WEB_CONFIG_LOADS_TOTAL = Counter(
    "llm_sidecar_web_config_loads_total",
    "Loads of the file that web.config_file names, by result. After refused, the content of before stays in force.",
    (Label("result", ("ok", "refused")),),
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""In the order of this file, which is that of the page."""


LEAN: tuple[Metric, ...] = (
    # read by the recording rules and the alerts, and by the words of alerts
    *(STATED_PROMPTS_TOTAL, STATED_PROMPT_TOKENS_TOTAL, REQUESTS_TOTAL, OLDEST_REQUEST_SECONDS, CLIENT_CANCELS_TOTAL),
    *(STREAM_READS_TOTAL, PHASE_ATTRIBUTION_TOTAL, REQUESTS_OVERDUE, REQUESTS_RECEIVED_TOTAL),
    *(ENGINE_UP, ENGINE_STALLED, ENGINE_STALLED_SECONDS_TOTAL, ENGINE_RESTARTS_TOTAL, ENGINE_PREEMPTIONS_TOTAL),
    *(
        ENGINE_REQUESTS_WAITING,
        ENGINE_KV_CACHE_USAGE_RATIO,
        ENGINE_PREFIX_CACHE_QUERIES_TOTAL,
        ENGINE_PREFIX_CACHE_HITS_TOTAL,
    ),
    *(ENGINE_TRAFFIC_SEEN_RATIO, ENGINE_REPORT_AGREEMENT_RATIO),
    *(SLO_REQUESTS_TOTAL, SLO_MISSES_TOTAL, SLO_ALLOWED_MISSES_TOTAL, SLO_BLAMED_MISSES_TOTAL),
    *(SLO_ROOT_MISSES_TOTAL, SLO_ROOT_CAUSE_MISSES_TOTAL),
    *(INCIDENT_AGE_SECONDS, INCIDENT_CONFIDENCE_RATIO, INCIDENT_SIZE_RATIO),
    *(SIDECAR_BUILD_INFO, EVENT_LOOP_CHECKS_TOTAL, TIMED_READS_TOTAL, CONFIG_LAST_RELOAD_SUCCESSFUL),
    *(DROPPED_TOTAL, LABEL_OVERFLOW_TOTAL, SIDECAR_TIME_SECONDS),
    # read by autoscaling (docs/scaling.md)
    *(REQUESTS_IN_FLIGHT, SLO_UNDECIDED_MISSES, ENGINE_REQUESTS_RUNNING, READY),
    # read by the gate of a rollout
    *(ANSWERS_TOTAL, EMPTY_ANSWERS_TOTAL, GOOD_REQUESTS_TOTAL),
    # one series each, or two: what runs, what changed, and what a header took out of the lanes
    *(ENGINE_INFO, CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS, WITHOUT_PROXY),
    VERIFY_PROBES_TOTAL,
    # what has grown beside the root, for a person
    EVIDENCE_RATIO,
)
"""The metrics of `metrics.profile: lean`. A test derives what the rules and the others need, and holds this to it."""
UNTOLD_BY_SPANS: tuple[Metric, ...] = (
    # the client's side, the stream, and requests that did not end well
    *(TIME_TO_FIRST_OUTPUT_TOKEN_SECONDS, INTER_TOKEN_SECONDS, REQUEST_UPLOAD_SECONDS, STREAM_PAUSED_SECONDS_TOTAL),
    *(STREAM_EVENTS_PER_READ, STREAM_READS_TOTAL, ANSWERS_HELD_BACK_TOTAL, ANSWERS_TOTAL, EMPTY_ANSWERS_TOTAL),
    *(
        CLIENT_CANCELS_TOTAL,
        UNFINISHED_OUTPUT_TOKENS_TOTAL,
        ANSWER_PROOFS_TOTAL,
        TOKEN_DEADLINES_TOTAL,
        TOKEN_DEADLINE_MISSES_TOTAL,
    ),
    # the requests that are in the engine now, and its silence
    *(REQUESTS_IN_FLIGHT, OLDEST_REQUEST_SECONDS, REQUESTS_OVERDUE, ENGINE_STALLED, ENGINE_STALLED_SECONDS_TOTAL),
    *(ENGINE_SILENCE_SECONDS, ENGINE_SILENCE_EXPECTED_SECONDS),
    *(ENGINE_COST_RATIO, ENGINE_COST_RATIO_LOW, ENGINE_COST_RATIO_HIGH, ENGINE_COST_UNKNOWN, ENGINE_STEP_COST_SECONDS),
    # what a hop does, and what would tell that traffic goes another way
    *(
        ENGINE_CONNECT_SECONDS,
        PASSTHROUGH_REQUESTS_TOTAL,
        UNCOUNTED_INFERENCE_TOTAL,
        OVERHEAD_SECONDS,
        TIMED_READS_TOTAL,
    ),
    *(RESENT_TOTAL, USAGE_INJECTION_TOTAL, PROMPT_BUCKET_ESTIMATES_TOTAL, LANES_BY_LENGTH_TOTAL, VERIFY_PROBES_TOTAL),
    *(ENGINE_TRAFFIC_SEEN_RATIO, ENGINE_REPORT_AGREEMENT_RATIO),
)
"""The metrics that are absent where no traffic passes (`--no-proxy`), because 0 would be a claim there."""
LEAN_SUMS_OVER = (PROMPT_BUCKET,)
"""Labels that a lean page sums over: no rule keeps them apart."""


def catalogue(*, inter_token_by_prompt_bucket: bool = False, profile: Profile = "full") -> tuple[Metric, ...]:
    """The metrics that one process counts, or shows with the profile lean: there without the labels that it sums over.

    The two inter-token histograms carry the prompt bucket where the config asks for it.
    """
    if profile == "lean":
        return tuple(
            replace(metric, labels=tuple(label for label in metric.labels if label not in LEAN_SUMS_OVER))
            for metric in CATALOGUE
            if metric in LEAN
        )
    if not inter_token_by_prompt_bucket:
        return CATALOGUE
    split = (INTER_TOKEN_SECONDS, TIME_PER_OUTPUT_TOKEN_SECONDS)
    return tuple(replace(metric, labels=PER_LENGTH) if metric in split else metric for metric in CATALOGUE)


def series_ceiling(
    lanes: int,
    prompt_buckets: int,
    models: int,
    *,
    inter_token_by_prompt_bucket: bool = False,
    profile: Profile = "full",
) -> int:
    """The most series that a process can reach, process_* and python_* left out.

    All three numbers include the fallback: `other`, `unknown`, `other`. One model that the engine serves is models=2.
    """
    sizes = Sizes(lanes, prompt_buckets, models)
    metrics = catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket, profile=profile)
    return sum(metric.series(sizes) for metric in metrics)


def series_in_use(
    lanes: int,
    prompt_buckets: int,
    models: int,
    *,
    aimed: float = 1.0,
    inter_token_by_prompt_bucket: bool = False,
    profile: Profile = "full",
) -> int:
    """The series of a process in full use, within 20 % (`Metric.in_use` says what is full use and what `aimed` is).

    The numbers include the fallbacks, as those of `series_ceiling` do. A lane that is answered in both ways, or by engines
    that report on some of its requests only, has more.
    """
    sizes = Sizes(lanes, prompt_buckets, models)
    metrics = catalogue(inter_token_by_prompt_bucket=inter_token_by_prompt_bucket, profile=profile)
    return round(sum(metric.in_use(sizes, aimed) for metric in metrics))
