"""Tiers of long windows, which are sums of recorded sums, and traffic against three hours before. Samples a minute apart."""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, RECORDING, Scenario, Suite
from tests.alert_rules.suites.tiers import STRICT, USUAL, WHO, burns
from tests.alert_rules.world import HEALTHY_PER_MINUTE, Traffic, broken, lane


SUITE = Suite("half-hours", rules=(RECORDING,), step_seconds=60, evaluation_seconds=30)
SIX = Suite("six-hours", rules=(RECORDING,), step_seconds=60, evaluation_seconds=300)
BEFORE = 70.0
"""Minutes: a burst of half an hour is less than the budget of what came before."""

for told in (
    ("six-times-the-budget", "Steady for half an hour: a page.", USUAL, ((36, 0.306, 120),), "steady", "slow"),
    ("less-than-six-times-the-budget", "A ticket.", USUAL, ((36, 0.294, 120),), "slow"),
    ("six-times-with-ten-misses", "They are enough.", USUAL, ((36, 0.45, 10.2 / 30 / 0.45),), "steady", "slow"),
    ("six-times-with-nine-misses", "Too few for half an hour.", USUAL, ((36, 0.45, 9.5 / 30 / 0.45),), "slow"),
    (
        "six-times-that-goes-on",
        "The last five minutes too.",
        USUAL,
        ((30, 0.45, 120), (6, 0.306, 120)),
        "steady",
        "slow",
    ),
    ("six-times-that-is-over", "The last five minutes burn less.", USUAL, ((30, 0.45, 120), (6, 0.294, 120)), "slow"),
):
    burns(SUITE, *told, before=BEFORE)

for told in (
    ("twice-the-budget", "Slow for half an hour.", STRICT, ((36, 0.0204, 1200),), "slow"),
    ("less-than-twice-the-budget", "None.", STRICT, ((36, 0.0196, 1200),)),
    (
        "twice-that-goes-on",
        "The last five minutes burn all of it.",
        STRICT,
        ((30, 0.03, 1200), (6, 0.0102, 1200)),
        "slow",
    ),
    ("twice-that-is-over", "They do not.", STRICT, ((30, 0.03, 1200), (6, 0.0098, 1200))),
):
    burns(SUITE, *told, before=BEFORE)

for told in (
    ("all-of-the-budget-for-six-hours", "Slow.", USUAL, ((370, 0.051, 120),), "slow"),
    ("nearly-all-of-the-budget-for-six-hours", "That is what it is there for.", USUAL, ((370, 0.049, 120),)),
    ("ten-misses-in-six-hours", "They are enough.", USUAL, ((370, 0.06, 10.2 / 360 / 0.06),), "slow"),
    ("nine-misses-in-six-hours", "They are too few.", USUAL, ((370, 0.06, 9.8 / 360 / 0.06),)),
    ("six-hours-that-go-on", "The last half hour too.", USUAL, ((350, 0.08, 120), (36, 0.051, 120)), "slow"),
    ("six-hours-that-are-over", "The last half hour burns less.", USUAL, ((350, 0.08, 120), (36, 0.049, 120))),
):
    burns(SIX, *told, before=5.0)


@SUITE.scenario(70, 36)
def ten_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are enough for a ticket, after hours with many requests."""
    lane(scenario, Traffic(per_minute=10), Traffic(0.2, per_minute=10.2 / 30 / 0.2))

    scenario.records("lane:llm_slo_burn:tier", 106, ({**WHO, "tier": "slow"}, 1))
    scenario.records("lane:llm_slo_misses:increase30m", 106, (WHO, 10.54))
    scenario.records("lane:llm_slo_burn:ratio_rate30m", 106, (WHO, 4))


@SUITE.scenario(70, 36)
def nine_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, Traffic(per_minute=10), Traffic(0.2, per_minute=9.5 / 30 / 0.2))

    scenario.records("lane:llm_slo_burn:tier", 106)


@SIX.scenario(375)
def six_even_hours(scenario: Scenario) -> None:
    """Sums of recorded sums are the sums."""
    lane(scenario, broken("queue", 0.02))

    scenario.records("lane:llm_slo_misses:increase6h", 375, (WHO, 876))
    scenario.records("lane:llm_slo_burn:ratio_rate6h", 375, (WHO, 0.4))


# --- before and after ------------------------------------------------------------------------------------------------------


SINCE = Suite("since", rules=(ALERTS,), step_seconds=60, evaluation_seconds=120)
"""Alerts that compare with three hours before."""


def cached(scenario: Scenario, before: float, after: float) -> None:
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000)
    scenario.counts("llm_engine_prefix_cache_hits_total", 60_000 * before, 60_000 * after)


@SINCE.scenario(240, 28)
def a_prefix_cache_that_hits_half_as_often(scenario: Scenario) -> None:
    """A ticket for the silent cause of dear prompts."""
    cached(scenario, 0.6, 0.29)

    scenario.alerts(240)
    scenario.alerts(268, "LLMPrefixCacheCollapsed ticket")


@SINCE.scenario(240, 28)
def a_prefix_cache_that_hits_a_little_less_often(scenario: Scenario) -> None:
    """None."""
    cached(scenario, 0.6, 0.31)

    scenario.alerts(268)


@SINCE.scenario(240, 28)
def a_prefix_cache_that_hit_one_token_in_five(scenario: Scenario) -> None:
    """It was worth something."""
    cached(scenario, 0.205, 0.05)

    scenario.alerts(268, "LLMPrefixCacheCollapsed ticket")


@SINCE.scenario(240, 28)
def a_prefix_cache_that_never_hit_much(scenario: Scenario) -> None:
    """It had nothing to lose."""
    cached(scenario, 0.195, 0.05)

    scenario.alerts(268)


@SINCE.scenario(240, 28)
def a_prefix_cache_that_nobody_asks(scenario: Scenario) -> None:
    """An idle engine hits nothing, of nothing."""
    scenario.counts("llm_engine_prefix_cache_queries_total", 60_000, 0)
    scenario.counts("llm_engine_prefix_cache_hits_total", 30_000, 0)

    scenario.alerts(268)


def giving_up(scenario: Scenario, before: float, after: float, per_minute: float = HEALTHY_PER_MINUTE) -> None:
    """Share of the clients that leave while they wait."""
    who = {"model": MODEL, "lane": LANE}
    scenario.counts("llm_requests_received_total", per_minute, **who)
    scenario.counts("llm_client_cancels_total", per_minute * before, per_minute * after, **who, stage="waiting")
    scenario.counts("llm_client_cancels_total", per_minute / 2, **who, stage="streaming")


@SINCE.scenario(240, 28)
def one_client_in_twenty_gives_up(scenario: Scenario) -> None:
    """And none did before: a ticket."""
    giving_up(scenario, 0, 0.051)

    scenario.alerts(268, "LLMClientsGiveUp ticket")


@SINCE.scenario(240, 28)
def fewer_than_one_client_in_twenty_give_up(scenario: Scenario) -> None:
    """None; those who stop reading an answer do not give up."""
    giving_up(scenario, 0, 0.049)

    scenario.alerts(268)


@SINCE.scenario(240, 28)
def three_times_as_many_clients_give_up(scenario: Scenario) -> None:
    """More than before: a ticket."""
    giving_up(scenario, 0.1, 0.31)

    scenario.alerts(268, "LLMClientsGiveUp ticket")


@SINCE.scenario(240, 28)
def twice_as_many_clients_give_up(scenario: Scenario) -> None:
    """Some clients always do."""
    giving_up(scenario, 0.1, 0.29)

    scenario.alerts(268)


@SINCE.scenario(240, 28)
def ten_clients_give_up(scenario: Scenario) -> None:
    """In a quarter of an hour, of few: they are enough."""
    giving_up(scenario, 0, 0.5, 10.2 / 15 / 0.5)

    scenario.alerts(268, "LLMClientsGiveUp ticket")


@SINCE.scenario(240, 28)
def nine_clients_give_up(scenario: Scenario) -> None:
    """They are too few."""
    giving_up(scenario, 0, 0.5, 9.8 / 15 / 0.5)

    scenario.alerts(268)
