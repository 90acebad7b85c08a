"""Alerts about the engine, pod by pod: each fires and does not fire, on both sides of what it compares with (alert_rules/state.py).

Only the alert file is played: these need no recorded series.
"""

from collections.abc import Sequence

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import HEALTHY_PER_MINUTE


SUITE = Suite("engine", rules=(ALERTS,))
WHO = {"model": MODEL, "lane": LANE}


# --- nothing comes back ----------------------------------------------------------------------------------------------------


@SUITE.scenario(4, 4)
def twenty_stalled_seconds_in_two_minutes(scenario: Scenario) -> None:
    """A silence that no pending work explains, for long enough: a page."""
    scenario.counts("llm_engine_stalled_seconds_total", 0, 10.2)

    scenario.alerts(4)
    scenario.alerts(7, "LLMNothingComesBack page")


@SUITE.scenario(4, 4)
def nineteen_stalled_seconds_in_two_minutes(scenario: Scenario) -> None:
    """A short one is no page of its own."""
    scenario.counts("llm_engine_stalled_seconds_total", 0, 9.8)

    scenario.alerts(7)


def waiting(
    scenario: Scenario,
    *,
    oldest: float = 90,
    overdue: float = 3,
    gaps: float = 0,
    ok: float = 0,
    idle_lanes: Sequence[str] = (),
) -> None:
    """Requests wait: the oldest for so many seconds; so many gaps between tokens and good ends per minute."""
    scenario.shows("llm_oldest_request_seconds", 0, oldest, **WHO, state="waiting")
    scenario.shows("llm_requests_overdue", 0, overdue, **WHO)
    scenario.counts("llm_inter_token_seconds_count", 600, gaps, **WHO)
    scenario.counts("llm_requests_total", 60, ok, **WHO, prompt_bucket="512-4k", outcome="ok")
    scenario.counts("llm_requests_total", 60, **WHO, prompt_bucket="512-4k", outcome="client_cancelled")
    for name in idle_lanes:
        scenario.shows("llm_oldest_request_seconds", 0, model=MODEL, lane=name, state="waiting")
        scenario.shows("llm_requests_overdue", 0, model=MODEL, lane=name)


@SUITE.scenario(4, 5)
def requests_wait_and_nothing_comes_back(scenario: Scenario) -> None:
    """No token and no good end for two minutes, whoever gives up meanwhile."""
    waiting(scenario)

    scenario.alerts(8.5, "LLMNothingComesBack page")


@SUITE.scenario(
    4,
    5,
)
def requests_of_one_lane_wait_and_nothing_comes_back(scenario: Scenario) -> None:
    """Lanes that nobody uses just then stand at 0 and hide nothing."""
    waiting(scenario, idle_lanes=("batch",))

    scenario.alerts(8.5, "LLMNothingComesBack page")


@SUITE.scenario(4, 5)
def requests_have_waited_for_less_than_a_minute(scenario: Scenario) -> None:
    """That is a queue."""
    waiting(scenario, oldest=58)

    scenario.alerts(8.5)


@SUITE.scenario(4, 5)
def requests_have_waited_for_a_minute(scenario: Scenario) -> None:
    """That is not."""
    waiting(scenario, oldest=62)

    scenario.alerts(8.5, "LLMNothingComesBack page")


@SUITE.scenario(4, 5)
def requests_wait_that_may(scenario: Scenario) -> None:
    """A lane whose objective allows it is not overdue."""
    waiting(scenario, overdue=0)

    scenario.alerts(8.5)


@SUITE.scenario(4, 5)
def requests_wait_and_tokens_come(scenario: Scenario) -> None:
    """The engine works, for others."""
    waiting(scenario, gaps=6)

    scenario.alerts(8.5)


@SUITE.scenario(4, 5)
def requests_wait_and_others_end_well(scenario: Scenario) -> None:
    """Answers of one token have no gaps."""
    waiting(scenario, ok=1)

    scenario.alerts(8.5)


@SUITE.scenario(4, 5)
def one_of_two_pods_gives_nothing_back(scenario: Scenario) -> None:
    """Its tokens are its own: the other's do not hide it."""
    waiting(scenario)
    scenario.counts("llm_inter_token_seconds_count", 600, pod="engine-1", **WHO)
    scenario.counts("llm_requests_total", 60, pod="engine-1", **WHO, prompt_bucket="512-4k", outcome="ok")

    scenario.alerts(8.5, "LLMNothingComesBack page")


# --- preemption, KV cache --------------------------------------------------------------------------------------------------


def preempting(scenario: Scenario, ratio: float, per_minute: float = HEALTHY_PER_MINUTE) -> None:
    scenario.counts("llm_engine_preemptions_total", 0, per_minute * ratio)
    scenario.counts("llm_requests_received_total", per_minute, **WHO)


@SUITE.scenario(4, 8)
def one_request_in_twenty_is_preempted(scenario: Scenario) -> None:
    """A ticket once that has lasted a minute."""
    preempting(scenario, 0.051)

    scenario.alerts(4)
    scenario.alerts(11, "LLMEnginePreempting ticket")


@SUITE.scenario(4, 8)
def fewer_than_one_request_in_twenty_are_preempted(scenario: Scenario) -> None:
    """None."""
    preempting(scenario, 0.049)

    scenario.alerts(12)


@SUITE.scenario(4, 8)
def three_preemptions_of_few_requests(scenario: Scenario) -> None:
    """They count."""
    preempting(scenario, 0.31, 2)

    scenario.alerts(11, "LLMEnginePreempting ticket")


@SUITE.scenario(4, 8)
def two_preemptions_of_few_requests(scenario: Scenario) -> None:
    """They are too few, whatever their share."""
    preempting(scenario, 0.29, 2)

    scenario.alerts(12)


@SUITE.scenario(4, 6)
def a_kv_cache_that_is_full_with_a_queue(scenario: Scenario) -> None:
    """A ticket after two minutes of it, and one more."""
    scenario.shows("llm_engine_kv_cache_usage_ratio", 0.5, 0.96)
    scenario.shows("llm_engine_requests_waiting", 0, 1)

    scenario.alerts(6.5)
    scenario.alerts(7.5, "LLMEngineKvCacheFull ticket")


@SUITE.scenario(4, 6)
def a_kv_cache_that_is_nearly_full_with_a_queue(scenario: Scenario) -> None:
    """None."""
    scenario.shows("llm_engine_kv_cache_usage_ratio", 0.5, 0.94)
    scenario.shows("llm_engine_requests_waiting", 0, 1)

    scenario.alerts(10)


@SUITE.scenario(4, 6)
def a_kv_cache_that_is_full_without_a_queue(scenario: Scenario) -> None:
    """That is a well used engine."""
    scenario.shows("llm_engine_kv_cache_usage_ratio", 0.5, 1)
    scenario.shows("llm_engine_requests_waiting", 0)

    scenario.alerts(10)


# --- bursts ----------------------------------------------------------------------------------------------------------------


def reads(scenario: Scenario, many: float, per_minute: float = 600) -> None:
    """Reads of an engine's output, and the share of them that brings more than five events."""
    for le, share in (("1.0", 0.5), ("5.0", 1 - many), ("+Inf", 1.0)):
        scenario.counts("llm_stream_events_per_read_bucket", 0, per_minute * share, lane=LANE, le=le)
    scenario.counts("llm_stream_events_per_read_count", 0, per_minute, lane=LANE)


@SUITE.scenario(4, 20)
def events_come_in_bursts(scenario: Scenario) -> None:
    """More than one read in ten brings six events and more."""
    reads(scenario, 0.11)

    scenario.alerts(8)
    scenario.alerts(20, "LLMEventsInBursts ticket")


@SUITE.scenario(4, 20)
def few_events_come_in_bursts(scenario: Scenario) -> None:
    """Speculative decoding makes some."""
    reads(scenario, 0.09)

    scenario.alerts(24)


@SUITE.scenario(4, 20)
def bursts_among_enough_reads(scenario: Scenario) -> None:
    """A read in ten seconds is enough to judge by."""
    reads(scenario, 0.5, 60 * 0.1 * 1.05)

    scenario.alerts(24, "LLMEventsInBursts ticket")


@SUITE.scenario(4, 20)
def bursts_among_too_few_reads(scenario: Scenario) -> None:
    """Less is not."""
    reads(scenario, 0.5, 60 * 0.1 * 0.95)

    scenario.alerts(24)
