"""Alerts about the engine and its traffic: each fires and does not fire, on both sides of what it compares with.

Only the alert file is played: these need no recorded series (alert_rules/state.py).
"""

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
    other_target,
)
from tests.alert_rules.world import HEALTHY_PER_MINUTE


SUITE = Suite("engine", rules=(ALERTS,))
WHO = {"model": MODEL, "lane": LANE}
ENDED = {**WHO, "prompt_bucket": "512-4k"}
BACK = "LLMNothingComesBack page"


def stalled(per_minute: float) -> Happens:
    return counter("llm_engine_stalled_seconds_total", 0, per_minute)


SUITE.cases(
    (4, 4),
    (
        "twenty stalled seconds in two minutes",
        "A silence that no work explains: a page.",
        stalled(10.2),
        {4: "", 7: BACK},
    ),
    ("nineteen stalled seconds in two minutes", "A short one is no page of its own.", stalled(9.8), {7: ""}),
)
SUITE.cases(
    (4, 4, 8),
    (
        "an engine that goes on after a silence",
        "Its page outlasts the page of the pod, which it mutes.",
        counter("llm_engine_stalled_seconds_total", 0, 60, 0),
        {7: BACK, 12.5: BACK, 15.5: ""},
    ),
)


def waiting(oldest: float = 90, overdue: float = 3, read: float = 0, ok: float = 0) -> Happens:
    """Requests wait: the oldest for so many seconds; so many reads of output and good ends per minute. Another lane is idle."""
    return of(
        gauge("llm_oldest_request_seconds", 0, oldest, **WHO, state="waiting"),
        gauge("llm_requests_overdue", 0, overdue, **WHO),
        counter("llm_stream_reads_total", 600, read, lane=LANE, result="few"),
        counter("llm_requests_total", 60, ok, **ENDED, outcome="ok"),
        counter("llm_requests_total", 60, **ENDED, outcome="client_cancelled"),
        gauge("llm_oldest_request_seconds", 0, model=MODEL, lane="batch", state="waiting"),
        gauge("llm_requests_overdue", 0, model=MODEL, lane="batch"),
    )


SUITE.cases(
    (4, 5),
    ("requests wait and nothing comes back", "No token and no good end for two minutes.", waiting(), {8.5: BACK}),
    ("requests have waited for less than a minute", "That is a queue.", waiting(oldest=58), {8.5: ""}),
    ("requests have waited for a minute", "That is not.", waiting(oldest=62), {8.5: BACK}),
    ("requests wait that may", "An objective that allows it is not overdue.", waiting(overdue=0), {8.5: ""}),
    ("requests wait and tokens come", "The engine works, for others.", waiting(read=6), {8.5: ""}),
    ("requests wait and others end well", "Answers that are not streamed have no reads.", waiting(ok=1), {8.5: ""}),
    (
        "one of two pods gives nothing back",
        "The tokens of the other do not hide it.",
        of(
            waiting(),
            counter("llm_stream_reads_total", 600, pod="engine-1", lane=LANE, result="few"),
            counter("llm_requests_total", 60, pod="engine-1", **ENDED, outcome="ok"),
        ),
        {8.5: BACK},
    ),
)


def preempting(ratio: float, per_minute: float = HEALTHY_PER_MINUTE) -> Happens:
    preempted = counter("llm_engine_preemptions_total", 0, per_minute * ratio)
    return of(preempted, counter("llm_requests_received_total", per_minute, **WHO))


def kv(full: float, waiting: float) -> Happens:
    return of(gauge("llm_engine_kv_cache_usage_ratio", 0.5, full), gauge("llm_engine_requests_waiting", 0, waiting))


PREEMPTING, FULL = "LLMEnginePreempting ticket", "LLMEngineKvCacheFull ticket"
SUITE.cases(
    (4, 8),
    ("one request in twenty is preempted", "A ticket after a minute.", preempting(0.051), {4: "", 11: PREEMPTING}),
    ("fewer than one request in twenty are preempted", "None.", preempting(0.049), {12: ""}),
    ("three preemptions of few requests", "They count.", preempting(0.31, 2), {11: PREEMPTING}),
    ("two preemptions of few requests", "They are too few, whatever their share.", preempting(0.29, 2), {12: ""}),
    ("a kv cache that is full with a queue", "A ticket after three minutes.", kv(0.96, 1), {6.5: "", 7.5: FULL}),
    ("a kv cache that is nearly full with a queue", "None.", kv(0.94, 1), {10: ""}),
    ("a kv cache that is full without a queue", "That is a well used engine.", kv(1, 0), {10: ""}),
)


def reads(many: float, per_minute: float = 600) -> Happens:
    """Reads of an engine's output, and the share of them that brings more than five events."""
    shares = {"few": 1 - many, "many": many}
    return of(
        *(
            counter("llm_stream_reads_total", 0, per_minute * share, lane=LANE, result=result)
            for result, share in shares.items()
        )
    )


BURSTS = "LLMEventsInBursts ticket"
SUITE.cases(
    (4, 20),
    ("events come in bursts", "More than one read in ten brings six events.", reads(0.11), {8: "", 20: BURSTS}),
    ("few events come in bursts", "Speculative decoding makes some.", reads(0.09), {24: ""}),
    ("bursts among enough reads", "A read in ten seconds is enough to judge by.", reads(0.5, 6.3), {24: BURSTS}),
    ("bursts among too few reads", "Less is not.", reads(0.5, 5.7), {24: ""}),
)


# --- down, loading, restarted ----------------------------------------------------------------------------------------------


DOWN = Suite("engine-down", rules=(ALERTS,))


def up(*values: float | None) -> Happens:
    return gauge("llm_engine_up", *values)


def pod_since(minute: float, *values: float, ahead_seconds: float = 0) -> Happens:
    """The sidecar's process began then, and the engine is up or not; promtool's clock begins at 0."""
    build = gauge("llm_sidecar_build_info", 1, version="1")
    return of(lambda scenario: scenario.began(minute * 60, ahead_seconds=ahead_seconds), build, up(*values))


IS_DOWN, RESTARTED = "LLMEngineDown page", "LLMEngineRestarted ticket"
DOWN.cases(
    (4, 4),
    ("an engine that does not answer", "For two minutes: a page.", up(1, 0), {5.75: "", 6.5: IS_DOWN}),
    ("an engine that goes down in a young pod", "It is not loading any more.", pod_since(0, 1, 0), {7: IS_DOWN}),
    ("a sidecar that is not scraped", "It says nothing of its engine.", up(1, None), {7: ""}),
    (
        "a sidecar that has restarted",
        "Its count of the engine's restarts begins at 0, and that is none.",
        of(counter("llm_engine_restarts_total", 0, Anew(0)), counter("llm_engine_stalled_seconds_total", 0, Anew(0))),
        {6: ""},
    ),
)
DOWN.cases(
    (36,),
    ("an engine that loads its model", "It has half an hour for that.", pod_since(0, 0), {5: "", 29: "", 31: IS_DOWN}),
    (
        "an engine that loads in a pod whose clock is an hour slow",
        "It has half an hour too.",
        pod_since(0, 0, ahead_seconds=-3600),
        {5: "", 29: "", 31: IS_DOWN},
    ),
    (
        "an engine that loads in a pod whose clock is an hour ahead",
        "It has half an hour, and no more.",
        pod_since(0, 0, ahead_seconds=3600),
        {29: "", 31: IS_DOWN},
    ),
    ("an engine that is down in an old pod", "That is no loading.", pod_since(-60, 0), {5: IS_DOWN, 35: IS_DOWN}),
    (
        "an engine that loads beside something older",
        "What else of the pod is scraped says nothing of how long the sidecar has known it.",
        of(pod_since(0, 0), other_target("process_start_time_seconds", "other", "-7200x144")),
        {20: ""},
    ),
)


def restarted(*values: float | None) -> Happens:
    """The sidecar restarts after the first span, in the same pod; promtool's clock begins at 0."""
    return of(lambda scenario: scenario.began(0, 600), up(*values))


def another_pod(scenario: Scenario) -> None:
    """A stateful set makes a pod of the same name at another address, whose engine loads its model."""
    scenario.shows("llm_engine_up", 1, None)
    scenario.shows("llm_engine_up", None, 0, instance="10.0.0.9:9901")
    scenario.began(None, 600, instance="10.0.0.9:9901")


DOWN.cases(
    (10, 60),
    (
        "an engine that was up before its sidecar restarted",
        "It does not load.",
        restarted(1, 0),
        {13: IS_DOWN, 40.5: IS_DOWN},
    ),
    ("a pod made anew with the same name", "It may load for half an hour.", another_pod, {12: "", 39: "", 41: IS_DOWN}),
)
DOWN.cases(
    (5, 45, 10),
    (
        "a sidecar that restarts while its engine is long down",
        "The page stays.",
        of(lambda scenario: scenario.began(0, 0, 3000), up(1, 0, 0)),
        {8: IS_DOWN, 49: IS_DOWN, 51: IS_DOWN, 59: IS_DOWN},
    ),
)
DOWN.cases(
    (4, 4, 7),
    (
        "an engine that answers again",
        "Its page outlasts the page of the pod, which it mutes.",
        up(1, 0, 1),
        {7: IS_DOWN, 12.75: IS_DOWN, 14: ""},
    ),
)
DOWN.cases(
    (4, 1.75, 3),
    (
        "an engine that is down for less than two minutes",
        "No page is sent.",
        up(1, 0, 1),
        {5.5: "", 5.75: "", 6: "", 7: ""},
    ),
)
DOWN.cases(
    (4, 4),
    (
        "an engine that has stopped in the middle of its work",
        "Both of its pages come at once: the one mutes the other.",
        of(stalled(60), up(1, 0)),
        {4: "", 5: f"{IS_DOWN}, {BACK}"},
    ),
    (
        "an engine that was silent and answers",
        "It is not down.",
        of(stalled(60), up(1, 1)),
        {5: BACK},
    ),
)
DOWN.cases(
    (4, 0.25, 12),
    (
        "an engine that has restarted",
        "A ticket, for ten minutes.",
        counter("llm_engine_restarts_total", 0, 4, 0),
        {4: "", 5: RESTARTED, 13: RESTARTED, 15: ""},
    ),
)


# --- turned away (429, 503) ------------------------------------------------------------------------------------------------


TURNED_AWAY = Suite("turned-away", rules=(ALERTS,), evaluation_seconds=30)


def rejecting(share: float, per_minute: float = 120) -> Happens:
    served = counter("llm_requests_total", per_minute * (1 - share), **ENDED, outcome="ok")
    return of(served, counter("llm_requests_total", 0, per_minute * share, **ENDED, outcome="rejected"))


BUSY = counter("llm_requests_total", 6000, **{**ENDED, "lane": "batch"}, outcome="ok")
REJECTED = "LLMRequestsRejected ticket"
TURNED_AWAY.cases(
    (5, 12),
    ("one request in twenty is turned away", "A ticket.", rejecting(0.051), {14: REJECTED}),
    ("fewer than one in twenty are turned away", "None.", rejecting(0.049), {15: ""}),
    ("ten requests are turned away", "Of few: they are enough.", rejecting(0.5, 4.08), {16: REJECTED}),
    ("nine requests are turned away", "They are too few.", rejecting(0.5, 3.9), {17: ""}),
    (
        "one lane is turned away",
        "A busy lane that is served does not hide it.",
        of(rejecting(0.2), BUSY),
        {16: REJECTED},
    ),
    (
        "one request in twenty is turned away, beside work that is only accepted",
        "A receipt for work in the background is no answer, and hides no rejection.",
        of(rejecting(0.051), counter("llm_requests_total", 6000, **ENDED, outcome="accepted")),
        {14: REJECTED},
    ),
)
