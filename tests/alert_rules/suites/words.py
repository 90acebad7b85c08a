"""Texts of alerts: every annotation of every alert, rendered once, with its numbers in units that people read.

Each scenario is played alone, because promtool compares the words of all alerts of one name at once.
"""

from sidecar.commands.export.rules.annotations import TEXT_CHARACTERS, TITLE_CHARACTERS
from sidecar.diagnosis.first_steps import first_step
from sidecar.objectives.attribution import Blame
from sidecar.pod.causes import Cause
from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane, undecided


SUITE = Suite("words", apart=True)
STATE = Suite("words-of-state", rules=(ALERTS,), evaluation_seconds=60, apart=True)
SINCE = Suite("words-of-hours", rules=(ALERTS,), step_seconds=60, evaluation_seconds=120, apart=True)
WEEKS = Suite("words-of-weeks", rules=(ALERTS,), step_seconds=600, evaluation_seconds=1800, apart=True)
WHO = {"model": MODEL, "lane": LANE}
ENDED = {**WHO, "prompt_bucket": "512-4k"}
HALF = "outage: at least half"
DEAR_PROMPTS_WAIT = (
    " Most waited in queue, which is no contradiction: prompts that cost more hold up other requests and their tokens."
)
STEP_OF_LOAD = f" First: {first_step(Blame.QUEUE, Cause.LOAD)}."
STEP_OF_PREFILL = f" First: {first_step(Blame.PREFILL, Cause.PREFILL_COST)}."
STEP_OF_DECODE = f" First: {first_step(Blame.DECODE, Cause.DECODE_COST)}."
SURE = " Confidence high: 100 %."
MISSED = f"TTFT: 96 of 120 requests in 1 min missed ({HALF})."
"""Four fifths of two requests a second."""
BESIDE_OTHERS = (
    "three times as often as on the other pods of its model together, or more. Most misses: lane interactive."
)


def told(scenario: Scenario, minute: float, one: str, summary: str, description: str, **annotations: str) -> None:
    """A lane's alert and its words; annotations are those of a page without evidence, unless told."""
    plain = {"cause": "none", "confidence": "1.00", "worst_pod": "engine-0", "rank": "first"}
    scenario.reads(minute, one, summary, description, **{**plain, **annotations})


def sized(scenario: Scenario, *values: float | None, phase: str = "prefill", **labels: str) -> None:
    """The size of a pod's incident. None: it is over."""
    scenario.shows("llm_incident_size_ratio", *values, phase=phase, **labels)


# --- pages of a phase ------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def dear_prompts(scenario: Scenario) -> None:
    """The root with its size and since when, the lane and its burn, where the misses waited, and on which pod."""
    spans = (WELL, broken("prefill", 0.8, queue=0.2))
    lane(scenario, *spans)
    lane(scenario, WELL, broken("prefill", 0.6, queue=0.2), pod="engine-1")
    lane(scenario, WELL, broken("prefill", 0.4), pod="engine-2")
    causes(scenario, *spans)
    sized(scenario, 2.2, cause="prefill_cost", per="token")
    sized(scenario, 1.9, cause="prefill_cost", per="token", pod="engine-1")
    for pod, sure in (("engine-0", 0.91), ("engine-1", 0.88)):
        scenario.shows("llm_incident_confidence_ratio", sure, phase="prefill", cause="prefill_cost", pod=pod)
    scenario.since("llm_incident_age_seconds", 400, phase="prefill", cause="prefill_cost")

    told(
        scenario,
        12,
        "LLMPrefillBurn page",
        "prefill (prefill_cost 2.2x) since 00:06 UTC: lane interactive of small",
        f"Phase prefill: prefill costs 2.2x the usual; it began at 00:06 UTC, 5 min ago. TTFT: 216 of 360 requests in 1 min missed ({HALF}).{DEAR_PROMPTS_WAIT} Confidence high: 88 %.{STEP_OF_PREFILL}",
        cause="prefill_cost",
        confidence="0.88",
    )


@SUITE.scenario(6, 6)
def a_latency_beside_its_threshold_with_long_names(scenario: Scenario) -> None:
    """The quantile that the target names, in the window that fired, of the prompts with most misses; the title and the text keep their length."""
    model, pod = "meta-llama/Llama-3.3-70B-Instruct", "llama-3-3-70b-instruct-7d9f8c6b5-x2v4q"
    for name, spans in ((pod, (WELL, broken("prefill", 0.9))), ("engine-1", (WELL, broken("prefill", 0.5)))):
        lane(scenario, *spans, model=model, pod=name)
        causes(scenario, *spans, model=model, pod=name)
        sized(scenario, 2.2, cause="prefill_cost", per="token", pod=name)
        scenario.since("llm_incident_age_seconds", 380, phase="prefill", cause="prefill_cost", pod=name)
        for bucket, threshold in (("512-4k", 1.5), ("64k+", 48)):
            of = {"lane": LANE, "objective": "ttft", "prompt_bucket": bucket}
            scenario.shows("llm_slo_threshold_seconds", threshold, pod=name, **of)
            scenario.shows("llm_slo_target_ratio", 0.95, pod=name, **of)
        for edge, rates in (("1", (120, 40)), ("5", (120, 120)), ("+Inf", (120, 120))):
            own = {"model": model, "lane": LANE, "prompt_bucket": "512-4k", "le": edge}
            scenario.counts("llm_time_to_first_token_seconds_bucket", *rates, pod=name, **own)

    summary = "prefill (prefill_cost 2.2x) since 00:06 UTC: lane interactive of Llama-3.3-70B-Instruct"
    description = (
        "Phase prefill: prefill costs 2.2x the usual; it began at 00:06 UTC, 5 min ago. TTFT: p95 4.7 s, threshold 1.5 s (prompts of 512-4k tokens); 168 of 240"
        f" requests in 1 min missed ({HALF}).{DEAR_PROMPTS_WAIT}{SURE}{STEP_OF_PREFILL}"
    )
    told(scenario, 12, "LLMPrefillBurn page", summary, description, model=model, cause="prefill_cost", worst_pod=pod)
    assert len(summary) <= TITLE_CHARACTERS
    assert len(description) <= TEXT_CHARACTERS


@SUITE.scenario(6, 6)
def a_queue_of_one_cluster(scenario: Scenario) -> None:
    """The cluster stands in the words and in the link, and no number is of another cluster."""
    for scenario.cluster, pods in (("eu", ("engine-1", "engine-2")), ("us", ("engine-0",))):
        for pod in pods:
            spans = (WELL, Traffic(0.8, {"queue": 1}) if pods == ("engine-0",) else WELL)
            lane(scenario, *spans, pod=pod)
            causes(scenario, *spans, pod=pod)

    told(
        scenario,
        12,
        "LLMQueueBurn page",
        f"queue (load): lane interactive of small, us, {scenario.name}",
        f"Phase queue: more load arrives than usually. {MISSED}{SURE}{STEP_OF_LOAD}",
        cause="load",
        cluster="us",
    )


@SUITE.scenario(6, 6)
def a_size_that_is_no_number(scenario: Scenario) -> None:
    """It is left out, and so is a confidence that is none."""
    spans = (WELL, Traffic(0.8, {"queue": 1}))
    lane(scenario, *spans)
    causes(scenario, *spans)
    for name in ("llm_incident_size_ratio", "llm_incident_confidence_ratio"):
        scenario.shows(name, 0, phase="queue", cause="load", per="second")
    scenario.series |= {name: "NaN+0x48" for name in scenario.series if name.startswith("llm_incident_")}

    told(
        scenario,
        12,
        "LLMQueueBurn page",
        "queue (load): lane interactive of small",
        f"Phase queue: more load arrives than usually. {MISSED}{SURE}{STEP_OF_LOAD}",
        cause="load",
    )


def a_path(scenario: Scenario, model: str, told_as: str) -> None:
    """A model whose name is a path is told by its last part."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}), model=model)
    causes(scenario, WELL, Traffic(0.8, {"queue": 1}), model=model)

    scenario.reads(
        12,
        "LLMQueueBurn page",
        f"queue (load): lane interactive of {told_as}",
        f"Phase queue: more load arrives than usually. {MISSED}{SURE}{STEP_OF_LOAD}",
        model=model,
        cause="load",
        worst_pod="engine-0",
        confidence="1.00",
        rank="first",
    )


@SUITE.scenario(6, 6)
def a_model_that_is_a_path_of_windows(scenario: Scenario) -> None:
    """Its name is read as it is, and its numbers are found by it."""
    a_path(scenario, r"C:\models\x.gguf", "x.gguf")


@SUITE.scenario(6, 6)
def a_model_that_is_a_folder(scenario: Scenario) -> None:
    """A name that ends with a slash leaves no gap."""
    a_path(scenario, "/models/llama/", "llama/")


@SUITE.scenario(6, 6)
def an_engine_that_rejects(scenario: Scenario) -> None:
    """The page says how many requests were rejected before it says that they count as waiting."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}))
    causes(scenario, WELL, Traffic(0.8, {"queue": 1}), queue="rejected")
    scenario.counts("llm_requests_total", 0, 6, outcome="rejected", model=MODEL, lane=LANE, prompt_bucket="0-512")

    told(
        scenario,
        12,
        "LLMQueueBurn page",
        "queue (rejected): lane interactive of small",
        f"Phase queue: requests are rejected (429, 503 or 529). {MISSED}{SURE} First: {first_step(Blame.QUEUE, Cause.REJECTED)}.",
        cause="rejected",
    )


@SUITE.scenario(6, 6)
def a_queue_without_evidence(scenario: Scenario) -> None:
    """Unknown things are left out: size, beginning, cause; the numbers stand."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}))

    told(scenario, 12, "LLMQueueBurn page", "queue: lane interactive of small", f"Phase queue. {MISSED}{SURE}")


@SUITE.scenario(6, 5, 1)
def a_fault_that_is_over(scenario: Scenario) -> None:
    """The page stands while the incident is closed already: it tells the size that was told last, and not a ratio of now."""
    spans = (WELL, broken("prefill", 0.8), broken("prefill", 0.8))
    lane(scenario, *spans)
    causes(scenario, *spans)
    sized(scenario, None, 6, None, cause="prefill_cost", per="token")
    scenario.shows("llm_evidence_ratio", 1, cause="prefill_cost")

    told(
        scenario,
        12,
        "LLMPrefillBurn page",
        "prefill (prefill_cost 6x): lane interactive of small",
        f"Phase prefill: prefill costs 6x the usual. {MISSED}{DEAR_PROMPTS_WAIT}{SURE}{STEP_OF_PREFILL}",
        cause="prefill_cost",
    )


@SUITE.scenario(6, 6)
def a_cause_without_a_size(scenario: Scenario) -> None:
    """Below what may be named no size is told: the plain words, nothing for programs, and no number of now."""
    lane(scenario, WELL, broken("prefill", 0.8))
    causes(scenario, WELL, broken("prefill", 0.8))
    scenario.shows("llm_evidence_ratio", 1.19, cause="prefill_cost")

    told(
        scenario,
        12,
        "LLMPrefillBurn page",
        "prefill (prefill_cost): lane interactive of small",
        f"Phase prefill: prefill costs more than usually. {MISSED}{DEAR_PROMPTS_WAIT}{SURE}{STEP_OF_PREFILL}",
        cause="prefill_cost",
    )


@SUITE.scenario(6, 6)
def a_load_whose_size_is_not_known(scenario: Scenario) -> None:
    """The plain words."""
    lane(scenario, WELL, broken("queue"), objective="e2e")
    causes(scenario, WELL, broken("queue"))

    told(
        scenario,
        12,
        "LLMQueueBurn page",
        "queue (load): lane interactive of small",
        f"Phase queue: more load arrives than usually. E2E{MISSED.removeprefix('TTFT')}{SURE}{STEP_OF_LOAD}",
        objective="e2e",
        cause="load",
    )


@SUITE.scenario(6, 6)
def streams_that_stand_still(scenario: Scenario) -> None:
    """An eighth of the answers: the page says which objective, and that the engine may send to the others."""
    spans = (WELL, Traffic(0.12, {"engine": 1}, waited="decode"))
    lane(scenario, *spans, objective="stall", target=0.99)
    causes(scenario, *spans, engine="silence")

    told(
        scenario,
        12,
        "LLMEngineBurn page",
        "engine (silence): lane interactive of small",
        "Phase engine: the engine sends nothing, to some streams or to all. Longest gap: 72 of 600 requests in 5 min missed (fast: at least 10 times what the target allows). Most waited in decode, which is no contradiction: what an engine loses is counted where it waited. Confidence high: 100 %. First: "
        + first_step(Blame.ENGINE, Cause.SILENCE)
        + ".",
        objective="stall",
        cause="silence",
    )


@SUITE.scenario(6, 6)
def a_lane_that_burns_less_than_another(scenario: Scenario) -> None:
    """It is not the first line of its message."""
    lane(scenario, WELL, broken("queue", 0.6))
    lane(scenario, WELL, broken("prefill", 0.9), lane="batch")

    told(
        scenario,
        12,
        "LLMQueueBurn page",
        "queue: lane interactive of small",
        f"Phase queue. TTFT: 72 of 120 requests in 1 min missed ({HALF}).{SURE}",
        rank="other",
    )


@SUITE.scenario(6, 6)
def roots_that_are_split(scenario: Scenario) -> None:
    """It names the nearest, and what would tell."""
    spans = (WELL, broken("unattributed", 0.8, queue=0.45))
    lane(scenario, *spans)
    causes(scenario, *spans, unattributed="young")
    # The first pod has misses of several roots, and its incident is older.
    scenario.since("llm_incident_age_seconds", 400, phase="queue", cause="load")
    scenario.since("llm_incident_age_seconds", 415, phase="unattributed", cause="young", pod="engine-1")

    told(
        scenario,
        12,
        "LLMUnattributedBurn page",
        "unattributed (young) since 00:06 UTC: lane interactive of small",
        f"Phase unattributed: there is no baseline yet; it began at 00:06 UTC, 5 min ago. {MISSED} Most waited in queue. The nearest root is queue with 45 %. First: Wait for two quiet minutes, or load a file of sidecar baseline export from a healthy pod.",
        cause="young",
        confidence="0.55",
    )


@SUITE.scenario(6, 6)
def no_root_at_all(scenario: Scenario) -> None:
    """It says that none is decided, and stands all the same."""
    lane(scenario, WELL, undecided())

    told(
        scenario,
        12,
        "LLMUnattributedBurn page",
        "unattributed: lane interactive of small",
        f"Phase unattributed. {MISSED}",
        confidence="unknown",
    )


@SUITE.scenario(6, 60)
def a_ticket(scenario: Scenario) -> None:
    """The same words over its window."""
    lane(scenario, WELL, broken("queue", 0.15))

    told(
        scenario,
        66,
        "LLMQueueBurn ticket",
        "queue: lane interactive of small",
        f"Phase queue. TTFT: 558 of 3720 requests in 30 min missed (slow: at least twice what the target allows).{SURE}",
    )


@SUITE.scenario(6, 3)
def one_pod_of_two(scenario: Scenario) -> None:
    """Named, with its root and its share of misses."""
    spans = (WELL, broken("decode", 0.9))
    lane(scenario, *spans, pod="engine-1")
    lane(scenario, WELL, WELL)
    causes(scenario, *spans, pod="engine-1")
    sized(scenario, 2.5, phase="decode", cause="decode_cost", per="step", pod="engine-1")
    sized(scenario, 9, phase="decode", cause="decode_cost", per="token")
    scenario.shows("llm_incident_confidence_ratio", 0.86, phase="decode", cause="decode_cost", pod="engine-1")
    scenario.since("llm_incident_age_seconds", 390, phase="decode", cause="decode_cost", pod="engine-1")

    scenario.reads(
        9,
        "LLMPodBurn page",
        "decode (decode_cost 2.5x) since 00:06 UTC: pod engine-1 of small",
        "Phase decode on one pod of many: decode costs 2.5x the usual; it began at 00:06 UTC, 2 min ago. TTFT: 216 of 240 requests in 2 min missed,"
        f" {BESIDE_OTHERS} Confidence high: 86 %.{STEP_OF_DECODE} Lane alerts leave its misses out.",
        pod="engine-1",
        phase="decode",
        cause="decode_cost",
        confidence="0.86",
        worst_pod="engine-1",
    )


@SUITE.scenario(6, 6)
def a_page_of_one_pod_of_many_without_a_root(scenario: Scenario) -> None:
    """It says what would tell."""
    spans = (WELL, broken("unattributed", 0.9))
    lane(scenario, *spans, pod="engine-1")
    lane(scenario, WELL, WELL)
    causes(scenario, *spans, pod="engine-1")

    scenario.reads(
        11,
        "LLMPodBurn page",
        "unattributed (unclear): pod engine-1 of small",
        "Phase unattributed on one pod of many: the evidence is for nothing, or for several causes alike. TTFT: 216 of 240 requests in 2 min"
        f" missed, {BESIDE_OTHERS} First: Read the evidence on the status page; it names the flag of the engine that would tell."
        " Lane alerts leave its misses out.",
        pod="engine-1",
        phase="unattributed",
        cause="unclear",
        confidence="unknown",
        worst_pod="engine-1",
    )


@SUITE.scenario(15)
def a_ticket_of_one_pod_of_many(scenario: Scenario) -> None:
    """It says for how long the pod has burned, and where its misses are."""
    spans = (broken("decode", 0.3, 20),)
    lane(scenario, *spans, pod="engine-1")
    lane(scenario, WELL)
    causes(scenario, *spans, pod="engine-1")

    scenario.reads(
        15,
        "LLMPodBurn ticket",
        "decode (decode_cost): pod engine-1 of small",
        "Phase decode on one pod of many: decode costs more than usually. TTFT: 84 of 280 requests in 30 min missed,"
        f" {BESIDE_OTHERS}{STEP_OF_DECODE}",
        pod="engine-1",
        phase="decode",
        cause="decode_cost",
        confidence="1.00",
        worst_pod="engine-1",
    )


@SUITE.scenario(6, 6)
def a_lane_beside_an_odd_pod(scenario: Scenario) -> None:
    """Two faults: what the lane says of pods, cause, size and beginning leaves out the pod that has a page of its own."""
    for pod in ("engine-1", "engine-2", "engine-3", "engine-4"):
        lane(scenario, Traffic(per_minute=30), broken("prefill", 0.34 - 0.01 * int(pod[-1]), 30), pod=pod, target=0.97)
        causes(scenario, Traffic(per_minute=30), broken("prefill", 0.3, 30), pod=pod)
        sized(scenario, 2.2, cause="prefill_cost", per="token", pod=pod)
        scenario.since("llm_incident_age_seconds", 400, phase="prefill", cause="prefill_cost", pod=pod)
    other = Traffic(per_minute=300), broken("prefill", 1.0, 300)
    lane(scenario, *other, target=0.97)
    causes(scenario, *other, prefill="uncached")
    sized(scenario, 9, cause="prefill_cost", per="token")
    scenario.since("llm_incident_age_seconds", 300, phase="prefill", cause="uncached")

    told(
        scenario,
        12,
        "LLMPrefillBurn page",
        "prefill (prefill_cost 2.2x) since 00:06 UTC: lane interactive of small",
        f"Phase prefill: prefill costs 2.2x the usual; it began at 00:06 UTC, 5 min ago. TTFT: 189 of 600 requests in 5 min missed (fast: at least 10 times what the target allows).{DEAR_PROMPTS_WAIT}{SURE}{STEP_OF_PREFILL}",
        cause="prefill_cost",
        worst_pod="engine-1",
    )


# --- state -----------------------------------------------------------------------------------------------------------------


@STATE.scenario(5, 70)
def an_engine_that_stops_in_the_middle_of_its_work(scenario: Scenario) -> None:
    """Its page is told from that of an engine that does not answer."""
    scenario.shows("llm_engine_up", 1, 0)
    scenario.shows("llm_engine_stalled", 0, 1)

    stopped = "the engine has stopped in the middle of its work (/health may still say 200)"
    scenario.reads(70, "LLMEngineDown page", f"engine-0: {stopped}")


@STATE.scenario(5, 70)
def an_engine_in_all_its_troubles(scenario: Scenario) -> None:
    """Each of its alerts says one number, in a unit."""
    scenario.shows("llm_engine_up", 1, 0)
    scenario.counts("llm_engine_restarts_total", 0, 0.2)
    scenario.counts("llm_engine_stalled_seconds_total", 0, 45)
    scenario.counts("llm_engine_preemptions_total", 0, 15)
    scenario.counts("llm_requests_received_total", 120, **WHO)
    scenario.shows("llm_engine_kv_cache_usage_ratio", 0.5, 0.965)
    scenario.shows("llm_engine_requests_waiting", 0, 4)
    scenario.counts("llm_stream_reads_total", 180, lane=LANE, result="few")
    scenario.counts("llm_stream_reads_total", 60, lane=LANE, result="many")

    scenario.reads(70, "LLMEngineDown page", "engine-0: the engine does not answer")
    scenario.reads(70, "LLMEngineRestarted ticket", "engine-0: the engine restarted 2 times in ten minutes")
    scenario.reads(70, "LLMNothingComesBack page", "engine-0: requests wait and nothing comes back")
    scenario.reads(70, "LLMEnginePreempting ticket", "engine-0: 12 % of the requests are preempted")
    scenario.reads(70, "LLMEngineKvCacheFull ticket", "engine-0: KV cache 96 % full while requests wait")
    burst = "25 % of the reads bring more than five events at once"
    scenario.reads(70, "LLMEventsInBursts ticket", f"engine-0, interactive: {burst}")


@STATE.scenario(5, 70)
def a_sidecar_in_all_its_troubles(scenario: Scenario) -> None:
    """Each of its alerts says one number, in a unit."""
    scenario.shows("llm_engine_traffic_seen_ratio", 0.955)
    scenario.shows("llm_engine_report_agreement_ratio", 0.75, phase="queue")
    scenario.counts("llm_sidecar_timed_reads_total", 588, result="in_time")
    scenario.counts("llm_sidecar_timed_reads_total", 12, result="late")
    scenario.counts("llm_requests_total", 60, **ENDED, outcome="ok")
    scenario.counts("llm_requests_total", 20, **ENDED, outcome="rejected")
    scenario.counts("llm_sidecar_dropped_total", 4, reason="event_too_long")
    scenario.counts("llm_phase_attribution_total", 45, lane=LANE, source="none", reason="engine_silent")
    scenario.counts("llm_phase_attribution_total", 15, lane=LANE, source="engine", reason="in_band")
    scenario.counts("llm_sidecar_label_overflow_total", 4, label="model")
    scenario.shows("llm_sidecar_config_last_reload_successful", 0)

    away = "the sidecar's sums are 25 % away from the engine's own"
    scenario.reads(70, "LLMSidecarDisagrees ticket", f"engine-0: {away}")
    scenario.reads(
        70, "LLMSidecarSlow ticket", "engine-0: the sidecar delays tokens, it is late in 2 % of its measurements"
    )
    scenario.reads(70, "LLMSidecarDropsObservations ticket", "engine-0: 5 % of the requests are not measured whole")
    scenario.reads(
        70,
        "LLMAttributionLow ticket",
        "interactive: no split is known of the TTFT of 75 % of the requests, most on engine-0 (100 %)",
    )
    scenario.reads(70, "LLMLabelOverflow ticket", "engine-0: 60 observations were counted under `other`")
    scenario.reads(70, "LLMConfigReloadFailed ticket", "engine-0: the last config reload was refused")
    scenario.reads(
        70,
        "LLMRequestsRejected ticket",
        "interactive: 25 % of the requests are turned away (429, 503, 529), most on engine-0 (100 %)",
    )
    scenario.reads(70, "Watchdog none", "Alerting works")


@STATE.scenario(5, 70)
def a_sidecar_that_sees_half(scenario: Scenario) -> None:
    """The rest goes past it."""
    scenario.shows("llm_engine_traffic_seen_ratio", 0.505)

    scenario.reads(70, "LLMSidecarBypassed ticket", "engine-0: only 50 % of the engine's requests pass the sidecar")


@STATE.scenario(5, 10)
def a_sidecar_that_is_gone(scenario: Scenario) -> None:
    """Named."""
    scenario.shows("up", 1, 0)
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.reads(14, "LLMSidecarDown page", "engine-0: the sidecar cannot be scraped, nor any other of sidecar")


@SINCE.scenario(240, 28)
def a_cache_that_is_lost_and_clients_that_leave(scenario: Scenario) -> None:
    """Shares, against what they were."""
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000)
    scenario.counts("llm_engine_prefix_cache_hits_total", 36_000, 7_500)
    scenario.counts("llm_requests_received_total", 120, **WHO)
    scenario.counts("llm_client_cancels_total", 0, 15, **WHO, stage="waiting")

    half = "less than half of before"
    scenario.reads(
        268, "LLMPrefixCacheCollapsed ticket", f"engine-0: only 12 % of the prompt tokens are cached, {half}"
    )
    scenario.reads(
        268,
        "LLMClientsGiveUp ticket",
        "interactive: 12 % of the clients leave before their first token, most on engine-0 (100 %)",
    )


@WEEKS.scenario(7 * 24 * 60, 24 * 60)
def longer_prompts(scenario: Scenario) -> None:
    """Tokens, without decimals."""
    scenario.counts("llm_stated_prompt_tokens_total", 8_000, 24_004, **WHO)
    scenario.counts("llm_stated_prompts_total", 10, **WHO)

    summary = "interactive: prompts are 2400 tokens long, 30 % or more above a week ago, most on engine-0 (100 %)"
    scenario.reads(8 * 24 * 60, "LLMPromptsGrowing ticket", summary)
