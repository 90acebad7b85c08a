"""The metrics that alerts are made of: objectives, their misses and votes, and the evidence for a cause.

Declared apart from the measurements of each request (`catalogue.py`), because these numbers are verdicts: each request
is counted once per objective, at its deadline, and rules only add and divide. Holds no values.
"""

from sidecar.metrics.declaration import Counter, Gauge
from sidecar.metrics.vocabulary import (
    BLAMED_PHASE,
    BLAMED_TOGETHER,
    MODEL,
    OBJECTIVE,
    PER_LANE,
    PER_LENGTH,
    PER_OBJECTIVE,
)


SLO_REQUESTS_TOTAL = Counter(
    "llm_slo_requests_total",
    "Inference requests that count for an objective, at the instant at which it was decided whether they meet it: at the first"
    " token or the deadline (ttft), at the end (tpot), at the end or the deadline (e2e). A client's error or cancel counts only if"
    " the deadline had passed before; an answer that cannot be read (compressed) does not count. The bucket is the one estimated"
    " when the request came.",
    (*PER_LENGTH, OBJECTIVE),
    typical=0.4,
)
SLO_MISSES_TOTAL = Counter(
    "llm_slo_misses_total",
    "Those of llm_slo_requests_total that missed their objective. Counted when the deadline passes, whether or not the request"
    " ever ends; also requests that the engine failed or that were rejected.",
    (*PER_LENGTH, OBJECTIVE),
    typical=0.4,
)
SLO_ALLOWED_MISSES_TOTAL = Counter(
    "llm_slo_allowed_misses_total",
    "The error budget that the same requests brought: 1 - target for each. Misses over this is the burn rate, whatever the"
    " targets of the prompt buckets are.",
    (*PER_LENGTH, OBJECTIVE),
    typical=0.4,
)
SLO_BLAMED_MISSES_TOTAL = Counter(
    "llm_slo_blamed_misses_total",
    "Misses by the phase that they are blamed on, counted when the request's ledger is closed, which may be long after the miss:"
    " where the missed requests waited, and not yet what broke. A request that was given up or that nobody reports on is"
    " unattributed; one that the engine failed is engine's, a rejected one queue's.",
    (*PER_LANE, OBJECTIVE, BLAMED_PHASE),
    together=BLAMED_TOGETHER,
    typical=0.6,
)
SLO_THRESHOLD_SECONDS = Gauge(
    "llm_slo_threshold_seconds",
    "The threshold of an objective, by the config in force.",
    PER_OBJECTIVE,
    typical=0.5,
)
SLO_TARGET_RATIO = Gauge(
    "llm_slo_target_ratio",
    "The share of requests that is to meet the threshold, 0 to 1, by the config in force.",
    PER_OBJECTIVE,
    typical=0.5,
)
REQUESTS_OVERDUE = Gauge(
    "llm_requests_overdue",
    "Streamed inference requests that are past their TTFT threshold now and have no token yet.",
    PER_LANE,
    typical=0.5,
)
GOOD_REQUESTS_TOTAL = Counter(
    "llm_good_requests_total",
    "Inference requests with outcome ok that met every objective of their lane and length (goodput). Lanes without objectives"
    " have none.",
    PER_LENGTH,
    typical=0.4,
)
GOOD_OUTPUT_TOKENS_TOTAL = Counter(
    "llm_good_output_tokens_total",
    "Generated tokens of the requests in llm_good_requests_total, by the engine's usage where it states one.",
    PER_LENGTH,
    typical=0.4,
)
TOKEN_DEADLINES_TOTAL = Counter(
    "llm_token_deadlines_total",
    "Output events of streams that have both a ttft and a tpot objective, counted when the stream ends: each had a deadline. An"
    " event may carry several tokens.",
    PER_LANE,
    typical=0.5,
)
TOKEN_DEADLINE_MISSES_TOTAL = Counter(
    "llm_token_deadline_misses_total",
    "Those of llm_token_deadlines_total that came late: the first is due at the TTFT threshold, each later one a TPOT threshold"
    " after the one before; early ones bank slack, a late one resets it.",
    PER_LANE,
    typical=0.5,
)

# --- evidence ------------------------------------------------------------------------------------------------------------

REQUESTS_RECEIVED_TOTAL = Counter(
    "llm_requests_received_total",
    "Inference requests whose body arrived whole, at their arrival: the load, which the ended ones follow late.",
    PER_LANE,
    typical=0.5,
)
RECEIVED_MEASURED_REQUESTS_TOTAL = Counter(
    "llm_received_measured_requests_total",
    "Those of llm_requests_received_total whose prompt length was known or could be estimated at arrival.",
    PER_LANE,
    typical=0.5,
)
RECEIVED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_received_prompt_tokens_total",
    "Prompt tokens of llm_received_measured_requests_total: counted where the request states token ids, else an estimate from"
    " its text, calibrated on past usage.",
    PER_LANE,
    typical=0.5,
)
UNCACHED_PROMPT_TOKENS_TOTAL = Counter(
    "llm_uncached_prompt_tokens_total",
    "Prompt tokens that the engine had to compute, of inference requests with outcome ok whose usage states how many were"
    " cached (those are in llm_cached_prompt_tokens_total).",
    PER_LANE,
    typical=0.5,
)
PREFILL_OWN_SECONDS_TOTAL = Counter(
    "llm_prefill_own_seconds_total",
    "Seconds in which at least one prompt was in prefill, as far as they were not counted for another: co-scheduled prompts share"
    " their seconds. Of streamed requests with outcome ok, by the engine's report; where none reports, of those that waited for"
    " nobody, by their TTFT. Only prompts of which a cost can be expected.",
    (MODEL,),
)
PREFILL_EXPECTED_SECONDS_TOTAL = Counter(
    "llm_prefill_expected_seconds_total",
    "What the same prompts are expected to take alone, by a function of their uncached length that is learned while objectives"
    " are met: an estimate. Own over expected, against its own past, is how much dearer prefill has become.",
    (MODEL,),
)
ENGINE_SILENCE_SECONDS = Gauge(
    "llm_engine_silence_seconds",
    "Seconds since the engine last sent output, while a streamed request is in flight that is being read; else 0. While a request"
    " is in flight whose output cannot be seen as it comes (not streamed, or compressed) and no stream has begun, it is 0 for as"
    " long as that request's own answer may take (its lane's e2e threshold; 60 s where none is promised), counted from the last"
    " output or from the last such answer.",
)
ENGINE_SILENCE_EXPECTED_SECONDS = Gauge(
    "llm_engine_silence_expected_seconds",
    "Prefill work, in seconds, that was pending when the present silence began: an estimate; 0 while there is no silence. A prompt"
    " of unknown cost is taken as 20.",
)
ENGINE_STALLED_SECONDS_TOTAL = Counter(
    "llm_engine_stalled_seconds_total",
    "Seconds for which llm_engine_silence_seconds was above 8 and above three times llm_engine_silence_expected_seconds.",
)

SLO_METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Counter | Gauge))
"""In the order of the page."""
