"""Alerts about the sidecar itself: each fires and does not fire, on both sides of what it compares with.

Only the alert file is played: these need no recorded series.
"""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Anew, Scenario, Suite
from tests.alert_rules.world import WELL, broken, causes, lane


SUITE = Suite("sidecar", rules=(ALERTS,), evaluation_seconds=30)
WHO = {"model": MODEL, "lane": LANE}
ENDED = {**WHO, "prompt_bucket": "512-4k"}


# --- the sidecar is gone ---------------------------------------------------------------------------------------------------


@SUITE.scenario(5, 10)
def a_sidecar_that_cannot_be_scraped(scenario: Scenario) -> None:
    """The engine is no target of its own: nothing says that it is gone too. A page, and nothing else."""
    scenario.shows("up", 1, 0)
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")
    scenario.shows("llm_engine_up", 1, None)

    scenario.alerts(5)
    scenario.alerts(7, "LLMSidecarDown page")
    scenario.alerts(15, "LLMSidecarDown page")


@SUITE.scenario(5, 10)
def a_sidecar_that_cannot_be_scraped_while_its_engine_can(scenario: Scenario) -> None:
    """The engine is a target of the same pod, and up."""
    scenario.shows("up", 1, 0)
    scenario.series[f'up{{instance="engine-0:8000",job="engine",namespace="{scenario.namespace}",pod="engine-0"}}'] = (
        "1x60"
    )
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(7, "LLMSidecarDown page")


@SUITE.scenario(5, 10)
def a_pod_that_is_gone_as_a_whole(scenario: Scenario) -> None:
    """Engine and sidecar are down together: that is a pod that went, and somebody else's page."""
    scenario.shows("up", 1, 0)
    scenario.series[f'up{{instance="engine-0:8000",job="engine",namespace="{scenario.namespace}",pod="engine-0"}}'] = (
        "1x20 0x40"
    )
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(7)
    scenario.alerts(15)


@SUITE.scenario(5, 10)
def something_else_that_cannot_be_scraped(scenario: Scenario) -> None:
    """What never was a sidecar is not our business."""
    scenario.shows("up", 1, 0)

    scenario.alerts(15)


@SUITE.scenario(5, 0.5, 9.5)
def one_scrape_that_fails(scenario: Scenario) -> None:
    """It wakes nobody."""
    scenario.shows("up", 1, 0, 1)
    scenario.shows("llm_sidecar_build_info", 1, None, 1, version="1")

    for minute in (5, 5.5, 6, 7):
        scenario.alerts(minute)


@SUITE.scenario(5, 10)
def one_sidecar_of_two_cannot_be_scraped(scenario: Scenario) -> None:
    """The page names its pod; the other pod's good health hides nothing."""
    for pod, after in (("engine-0", 0.0), ("engine-1", 1.0)):
        scenario.shows("up", 1, after, pod=pod)
        scenario.shows("llm_sidecar_build_info", 1, after or None, pod=pod, version="1")

    scenario.alerts(15, "LLMSidecarDown page")


# --- what it no longer sees ------------------------------------------------------------------------------------------------


@SUITE.scenario(30)
def a_tenth_of_the_requests_bypasses_the_sidecar(scenario: Scenario) -> None:
    """And more: a ticket."""
    scenario.shows("llm_engine_traffic_seen_ratio", 0.89)

    scenario.alerts(9)
    scenario.alerts(25, "LLMSidecarBypassed ticket")


@SUITE.scenario(30)
def less_than_a_tenth_bypasses_the_sidecar(scenario: Scenario) -> None:
    """None: counts are read at different instants."""
    scenario.shows("llm_engine_traffic_seen_ratio", 0.91)

    scenario.alerts(30)


@SUITE.scenario(30)
def an_engine_that_counts_too_little_to_compare(scenario: Scenario) -> None:
    """What is not known is not low."""
    scenario.shows("llm_engine_up", 1)

    scenario.alerts(30)


def agreement(scenario: Scenario, ratio: float, seen: float = 1) -> None:
    scenario.shows("llm_engine_report_agreement_ratio", ratio, phase="queue")
    scenario.shows("llm_engine_report_agreement_ratio", 1, phase="prefill")
    scenario.shows("llm_engine_traffic_seen_ratio", seen)


@SUITE.scenario(30)
def a_phase_that_is_too_short_by_more_than_a_tenth(scenario: Scenario) -> None:
    """All traffic is seen, and one phase does not add up: a ticket."""
    agreement(scenario, 0.89)

    scenario.alerts(14)
    scenario.alerts(20, "LLMSidecarDisagrees ticket")


@SUITE.scenario(30)
def a_phase_that_is_too_long_by_more_than_a_tenth(scenario: Scenario) -> None:
    """Both ways."""
    agreement(scenario, 1.11)

    scenario.alerts(20, "LLMSidecarDisagrees ticket")


@SUITE.scenario(30)
def phases_that_agree_within_a_tenth(scenario: Scenario) -> None:
    """None."""
    agreement(scenario, 0.91)

    scenario.alerts(30)


@SUITE.scenario(30)
def phases_that_are_too_short_because_traffic_bypasses_the_sidecar(scenario: Scenario) -> None:
    """One ticket, for the cause."""
    agreement(scenario, 0.5, seen=0.89)

    scenario.alerts(30, "LLMSidecarBypassed ticket")


@SUITE.scenario(30)
def phases_that_are_too_short_although_nearly_all_is_seen(scenario: Scenario) -> None:
    """The tenth that may bypass it explains no half."""
    agreement(scenario, 0.5, seen=0.91)

    scenario.alerts(30, "LLMSidecarDisagrees ticket")


# --- what it costs ---------------------------------------------------------------------------------------------------------


def overhead(scenario: Scenario, slow: float) -> None:
    """Share of the chunks that take between 5 and 10 ms, and not 1 ms at most."""
    for le, share in (("0.001", 1 - slow), ("0.005", 1 - slow), ("0.01", 1.0), ("+Inf", 1.0)):
        scenario.counts("llm_sidecar_overhead_seconds_bucket", 600 * share, le=le)


@SUITE.scenario(30)
def more_than_one_chunk_in_a_hundred_is_late(scenario: Scenario) -> None:
    """The 99th percentile is above 5 ms: a ticket."""
    overhead(scenario, 0.011)

    scenario.alerts(9)
    scenario.alerts(20, "LLMSidecarSlow ticket")


@SUITE.scenario(30)
def less_than_one_chunk_in_a_hundred_is_late(scenario: Scenario) -> None:
    """None."""
    overhead(scenario, 0.009)

    scenario.alerts(30)


@SUITE.scenario(30)
def chunks_that_take_four_milliseconds(scenario: Scenario) -> None:
    """They are not late."""
    for le, share in (("0.001", 0.5), ("0.0025", 0.9), ("0.005", 1.0), ("+Inf", 1.0)):
        scenario.counts("llm_sidecar_overhead_seconds_bucket", 600 * share, le=le)

    scenario.alerts(30)


@SUITE.scenario(30)
def an_event_loop_that_lags_by_forty_milliseconds(scenario: Scenario) -> None:
    """It is not late either."""
    for le, share in (("0.01", 0.5), ("0.025", 0.9), ("0.05", 1.0), ("+Inf", 1.0)):
        scenario.counts("llm_sidecar_event_loop_lag_seconds_bucket", 600 * share, le=le)

    scenario.alerts(30)


def lag(scenario: Scenario, late: float) -> None:
    """Share of the loop's timers that are late by 50 to 100 ms."""
    for le, share in (("0.025", 1 - late), ("0.05", 1 - late), ("0.1", 1.0), ("+Inf", 1.0)):
        scenario.counts("llm_sidecar_event_loop_lag_seconds_bucket", 600 * share, le=le)


@SUITE.scenario(30)
def the_event_loop_lags(scenario: Scenario) -> None:
    """One timer in a hundred is late by more than 50 ms: a ticket."""
    lag(scenario, 0.011)

    scenario.alerts(20, "LLMSidecarSlow ticket")


@SUITE.scenario(30)
def the_event_loop_lags_seldom(scenario: Scenario) -> None:
    """None."""
    lag(scenario, 0.009)

    scenario.alerts(30)


@SUITE.scenario(30)
def an_idle_sidecar(scenario: Scenario) -> None:
    """No chunk has no percentile."""
    overhead(scenario, 0)
    scenario.counts("llm_sidecar_event_loop_lag_seconds_bucket", 0, le="+Inf")
    scenario.counts("llm_requests_total", 0, **ENDED, outcome="ok")
    scenario.counts("llm_sidecar_dropped_total", 0, reason="observer_error")
    scenario.counts("llm_phase_attribution_total", 0, lane=LANE, source="none", reason="engine_silent")

    scenario.alerts(30)


# --- what it could not measure ---------------------------------------------------------------------------------------------


def dropped(scenario: Scenario, per_request: float, requests: float = 100) -> None:
    scenario.counts("llm_sidecar_dropped_total", requests * per_request, reason="event_too_long")
    scenario.counts("llm_sidecar_dropped_total", 0, reason="observer_error")
    scenario.counts("llm_sidecar_dropped_total", 1000, reason="log_limited")
    scenario.counts("llm_requests_total", requests, **ENDED, outcome="ok")


@SUITE.scenario(30)
def one_observation_in_a_hundred_is_dropped(scenario: Scenario) -> None:
    """And more: a ticket. Lines that were not logged are no observations."""
    dropped(scenario, 0.0102)

    scenario.alerts(25, "LLMSidecarDropsObservations ticket")


@SUITE.scenario(30)
def fewer_than_one_observation_in_a_hundred_are_dropped(scenario: Scenario) -> None:
    """None, however many lines the log leaves out."""
    dropped(scenario, 0.0098)

    scenario.alerts(30)


@SUITE.scenario(30)
def ten_observations_are_dropped_in_a_quarter_of_an_hour(scenario: Scenario) -> None:
    """They are enough."""
    dropped(scenario, 1, 0.68)

    scenario.alerts(29, "LLMSidecarDropsObservations ticket")


@SUITE.scenario(30)
def nine_observations_are_dropped_in_a_quarter_of_an_hour(scenario: Scenario) -> None:
    """They are too few."""
    dropped(scenario, 1, 0.65)

    scenario.alerts(30)


def unsplit(scenario: Scenario, share: float, per_minute: float = 60) -> None:
    scenario.counts("llm_phase_attribution_total", per_minute * share, lane=LANE, source="none", reason="engine_silent")
    scenario.counts(
        "llm_phase_attribution_total", per_minute * (1 - share), lane=LANE, source="engine", reason="in_band"
    )


@SUITE.scenario(65)
def half_of_the_requests_cannot_be_split(scenario: Scenario) -> None:
    """More than half, for half an hour: a ticket."""
    unsplit(scenario, 0.51)

    scenario.alerts(25)
    scenario.alerts(64, "LLMAttributionLow ticket")


@SUITE.scenario(65)
def less_than_half_of_the_requests_cannot_be_split(scenario: Scenario) -> None:
    """None."""
    unsplit(scenario, 0.49)

    scenario.alerts(64)


@SUITE.scenario(65)
def fifty_requests_in_half_an_hour(scenario: Scenario) -> None:
    """They are enough to judge by."""
    unsplit(scenario, 1, 1.7)

    scenario.alerts(64, "LLMAttributionLow ticket")


@SUITE.scenario(65)
def forty_nine_requests_in_half_an_hour(scenario: Scenario) -> None:
    """They are too few."""
    unsplit(scenario, 1, 1.63)

    scenario.alerts(64)


@SUITE.scenario(30)
def ten_names_that_are_not_known(scenario: Scenario) -> None:
    """In a quarter of an hour: a ticket."""
    scenario.counts("llm_sidecar_label_overflow_total", 0.4, label="model")
    scenario.counts("llm_sidecar_label_overflow_total", 0.28, label="lane")

    scenario.alerts(29, "LLMLabelOverflow ticket")


@SUITE.scenario(30)
def nine_names_that_are_not_known(scenario: Scenario) -> None:
    """None."""
    scenario.counts("llm_sidecar_label_overflow_total", 0.4, label="model")
    scenario.counts("llm_sidecar_label_overflow_total", 0.25, label="lane")

    scenario.alerts(30)


@SUITE.scenario(5, 15)
def a_config_that_was_refused(scenario: Scenario) -> None:
    """A ticket, once nobody has corrected it for ten minutes."""
    scenario.shows("llm_sidecar_config_last_reload_successful", 1, 0)

    scenario.alerts(14)
    scenario.alerts(16, "LLMConfigReloadFailed ticket")


@SUITE.scenario(5, 3, 15)
def a_config_that_was_refused_and_then_taken(scenario: Scenario) -> None:
    """None."""
    scenario.shows("llm_sidecar_config_last_reload_successful", 1, 0, 1)

    for minute in (7, 10, 13, 20):
        scenario.alerts(minute)


# --- restarts --------------------------------------------------------------------------------------------------------------


@SUITE.scenario(15, 15)
def a_sidecar_that_begins_anew(scenario: Scenario) -> None:
    """Its counters fall to 0: nothing has happened."""
    for name in ("llm_sidecar_label_overflow_total", "llm_sidecar_dropped_total"):
        label = "label" if "label" in name else "reason"
        scenario.counts(name, 0.1, Anew(0.1), **{label: "model" if label == "label" else "observer_error"})
    scenario.counts("llm_requests_total", 60, Anew(60), **ENDED, outcome="ok")
    scenario.counts("llm_requests_total", 0.1, Anew(0.1), **ENDED, outcome="rejected")

    for minute in (15.5, 17, 20, 29):
        scenario.alerts(minute)


# --- a sidecar without CPU -------------------------------------------------------------------------------------------------


STARVED = Suite("starved")


def late(scenario: Scenario, seconds: float) -> None:
    """All turns of the event loop are late by so much, on a pod that misses for reasons of its engine."""
    causes(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue"))
    for le in (0.1, 0.25, 0.5):
        scenario.counts("llm_sidecar_event_loop_lag_seconds_bucket", 0, 600 * (seconds <= le), le=str(le))
    scenario.counts("llm_sidecar_event_loop_lag_seconds_bucket", 0, 600, le="+Inf")


@STARVED.scenario(6, 2)
def an_event_loop_that_is_late(scenario: Scenario) -> None:
    """By more than a quarter of a second: what it measures names no phase, and a page says so."""
    late(scenario, 0.4)

    scenario.pages(8, "LLMSidecarStarved", "LLMQueueBurn")


@STARVED.scenario(6, 2)
def an_event_loop_that_is_a_little_late(scenario: Scenario) -> None:
    """None."""
    late(scenario, 0.2)

    scenario.pages(8, "LLMQueueBurn")


@STARVED.scenario(6, 2)
def a_late_event_loop_of_a_pod_that_keeps_its_objectives(scenario: Scenario) -> None:
    """No page of its own: LLMSidecarSlow is its ticket."""
    lane(scenario, WELL, WELL)
    for le in ("0.5", "+Inf"):
        scenario.counts("llm_sidecar_event_loop_lag_seconds_bucket", 0, 600, le=le)

    scenario.pages(8)


# --- no sidecar at all -----------------------------------------------------------------------------------------------------


ABSENT = Suite("absent", rules=(ALERTS,), evaluation_seconds=30, plain=True, apart=True)


@ABSENT.scenario(2, 8)
def no_sidecar_at_all(scenario: Scenario) -> None:
    """Discovery is broken, or all is gone: after five minutes a page."""
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(6.5)
    scenario.alerts(8, "LLMSidecarAbsent page")
    scenario.reads(8, "LLMSidecarAbsent page", "No sidecar is scraped at all")


@ABSENT.scenario(8)
def one_sidecar(scenario: Scenario) -> None:
    """It is enough."""
    scenario.shows("llm_sidecar_build_info", 1, version="1")

    scenario.alerts(8)
