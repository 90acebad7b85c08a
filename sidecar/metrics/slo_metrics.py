"""The metrics that alerts are made of: objectives, their misses and votes, and the evidence for a cause.

Declared apart from the measurements of each request (`catalogue.py`), because these numbers are verdicts: each request
is counted once per objective, at its deadline, and rules only add and divide. Holds no values.
"""

from sidecar.metrics.declaration import Counter, Gauge, Info, Label
from sidecar.metrics.vocabulary import (
    BLAMED_PHASE,
    BLAMED_TOGETHER,
    MISSED_TOGETHER,
    MODEL,
    OBJECTIVE,
    PER_LANE,
    PER_LENGTH,
    PER_OBJECTIVE,
    PHASE,
    RATIO_CAUSES,
    ROOT_CAUSE,
    ROOT_PHASE,
)
from sidecar.slo.causes import ROOTS
from sidecar.slo.cost_names import Part, Reason
from sidecar.slo.learning import Came
from sidecar.slo.step_model import TYPICAL_CONTEXT, TYPICAL_SEQUENCES


SLO_REQUESTS_TOTAL = Counter(
    "llm_slo_requests_total",
    "Inference requests that count for an objective, counted when it is decided whether they meet it: at the first token or the"
    " deadline (ttft), at the end (tpot), at the end or the deadline (e2e). A client's error or cancel counts only if the"
    " deadline had passed before. An answer that cannot be read (compressed) does not count. The prompt bucket is the one"
    " estimated at arrival.",
    (*PER_LENGTH, OBJECTIVE),
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
    " e2e the whole answer. The phases of one objective add up to that latency, and sums over pods are exact: a phase's share is"
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
    " objectives are not counted.",
    PER_LENGTH,
)
GOOD_OUTPUT_TOKENS_TOTAL = Counter(
    "llm_good_output_tokens_total",
    "Generated tokens of the requests in llm_good_requests_total, from the engine's usage if it states one.",
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
INCIDENT_BEGAN_TIMESTAMP_SECONDS = Gauge(
    "llm_incident_began_timestamp_seconds",
    "Unix time at which the present incident of this pod began: misses above the budget, with this leading root or, where"
    " none leads, the one with most of the misses or the reason for which it is not known. Absent while there is none.",
    (ROOT_PHASE, ROOT_CAUSE),
    together=ROOTS,
)
BASELINE_INFO = Info(
    "llm_baseline_info",
    "Always 1. source: where the usual values of this pod came from: process (learned by this process), state (an earlier"
    " process of this pod, from state.directory), file (another pod, from baseline.file), none (nothing is usual yet)."
    " provisional=true: they were learned in the calmest tenth of a burn of an hour or more.",
    (Label("source", tuple(Came)), Label("provisional", ("false", "true"))),
    used=1,
)

_PART = Label("part", tuple(Part))
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
    (_PART, Label("reason", tuple(Reason))),
)
ENGINE_STEP_COST_SECONDS = Gauge(
    "llm_engine_step_cost_seconds",
    f"Estimated seconds of one decode step of {TYPICAL_SEQUENCES} sequences with {TYPICAL_CONTEXT} tokens of context each, as dear"
    " as steps are now: the same shape on each pod, so that pods can be compared. Absent while unknown, as where the"
    " batches of calm times do not tell it.",
)

SLO_METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Counter | Gauge | Info))
"""In the order of the page."""
