"""Texts of alerts: every annotation of every alert, rendered once, with its numbers in units that people read.

Each scenario is played alone, because promtool compares the words of all alerts of one name at once.
"""

import re

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane, undecided


SUITE = Suite("words", apart=True)
STATE = Suite("words-of-state", rules=(ALERTS,), evaluation_seconds=60, apart=True)
SINCE = Suite("words-of-hours", rules=(ALERTS,), step_seconds=60, evaluation_seconds=120, apart=True)
WEEKS = Suite("words-of-weeks", rules=(ALERTS,), step_seconds=600, evaluation_seconds=1800, apart=True)
WHO = {"model": MODEL, "lane": LANE}
ENDED = {**WHO, "prompt_bucket": "512-4k"}
PAGE = "at least half of the requests, or a third and twice what the target allows, or ten times that, or six times for half an hour"
TICKET = "twice what the target allows for half an hour, or all of it for six hours"


MEANINGS = {
    "LLMPrefillBurn": "Prompts take longer to compute than they did, or more of them has to be computed.",
    "LLMQueueBurn": "There is more work than room, or room is held for longer.",
    "LLMEngineBurn": "The engine is down, restarts, is silent or fails requests.",
    "LLMUnattributedBurn": "No root has 60 % of the decided misses, so no phase is named.",
}
ONLY_POD = "worst pod engine-0 (100% of the misses)"


def told(scenario: Scenario, minute: float, one: str, summary: str, rest: str, **annotations: str) -> None:
    """A lane's alert and its words; annotations are those of a page without evidence, unless told."""
    name, severity = one.split()
    objective = annotations.get("objective", "ttft").upper()
    where = f"{scenario.name} of cluster {annotations['cluster']}" if "cluster" in annotations else scenario.name
    lane_of = f"Lane interactive of model small in namespace {where} misses its {objective} objective"
    description = f"{MEANINGS[name]} {lane_of} ({PAGE if severity == 'page' else TICKET}). {rest}"
    plain = {"cause": "none", "size": "unknown", "since": "unknown", "confidence": "1.00", "worst_pod": "engine-0"}
    plain |= {"window": "2m", "rank": "first"}
    if ", confidence " not in summary and (sure := re.search(r"(\S+%) of the decided misses", rest)):
        summary = summary.replace(";", f", confidence {sure[1]};", 1)
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
    scenario.shows("llm_incident_began_timestamp_seconds", None, 37_000, phase="prefill", cause="prefill_cost")

    summary = (
        "prefill costs 2.2x since 10:16 UTC, confidence 88%; interactive misses TTFT 12.0x, waited in queue,"
        " worst pod engine-0 (44.44% of the misses)"
    )
    rest = "432 misses in 2m. 84.44% of the decided misses say prefill."
    told(
        scenario,
        12,
        "LLMPrefillBurn page",
        summary,
        rest,
        cause="prefill_cost",
        size="2.2",
        since="37000",
        confidence="0.88",
    )


@SUITE.scenario(6, 6)
def a_queue_of_one_cluster(scenario: Scenario) -> None:
    """The cluster stands in the words and in the link, and no number is of another cluster."""
    for scenario.cluster, pods in (("eu", ("engine-1", "engine-2")), ("us", ("engine-0",))):
        for pod in pods:
            spans = (WELL, Traffic(0.8, {"queue": 1}) if pods == ("engine-0",) else WELL)
            lane(scenario, *spans, pod=pod)
            causes(scenario, *spans, pod=pod)

    rest = "192 misses in 2m. 100% of the decided misses say queue."
    summary = f"more load arrives; interactive misses TTFT 16.0x, {ONLY_POD}"
    told(scenario, 12, "LLMQueueBurn page", summary, rest, cause="load", cluster="us")


@SUITE.scenario(6, 6)
def a_model_that_is_a_path_of_windows(scenario: Scenario) -> None:
    """Its name is read as it is, and its numbers are found by it."""
    model = r"C:\models\x.gguf"
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}), model=model)
    causes(scenario, WELL, Traffic(0.8, {"queue": 1}), model=model)

    where = f"Lane interactive of model {model} in namespace {scenario.name} misses its TTFT objective"
    rest = "192 misses in 2m. 100% of the decided misses say queue."
    summary = f"more load arrives, confidence 100%; interactive misses TTFT 16.0x, {ONLY_POD}"
    plain = {"size": "unknown", "since": "unknown", "confidence": "1.00", "window": "2m", "rank": "first"}
    scenario.reads(
        12,
        "LLMQueueBurn page",
        summary,
        f"{MEANINGS['LLMQueueBurn']} {where} ({PAGE}). {rest}",
        **{"model": model, "cause": "load", "worst_pod": "engine-0", **plain},
    )


@SUITE.scenario(6, 6)
def an_engine_that_rejects(scenario: Scenario) -> None:
    """The page says how many requests were rejected before it says that they count as waiting."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}))
    causes(scenario, WELL, Traffic(0.8, {"queue": 1}), queue="rejected")
    scenario.counts("llm_requests_total", 0, 6, outcome="rejected", model=MODEL, lane=LANE, prompt_bucket="0-512")

    rest = "192 misses in 2m. 100% of the decided misses say queue."
    summary = f"30 requests were rejected in 5m; interactive misses TTFT 16.0x, {ONLY_POD}"
    told(scenario, 12, "LLMQueueBurn page", summary, rest, cause="rejected")


@SUITE.scenario(6, 6)
def a_queue_without_evidence(scenario: Scenario) -> None:
    """Unknown things are left out: size, beginning, cause; the numbers stand."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}))

    rest = "192 misses in 2m. 100% of the decided misses say queue."
    told(scenario, 12, "LLMQueueBurn page", f"the root is queue; interactive misses TTFT 16.0x, {ONLY_POD}", rest)


@SUITE.scenario(6, 5, 1)
def a_fault_that_is_over(scenario: Scenario) -> None:
    """The page stands while the incident is closed already: it tells the size that was told last, and not a ratio of now."""
    spans = (WELL, broken("prefill", 0.8), broken("prefill", 0.8))
    lane(scenario, *spans)
    causes(scenario, *spans)
    sized(scenario, None, 6, None, cause="prefill_cost", per="token")
    scenario.shows("llm_evidence_ratio", 1, cause="prefill_cost")

    summary = f"prefill costs 6.0x; interactive misses TTFT 16.0x, waited in queue, {ONLY_POD}"
    rest = "192 misses in 2m. 100% of the decided misses say prefill."
    told(scenario, 12, "LLMPrefillBurn page", summary, rest, cause="prefill_cost", size="6.0")


@SUITE.scenario(6, 6)
def a_cause_without_a_size(scenario: Scenario) -> None:
    """Below what may be named no size is told: the plain words, nothing for programs, and no number of now."""
    lane(scenario, WELL, broken("prefill", 0.8))
    causes(scenario, WELL, broken("prefill", 0.8))
    scenario.shows("llm_evidence_ratio", 1.19, cause="prefill_cost")

    summary = f"prefill costs more; interactive misses TTFT 16.0x, waited in queue, {ONLY_POD}"
    rest = "192 misses in 2m. 100% of the decided misses say prefill."
    told(scenario, 12, "LLMPrefillBurn page", summary, rest, cause="prefill_cost")


@SUITE.scenario(6, 6)
def a_load_whose_size_is_not_known(scenario: Scenario) -> None:
    """The plain words."""
    lane(scenario, WELL, broken("queue"), objective="e2e")
    causes(scenario, WELL, broken("queue"))

    summary = f"more load arrives; interactive misses E2E 16.0x, waited in queue, {ONLY_POD}"
    rest = "192 misses in 2m. 100% of the decided misses say queue."
    told(scenario, 12, "LLMQueueBurn page", summary, rest, objective="e2e", cause="load")


@SUITE.scenario(6, 6)
def streams_that_stand_still(scenario: Scenario) -> None:
    """An eighth of the answers: the page says which objective, and that the engine may send to the others."""
    spans = (WELL, Traffic(0.12, {"engine": 1}, waited="decode"))
    lane(scenario, *spans, objective="stall", target=0.99)
    causes(scenario, *spans, engine="silence")

    summary = f"the engine sends nothing, to some streams or to all; interactive misses STALL 12.0x, waited in decode, {ONLY_POD}"
    rest = "29 misses in 2m. 100% of the decided misses say engine."
    told(scenario, 12, "LLMEngineBurn page", summary, rest, objective="stall", cause="silence")


@SUITE.scenario(6, 6)
def a_lane_that_burns_less_than_another(scenario: Scenario) -> None:
    """It is not the first line of its message."""
    lane(scenario, WELL, broken("queue", 0.6))
    lane(scenario, WELL, broken("prefill", 0.9), lane="batch")

    summary = f"the root is queue; interactive misses TTFT 12.0x, waited in queue, {ONLY_POD}"
    rest = "144 misses in 2m. 100% of the decided misses say queue."
    told(scenario, 12, "LLMQueueBurn page", summary, rest, rank="other")


@SUITE.scenario(6, 6)
def roots_that_are_split(scenario: Scenario) -> None:
    """It names the nearest, and what would tell."""
    spans = (WELL, broken("unattributed", 0.8, queue=0.45))
    lane(scenario, *spans)
    causes(scenario, *spans, unattributed="young")
    # The first pod has misses of several roots, and its incident is older.
    scenario.shows("llm_incident_began_timestamp_seconds", None, 37_000, phase="queue", cause="load")
    scenario.shows(
        "llm_incident_began_timestamp_seconds", None, 37_300, phase="unattributed", cause="young", pod="engine-1"
    )

    unknown = "the root is not known: there is no baseline yet, incident open since 10:16 UTC"
    summary = f"{unknown}; interactive misses TTFT 16.0x, waited in queue, {ONLY_POD}"
    rest = (
        "192 misses in 2m. No root leads: the nearest is queue with 45%. A baseline would tell: two quiet minutes, or a file"
        " by `sidecar baseline export` from a healthy pod."
    )
    told(scenario, 12, "LLMUnattributedBurn page", summary, rest, cause="young", since="37000", confidence="0.55")


@SUITE.scenario(6, 6)
def no_root_at_all(scenario: Scenario) -> None:
    """It says that none is decided, and stands all the same."""
    lane(scenario, WELL, undecided())

    summary = f"the root is not known; interactive misses TTFT 16.0x, {ONLY_POD}"
    rest = "480 misses in 5m. No root leads: no miss is decided for any."
    told(scenario, 12, "LLMUnattributedBurn page", summary, rest, confidence="unknown", window="5m")


@SUITE.scenario(6, 60)
def a_ticket(scenario: Scenario) -> None:
    """The same words over its window."""
    lane(scenario, WELL, broken("queue", 0.15))

    summary = f"the root is queue; interactive misses TTFT 3.0x, waited in queue, {ONLY_POD}"
    rest = "90 misses in 5m. 100% of the decided misses say queue."
    told(scenario, 66, "LLMQueueBurn ticket", summary, rest, window="5m")


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
    scenario.shows(
        "llm_incident_began_timestamp_seconds", None, 390, phase="decode", cause="decode_cost", pod="engine-1"
    )

    scenario.reads(
        9,
        "LLMPodBurn page",
        "engine-1 misses more than other pods: decode costs 2.5x since 00:06 UTC, confidence 86%; most misses: interactive, TTFT",
        "This pod misses half of its requests, or ten times what the target allows, and at least three times as much as the"
        " other pods of its model together, with the same lanes. Lane alerts leave its misses out. Phase: decode, by this pod's"
        " decided misses of 2 minutes.",
        pod="engine-1",
        phase="decode",
        cause="decode_cost",
        size="2.5",
        since="390",
        confidence="0.86",
        worst_pod="engine-1",
        window="2m",
    )


POD_WORDS = (
    "and at least three times as much as the other pods of its model together, with the same lanes."
    " {lanes} Phase: {phase}, by this pod's decided misses of {window}.{more}"
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
        "engine-1 misses more than other pods: the root is not known: the evidence is for nothing, or for several causes alike;"
        " most misses: interactive, TTFT",
        "This pod misses half of its requests, or ten times what the target allows, "
        + POD_WORDS.format(
            lanes="Lane alerts leave its misses out.",
            phase="unattributed",
            window="2 minutes",
            more=" Reports of the engine on each request would tell: the status page names the flag. `/diagnosis` lists the evidence.",
        ),
        pod="engine-1",
        phase="unattributed",
        cause="unclear",
        size="unknown",
        since="unknown",
        confidence="unknown",
        worst_pod="engine-1",
        window="2m",
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
        "engine-1 misses more than other pods: decode costs more, confidence 100%; most misses: interactive, TTFT",
        "This pod misses twice what the target allows over half an hour, "
        + POD_WORDS.format(
            lanes="No lane burns in this objective yet; the misses of this pod stay in its lanes.",
            phase="decode",
            window="30 minutes",
            more="",
        ),
        pod="engine-1",
        phase="decode",
        cause="decode_cost",
        size="unknown",
        since="unknown",
        confidence="1.00",
        worst_pod="engine-1",
        window="30m",
    )


@SUITE.scenario(6, 6)
def a_lane_beside_an_odd_pod(scenario: Scenario) -> None:
    """Two faults: what the lane says of pods, cause, size and beginning leaves out the pod that has a page of its own."""
    for pod in ("engine-1", "engine-2", "engine-3", "engine-4"):
        lane(scenario, Traffic(per_minute=30), broken("prefill", 0.34 - 0.01 * int(pod[-1]), 30), pod=pod, target=0.97)
        causes(scenario, Traffic(per_minute=30), broken("prefill", 0.3, 30), pod=pod)
        sized(scenario, 2.2, cause="prefill_cost", per="token", pod=pod)
        scenario.shows(
            "llm_incident_began_timestamp_seconds", None, 400, phase="prefill", cause="prefill_cost", pod=pod
        )
    other = Traffic(per_minute=300), broken("prefill", 1.0, 300)
    lane(scenario, *other, target=0.97)
    causes(scenario, *other, prefill="uncached")
    sized(scenario, 9, cause="prefill_cost", per="token")
    scenario.shows("llm_incident_began_timestamp_seconds", None, 300, phase="prefill", cause="uncached")

    worst = "worst pod engine-1 (26.19% of the misses)"
    summary = f"prefill costs 2.2x since 00:06 UTC; interactive misses TTFT 10.5x, waited in queue, {worst}"
    rest = "76 misses in 2m. 100% of the decided misses say prefill."
    told(
        scenario,
        12,
        "LLMPrefillBurn page",
        summary,
        rest,
        cause="prefill_cost",
        size="2.2",
        since="400",
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
    scenario.reads(70, "LLMEngineRestarted ticket", "engine-0: the engine restarted 2 time(s) in ten minutes")
    scenario.reads(70, "LLMNothingComesBack page", "engine-0: requests wait and nothing comes back")
    scenario.reads(70, "LLMEnginePreempting ticket", "engine-0: 12.5% of the requests are preempted")
    scenario.reads(70, "LLMEngineKvCacheFull ticket", "engine-0: KV cache 96.5% full while requests wait")
    burst = "25% of the reads bring more than five events at once"
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

    away = "the sidecar's sums are 25% away from the engine's own"
    scenario.reads(70, "LLMSidecarDisagrees ticket", f"engine-0: {away}")
    scenario.reads(
        70, "LLMSidecarSlow ticket", "engine-0: the sidecar delays tokens, it is late in 2% of its measurements"
    )
    scenario.reads(70, "LLMSidecarDropsObservations ticket", "engine-0: 5% of the requests are not measured whole")
    scenario.reads(
        70,
        "LLMAttributionLow ticket",
        "interactive: no split is known of the TTFT of 75% of the requests, worst pod engine-0 (100% of it)",
    )
    scenario.reads(70, "LLMLabelOverflow ticket", "engine-0: 60 observations were counted under `other`")
    scenario.reads(70, "LLMConfigReloadFailed ticket", "engine-0: the last config reload was refused")
    scenario.reads(
        70,
        "LLMRequestsRejected ticket",
        "interactive: 25% of the requests are turned away (429, 503, 529), worst pod engine-0 (100% of it)",
    )
    scenario.reads(70, "Watchdog none", "Alerting works")


@STATE.scenario(5, 70)
def a_sidecar_that_sees_half(scenario: Scenario) -> None:
    """The rest goes past it."""
    scenario.shows("llm_engine_traffic_seen_ratio", 0.505)

    scenario.reads(70, "LLMSidecarBypassed ticket", "engine-0: only 50.5% of the engine's requests pass the sidecar")


@STATE.scenario(5, 10)
def a_sidecar_that_is_gone(scenario: Scenario) -> None:
    """Named."""
    scenario.shows("up", 1, 0)
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.reads(14, "LLMSidecarDown page", "engine-0: the sidecar cannot be scraped")


@SINCE.scenario(240, 28)
def a_cache_that_is_lost_and_clients_that_leave(scenario: Scenario) -> None:
    """Shares, against what they were."""
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000)
    scenario.counts("llm_engine_prefix_cache_hits_total", 36_000, 7_500)
    scenario.counts("llm_requests_received_total", 120, **WHO)
    scenario.counts("llm_client_cancels_total", 0, 15, **WHO, stage="waiting")

    half = "less than half of before"
    scenario.reads(
        268, "LLMPrefixCacheCollapsed ticket", f"engine-0: only 12.5% of the prompt tokens are cached, {half}"
    )
    scenario.reads(
        268,
        "LLMClientsGiveUp ticket",
        "interactive: 12.5% of the clients leave before their first token, worst pod engine-0 (100% of it)",
    )


@WEEKS.scenario(7 * 24 * 60, 24 * 60)
def longer_prompts(scenario: Scenario) -> None:
    """Tokens, without decimals."""
    scenario.counts("llm_stated_prompt_tokens_total", 8_000, 24_004, **WHO)
    scenario.counts("llm_stated_prompts_total", 10, **WHO)

    summary = (
        "interactive: prompts are 2400 tokens long, 30 % or more above a week ago, worst pod engine-0 (100% of it)"
    )
    scenario.reads(8 * 24 * 60, "LLMPromptsGrowing ticket", summary)
