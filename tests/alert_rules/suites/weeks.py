"""What only a week shows: prompts that grow, the silent cause of most queues. Samples half an hour apart."""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Scenario, Suite


SUITE = Suite("weeks", rules=(ALERTS,), step_seconds=1800, evaluation_seconds=1800)
DAY = 24 * 60
WHO = {"model": MODEL, "lane": LANE}


def prompts(scenario: Scenario, before: float, after: float, *, then: float = 10, now: float = 10) -> None:
    """Mean tokens of a prompt before and after, and how many come a minute."""
    scenario.counts("llm_prompt_tokens_sum", before * then, after * now, **WHO)
    scenario.counts("llm_prompt_tokens_count", then, now, **WHO)


@SUITE.scenario(7 * DAY, DAY)
def prompts_that_have_grown_by_a_third(scenario: Scenario) -> None:
    """Against the same half hour a week ago: a ticket."""
    prompts(scenario, 800, 800 * 1.31)

    scenario.alerts(7 * DAY)
    scenario.alerts(8 * DAY, "LLMPromptsGrowing ticket")


@SUITE.scenario(7 * DAY, DAY)
def prompts_that_have_grown_a_little(scenario: Scenario) -> None:
    """Less than 30 %: none."""
    prompts(scenario, 800, 800 * 1.29)

    scenario.alerts(8 * DAY)


@SUITE.scenario(7 * DAY, DAY)
def more_of_the_same_prompts(scenario: Scenario) -> None:
    """They are not longer."""
    prompts(scenario, 800, 800, then=10, now=100)

    scenario.alerts(8 * DAY)


@SUITE.scenario(3 * DAY, 5 * DAY)
def a_lane_that_is_younger_than_a_week(scenario: Scenario) -> None:
    """It is compared with nothing."""
    scenario.counts("llm_prompt_tokens_sum", None, 1000, **WHO)
    scenario.counts("llm_prompt_tokens_count", None, 1, **WHO)

    scenario.alerts(8 * DAY)


@SUITE.scenario(7 * DAY, DAY)
def a_hundred_prompts_in_half_an_hour(scenario: Scenario) -> None:
    """They have a mean, now and then."""
    prompts(scenario, 800, 2000, then=102 / 30, now=102 / 30)

    scenario.alerts(8 * DAY, "LLMPromptsGrowing ticket")


@SUITE.scenario(7 * DAY, DAY)
def ninety_eight_prompts_in_half_an_hour(scenario: Scenario) -> None:
    """Too few to judge by."""
    prompts(scenario, 800, 2000, then=10, now=98 / 30)

    scenario.alerts(8 * DAY)


@SUITE.scenario(7 * DAY, DAY)
def ninety_eight_prompts_in_the_same_half_hour_a_week_ago(scenario: Scenario) -> None:
    """Too few to compare with."""
    prompts(scenario, 800, 2000, then=98 / 30, now=10)

    scenario.alerts(8 * DAY)
