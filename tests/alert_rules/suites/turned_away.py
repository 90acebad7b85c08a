"""Requests that are turned away (429, 503), lane by lane: the alert fires and does not fire (alert_rules/state.py)."""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Scenario, Suite


SUITE = Suite("turned-away", rules=(ALERTS,), evaluation_seconds=30)
ENDED = {"model": MODEL, "lane": LANE, "prompt_bucket": "512-4k"}


def rejecting(scenario: Scenario, share: float, per_minute: float = 120) -> None:
    scenario.counts("llm_requests_total", per_minute * (1 - share), **ENDED, outcome="ok")
    scenario.counts("llm_requests_total", 0, per_minute * share, **ENDED, outcome="rejected")


@SUITE.scenario(5, 10)
def one_request_in_twenty_is_turned_away(scenario: Scenario) -> None:
    """A ticket."""
    rejecting(scenario, 0.051)

    scenario.alerts(14, "LLMRequestsRejected ticket")


@SUITE.scenario(5, 10)
def fewer_than_one_request_in_twenty_are_turned_away(scenario: Scenario) -> None:
    """None."""
    rejecting(scenario, 0.049)

    scenario.alerts(15)


@SUITE.scenario(5, 12)
def ten_requests_are_turned_away(scenario: Scenario) -> None:
    """In five minutes, of few: they are enough."""
    rejecting(scenario, 0.5, 4.08)

    scenario.alerts(16, "LLMRequestsRejected ticket")


@SUITE.scenario(5, 12)
def nine_requests_are_turned_away(scenario: Scenario) -> None:
    """They are too few."""
    rejecting(scenario, 0.5, 3.9)

    scenario.alerts(17)


@SUITE.scenario(5, 12)
def a_lane_that_is_turned_away_and_one_that_is_not(scenario: Scenario) -> None:
    """The ticket is the lane's: a busy lane that is served does not hide it."""
    rejecting(scenario, 0.2)
    busy = {**ENDED, "lane": "batch", "outcome": "ok"}
    scenario.counts("llm_requests_total", 6000, **busy)

    scenario.alerts(16, "LLMRequestsRejected ticket")
