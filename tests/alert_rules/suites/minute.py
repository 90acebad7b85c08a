"""Scrapes a minute apart: windows of two minutes hold two samples, a lost scrape leaves one, and pages still come and stay."""

from dataclasses import replace

from tests.alert_rules.promtool import Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane


SUITE = Suite("minute", step_seconds=60)


@SUITE.scenario(10, 6, 10)
def an_outage(scenario: Scenario) -> None:
    """Paged within two minutes, all the time until it is over, and not for long afterwards."""
    lane(scenario, WELL, broken("prefill"), WELL)

    for minute in (12, 12.5, 13.25, 14.75, 16):
        scenario.pages(minute, "LLMPrefillBurn")
    scenario.alerts(22)


@SUITE.scenario(10, 4)
def one_of_two_pods(scenario: Scenario) -> None:
    """The odd one is named within two minutes."""
    lane(scenario, WELL, broken("decode"))
    causes(scenario, WELL, broken("decode"))
    lane(scenario, WELL, WELL, pod="engine-1")

    scenario.pages(12, "LLMPodBurn", phase="decode")


@SUITE.scenario(10, 6)
def one_request_a_minute(scenario: Scenario) -> None:
    """All are missed: a page within six minutes."""
    lane(scenario, Traffic(per_minute=1), broken("queue", 1.0, 1))

    scenario.pages(16, "LLMQueueBurn")


@SUITE.scenario(30)
def a_healthy_lane(scenario: Scenario) -> None:
    """No alert."""
    lane(scenario, Traffic(0.02, {"queue": 1}))

    for minute in (2, 5, 12.5, 30):
        scenario.alerts(minute)


# --- a lost scrape ---------------------------------------------------------------------------------------------------------


LOST = Suite("lost-scrape", step_seconds=60, evaluation_seconds=14)
"""Rules are never evaluated at the instant of a scrape, so that a window of two minutes has two samples, as in Prometheus 3."""
UNNAMED = 'ALERTS{{namespace="{}",alertname="{}",phase="unattributed",severity="page"}}'


@LOST.scenario(10, 4, 1, 7)
def one_of_two_pods_that_misses_a_scrape(scenario: Scenario) -> None:
    """The page keeps its phase, and the page without one does not even wait."""
    bad = broken("decode")
    spans = (WELL, bad, replace(bad, scraped=False), bad)
    lane(scenario, *spans)
    causes(scenario, *spans)
    lane(scenario, WELL, WELL, WELL, WELL, pod="engine-1")

    for minute in (13.5, 14.75, 15.75, 16.25, 17.5, 21.5):
        scenario.pages(minute, "LLMPodBurn", phase="decode")
    scenario.yields(f"count_over_time({UNNAMED.format(scenario.name, 'LLMPodBurn')}[11m])", 22)


@LOST.scenario(10, 4, 1, 7)
def a_lane_that_misses_a_scrape(scenario: Scenario) -> None:
    """The same for its page."""
    bad = broken("decode")
    lane(scenario, WELL, bad, replace(bad, scraped=False), bad)

    for minute in (13.5, 14.75, 15.75, 16.25, 17.5, 21.5):
        scenario.pages(minute, "LLMDecodeBurn")
    scenario.yields(f"count_over_time({UNNAMED.format(scenario.name, 'LLMUnattributedBurn')}[11m])", 22)


@LOST.scenario(10, 1, 8)
def one_of_two_pods_whose_engine_restarted(scenario: Scenario) -> None:
    """The recorded sums tell the last minute: its page comes once a planned restart would be over."""
    cold = broken("engine")
    lane(scenario, WELL, cold, cold)
    causes(scenario, WELL, cold, cold, engine="restart")
    scenario.counts("llm_engine_restarts_total", 0, 1, 0)
    lane(scenario, WELL, WELL, WELL, pod="engine-1")

    scenario.pages(12.5)
    scenario.pages(14.75, "LLMPodBurn", phase="engine")


@LOST.scenario(10, 1, 1, 19)
def two_pods_whose_engines_restart_one_after_the_other(scenario: Scenario) -> None:
    """A planned rolling restart: no page, not for one evaluation."""
    cold = broken("engine", 0.9)
    for pod, spans, restarts in (
        ("engine-0", (WELL, cold, WELL, WELL), (0, 1, 0, 0)),
        ("engine-1", (WELL, WELL, cold, WELL), (0, 0, 1, 0)),
    ):
        lane(scenario, *spans, pod=pod)
        causes(scenario, *spans, pod=pod, engine="restart")
        scenario.counts("llm_engine_restarts_total", *restarts, pod=pod)

    scenario.yields(
        f'count_over_time(ALERTS{{namespace="{scenario.name}",alertstate="firing",severity="page"}}[31m])', 31
    )
