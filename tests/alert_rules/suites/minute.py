"""Scrapes a minute apart: windows of two minutes hold two samples, and pages still come."""

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
