"""What alerts say: every annotation of every alert, rendered once, with its numbers in units that people read.

Each scenario is played alone, because promtool compares the words of all alerts of one name at once.
"""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import HEALTHY_PER_MINUTE, WELL, broken, engine, in_flight, lane, prefill_costs, voiceless


SUITE = Suite("words", apart=True)
STATE = Suite("words-of-state", rules=(ALERTS,), evaluation_seconds=60, apart=True)
HOURS = Suite("words-of-hours", rules=(ALERTS,), step_seconds=60, evaluation_seconds=240, apart=True)
WEEKS = Suite("words-of-weeks", rules=(ALERTS,), step_seconds=1800, evaluation_seconds=1800, apart=True)
WHO = {"model": MODEL, "lane": LANE}
ENDED = {**WHO, "prompt_bucket": "512-4k"}
PAGE = "at least half of the requests, or ten times what the target allows, within five minutes"
TICKET = "twice what the target allows for half an hour, or all of it for six hours"


def told(scenario: Scenario, name: str, burning: tuple[float, float], *said: str, **who: str) -> None:
    """Page and ticket of one name at the 14th minute. `burning`: how fast, by two minutes and by half an hour.

    `said`: where they waited, what the verdict means, and what was found.
    """
    waited, meaning, found = said
    objective = who.get("objective", "ttft")
    for severity, factor, windows in (("page", burning[0], PAGE), ("ticket", burning[1], TICKET)):
        scenario.reads(
            14,
            f"{name} {severity}",
            f"interactive: {objective.upper()} budget burning {factor:.1f}x, {waited}",
            f"{meaning} Lane interactive of model small in namespace {scenario.name} misses its {objective.upper()} objective"
            f" ({windows}). {found}",
            **who,
        )


# --- pages of a phase ------------------------------------------------------------------------------------------------------


@SUITE.scenario(8, 4, 4)
def a_queue_by_load(scenario: Scenario) -> None:
    """How fast it burns now, where the misses waited, which pod has most of them; what has grown, and who says so."""
    for pod, times in (("engine-0", 1.8), ("engine-1", 1.0)):
        more = HEALTHY_PER_MINUTE * times
        lane(scenario, WELL, *(broken("queue", share, more, prefill=0.17) for share in (0.8, 0.6)), pod=pod)

    told(
        scenario,
        "LLMQueueBurn",
        (12.0, 7.5),
        "83% of the split misses waited in queue, worst pod engine-0 (64.29% of the misses)",
        "Requests wait for the engine's scheduler; what runs is not the reason that they are late.",
        "Verdict: queue. Cause hint: load. Against its own last quiet hour: load 1.40x."
        " 100% of the closed misses carry a split.",
    )


@SUITE.scenario(8, 8)
def a_queue_that_prefill_made(scenario: Scenario) -> None:
    """It names prefill, and says that they waited in the queue."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, 2.2)

    told(
        scenario,
        "LLMPrefillBurn",
        (16.0, 6.9),
        "100% of the split misses waited in queue, worst pod engine-0 (100% of the misses)",
        "Prompts take longer to compute than they did, or more of them has to be computed.",
        "Verdict: prefill. Cause hint: prefill_cost. Against its own last quiet hour: prefill_cost 2.20x load 1.00x."
        " 100% of the closed misses carry a split.",
    )


@SUITE.scenario(8, 8)
def a_state_that_decides_for_a_while(scenario: Scenario) -> None:
    """No ledger has closed: the page says that it is provisional, and by what."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 15), running=(8,))

    told(
        scenario,
        "LLMQueueBurn",
        (16.0, 6.9),
        "nobody knows yet where the misses waited, worst pod engine-0 (100% of the misses)",
        "Requests wait for the engine's scheduler; what runs is not the reason that they are late.",
        "Verdict: queue. Cause hint: slots. Against its own last quiet hour: load 1.00x. no miss has been closed yet."
        " Provisional: too few ledgers have closed, so the engine's own state (waiting, running) decides.",
    )


@SUITE.scenario(8, 8)
def votes_that_hardly_anybody_can_cast(scenario: Scenario) -> None:
    """It names no phase, and states how many could be split."""
    lane(scenario, WELL, broken("unattributed", queue=0.15))

    told(
        scenario,
        "LLMUnattributedBurn",
        (16.0, 6.9),
        "100% of the split misses waited in queue, worst pod engine-0 (100% of the misses)",
        "Nobody can split the time to first token, so no phase is named: see which flag of the engine would tell.",
        "Verdict: unattributed. Cause hint: none. Against its own last quiet hour: load 1.00x."
        " 15% of the closed misses carry a split.",
    )


@SUITE.scenario(8, 8)
def an_engine_that_stalls(scenario: Scenario) -> None:
    """The cause is its fault; where its victims waited stands beside it."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, stalled=(0, 6))

    told(
        scenario,
        "LLMEngineBurn",
        (16.0, 6.9),
        "100% of the split misses waited in queue, worst pod engine-0 (100% of the misses)",
        "The engine failed, is silent or preempts: no phase explains the misses.",
        "Verdict: engine. Cause hint: silence. Against its own last quiet hour: load 1.00x."
        " 100% of the closed misses carry a split.",
    )


@SUITE.scenario(8, 8)
def slow_tokens(scenario: Scenario) -> None:
    """Another objective, another name for it."""
    lane(scenario, WELL, broken("decode"), objective="tpot")

    told(
        scenario,
        "LLMDecodeBurn",
        (16.0, 6.9),
        "100% of the split misses waited in decode, worst pod engine-0 (100% of the misses)",
        "Tokens after the first come too slowly.",
        "Verdict: decode. Cause hint: none. Against its own last quiet hour: load 1.00x."
        " 100% of the closed misses carry a split.",
        objective="tpot",
    )


@SUITE.scenario(8, 8)
def slow_front_end(scenario: Scenario) -> None:
    """Before the scheduler, or behind it."""
    lane(scenario, WELL, broken("first_token"))

    told(
        scenario,
        "LLMFirstTokenBurn",
        (16.0, 6.9),
        "100% of the split misses waited in first_token, worst pod engine-0 (100% of the misses)",
        "Time is lost before the scheduler or behind it: tokenising, templates, the API server, the network.",
        "Verdict: first_token. Cause hint: none. Against its own last quiet hour: load 1.00x."
        " 100% of the closed misses carry a split.",
    )


@SUITE.scenario(8, 8)
def whole_answers_that_are_held_back(scenario: Scenario) -> None:
    """A slow client, or a hop that buffers."""
    lane(scenario, WELL, broken("stream"))

    told(
        scenario,
        "LLMStreamBurn",
        (16.0, 6.9),
        "100% of the split misses waited in stream, worst pod engine-0 (100% of the misses)",
        "The engine made the tokens; something on their way held them back: a slow client, or a hop that buffers.",
        "Verdict: stream. Cause hint: none. Against its own last quiet hour: load 1.00x."
        " 100% of the closed misses carry a split.",
    )


# --- state -----------------------------------------------------------------------------------------------------------------


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
    for le, per_minute in (("1.0", 60.0), ("5.0", 180.0), ("+Inf", 240.0)):
        scenario.counts("llm_stream_events_per_read_bucket", per_minute, lane=LANE, le=le)
    scenario.counts("llm_stream_events_per_read_count", 240, lane=LANE)

    scenario.reads(70, "LLMEngineDown page", "engine-0: the engine does not answer")
    scenario.reads(70, "LLMEngineRestarted ticket", "engine-0: the engine restarted 2 time(s) in ten minutes")
    scenario.reads(70, "LLMNothingComesBack page", "engine-0: requests wait and nothing comes back, for 1m 30s")
    scenario.reads(70, "LLMEnginePreempting ticket", "engine-0: 12.5% of the requests are preempted")
    scenario.reads(70, "LLMEngineKvCacheFull ticket", "engine-0: KV cache 96.5% full while requests wait")
    burst = "25% of the reads bring more than five events at once"
    scenario.reads(70, "LLMEventsInBursts ticket", f"engine-0, interactive: {burst}")


@STATE.scenario(5, 70)
def one_replica_of_three(scenario: Scenario) -> None:
    """Named, with its share."""
    for pod, share in (("engine-0", 0.1), ("engine-1", 0.02), ("engine-2", 0.42)):
        scenario.counts("llm_slo_requests_total", 120, pod=pod, **ENDED, objective="ttft")
        scenario.counts("llm_slo_misses_total", 120 * share, pod=pod, **ENDED, objective="ttft")

    summary = "engine-2: 42% of its requests miss, three times as many as on its siblings"
    scenario.reads(70, "LLMOutlierReplica ticket", summary, pod="engine-2")


@STATE.scenario(5, 70)
def a_sidecar_in_all_its_troubles(scenario: Scenario) -> None:
    """Each of its alerts says one number, in a unit."""
    scenario.shows("llm_engine_traffic_seen_ratio", 0.955)
    scenario.shows("llm_engine_report_agreement_ratio", 0.75, phase="queue")
    for le, per_minute in (("0.005", 588.0), ("0.01", 600.0), ("+Inf", 600.0)):
        scenario.counts("llm_sidecar_overhead_seconds_bucket", per_minute, le=le)
    scenario.counts("llm_requests_total", 60, **ENDED, outcome="ok")
    scenario.counts("llm_requests_total", 20, **ENDED, outcome="rejected")
    scenario.counts("llm_sidecar_dropped_total", 4, reason="event_too_long")
    scenario.counts("llm_phase_attribution_total", 45, lane=LANE, source="none", reason="engine_silent")
    scenario.counts("llm_phase_attribution_total", 15, lane=LANE, source="engine", reason="in_band")
    scenario.counts("llm_sidecar_label_overflow_total", 4, label="model")
    scenario.shows("llm_sidecar_config_last_reload_successful", 0)

    away = "the sidecar's sums are 25% away from the engine's own"
    scenario.reads(70, "LLMSidecarDisagrees ticket", f"engine-0: {away}")
    scenario.reads(70, "LLMSidecarSlow ticket", "engine-0: the sidecar delays tokens, p99 7.5ms")
    scenario.reads(70, "LLMSidecarDropsObservations ticket", "engine-0: 5% of the requests are not measured whole")
    scenario.reads(
        70,
        "LLMAttributionLow ticket",
        "interactive: nobody can split the TTFT of 75% of the requests, worst pod engine-0 (100% of it)",
    )
    scenario.reads(70, "LLMLabelOverflow ticket", "engine-0: 60 observations were counted under `other`")
    scenario.reads(70, "LLMConfigReloadFailed ticket", "engine-0: the last config reload was refused")
    scenario.reads(
        70,
        "LLMRequestsRejected ticket",
        "interactive: 25% of the requests are turned away (429, 503), worst pod engine-0 (100% of it)",
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


@HOURS.scenario(452, 28)
def a_cache_that_is_lost_and_clients_that_leave(scenario: Scenario) -> None:
    """Shares, against what they were."""
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000)
    scenario.counts("llm_engine_prefix_cache_hits_total", 36_000, 7_500)
    scenario.counts("llm_requests_received_total", 120, **WHO)
    scenario.counts("llm_client_cancels_total", 0, 15, **WHO, stage="waiting")

    half = "less than half of before"
    scenario.reads(
        480, "LLMPrefixCacheCollapsed ticket", f"engine-0: only 12.5% of the prompt tokens are cached, {half}"
    )
    scenario.reads(
        480,
        "LLMClientsGiveUp ticket",
        "interactive: 12.5% of the clients leave before their first token, worst pod engine-0 (100% of it)",
    )


@WEEKS.scenario(7 * 24 * 60, 24 * 60)
def longer_prompts(scenario: Scenario) -> None:
    """Tokens, without decimals."""
    scenario.counts("llm_prompt_tokens_sum", 8_000, 24_004, **WHO)
    scenario.counts("llm_prompt_tokens_count", 10, **WHO)

    summary = (
        "interactive: prompts are 2400 tokens long, 30 % or more above a week ago, worst pod engine-0 (100% of it)"
    )
    scenario.reads(8 * 24 * 60, "LLMPromptsGrowing ticket", summary)
