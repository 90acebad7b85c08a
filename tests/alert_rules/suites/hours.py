"""What only hours show: slow burns, and traffic against what it was before. Samples a minute apart, looked at every four.

Both files are played, because a slow burn's ticket carries the verdict of the same chain as a page.
"""

from alert_rules.burn import FEWEST_MISSES, LONG_BURN, SLOW_BURN
from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import HEALTHY_PER_MINUTE, WELL, Traffic, broken, lane, prefill_costs, prompt_lengths


SUITE = Suite("hours", step_seconds=60, evaluation_seconds=240)
WHO = {"model": MODEL, "lane": LANE}
ALLOWED = 0.05
"""At the target of 95 % that lanes here have."""


def slow(scenario: Scenario, minute: float, *names: str) -> None:
    expected = [({**WHO, "objective": "ttft", "tier": name}, 1.0) for name in names]
    scenario.records("lane:llm_slo_burn:tier", minute, *expected)


# --- half an hour ----------------------------------------------------------------------------------------------------------


@SUITE.scenario(200, 40)
def twice_what_the_target_allows(scenario: Scenario) -> None:
    """For half an hour: a ticket with its phase, and no page."""
    lane(scenario, WELL, broken("queue", ALLOWED * SLOW_BURN * 1.02))

    slow(scenario, 240, "slow")
    scenario.alerts(240, "LLMQueueBurn ticket")


@SUITE.scenario(200, 40)
def a_little_less_than_twice_what_the_target_allows(scenario: Scenario) -> None:
    """Half an hour of it is nobody's ticket."""
    lane(scenario, WELL, broken("queue", ALLOWED * SLOW_BURN * 0.98))

    slow(scenario, 240)
    scenario.alerts(240)


@SUITE.scenario(200, 40)
def ten_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are enough."""
    lane(scenario, Traffic(per_minute=10), broken("queue", 0.2, FEWEST_MISSES * 1.02 / 30 / 0.2))

    slow(scenario, 240, "slow")


@SUITE.scenario(200, 40)
def nine_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, Traffic(per_minute=10), broken("queue", 0.2, FEWEST_MISSES * 0.98 / 30 / 0.2))

    slow(scenario, 240)


@SUITE.scenario(200, 34, 6)
def a_slow_burn_that_goes_on(scenario: Scenario) -> None:
    """It still burns all of what is allowed."""
    lane(scenario, WELL, broken("queue", 0.16), broken("queue", ALLOWED * LONG_BURN * 1.1))

    slow(scenario, 240, "slow")


@SUITE.scenario(200, 34, 6)
def a_slow_burn_that_is_over(scenario: Scenario) -> None:
    """Less than what is allowed misses now: the ticket closes."""
    lane(scenario, WELL, broken("queue", 0.16), broken("queue", ALLOWED * LONG_BURN * 0.9))

    slow(scenario, 240)
    scenario.alerts(240)


# --- six hours -------------------------------------------------------------------------------------------------------------


@SUITE.scenario(20, 480)
def all_that_the_target_allows_for_six_hours(scenario: Scenario) -> None:
    """A ticket: the month will not last."""
    lane(scenario, WELL, broken("prefill", ALLOWED * LONG_BURN * 1.02))

    slow(scenario, 480, "slow")
    scenario.alerts(480, "LLMPrefillBurn ticket")


@SUITE.scenario(20, 480)
def nearly_all_that_the_target_allows_for_six_hours(scenario: Scenario) -> None:
    """That is what it is there for."""
    lane(scenario, WELL, broken("prefill", ALLOWED * LONG_BURN * 0.98))

    slow(scenario, 480)
    scenario.alerts(480)


@SUITE.scenario(20, 430, 50)
def most_of_what_the_target_allows_that_ends_in_a_little_more(scenario: Scenario) -> None:
    """Neither six hours of all of it, nor half an hour of twice that."""
    lane(scenario, WELL, broken("queue", ALLOWED * LONG_BURN * 0.7), broken("queue", ALLOWED * LONG_BURN * 1.3))

    slow(scenario, 496)


@SUITE.scenario(20, 480)
def ten_misses_in_six_hours(scenario: Scenario) -> None:
    """They are enough, on a lane that hardly anybody uses."""
    lane(scenario, WELL, broken("queue", 0.06, FEWEST_MISSES * 1.02 / 360 / 0.06))

    slow(scenario, 480, "slow")


@SUITE.scenario(20, 480)
def nine_misses_in_six_hours(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, WELL, broken("queue", 0.06, FEWEST_MISSES * 0.98 / 360 / 0.06))

    slow(scenario, 480)


@SUITE.scenario(20, 430, 50)
def six_hours_that_go_on(scenario: Scenario) -> None:
    """The last half hour still burns all of it."""
    lane(scenario, WELL, broken("queue", ALLOWED * 1.5), broken("queue", ALLOWED * LONG_BURN * 1.1))

    slow(scenario, 496, "slow")


@SUITE.scenario(20, 430, 50)
def six_hours_that_are_over(scenario: Scenario) -> None:
    """The last half hour does not: the ticket closes."""
    lane(scenario, WELL, broken("queue", ALLOWED * 1.5), broken("queue", ALLOWED * LONG_BURN * 0.9))

    slow(scenario, 496)


@SUITE.scenario(480)
def a_day_as_it_should_be(scenario: Scenario) -> None:
    """Half of the budget is used, evenly: nothing for hours."""
    lane(scenario, Traffic(ALLOWED / 2, {"queue": 1}))

    for minute in (60, 240, 480):
        scenario.alerts(minute)


@SUITE.scenario(200, 80)
def an_outage_of_more_than_an_hour(scenario: Scenario) -> None:
    """What was usual before it is still known: an hour of calm is remembered for as long as it burns."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, 2)
    prompt_lengths(scenario, 800, 800)

    own = {"model": MODEL, "lane": LANE, "of": "received"}
    scenario.records(
        "model:llm_evidence:ratio", 280, ({"model": MODEL, "evidence": "prefill_cost"}, 2), evidence="prefill_cost"
    )
    scenario.records("lane:llm_prompt_tokens:baseline", 280, (own, 800))
    scenario.pages(280, "LLMPrefillBurn")


# --- the prefix cache ------------------------------------------------------------------------------------------------------


def cached(scenario: Scenario, before: float, after: float) -> None:
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000)
    scenario.counts("llm_engine_prefix_cache_hits_total", 60_000 * before, 60_000 * after)


@SUITE.scenario(452, 28)
def a_prefix_cache_that_hits_half_as_often(scenario: Scenario) -> None:
    """A ticket for the silent cause of a queue."""
    cached(scenario, 0.6, 0.29)

    scenario.alerts(452)
    scenario.alerts(480, "LLMPrefixCacheCollapsed ticket")


@SUITE.scenario(452, 28)
def a_prefix_cache_that_hits_a_little_less_often(scenario: Scenario) -> None:
    """None."""
    cached(scenario, 0.6, 0.31)

    scenario.alerts(480)


@SUITE.scenario(452, 28)
def a_prefix_cache_that_hit_one_token_in_five(scenario: Scenario) -> None:
    """It was worth something."""
    cached(scenario, 0.205, 0.05)

    scenario.alerts(480, "LLMPrefixCacheCollapsed ticket")


@SUITE.scenario(452, 28)
def a_prefix_cache_that_never_hit_much(scenario: Scenario) -> None:
    """It had nothing to lose."""
    cached(scenario, 0.195, 0.05)

    scenario.alerts(480)


@SUITE.scenario(452, 28)
def a_prefix_cache_that_nobody_asks(scenario: Scenario) -> None:
    """An idle engine hits nothing, of nothing."""
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000, 0)
    scenario.counts("llm_engine_prefix_cache_hits_total", 30_000, 0)

    scenario.alerts(480)


# --- clients that give up --------------------------------------------------------------------------------------------------


def giving_up(scenario: Scenario, before: float, after: float, per_minute: float = HEALTHY_PER_MINUTE) -> None:
    """Share of the clients that leave while they wait."""
    scenario.counts("llm_requests_received_total", per_minute, **WHO)
    scenario.counts("llm_client_cancels_total", per_minute * before, per_minute * after, **WHO, stage="waiting")
    scenario.counts("llm_client_cancels_total", per_minute / 2, **WHO, stage="streaming")


@SUITE.scenario(452, 28)
def one_client_in_twenty_gives_up(scenario: Scenario) -> None:
    """And none did before: a ticket."""
    giving_up(scenario, 0, 0.051)

    scenario.alerts(480, "LLMClientsGiveUp ticket")


@SUITE.scenario(452, 28)
def fewer_than_one_client_in_twenty_give_up(scenario: Scenario) -> None:
    """None; those who stop reading an answer do not give up."""
    giving_up(scenario, 0, 0.049)

    scenario.alerts(480)


@SUITE.scenario(452, 28)
def three_times_as_many_clients_give_up(scenario: Scenario) -> None:
    """More than ever before: a ticket."""
    giving_up(scenario, 0.1, 0.31)

    scenario.alerts(480, "LLMClientsGiveUp ticket")


@SUITE.scenario(452, 28)
def twice_as_many_clients_give_up(scenario: Scenario) -> None:
    """Some clients always do."""
    giving_up(scenario, 0.1, 0.29)

    scenario.alerts(480)


@SUITE.scenario(452, 28)
def ten_clients_give_up(scenario: Scenario) -> None:
    """In a quarter of an hour, of few: they are enough."""
    giving_up(scenario, 0, 0.5, FEWEST_MISSES * 1.02 / 15 / 0.5)

    scenario.alerts(480, "LLMClientsGiveUp ticket")


@SUITE.scenario(452, 28)
def nine_clients_give_up(scenario: Scenario) -> None:
    """They are too few."""
    giving_up(scenario, 0, 0.5, FEWEST_MISSES * 0.98 / 15 / 0.5)

    scenario.alerts(480)
