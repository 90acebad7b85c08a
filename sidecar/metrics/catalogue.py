"""The catalogue: every metric that this process can expose, declared once (design section 6).

Each HELP states population, unit and source, because a number of unknown population is worse than none. Labels are
closed sets; the only ones filled at run time are lanes (config), prompt buckets (config) and models (engine or config).
A table, one row a metric: name, labels, edges, what of it there is, and its HELP. Measurements of requests and of the engine come
first. Then come verdicts, of which alerts are made: each request is counted once per objective, at its deadline, and rules only add
and divide. The sidecar itself comes last: its cost, its refusals, and the things that it could not measure. Holds no values.
docs/metrics.md is generated from this file, and a test compares the two.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from sidecar import BUILDS
from sidecar.budgets.budgets import Kind
from sidecar.engines.kinds import KINDS, remarks_on
from sidecar.engines.probe.state_names import Count
from sidecar.engines.usage_asking import STOPS
from sidecar.ledger.account import Phase, Reason, Source
from sidecar.ledger.phase_parts import PARTED, PHASE_OF_PART, REST, Part
from sidecar.ledger.request_labels import UNKNOWN
from sidecar.metrics.declaration import Counter, Gauge, Histogram, Info, Label, Metric, Profile, Sizes
from sidecar.metrics.vocabulary import (
    BEGUN_LATE,
    DROP_REASONS,
    FEW_EVENTS,
    LATE_READ_SECONDS,
    LATE_TIMER_SECONDS,
    SPAN_FATES,
    UNCOUNTED_KINDS,
    UNREAD_SIGNALS,
    USAGE_RESULTS,
    VERY_LATE_TIMER_SECONDS,
)
from sidecar.objectives.attribution import VOTES, Blame
from sidecar.objectives.latency_parts import PARTS
from sidecar.objectives.objective import Objective
from sidecar.pod.causes import ROOT_PHASES, ROOTS, SIZED_PER, SIZED_ROOTS, Per
from sidecar.pod.costs import cost_names
from sidecar.pod.costs.prefill_cost import Refusal
from sidecar.pod.costs.step_model import TYPICAL_CONTEXT, TYPICAL_SEQUENCES
from sidecar.pod.usual.learning import Came
from sidecar.proxy.errors import Failure
from sidecar.timeline.apis import API_NAMES
from sidecar.timeline.finish import Finish
from sidecar.timeline.outcome import Outcome, Stage
from sidecar.timeline.proof import Proof


# --- buckets: the same layout in every pod and version, or `sum by (le)` is wrong ----------------------------------------

_UP_TO_300 = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75)
SHORT_BUCKETS = (*_UP_TO_300, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0)
"""Seconds of what is over in minutes, such as a connect or an upload."""
LATENCY_BUCKETS = (*SHORT_BUCKETS, 600.0, 1200.0)
"""Seconds of a request and of its parts: a batch waits for twenty minutes, and no part may end at a lower edge than its whole."""
_GAPS = (0.0001, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075)
INTER_TOKEN_BUCKETS = (*_GAPS, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The first bucket isolates events that came in one read: something upstream merges or buffers."""
TOKEN_BUCKETS = (1.0, 8.0, 32.0, *(float(2**power) for power in range(7, 18)))
EVENTS_PER_READ_BUCKETS = (1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 100.0)
OVERHEAD_BUCKETS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25)
LOOP_LAG_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)

# --- labels and their closed sets ----------------------------------------------------------------------------------------

MODEL = Label(
    "model",
    told_by="`engine.models`, else the engine's own list and what its answers prove, at most 16 in a process's life",
    most=16,
)
LANE = Label("lane", told_by="the lanes of the config", most=134)
PROMPT_BUCKET = Label("prompt_bucket", told_by="`prompt_buckets.edges` of the config", fallback=UNKNOWN, most=16)
PER_LANE = (MODEL, LANE)
PER_LENGTH = (*PER_LANE, PROMPT_BUCKET)
"""The labels of a request (`RequestLabels`) that most metrics have: a label added here is added to all of them."""
STREAMING = Label("streaming", ("true", "false"))
PHASE = Label("phase", tuple(Phase))
SOURCE = Label("source", tuple(Source))
OUTCOME = Label("outcome", tuple(Outcome))
STAGE = Label("stage", tuple(Stage))
FINISH_REASON = Label("finish_reason", tuple(Finish))
STATE = Label("state", ("waiting", "streaming"))
OBJECTIVE = Label("objective", tuple(Objective))
PER_OBJECTIVE = (LANE, PROMPT_BUCKET, OBJECTIVE)
PARTED_PHASE = Label("phase", PARTED)
PHASE_PART = Label("part", (*Part, REST))
PARTS_TOGETHER = (*((phase, part) for part, phase in PHASE_OF_PART.items()), *((phase, REST) for phase in PARTED))
BLAMED_PHASE = Label("phase", tuple(Blame))
MISSED_TOGETHER = tuple((objective, phase) for objective, phases in PARTS.items() for phase in phases)
BLAMED_TOGETHER = tuple((objective, phase) for objective, phases in VOTES.items() for phase in phases)
ROOT_PHASE = Label("phase", ROOT_PHASES)
ROOT_CAUSE = Label("cause", tuple(cause for _, cause in ROOTS))
ROOT = (ROOT_PHASE, ROOT_CAUSE)
PER = Label("per", tuple(Per))
RATIO_CAUSES = tuple(map(str, SIZED_PER))
"""Causes that are a ratio to a usual value."""

PHASES_TOGETHER = (
    *(("true", phase, "engine") for phase in ("queue", "prefill", "decode")),
    *(("true", phase, source) for phase in ("queue", "prefill") for source in ("derived", "estimated")),
    *(("true", phase, "derived") for phase in ("first_token", "stream")),
    *(("true", phase, "wire") for phase in ("unattributed", "decode", "stream")),
    ("true", "unattributed", "derived"),
    *(("false", phase, "engine") for phase in ("queue", "prefill", "decode")),
    *(("false", phase, "derived") for phase in ("queue", "prefill")),
    *(("false", "unattributed", source) for source in ("derived", "wire")),
)
"""All combinations that the ledger can produce; a test with arbitrary reports finds no other. The product has 48."""

_REPORTED = (Reason.IN_BAND, Reason.LATE_REPORT)
ATTRIBUTIONS_TOGETHER = (
    *((source, reason) for source in ("engine", "derived") for reason in _REPORTED),
    ("engine", Reason.SPAN_ALONE),
    ("estimated", Reason.ESTIMATED),
    *(("none", reason) for reason in Reason if reason not in (*_REPORTED, Reason.SPAN_ALONE, Reason.ESTIMATED)),
)
UNKNOWN_LENGTHS = ("unread_body", "encoded_body", "not_text", "no_scale")
"""Reasons why the length of a prompt is not known: the body is longer than the look-in bound, or no JSON; it is compressed, and could not be
read; it has media, or refers to text that the server keeps; the engine has not counted enough prompts of this model."""
SPAN_RESULTS = ("taken", "unknown", "rejected", "forwarded")
"""Results for a span that an engine sent; a forwarded one is also one of the first two."""
OVERFLOWING = (
    *("lane", "model", "prompt_bucket", "streaming", "phase", "source", "outcome", "stage", "state"),
    *("provisional", "api", "proof", "kind", "reason", "result", "side", "engine", "version"),
    *("python_version", "label", "objective", "part", "budget", "cause", "per", "finish_reason", "series"),
)
"""Every label of the catalogue whose values are not this process's alone, and `series`: the limit of series was reached."""

# --- requests ------------------------------------------------------------------------------------------------------------

# used: of a stream whose engine reports: each phase from one source
REQUEST_PHASE_SECONDS = Histogram(
    "llm_request_phase_seconds",
    (*PER_LENGTH, STREAMING, PHASE, SOURCE),
    LATENCY_BUCKETS,
    together=PHASES_TOGETHER,
    used=5,
).says("""
    Seconds that an inference request with outcome ok spent in one phase. The phases of a request add up to its
    llm_request_seconds. Label source names who measured: engine (it reported this very request), wire (the sidecar),
    derived (a difference) or estimated. A phase that no source can tell is absent; its time is in unattributed.""")
REQUEST_PHASE_PART_SECONDS = Histogram(
    "llm_request_phase_part_seconds",
    (*PER_LANE, PARTED_PHASE, PHASE_PART),
    LATENCY_BUCKETS,
    together=PARTS_TOGETHER,
    used=0,
).says("""
    Seconds that an inference request with outcome ok spent in one part of a phase, of requests whose engine states a
    part of it. A phase's parts and its rest add up to the seconds of the phase. Of the queue: router (before a worker
    got the request), prefill_queue and decode_admission (at the worker of each); of the prefill: compute; of
    first_token: kv_transfer (an upper bound where docs/engines.md says so). decode_admission is estimated.""")
TIME_TO_FIRST_TOKEN_SECONDS = Histogram("llm_time_to_first_token_seconds", PER_LENGTH, LATENCY_BUCKETS).says("""
    Seconds from the last byte of the request body to the first event with output, of streamed inference requests that
    got one, whatever their outcome; not of transcriptions. Measured by the sidecar.""")
TIME_TO_FIRST_OUTPUT_TOKEN_SECONDS = Histogram(
    "llm_time_to_first_output_token_seconds", PER_LANE, LATENCY_BUCKETS, wire=True
).says("""
    Seconds from the last byte of the request body to the first event with output that is no reasoning, of streamed
    inference requests that got one, whatever their outcome; not of transcriptions. llm_time_to_first_token_seconds ends
    at the first output of any kind: for a model that reasons, a reader waits for this one. Measured by the sidecar.""")
INTER_TOKEN_SECONDS = Histogram("llm_inter_token_seconds", PER_LANE, INTER_TOKEN_BUCKETS, wire=True).says("""
    Seconds between two consecutive output events of one choice, of streamed inference requests. Every gap is counted
    when it ends. An event may carry several tokens. Measured by the sidecar.""")
TIME_PER_OUTPUT_TOKEN_SECONDS = Histogram("llm_time_per_output_token_seconds", PER_LANE, INTER_TOKEN_BUCKETS).says("""
    Seconds per output token after the first, of streamed inference requests with outcome ok, one choice and at least
    two tokens by the engine's usage: (last token - first token) / (completion tokens - 1). Undefined, and not counted,
    where all output came at one instant or the answer was held back (llm_answers_held_back_total).""")
REQUEST_SECONDS = Histogram("llm_request_seconds", (*PER_LENGTH, STREAMING), LATENCY_BUCKETS, used=1).says("""
    Seconds from the last byte of the request body until the client's socket took the last byte of the answer, of
    inference requests with outcome ok. The denominator for mean seconds per phase. Measured by the sidecar.""")
REQUEST_UPLOAD_SECONDS = Histogram("llm_request_upload_seconds", (LANE,), SHORT_BUCKETS, wire=True).says("""
    Seconds from the first byte of the request head to the last byte of its body, of inference requests that arrived
    whole. It is the client's time and belongs to no phase. Measured by the sidecar.""")
ENGINE_CONNECT_SECONDS = Histogram("llm_engine_connect_seconds", (LANE,), SHORT_BUCKETS, wire=True).says("""
    Seconds to open a connection to the engine, of inference requests that needed a new one. Measured by the
    sidecar.""")
KV_TRANSFER_SECONDS = Histogram("llm_kv_transfer_seconds", PER_LANE, SHORT_BUCKETS, used=0).says("""
    Seconds that a disaggregated engine took to move the KV cache of one request between its workers, of inference
    requests with outcome ok whose engine reported it and whose report was accepted. These seconds are already included
    in a phase; docs/engines.md names it for each engine.""")
REASONING_SECONDS = Histogram("llm_reasoning_seconds", PER_LANE, LATENCY_BUCKETS, used=0).says("""
    Seconds from the first token of reasoning until the first token of the content, of inference requests with outcome
    ok, streamed or not, whose engine timed both (docs/engines.md says which ones do). They are a part of decode, also
    where the reasoning is not sent. Stated by the engine.""")
PROMPT_TOKENS = Histogram("llm_prompt_tokens", PER_LANE, TOKEN_BUCKETS).says("""
    Prompt tokens, cached ones included, of inference requests with outcome ok whose usage the engine stated. The
    histogram's sum counts the tokens.""")
STATED_PROMPTS_TOTAL = Counter("llm_stated_prompts_total", PER_LANE, lean=True).says("""
    Inference requests with outcome ok whose prompt tokens the engine's usage stated: those of llm_prompt_tokens, as a
    counter for rules.""")
STATED_PROMPT_TOKENS_TOTAL = Counter("llm_stated_prompt_tokens_total", PER_LANE, lean=True).says("""
    Prompt tokens, cached ones included, of the requests in llm_stated_prompts_total.""")
OUTPUT_TOKENS = Histogram("llm_output_tokens", PER_LANE, TOKEN_BUCKETS).says("""
    Generated tokens, reasoning included, of inference requests with outcome ok whose usage the engine stated. The
    histogram's sum counts the tokens.""")
REASONING_TOKENS = Histogram("llm_reasoning_tokens", PER_LANE, TOKEN_BUCKETS, used=0).says("""
    Generated tokens that are reasoning, of inference requests with outcome ok whose engine stated how many are, from a
    model's first answer with reasoning on: before it a stated 0 may say that nothing is counted. They are also in
    llm_output_tokens. Stated in the engine's usage.""")
ANSWER_TOKENS = Histogram("llm_answer_tokens", PER_LANE, TOKEN_BUCKETS, used=0).says("""
    Generated tokens that are no reasoning (content, tool calls, marks between the parts), of the requests of
    llm_reasoning_tokens. Both add up to the requests' llm_output_tokens.""")
CACHED_PROMPT_TOKENS_TOTAL = Counter("llm_cached_prompt_tokens_total", PER_LANE).says("""
    Prompt tokens taken from the engine's prefix cache, of inference requests with outcome ok. Stated in the engine's
    usage.""")
REQUESTS_TOTAL = Counter("llm_requests_total", (*PER_LENGTH, OUTCOME), lean=True).says("""
    Inference requests that ended, each with exactly one outcome. The prompt bucket follows the prompt length in the
    engine's usage, else a calibrated estimate, else it is unknown; of an engine that counts no tokens (docs/engines.md)
    it is that of the text, at four bytes a token.""")
REQUESTS_IN_FLIGHT = Gauge("llm_requests_in_flight", (*PER_LANE, STATE), lean=True, wire=True).says("""
    Inference requests inside the sidecar now. waiting: no output yet, or not streamed; streaming: a stream with
    output.""")
OLDEST_REQUEST_SECONDS = Gauge("llm_oldest_request_seconds", (*PER_LANE, STATE), lean=True, wire=True).says("""
    Age in seconds, since the first byte of its head, of the oldest inference request in this state now; 0 if there is
    none.""")
CLIENT_CANCELS_TOTAL = Counter("llm_client_cancels_total", (*PER_LANE, STAGE), lean=True, wire=True).says("""
    Inference requests whose client left before the end, by the stage that they had reached. They are neither successes
    nor errors.""")
STREAM_PAUSED_SECONDS_TOTAL = Counter("llm_stream_paused_seconds_total", (LANE,), wire=True).says("""
    Seconds between first and last token for which the sidecar did not read from the engine because the client did not
    keep up, of streamed inference requests, added when each ends.""")
STREAM_EVENTS_PER_READ = Histogram("llm_stream_events_per_read", (LANE,), EVENTS_PER_READ_BUCKETS, wire=True).says("""
    Output events that arrived in one read, of streamed inference requests. If there are many in one read, something
    before the sidecar merges or buffers the stream.""")
STREAM_READS_TOTAL = Counter(
    "llm_stream_reads_total", (LANE, Label("result", ("few", "many"))), lean=True, wire=True
).says(f"""
    Reads that brought output events, of streamed inference requests, by the number of events: few (at most
    {FEW_EVENTS:g}) or many. Those of llm_stream_events_per_read, as a counter for rules.""")
ANSWERS_HELD_BACK_TOTAL = Counter("llm_answers_held_back_total", PER_LANE, wire=True).says("""
    Streamed inference requests with outcome ok whose tokens came at once: the output events span less time than any
    engine takes for so many tokens, by the engine's usage or the number of events. Their time per output token is
    undefined, their decode is unattributed, and nothing is learned from their time to first token.""")
# used: stop, length and tool calls are there from the start
ANSWERS_TOTAL = Counter("llm_answers_total", (*PER_LANE, FINISH_REASON), used=3, lean=True, wire=True).says("""
    Inference requests with outcome ok, by the finish reason that their answer states; of several choices the first one
    that is stated. length: the answer was cut at a limit of tokens; repetition: the engine ended it because it repeated
    itself, which some engines do for requests that ask for it; other: the server stated another word; unknown: it
    stated none, or the answer could not be read.""")
# used: cancelled ones, in most lanes
UNFINISHED_OUTPUT_TOKENS_TOTAL = Counter(
    "llm_unfinished_output_tokens_total", (*PER_LANE, OUTCOME, Label("source", ("usage", "events"))), used=2, wire=True
).says("""
    Output tokens of inference requests that did not end well: cancelled, cut, failed. By the engine's usage if it came
    (source usage), else the events with output (source events), each of which has one token or more.""")
EMPTY_ANSWERS_TOTAL = Counter("llm_empty_answers_total", PER_LANE, lean=True, wire=True).says("""
    Inference requests with outcome ok whose answer says nothing: no text, no reasoning and no tool call, at most an end
    mark. Only answers that were read whole.""")
# used: one API or two, and what proves their answers
ANSWER_PROOFS_TOTAL = Counter(
    "llm_answer_proofs_total", (Label("api", API_NAMES), Label("proof", tuple(Proof))), used=4, wire=True
).says("""
    Answers of inference requests that ended well by their HTTP framing, or whose end mark came, by API and by what
    proves that they are whole. unproved: no mark came, and this engine was not seen to set any. framing: the API has
    none, or the answer was not read. cut_behind_mark: the last bytes of the framing are missing. All these have outcome
    ok. missing: a mark that this engine sets is missing, and the outcome is engine_truncated.""")
PHASE_ATTRIBUTION_TOTAL = Counter(
    "llm_phase_attribution_total",
    (LANE, Label("source", (*tuple(Source), "none")), Label("reason", tuple(Reason))),
    together=ATTRIBUTIONS_TOGETHER,
    lean=True,
).says("""
    Inference requests with outcome ok, by the source that split the time before the first token. With source none it
    was not split; reason says why.""")
PASSTHROUGH_REQUESTS_TOTAL = Counter("llm_passthrough_requests_total", (OUTCOME,), wire=True).says("""
    Requests that are not inference (health, models, tokenize, ...). They have no lane and no objective.""")
VERIFY_PROBES_TOTAL = Counter(
    "llm_sidecar_verify_probes_total", (Label("result", ("apart", "as_usual")),), lean=True, wire=True
).says("""
    Inference requests with the header x-llm-phase-sidecar-verify, which `sidecar verify` sends. apart: outside all
    lanes, objectives and gauges of lanes. as_usual: more of them came than a few runs send, so they count as every
    other request.""")

LANES_BY_LENGTH_TOTAL = Counter(
    "llm_lanes_by_length_total", (Label("result", ("held", "contradicted")),), wire=True
).says("""
    Inference requests of a config whose lanes depend on the length of the prompt, by whether the length that usage
    states gives the same lane (held) as the one that was known when they came (contradicted). Only requests whose usage
    states it.""")
UNCOUNTED_INFERENCE_TOTAL = Counter("llm_uncounted_inference_total", (Label("kind", UNCOUNTED_KINDS),), wire=True).says("""
    Requests that passed and were not counted as inference, although they look like it: a POST that was answered by an
    event stream, a websocket on an inference path, or media (speech and pictures). The log names their paths;
    engine.paths.add counts those of event streams, and engine.paths.exclude leaves the others out.""")

# --- the engine ----------------------------------------------------------------------------------------------------------

ENGINE_UP = Gauge("llm_engine_up", lean=True).says("""
    1 while the engine answers its health checks; 0 once it refuses connections or states that it cannot work. A silent
    engine counts as busy (1) until it has missed three checks and sent no byte on any connection for 15 s. 0 also while
    llm_engine_stalled is 1. Absent before the first check.""")
ENGINE_STALLED = Gauge("llm_engine_stalled", lean=True, wire=True).says("""
    1 while the engine has stopped in the middle of its work: it answers its health checks, streams are read from it,
    and it is silent for longer than its pending work explains (more than 8 s and more than 3 x
    llm_engine_silence_expected_seconds). It stays 1 until output comes, its own counts of work grow, it restarts, or 75
    s have passed since the last silent request left. 0 also while that cannot be known.""")
ENGINE_REQUESTS_WAITING = Gauge("llm_engine_requests_waiting", lean=True).says("""
    Requests in the engine's queue, by the engine's own metrics, summed over ranks.""")
ENGINE_REQUESTS_RUNNING = Gauge("llm_engine_requests_running", lean=True).says("""
    Requests that the engine is executing, by the engine's own metrics, summed over ranks.""")
ENGINE_KV_CACHE_USAGE_RATIO = Gauge("llm_engine_kv_cache_usage_ratio", lean=True).says("""
    Share of the engine's KV cache in use, 0 to 1, of its fullest rank, by the engine's own metrics.""")
ENGINE_PREFIX_CACHE_QUERIES_TOTAL = Counter("llm_engine_prefix_cache_queries_total", lean=True).says(f"""
    Prefix cache queries that the engine counted since the sidecar started, in
    tokens{remarks_on(Count.PREFIX_CACHE_QUERIES)}.""")
ENGINE_PREFIX_CACHE_HITS_TOTAL = Counter("llm_engine_prefix_cache_hits_total", lean=True).says(f"""
    Prefix cache hits that the engine counted since the sidecar started, in
    tokens{remarks_on(Count.PREFIX_CACHE_HITS)}.""")
ENGINE_PREEMPTIONS_TOTAL = Counter("llm_engine_preemptions_total", lean=True).says(f"""
    Preemptions of requests that the engine counted since the sidecar started{remarks_on(Count.PREEMPTIONS)}.""")
ENGINE_DRAFT_TOKENS_TOTAL = Counter("llm_engine_draft_tokens_total").says(f"""
    Tokens that speculative decoding proposed, as the engine counted them since the sidecar
    started{remarks_on(Count.DRAFT_TOKENS)}. Absent where the engine states none.""")
ENGINE_ACCEPTED_DRAFT_TOKENS_TOTAL = Counter("llm_engine_accepted_draft_tokens_total").says("""
    Tokens of llm_engine_draft_tokens_total that the model accepted. The fewer, the less speculation helps; a new model
    with an old draft shows here.""")
ENGINE_RESTARTS_TOTAL = Counter("llm_engine_restarts_total", lean=True).says("""
    Restarts of the engine that the sidecar noticed: its counters or its start time fell back.""")
ENGINE_INFO = Info(
    "llm_engine_info",
    (
        Label("engine", tuple(KINDS)),
        Label("version", told_by="the engine, at most 8 versions in a process's life", most=8),
    ),
    used=1,
    lean=True,
).says("""
    Always 1. The labels name the kind of engine and the version that the engine states.""")
ENGINE_LABEL_MISMATCH = Gauge("llm_engine_label_mismatch", (Label("label", ("quantization", "gpu_type")),)).says("""
    1 if the engine now states another value for this label than the value on every series; 0 if the same. The value on
    the series is fixed at the first scrape of this page that has requests on it. Absent where the config sets the label
    or the engine states none.""")
ENGINE_SCRAPES_TOTAL = Counter(
    "llm_engine_scrapes_total",
    (Label("result", ("ok", "unreachable", "timeout", "bad_status", "too_large", "unreadable", "no_names")),),
).says("""
    Scrapes of the engine's own metrics by the sidecar, by result. no_names: the page is whole, and has none of the
    names that are read (yet).""")
ENGINE_TRAFFIC_SEEN_RATIO = Gauge("llm_engine_traffic_seen_ratio", lean=True, wire=True).says("""
    Inference requests with outcome ok at the sidecar (each choice of a request counts) over requests that the engine
    counted as done, in the last ten minutes of the engine's metrics. Below 1, clients bypass the sidecar or use an API
    that it does not measure. Absent until the engine has counted 100 requests, and 4 for each one in flight.""")
ENGINE_REPORT_AGREEMENT_RATIO = Gauge(
    "llm_engine_report_agreement_ratio", (Label("phase", ("queue", "prefill", "decode")),), lean=True, wire=True
).says("""
    Seconds of a phase that the engine reported request by request, over the growth of the engine's own sum for that
    phase, in the last ten minutes of its metrics. 1 is agreement. Requests and choices without a report took something
    between nothing and their time on the wire: the nearest of these is taken off the sum. Absent while they may have
    taken more than half of it. Below 1, requests bypass the sidecar, or reports say too little.""")

# --- the estimator -------------------------------------------------------------------------------------------------------

ESTIMATOR_READY = Gauge("llm_estimator_ready", (MODEL,)).says("""
    1 if the estimator can split the time to first token of a request of this model without an engine report, at prompt
    lengths that it has seen; else 0. Absent if the estimator is switched off, and until the models are known.""")
ESTIMATOR_SAMPLES = Gauge("llm_estimator_samples", (MODEL,)).says("""
    Requests of this model that the estimator keeps as samples: those whose prefill the engine reported and those that
    did not queue, each limited per class of prompt length.""")
ESTIMATOR_ANSWERS_TOTAL = Counter(
    "llm_estimator_answers_total",
    (MODEL, Label("result", ("answered", *(refusal for refusal in Refusal if refusal is not Refusal.NO_TOKEN)))),
).says("""
    Streamed inference requests with outcome ok and a first token, by the estimator's result: answered (it could tell
    how much of the time to first token was prefill) or the reason why not. Requests with an engine report are counted
    too; their estimate is not used.""")
ESTIMATOR_ERROR_SECONDS = Histogram(
    "llm_estimator_error_seconds", (MODEL, Label("side", ("over", "under"))), SHORT_BUCKETS
).says("""
    Absolute difference in seconds between the estimated prefill and the prefill that the engine reported, of streamed
    inference requests with outcome ok that have both. Label side says whether the estimate was over or under. The
    estimate includes the engine's front end.""")
ESTIMATOR_VERDICTS_TOTAL = Counter("llm_estimator_verdicts_total", (MODEL, Label("result", ("right", "wrong")))).says("""
    The requests of llm_estimator_error_seconds, by whether the estimate names the same longer phase as the engine's
    report, queue or prefill.""")
ESTIMATOR_INTERVALS_TOTAL = Counter(
    "llm_estimator_intervals_total", (MODEL, Label("result", ("inside", "below", "above")))
).says("""
    The requests of llm_estimator_error_seconds, by whether the engine's prefill lies inside the estimate's interval of
    80 %, below it or above it.""")

# --- objectives ----------------------------------------------------------------------------------------------------------

SLO_REQUESTS_TOTAL = Counter("llm_slo_requests_total", (*PER_LENGTH, OBJECTIVE), lean=True).says("""
    Inference requests that count for an objective, counted when it is decided whether they meet it: at the first token
    or the deadline (ttft), at the end (tpot), at the end or the deadline (e2e, stall). A client's error or cancel
    counts only if the deadline had passed before. An answer that cannot be read (compressed) does not count. The prompt
    bucket is the one estimated at arrival. Of the gaps in a stream's output, docs/configuration.md says which count for
    stall.""")
# used: the fallbacks of few requests
SLO_UNJUDGED_REQUESTS_TOTAL = Counter(
    "llm_slo_unjudged_requests_total", (*PER_LANE, OBJECTIVE, Label("reason", UNKNOWN_LENGTHS)), used=1
).says("""
    Inference requests that were not judged by this objective, because the length of their prompt is not known and would
    decide: they were later than the threshold of the shortest prompt that it may be, and not later than that of the
    longest. They are in no other counter of objectives. reason says why the length is not known.""")
SLO_MISSES_TOTAL = Counter("llm_slo_misses_total", (*PER_LENGTH, OBJECTIVE), lean=True).says("""
    Requests of llm_slo_requests_total that missed their objective, counted when the deadline passes, whether or not the
    request ever ends. Requests that the engine failed or that were rejected count as missed.""")
SLO_ALLOWED_MISSES_TOTAL = Counter("llm_slo_allowed_misses_total", (*PER_LENGTH, OBJECTIVE), lean=True).says("""
    Error budget of the requests in llm_slo_requests_total: each adds 1 - target. llm_slo_misses_total over this is the
    burn rate, also across prompt buckets with different targets.""")
SLO_BLAMED_MISSES_TOTAL = Counter(
    "llm_slo_blamed_misses_total", (*PER_LANE, OBJECTIVE, BLAMED_PHASE), together=BLAMED_TOGETHER, lean=True
).says("""
    Misses by the phase to which each is attributed, counted when the request's ledger is closed, which may be long
    after the miss. The phase says where the request waited; the cause may lie elsewhere. A request that was given up,
    has no report or was measured while the sidecar's own loop was late counts as unattributed, one that the engine
    failed as engine, a rejected one as queue.""")
SLO_MISSED_PHASE_SECONDS_TOTAL = Counter(
    "llm_slo_missed_phase_seconds_total", (*PER_LANE, OBJECTIVE, PHASE), together=MISSED_TOGETHER
).says("""
    Seconds of each phase within the latency that missed, of requests with outcome ok that missed their objective,
    counted when the request's ledger is closed: of ttft the time to the first token, of tpot the time from the first to
    the last token, of e2e the whole answer; of stall none, because no ledger divides one gap. The phases of one
    objective add up to that latency, and sums over pods are exact: a phase's share is its seconds over those of all
    phases. Requests that failed have no ledger and are not in it.""")
SLO_ROOT_MISSES_TOTAL = Counter("llm_slo_root_misses_total", (*PER_LANE, OBJECTIVE, ROOT_PHASE), lean=True).says("""
    Misses by the phase of their root: what broke on this pod during the request's life. A miss is decided at the end of
    its request, at 15 s after the miss, or as soon as evidence is clear. One miss adds 1 in sum and may be divided, so
    values are not whole numbers. llm_slo_misses_total equals the sum over phases plus llm_slo_undecided_misses.""")
SLO_UNDECIDED_MISSES = Gauge("llm_slo_undecided_misses", (*PER_LANE, OBJECTIVE), lean=True).says("""
    Misses of llm_slo_misses_total whose root is not decided yet; each is for at most 15 s and the second to the next
    look.""")
SLO_ROOT_CAUSE_MISSES_TOTAL = Counter(
    "llm_slo_root_cause_misses_total", (MODEL, *ROOT), together=ROOTS, lean=True
).says("""
    The misses of llm_slo_root_misses_total by phase and cause, over all lanes and objectives. The causes of
    unattributed are reasons: young (no baseline yet), unclear (evidence for nothing, or for several causes alike).""")
SLO_THRESHOLD_SECONDS = Gauge("llm_slo_threshold_seconds", PER_OBJECTIVE).says("""
    Threshold of an objective in seconds, from the config in force.""")
SLO_TARGET_RATIO = Gauge("llm_slo_target_ratio", PER_OBJECTIVE).says("""
    Target of an objective: the share of requests that must meet the threshold, 0 to 1, from the config in force.""")
REQUESTS_OVERDUE = Gauge("llm_requests_overdue", PER_LANE, lean=True, wire=True).says("""
    Streamed inference requests in flight that have no token yet and are past their TTFT threshold now.""")
GOOD_REQUESTS_TOTAL = Counter("llm_good_requests_total", PER_LENGTH, lean=True).says("""
    Inference requests with outcome ok that met every objective of their lane and prompt length (goodput). Lanes without
    objectives are not counted; embeddings and the like of the others are, which have no objective by default.""")
GOOD_OUTPUT_TOKENS_TOTAL = Counter("llm_good_output_tokens_total", PER_LENGTH).says("""
    Generated tokens of the requests in llm_good_requests_total, from the usage in the answer, if there is one.""")
TOKEN_DEADLINES_TOTAL = Counter("llm_token_deadlines_total", PER_LANE, wire=True).says("""
    Output events of streams that have both a ttft and a tpot objective, counted when the stream ends. Each event has a
    deadline. An event may carry several tokens.""")
TOKEN_DEADLINE_MISSES_TOTAL = Counter("llm_token_deadline_misses_total", PER_LANE, wire=True).says("""
    Events of llm_token_deadlines_total that came after their deadline. The first is due at the TTFT threshold, each
    later one a TPOT threshold after the deadline before it. After a late event, the next one is due a TPOT threshold
    after that event.""")

# --- evidence ------------------------------------------------------------------------------------------------------------

REQUESTS_RECEIVED_TOTAL = Counter("llm_requests_received_total", PER_LANE, lean=True).says("""
    Inference requests whose body arrived whole, counted at arrival. This is the present load; counters of ended
    requests follow later.""")
RECEIVED_MEASURED_REQUESTS_TOTAL = Counter("llm_received_measured_requests_total", PER_LANE).says("""
    Requests of llm_requests_received_total whose prompt length was known or could be estimated at arrival.""")
RECEIVED_PROMPT_TOKENS_TOTAL = Counter("llm_received_prompt_tokens_total", PER_LANE).says("""
    Prompt tokens of the requests in llm_received_measured_requests_total: counted if the request states token ids, else
    estimated from its text and calibrated on past usage.""")
UNCACHED_PROMPT_TOKENS_TOTAL = Counter("llm_uncached_prompt_tokens_total", PER_LANE).says("""
    Prompt tokens that the engine had to compute, of inference requests with outcome ok whose usage states how many
    tokens were cached (those are in llm_cached_prompt_tokens_total).""")
PREFILL_OWN_SECONDS_TOTAL = Counter("llm_prefill_own_seconds_total", (MODEL,)).says("""
    Seconds during which at least one prompt was in prefill; overlapping prefills are counted once. Holds streamed
    requests with outcome ok, by the engine's report; without a report, by the TTFT of requests that did not queue. Only
    prompts whose expected cost is known.""")
PREFILL_EXPECTED_SECONDS_TOTAL = Counter("llm_prefill_expected_seconds_total", (MODEL,)).says("""
    Expected prefill seconds of the prompts in llm_prefill_own_seconds_total, each taken alone: an estimate from a
    function of uncached prompt length, learned while objectives are met. If own over expected rises above its past,
    prefill has become slower.""")
ENGINE_SILENCE_SECONDS = Gauge("llm_engine_silence_seconds", wire=True).says("""
    Seconds since the engine last sent output, while the sidecar reads at least one stream; else 0. Output of a request
    that is not streamed, is compressed or is probably held back, as the last ones of its lane were, cannot be seen as
    it comes. While such a request is in flight and no stream has begun, the value is 0 for as long as its whole answer
    may take (the lane's e2e threshold; 60 s without one), counted from the last output or the last such answer.""")
ENGINE_SILENCE_EXPECTED_SECONDS = Gauge("llm_engine_silence_expected_seconds", wire=True).says("""
    Seconds of prefill work that were pending when the present silence began: an estimate; 0 if there is no silence. A
    prompt whose cost is unknown counts as the slowest of at least 30 that were learned from, longer ones in proportion,
    and as 20 s before; all such prompts together count as 20 s at most, or as the slowest of them if that is more.""")
ENGINE_STALLED_SECONDS_TOTAL = Counter("llm_engine_stalled_seconds_total", lean=True, wire=True).says("""
    Seconds for which llm_engine_silence_seconds was above 8 and also above 3 x llm_engine_silence_expected_seconds.""")

EVIDENCE_RATIO = Gauge("llm_evidence_ratio", (Label("cause", RATIO_CAUSES),), lean=True).says("""
    How many times its usual value each cause shows now: load (arrivals a second) over the last minute; longer_outputs
    (output tokens of an answer that ended in the last minute or, if they are clearly more, the output events of streams
    over what both the requests that came and the streams that ended usually bring, in the last 20 s, the last 60 s or
    since the queue began that stood in the last minute), prompt_mix (prompt tokens a request), uncached (uncached
    prompt tokens, as far as the cache explains them), prefill_cost and decode_cost (the same work) over the last 20 s
    or the last 60 to 90 s, whichever shows a change more clearly. Costs come from steps or, where these say nothing,
    from reported prefills and the gaps between tokens. The usual value is learned while no objective burns: an
    estimate. Absent while unknown.""")
# used: one at a time
INCIDENT_AGE_SECONDS = Gauge("llm_incident_age_seconds", ROOT, together=ROOTS, used=1, lean=True).says("""
    Seconds since the present incident of this pod began: misses above the budget, with this leading root or, where none
    leads, the one with most of the misses or the reason for which it is not known. Absent while there is none.""")
INCIDENT_SHOWN_AGE_SECONDS = Gauge("llm_incident_shown_age_seconds", ROOT, together=ROOTS, used=1).says("""
    Seconds since a miss last showed the root of the present incident by evidence of its own. Misses after it only wait
    behind what the root left, or have another root. Absent without an incident, and while its root is not known.""")
INCIDENT_CONFIDENCE_RATIO = Gauge("llm_incident_confidence_ratio", ROOT, together=ROOTS, used=1, lean=True).says("""
    Share, 0 to 1, that the phase of the present incident's root has in the decided misses of this pod, mostly of the
    minute before llm_incident_shown_age_seconds, whose value it keeps. Absent without an incident, and while its root
    is not known.""")
INCIDENT_SIZE_RATIO = Gauge("llm_incident_size_ratio", (*ROOT, PER), together=SIZED_ROOTS, used=1, lean=True).says("""
    How many times its usual value the cause of the present incident's root was while misses showed it: the upper
    quartile of llm_evidence_ratio over the last 5 minutes in which they did. So it stays as it is while a backlog
    drains, until the incident is over. per: the unit of the work; step instead of token where nothing tells how many
    tokens a step gives. Absent for a cause that is no ratio, and below the ratio from which a cause is named (1.12 to
    1.2).""")
INCIDENT_SIZE_RATIO_LOW = Gauge("llm_incident_size_ratio_low", (*ROOT, PER), together=SIZED_ROOTS, used=1).says("""
    Lower end of the interval of llm_incident_size_ratio, an estimate of 95 %.""")
INCIDENT_SIZE_RATIO_HIGH = Gauge("llm_incident_size_ratio_high", (*ROOT, PER), together=SIZED_ROOTS, used=1).says("""
    Upper end of the interval of llm_incident_size_ratio, an estimate of 95 %.""")
BASELINE_INFO = Info(
    "llm_baseline_info", (Label("source", tuple(Came)), Label("provisional", ("false", "true"))), used=1
).says("""
    Always 1. source: where the usual values of this pod came from: process (learned by this process), state (an earlier
    process of this pod, from state.directory), file (another pod, from baseline.file), none (nothing is usual yet).
    provisional=true: they were learned in the calmest tenth of a burn of an hour or more.""")

_PART = Label("part", tuple(cost_names.Part))
ENGINE_COST_RATIO = Gauge("llm_engine_cost_ratio", (_PART,), wire=True).says("""
    Cost of the engine's work now over its cost while no objective burned, from the instants at which streams speak:
    an estimate. part=decode: a step of the same sequences and contexts, over the last minute or 1,024 steps (the last
    3 s if each of them is clearly dearer, 10 s where prompts are in all steps); part=prefill: the same uncached
    prompt tokens, over the last 90 s. Where several fits of the calm time are about as good and differ for the
    present work, by the one by which least has changed; the interval holds all. Absent while unknown: see
    llm_engine_cost_unknown.""")
ENGINE_COST_RATIO_LOW = Gauge("llm_engine_cost_ratio_low", (_PART,), wire=True).says("""
    Lower end of the interval of llm_engine_cost_ratio, an estimate of 95 %. Well above 1: the work is dearer than it
    was.""")
ENGINE_COST_RATIO_HIGH = Gauge("llm_engine_cost_ratio_high", (_PART,), wire=True).says("""
    Upper end of the interval of llm_engine_cost_ratio, an estimate of 95 %.""")
ENGINE_COST_UNKNOWN = Gauge(
    "llm_engine_cost_unknown", (_PART, Label("reason", tuple(cost_names.Unpriced))), wire=True
).says("""
    1 for the reason for which llm_engine_cost_ratio is absent, else 0. young: too few steps or prompts to know the
    usual cost; residuals: steps of the same shape take different times, or prompts share no steps with decodes;
    coverage: streams do not speak at each step (several schedulers behind one port, several tokens in an event), or the
    engine runs more requests than the sidecar has sent it (less than 80 % of them pass it); few: too few steps or
    prompts now, or prompts in all steps.""")
ENGINE_STEP_COST_SECONDS = Gauge("llm_engine_step_cost_seconds", wire=True).says(f"""
    Estimated seconds of one decode step of {TYPICAL_SEQUENCES} sequences with {TYPICAL_CONTEXT} tokens of context each,
    as dear as steps are now: the same shape on each pod, so that pods can be compared. Absent while unknown, as where
    the batches of calm times do not tell it.""")

# --- the sidecar itself --------------------------------------------------------------------------------------------------

SIDECAR_BUILD_INFO = Info(
    "llm_sidecar_build_info",
    (
        Label("version", told_by="the sidecar", fallback=UNKNOWN, most=1),
        Label("python_version", told_by="the interpreter", fallback=UNKNOWN, most=1),
        Label("build", BUILDS),
        Label("profile", get_args(Profile)),
    ),
    used=1,
    lean=True,
).says("""
    Always 1. The labels name the version of the sidecar, of the Python that runs it, its build, and metrics.profile:
    with lean, most of the catalogue is not on this page.""")
EVENT_LOOP_LAG_SECONDS = Histogram("llm_sidecar_event_loop_lag_seconds", (), LOOP_LAG_BUCKETS).says("""
    Seconds by which a periodic timer of the event loop fired late: bytes may have waited as long in the sidecar.""")
EVENT_LOOP_CHECKS_TOTAL = Counter(
    "llm_sidecar_event_loop_checks_total", (Label("result", ("in_time", "late", "very_late")),), lean=True
).says(f"""
    Timers of llm_sidecar_event_loop_lag_seconds, by their lag: late (above {LATE_TIMER_SECONDS * 1000.0:g} ms),
    very_late (above {VERY_LATE_TIMER_SECONDS * 1000.0:g} ms), or in_time. A counter for rules.""")
OVERHEAD_SECONDS = Histogram("llm_sidecar_overhead_seconds", (), OVERHEAD_BUCKETS, wire=True).says("""
    Seconds from the return of the read to the return of the write of the same response bytes, of 1 read in 64.""")
TIMED_READS_TOTAL = Counter(
    "llm_sidecar_timed_reads_total", (Label("result", ("in_time", "late")),), lean=True, wire=True
).says(f"""
    Reads of llm_sidecar_overhead_seconds, which are 1 in 64, by the time until their bytes were written: late (above
    {LATE_READ_SECONDS * 1000.0:g} ms) or in_time. A counter for rules.""")
CONFIG_LAST_RELOAD_SUCCESSFUL = Gauge("llm_sidecar_config_last_reload_successful", lean=True).says("""
    1 if the last load of the config succeeded, and that of the file in web.config_file; 0 if one was refused, so that
    its previous content stays in force.""")
CONFIG_LAST_RELOAD_SUCCESS_TIMESTAMP_SECONDS = Gauge(
    "llm_sidecar_config_last_reload_success_timestamp_seconds", lean=True
).says("""
    Unix time, in seconds, of the last successful load of the config.""")
SIDECAR_TIME_SECONDS = Gauge("llm_sidecar_time_seconds", lean=True).says("""
    Unix time by the clock of this pod. sidecar doctor compares it with Prometheus' clock, and rules reckon the
    process's age by it.""")
READY = Gauge("llm_sidecar_ready", lean=True).says("""
    1 while /-/ready answers 200, else 0.""")
WITHOUT_PROXY = Gauge("llm_sidecar_without_proxy", lean=True).says("""
    1 with --no-proxy, where no request passes this sidecar and each is counted from its engine's span: then only those
    that ended well and whose trace was sampled are in any metric of requests, and what no span tells is absent
    (docs/no_proxy.md). Absent where requests pass.""")
DRAINING = Gauge("llm_sidecar_draining").says("""
    1 once the shutdown has begun, else 0.""")
DROPPED_TOTAL = Counter(
    "llm_sidecar_dropped_total",
    (Label("reason", DROP_REASONS),),
    used=len([reason for reason in DROP_REASONS if reason not in BEGUN_LATE]),
    lean=True,
).says("""
    Events, reports, spans and log lines that were not measured or not written, by reason. Traffic was not affected.""")
FAILURES_TOTAL = Counter(
    "llm_sidecar_failures_total", (Label("reason", tuple(failure.reason for failure in Failure)),)
).says("""
    Requests, inference or not, that the sidecar answered in the engine's place or cut short, by the reason in
    x-sidecar-error.""")
RESENT_TOTAL = Counter("llm_sidecar_resent_total", wire=True).says("""
    Requests, inference or not, that were sent once more on a new connection, with proof: the engine had closed the idle
    connection before they came, and its kernel acknowledged no byte of them.""")
LABEL_OVERFLOW_TOTAL = Counter("llm_sidecar_label_overflow_total", (Label("label", OVERFLOWING),), lean=True).says("""
    Observations with a label value outside its closed set, by label; they are counted under the label's fallback.
    series: the limit of series was reached.""")
USAGE_INJECTION_TOTAL = Counter("llm_sidecar_usage_injection_total", (Label("result", USAGE_RESULTS),), wire=True).says("""
    Inference requests by result of asking for usage: asked (include_usage was added to the body), or the reason why
    not.""")
USAGE_STOPPED = Gauge("llm_sidecar_usage_stopped", (Label("reason", tuple(STOPS)),)).says("""
    1 while the engine is no longer asked for usage, by why: usage_shows (streams in a row stated it to clients that did
    not ask, and it could not be cut) or compressed_answers (an answer came compressed although identity was asked for);
    else 0. Absent as long as nothing has stopped the asking.""")
PROMPT_BUCKET_ESTIMATES_TOTAL = Counter(
    "llm_sidecar_prompt_bucket_estimates_total", (Label("result", ("confirmed", "corrected")),), wire=True
).says("""
    Prompts whose bucket was estimated from the body's bytes and whose tokens the engine then counted, by whether the
    count confirmed the estimated bucket or corrected it. The estimate is used only where the engine does not count.""")
SPANS_TOTAL = Counter("llm_sidecar_spans_total", (Label("result", SPAN_RESULTS),)).says("""
    Spans received as OTLP: taken (a report on a request), unknown (of a kind that reports on no request) or rejected
    (malformed or too large). forwarded counts those of the first two that were passed on to the collector.""")
EXPORTED_SPANS_TOTAL = Counter("llm_sidecar_exported_spans_total", used=0).says("""
    Spans of requests and of their phases that were made for the collector in spans.export_url. Each is in flight or has
    one fate: the numbers of the next two metrics add up to this one.""")
EXPORTED_SPANS_ENDED_TOTAL = Counter(
    "llm_sidecar_exported_spans_ended_total", (Label("result", SPAN_FATES),), used=0
).says("""
    Such spans that have their fate: the collector acknowledged them, or they were dropped for the reason that the other
    values name.""")
EXPORTED_SPANS_IN_FLIGHT = Gauge("llm_sidecar_exported_spans_in_flight", used=0).says("""
    Such spans that have no fate yet: they wait, or are being sent.""")
OTLP_DROPPED_TOTAL = Counter("llm_sidecar_otlp_dropped_total", (Label("reason", UNREAD_SIGNALS),)).says("""
    Requests with logs or metrics that an OpenTelemetry exporter sent here, by what they carried. Only spans are read:
    these are answered with an empty success and dropped.""")
OPEN_CONNECTIONS = Gauge("llm_sidecar_open_connections", (Label("side", ("client", "engine")),)).says("""
    Connections that are open now, idle ones included, by side: to clients or to the engine.""")
BUDGET_LIMIT = Gauge("llm_sidecar_budget_limit", (Label("budget", tuple(kind.label for kind in Kind)),)).says("""
    The most that this process holds at once, by budget: bytes, or a number of files, connections, requests, ledgers or
    tunnels. docs/budgets.md says what is counted and what happens beyond.""")
BUDGET_USED = Gauge("llm_sidecar_budget_used", BUDGET_LIMIT.labels).says("""
    What this process holds now, by budget, in the unit of llm_sidecar_budget_limit.""")
BUDGET_EXCEEDED_TOTAL = Counter("llm_sidecar_budget_exceeded_total", BUDGET_LIMIT.labels).says("""
    Bodies, connections, requests and other things that found no room, by budget. Some made another one end, some were
    refused, some passed unread.""")
OPEN_LEDGERS = Gauge("llm_sidecar_open_ledgers").says("""
    Requests that ended and whose phases still wait for the engine's report.""")
SERIES = Gauge("llm_sidecar_series").says("""
    Series that this process holds, process_ and python_ ones left out.""")
SCRAPES_TOTAL = Counter("llm_sidecar_scrapes_total", (Label("result", ("ok", "abandoned", "refused")),)).says("""
    Scrapes of this page that began before the present one, by result.""")
SCRAPE_AGE_SECONDS = Gauge("llm_sidecar_last_scrape_age_seconds").says("""
    Seconds since this page was last scraped whole, before the present scrape; those of `sidecar doctor` are left out.
    Absent before the first.""")
LOGINS_TOTAL = Counter("llm_sidecar_admin_logins_total", (Label("result", ("ok", "missing", "wrong", "busy")),)).says("""
    Requests to the admin listener that needed a password, by result: ok, missing (no user and password were sent),
    wrong, or busy (too many waited for a check, and this one was refused unread).""")
HOSTS_REFUSED_TOTAL = Counter("llm_sidecar_admin_hosts_refused_total").says("""
    Requests to the admin listener that were answered 421, because they named a host that is not this process's own and
    not in web.allowed_hosts.""")
WEB_CONFIG_LOADS_TOTAL = Counter("llm_sidecar_web_config_loads_total", (Label("result", ("ok", "refused")),)).says("""
    Loads of the file that web.config_file names, by result. After refused, the content of before stays in force.""")

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""In the order of this file, which is that of the page."""
LEAN = tuple(metric for metric in CATALOGUE if metric.lean)
"""The metrics of `metrics.profile: lean`. A test derives what the rules and the others need, and holds the rows to it."""
LEAN_SUMS_OVER = (PROMPT_BUCKET,)
"""Labels that a lean page sums over: no rule keeps them apart."""
UNTOLD_BY_SPANS = tuple(metric for metric in CATALOGUE if metric.wire)
"""The metrics that are absent where no traffic passes (`--no-proxy`), because 0 would be a claim there."""


def catalogue(*, inter_token_by_prompt_bucket: bool = False, profile: Profile = "full") -> tuple[Metric, ...]:
    """The metrics that one process counts, or shows with the profile lean: there without the labels that it sums over.

    The two inter-token histograms carry the prompt bucket where the config asks for it.
    """
    if profile == "lean":
        shown = [(metric, tuple(label for label in metric.labels if label not in LEAN_SUMS_OVER)) for metric in LEAN]
        return tuple(replace(metric, labels=labels) for metric, labels in shown)
    split = (INTER_TOKEN_SECONDS, TIME_PER_OUTPUT_TOKEN_SECONDS) if inter_token_by_prompt_bucket else ()
    return tuple(replace(metric, labels=PER_LENGTH) if metric in split else metric for metric in CATALOGUE)


def series_ceiling(lanes: int, prompt_buckets: int, models: int, metrics: Iterable[Metric] = CATALOGUE) -> int:
    """The most series that a process with these metrics can reach, process_* and python_* left out.

    All three numbers include the fallback: `other`, `unknown`, `other`. One model that the engine serves is models=2.
    """
    return sum(metric.series(Sizes(lanes, prompt_buckets, models)) for metric in metrics)


def series_in_use(
    lanes: int, prompt_buckets: int, models: int, metrics: Iterable[Metric] = CATALOGUE, *, aimed: float = 1.0
) -> int:
    """The series of a process in full use, within 20 % (`Metric.in_use` says what is full use and what `aimed` is).

    The numbers include the fallbacks, as those of `series_ceiling` do. A lane that is answered in both ways, or by engines
    that report on some of its requests only, has more.
    """
    return round(sum(metric.in_use(Sizes(lanes, prompt_buckets, models), aimed) for metric in metrics))
