"""Alerts about the sidecar itself: each fires and does not fire, on both sides of what it compares with.

Only the alert file is played: these need no recorded series.
"""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Anew, Book, Story


BOOK = Book("sidecar", rules=(ALERTS,), evaluation_seconds=30)
WHO = {"model": MODEL, "lane": LANE}
ENDED = {**WHO, "prompt_bucket": "512-4k"}


# --- the sidecar is gone ---------------------------------------------------------------------------------------------------


@BOOK.story(5, 10)
def a_sidecar_that_cannot_be_scraped(story: Story) -> None:
    """The engine is no target of its own: nothing says that it is gone too. A page, and nothing else."""
    story.shows("up", 1, 0)
    story.shows("llm_sidecar_build_info", 1, None, version="1")
    story.shows("llm_engine_up", 1, None)

    story.alerts(5)
    story.alerts(7, "LLMSidecarDown page")
    story.alerts(15, "LLMSidecarDown page")


@BOOK.story(5, 10)
def a_sidecar_that_cannot_be_scraped_while_its_engine_can(story: Story) -> None:
    """The engine is a target of the same pod, and up."""
    story.shows("up", 1, 0)
    story.series[f'up{{instance="engine-0:8000",job="engine",namespace="{story.namespace}",pod="engine-0"}}'] = "1x60"
    story.shows("llm_sidecar_build_info", 1, None, version="1")

    story.alerts(7, "LLMSidecarDown page")


@BOOK.story(5, 10)
def a_pod_that_is_gone_as_a_whole(story: Story) -> None:
    """Engine and sidecar are down together: that is a pod that went, and somebody else's page."""
    story.shows("up", 1, 0)
    story.series[f'up{{instance="engine-0:8000",job="engine",namespace="{story.namespace}",pod="engine-0"}}'] = (
        "1x20 0x40"
    )
    story.shows("llm_sidecar_build_info", 1, None, version="1")

    story.alerts(7)
    story.alerts(15)


@BOOK.story(5, 10)
def something_else_that_cannot_be_scraped(story: Story) -> None:
    """What never was a sidecar is not our business."""
    story.shows("up", 1, 0)

    story.alerts(15)


@BOOK.story(5, 0.5, 9.5)
def one_scrape_that_fails(story: Story) -> None:
    """It wakes nobody."""
    story.shows("up", 1, 0, 1)
    story.shows("llm_sidecar_build_info", 1, None, 1, version="1")

    for minute in (5, 5.5, 6, 7):
        story.alerts(minute)


@BOOK.story(5, 10)
def one_sidecar_of_two_cannot_be_scraped(story: Story) -> None:
    """The page names its pod; the other pod's good health hides nothing."""
    for pod, after in (("engine-0", 0.0), ("engine-1", 1.0)):
        story.shows("up", 1, after, pod=pod)
        story.shows("llm_sidecar_build_info", 1, after or None, pod=pod, version="1")

    story.alerts(15, "LLMSidecarDown page")


# --- what it no longer sees ------------------------------------------------------------------------------------------------


@BOOK.story(30)
def a_tenth_of_the_requests_bypasses_the_sidecar(story: Story) -> None:
    """And more: a ticket."""
    story.shows("llm_engine_traffic_seen_ratio", 0.89)

    story.alerts(9)
    story.alerts(25, "LLMSidecarBypassed ticket")


@BOOK.story(30)
def less_than_a_tenth_bypasses_the_sidecar(story: Story) -> None:
    """None: counts are read at different instants."""
    story.shows("llm_engine_traffic_seen_ratio", 0.91)

    story.alerts(30)


@BOOK.story(30)
def an_engine_that_counts_too_little_to_compare(story: Story) -> None:
    """What is not known is not low."""
    story.shows("llm_engine_up", 1)

    story.alerts(30)


def agreement(story: Story, ratio: float, seen: float = 1) -> None:
    story.shows("llm_engine_report_agreement_ratio", ratio, phase="queue")
    story.shows("llm_engine_report_agreement_ratio", 1, phase="prefill")
    story.shows("llm_engine_traffic_seen_ratio", seen)


@BOOK.story(30)
def a_phase_that_is_too_short_by_more_than_a_tenth(story: Story) -> None:
    """All traffic is seen, and one phase does not add up: a ticket."""
    agreement(story, 0.89)

    story.alerts(14)
    story.alerts(20, "LLMSidecarDisagrees ticket")


@BOOK.story(30)
def a_phase_that_is_too_long_by_more_than_a_tenth(story: Story) -> None:
    """Both ways."""
    agreement(story, 1.11)

    story.alerts(20, "LLMSidecarDisagrees ticket")


@BOOK.story(30)
def phases_that_agree_within_a_tenth(story: Story) -> None:
    """None."""
    agreement(story, 0.91)

    story.alerts(30)


@BOOK.story(30)
def phases_that_are_too_short_because_traffic_bypasses_the_sidecar(story: Story) -> None:
    """One ticket, for the cause."""
    agreement(story, 0.5, seen=0.89)

    story.alerts(30, "LLMSidecarBypassed ticket")


@BOOK.story(30)
def phases_that_are_too_short_although_nearly_all_is_seen(story: Story) -> None:
    """The tenth that may bypass it explains no half."""
    agreement(story, 0.5, seen=0.91)

    story.alerts(30, "LLMSidecarDisagrees ticket")


# --- what it costs ---------------------------------------------------------------------------------------------------------


def overhead(story: Story, slow: float) -> None:
    """Share of the chunks that take between 5 and 10 ms, and not 1 ms at most."""
    for le, share in (("0.001", 1 - slow), ("0.005", 1 - slow), ("0.01", 1.0), ("+Inf", 1.0)):
        story.counts("llm_sidecar_overhead_seconds_bucket", 600 * share, le=le)


@BOOK.story(30)
def more_than_one_chunk_in_a_hundred_is_late(story: Story) -> None:
    """The 99th percentile is above 5 ms: a ticket."""
    overhead(story, 0.011)

    story.alerts(9)
    story.alerts(20, "LLMSidecarSlow ticket")


@BOOK.story(30)
def less_than_one_chunk_in_a_hundred_is_late(story: Story) -> None:
    """None."""
    overhead(story, 0.009)

    story.alerts(30)


@BOOK.story(30)
def chunks_that_take_four_milliseconds(story: Story) -> None:
    """They are not late."""
    for le, share in (("0.001", 0.5), ("0.0025", 0.9), ("0.005", 1.0), ("+Inf", 1.0)):
        story.counts("llm_sidecar_overhead_seconds_bucket", 600 * share, le=le)

    story.alerts(30)


@BOOK.story(30)
def an_event_loop_that_lags_by_forty_milliseconds(story: Story) -> None:
    """It is not late either."""
    for le, share in (("0.01", 0.5), ("0.025", 0.9), ("0.05", 1.0), ("+Inf", 1.0)):
        story.counts("llm_sidecar_event_loop_lag_seconds_bucket", 600 * share, le=le)

    story.alerts(30)


def lag(story: Story, late: float) -> None:
    """Share of the loop's timers that are late by 50 to 100 ms."""
    for le, share in (("0.025", 1 - late), ("0.05", 1 - late), ("0.1", 1.0), ("+Inf", 1.0)):
        story.counts("llm_sidecar_event_loop_lag_seconds_bucket", 600 * share, le=le)


@BOOK.story(30)
def the_event_loop_lags(story: Story) -> None:
    """One timer in a hundred is late by more than 50 ms: a ticket."""
    lag(story, 0.011)

    story.alerts(20, "LLMSidecarSlow ticket")


@BOOK.story(30)
def the_event_loop_lags_seldom(story: Story) -> None:
    """None."""
    lag(story, 0.009)

    story.alerts(30)


@BOOK.story(30)
def an_idle_sidecar(story: Story) -> None:
    """No chunk has no percentile."""
    overhead(story, 0)
    story.counts("llm_sidecar_event_loop_lag_seconds_bucket", 0, le="+Inf")
    story.counts("llm_requests_total", 0, **ENDED, outcome="ok")
    story.counts("llm_sidecar_dropped_total", 0, reason="observer_error")
    story.counts("llm_phase_attribution_total", 0, lane=LANE, source="none", reason="engine_silent")

    story.alerts(30)


# --- what it could not measure ---------------------------------------------------------------------------------------------


def dropped(story: Story, per_request: float, requests: float = 100) -> None:
    story.counts("llm_sidecar_dropped_total", requests * per_request, reason="event_too_long")
    story.counts("llm_sidecar_dropped_total", 0, reason="observer_error")
    story.counts("llm_sidecar_dropped_total", 1000, reason="log_limited")
    story.counts("llm_requests_total", requests, **ENDED, outcome="ok")


@BOOK.story(30)
def one_observation_in_a_hundred_is_dropped(story: Story) -> None:
    """And more: a ticket. Lines that were not logged are no observations."""
    dropped(story, 0.0102)

    story.alerts(25, "LLMSidecarDropsObservations ticket")


@BOOK.story(30)
def fewer_than_one_observation_in_a_hundred_are_dropped(story: Story) -> None:
    """None, however many lines the log leaves out."""
    dropped(story, 0.0098)

    story.alerts(30)


@BOOK.story(30)
def ten_observations_are_dropped_in_a_quarter_of_an_hour(story: Story) -> None:
    """They are enough."""
    dropped(story, 1, 0.68)

    story.alerts(29, "LLMSidecarDropsObservations ticket")


@BOOK.story(30)
def nine_observations_are_dropped_in_a_quarter_of_an_hour(story: Story) -> None:
    """They are too few."""
    dropped(story, 1, 0.65)

    story.alerts(30)


def unsplit(story: Story, share: float, per_minute: float = 60) -> None:
    story.counts("llm_phase_attribution_total", per_minute * share, lane=LANE, source="none", reason="engine_silent")
    story.counts("llm_phase_attribution_total", per_minute * (1 - share), lane=LANE, source="engine", reason="in_band")


@BOOK.story(65)
def half_of_the_requests_cannot_be_split(story: Story) -> None:
    """More than half, for half an hour: a ticket."""
    unsplit(story, 0.51)

    story.alerts(25)
    story.alerts(64, "LLMAttributionLow ticket")


@BOOK.story(65)
def less_than_half_of_the_requests_cannot_be_split(story: Story) -> None:
    """None."""
    unsplit(story, 0.49)

    story.alerts(64)


@BOOK.story(65)
def fifty_requests_in_half_an_hour(story: Story) -> None:
    """They are enough to judge by."""
    unsplit(story, 1, 1.7)

    story.alerts(64, "LLMAttributionLow ticket")


@BOOK.story(65)
def forty_nine_requests_in_half_an_hour(story: Story) -> None:
    """They are too few."""
    unsplit(story, 1, 1.63)

    story.alerts(64)


@BOOK.story(30)
def ten_names_that_are_not_known(story: Story) -> None:
    """In a quarter of an hour: a ticket."""
    story.counts("llm_sidecar_label_overflow_total", 0.4, label="model")
    story.counts("llm_sidecar_label_overflow_total", 0.28, label="lane")

    story.alerts(29, "LLMLabelOverflow ticket")


@BOOK.story(30)
def nine_names_that_are_not_known(story: Story) -> None:
    """None."""
    story.counts("llm_sidecar_label_overflow_total", 0.4, label="model")
    story.counts("llm_sidecar_label_overflow_total", 0.25, label="lane")

    story.alerts(30)


@BOOK.story(5, 15)
def a_config_that_was_refused(story: Story) -> None:
    """A ticket, once nobody has corrected it for ten minutes."""
    story.shows("llm_sidecar_config_last_reload_successful", 1, 0)

    story.alerts(14)
    story.alerts(16, "LLMConfigReloadFailed ticket")


@BOOK.story(5, 3, 15)
def a_config_that_was_refused_and_then_taken(story: Story) -> None:
    """None."""
    story.shows("llm_sidecar_config_last_reload_successful", 1, 0, 1)

    for minute in (7, 10, 13, 20):
        story.alerts(minute)


# --- restarts --------------------------------------------------------------------------------------------------------------


@BOOK.story(15, 15)
def a_sidecar_that_begins_anew(story: Story) -> None:
    """Its counters fall to 0: nothing has happened."""
    for name in ("llm_sidecar_label_overflow_total", "llm_sidecar_dropped_total"):
        label = "label" if "label" in name else "reason"
        story.counts(name, 0.1, Anew(0.1), **{label: "model" if label == "label" else "observer_error"})
    story.counts("llm_requests_total", 60, Anew(60), **ENDED, outcome="ok")
    story.counts("llm_requests_total", 0.1, Anew(0.1), **ENDED, outcome="rejected")

    for minute in (15.5, 17, 20, 29):
        story.alerts(minute)
