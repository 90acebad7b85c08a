"""Alerts about a sidecar that is scraped: each fires and does not fire, on both sides of what it compares with."""

from tests.alert_rules.promtool import (
    ALERTS,
    LANE,
    MODEL,
    Anew,
    Happens,
    Scenario,
    Suite,
    counter,
    gauge,
    of,
)
from tests.alert_rules.world import WELL, broken, causes, lane


SUITE = Suite("sidecar", rules=(ALERTS,), evaluation_seconds=30)
ENDED = {"model": MODEL, "lane": LANE, "prompt_bucket": "512-4k"}


# --- what it no longer sees, and what it costs -----------------------------------------------------------------------------


def agreement(ratio: float, seen: float = 1) -> Happens:
    name = "llm_engine_report_agreement_ratio"
    return of(
        gauge(name, ratio, phase="queue"), gauge(name, 1, phase="prefill"), gauge("llm_engine_traffic_seen_ratio", seen)
    )


def measured(metric: str, **late: float) -> Happens:
    """600 measurements a minute, and the share of each result but in_time."""
    shares = {"in_time": 1 - sum(late.values()), **late}
    return of(*(counter(f"llm_sidecar_{metric}_total", 600 * share, result=result) for result, share in shares.items()))


def idle() -> Happens:
    return of(
        *(counter("llm_sidecar_timed_reads_total", 0, result=result) for result in ("in_time", "late")),
        *(
            counter("llm_sidecar_event_loop_checks_total", 0, result=result)
            for result in ("in_time", "late", "very_late")
        ),
        counter("llm_requests_total", 0, **ENDED, outcome="ok"),
        counter("llm_sidecar_dropped_total", 0, reason="observer_error"),
        counter("llm_phase_attribution_total", 0, lane=LANE, source="none", reason="engine_silent"),
    )


def dropped(per_request: float, requests: float = 100) -> Happens:
    """Observations; lines that were not logged are none, and neither are reports on requests that are measured, or that have no phases."""
    return of(
        counter("llm_sidecar_dropped_total", requests * per_request, reason="event_too_long"),
        counter("llm_sidecar_dropped_total", 0, reason="observer_error"),
        *(
            counter("llm_sidecar_dropped_total", 1000, reason=reason)
            for reason in ("log_limited", "report_twice", "report_unneeded")
        ),
        counter("llm_requests_total", requests, **ENDED, outcome="ok"),
    )


def overflown(lanes: float) -> Happens:
    name = "llm_sidecar_label_overflow_total"
    return of(counter(name, 0.4, label="model"), counter(name, lanes, label="lane"))


def overhead(slow: float) -> Happens:
    return measured("timed_reads", late=slow)


def lag(slow: float, very_slow: float = 0.0) -> Happens:
    return measured("event_loop_checks", late=slow, very_late=very_slow)


BYPASSED, DISAGREES, SLOW = "LLMSidecarBypassed ticket", "LLMSidecarDisagrees ticket", "LLMSidecarSlow ticket"
DROPS, OVERFLOW = "LLMSidecarDropsObservations ticket", "LLMLabelOverflow ticket"
SUITE.cases(
    (30,),
    (
        "a tenth of the requests bypasses it",
        "A ticket.",
        gauge("llm_engine_traffic_seen_ratio", 0.89),
        {9: "", 25: BYPASSED},
    ),
    (
        "less than a tenth bypasses it",
        "Counts are read at different instants.",
        gauge("llm_engine_traffic_seen_ratio", 0.91),
        {30: ""},
    ),
    ("an engine that counts too little", "What is not known is not low.", gauge("llm_engine_up", 1), {30: ""}),
    ("a phase that is too short", "By more than a tenth: a ticket.", agreement(0.89), {14: "", 20: DISAGREES}),
    ("a phase that is too long", "Both ways.", agreement(1.11), {20: DISAGREES}),
    ("phases that agree within a tenth", "None.", agreement(0.91), {30: ""}),
    ("phases too short because of a bypass", "One ticket, for the cause.", agreement(0.5, 0.89), {30: BYPASSED}),
    (
        "phases too short although nearly all is seen",
        "A tenth explains no half.",
        agreement(0.5, 0.91),
        {30: DISAGREES},
    ),
    ("more than one chunk in a hundred is late", "By more than 5 ms: a ticket.", overhead(0.011), {9: "", 20: SLOW}),
    ("less than one chunk in a hundred is late", "None.", overhead(0.009), {30: ""}),
    ("one timer in a hundred is late", "By more than 50 ms: a ticket.", lag(0.011), {20: SLOW}),
    ("one timer in a hundred is late or very late", "Both count.", lag(0.005, 0.006), {20: SLOW}),
    ("fewer timers are late", "None.", lag(0.006, 0.003), {30: ""}),
    ("an idle sidecar", "No chunk has no percentile.", idle(), {30: ""}),
    ("one observation in a hundred is dropped", "A ticket.", dropped(0.0102), {25: DROPS}),
    ("fewer observations are dropped", "None, however many lines the log leaves out.", dropped(0.0098), {30: ""}),
    ("ten observations are dropped", "In a quarter of an hour: they are enough.", dropped(1, 0.68), {29: DROPS}),
    ("nine observations are dropped", "They are too few.", dropped(1, 0.65), {30: ""}),
    ("ten names that are not known", "In a quarter of an hour: a ticket.", overflown(0.28), {29: OVERFLOW}),
    ("nine names that are not known", "None.", overflown(0.25), {30: ""}),
)


def unsplit(share: float, per_minute: float = 60) -> Happens:
    name = "llm_phase_attribution_total"
    known = counter(name, per_minute * (1 - share), lane=LANE, source="engine", reason="in_band")
    return of(known, counter(name, per_minute * share, lane=LANE, source="none", reason="engine_silent"))


LOW, REFUSED = "LLMAttributionLow ticket", "LLMConfigReloadFailed ticket"
SUITE.cases(
    (65,),
    ("half of the requests cannot be split", "For half an hour: a ticket.", unsplit(0.51), {25: "", 64: LOW}),
    ("less than half cannot be split", "None.", unsplit(0.49), {64: ""}),
    ("fifty requests in half an hour", "They are enough to judge by.", unsplit(1, 1.7), {64: LOW}),
    ("forty nine requests in half an hour", "They are too few.", unsplit(1, 1.63), {64: ""}),
)


def reloaded(*values: float) -> Happens:
    return gauge("llm_sidecar_config_last_reload_successful", *values)


def anew() -> Happens:
    """Its counters fall to 0."""
    return of(
        counter("llm_sidecar_label_overflow_total", 0.1, Anew(0.1), label="model"),
        counter("llm_sidecar_dropped_total", 0.1, Anew(0.1), reason="observer_error"),
        counter("llm_requests_total", 60, Anew(60), **ENDED, outcome="ok"),
        counter("llm_requests_total", 0.1, Anew(0.1), **ENDED, outcome="rejected"),
    )


SUITE.cases(
    (5, 15), ("a config that was refused", "A ticket, after ten minutes.", reloaded(1, 0), {14: "", 16: REFUSED})
)
SUITE.cases(
    (5, 3, 15), ("a config that was taken in the end", "None.", reloaded(1, 0, 1), {7: "", 10: "", 13: "", 20: ""})
)
SUITE.cases(
    (15, 15), ("a sidecar that begins anew", "Nothing has happened.", anew(), {15.5: "", 17: "", 20: "", 29: ""})
)


# --- a sidecar without CPU ------------------------------------------------------------------------------------------------


STARVED = Suite("starved")


def late(scenario: Scenario, very: float) -> None:
    """Two timers of the event loop in a hundred are late, and so many of 100 very late, on a pod that misses for reasons of its engine."""
    causes(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue"))
    for result, of_100 in (("in_time", 98 - very), ("late", 2), ("very_late", very)):
        scenario.counts("llm_sidecar_event_loop_checks_total", 0, 6 * of_100, result=result)


@STARVED.scenario(6, 2)
def an_event_loop_that_is_late(scenario: Scenario) -> None:
    """By more than a quarter of a second, more than one time in a hundred: what it measures names no phase, and a page says so."""
    late(scenario, 1.1)

    scenario.pages(8, "LLMSidecarStarved", "LLMQueueBurn")


@STARVED.scenario(6, 2)
def an_event_loop_that_is_a_little_late(scenario: Scenario) -> None:
    """Fewer of its timers are very late: none."""
    late(scenario, 0.9)

    scenario.pages(8, "LLMQueueBurn")


@STARVED.scenario(6, 2)
def a_late_event_loop_of_a_pod_that_keeps_its_objectives(scenario: Scenario) -> None:
    """No page of its own: LLMSidecarSlow is its ticket."""
    lane(scenario, WELL, WELL)
    scenario.counts("llm_sidecar_event_loop_checks_total", 0, 600, result="very_late")

    scenario.pages(8)
