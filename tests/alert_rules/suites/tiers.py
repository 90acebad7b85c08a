"""How fast a lane burns, and which tier that is: both sides of every threshold, for every target (alert_rules/burn.py).

Six healthy minutes at two requests a second, then what the scenario tells. Where a scenario is about one clause of a tier, its target
and its traffic keep the other clauses out.
"""

from alert_rules.burn import FAST_BURN, FEWEST_MISSES, OUTAGE_RATIO
from tests.alert_rules.promtool import LANE, MODEL, Anew, Scenario, Suite
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane


SUITE = Suite("tiers")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def tiers(scenario: Scenario, minute: float, *names: str) -> None:
    """Which of the tiers that page hold."""
    expected = [({**WHO, "tier": name}, 1.0) for name in names]
    scenario.records("lane:llm_slo_burn:tier", minute, *expected)


# --- outage --------------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def half_of_the_requests_miss(scenario: Scenario) -> None:
    """It pages two minutes after the fault, at a target that can never burn at ten."""
    lane(scenario, WELL, broken("queue", OUTAGE_RATIO * 1.01), target=0.9)

    tiers(scenario, 6)
    tiers(scenario, 8, "outage", "slow")
    scenario.pages(8, "LLMQueueBurn")
    scenario.pages(12, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def less_than_half_of_the_requests_miss(scenario: Scenario) -> None:
    """That is no outage, and at this target no fast burn either: a ticket."""
    lane(scenario, WELL, broken("queue", OUTAGE_RATIO * 0.99), target=0.9)

    tiers(scenario, 12, "slow")
    scenario.alerts(12, "LLMQueueBurn ticket")


@SUITE.scenario(6, 6)
def ten_misses_in_two_minutes(scenario: Scenario) -> None:
    """They are enough for an outage; the five minutes before hold too many good requests to say so."""
    lane(scenario, WELL, broken("queue", 1, FEWEST_MISSES * 1.02 / 2), target=0.75)

    tiers(scenario, 8, "outage")


@SUITE.scenario(6, 6)
def nine_misses_in_two_minutes(scenario: Scenario) -> None:
    """They are too few, although every request misses."""
    lane(scenario, WELL, broken("queue", 1, FEWEST_MISSES * 0.98 / 2), target=0.75)

    tiers(scenario, 8)


@SUITE.scenario(6, 6)
def ten_misses_in_five_minutes(scenario: Scenario) -> None:
    """A lane with little traffic has an outage too, as soon as ten have missed."""
    lane(scenario, NOTHING, broken("queue", 1, FEWEST_MISSES * 1.02 / 5), target=0.75)

    tiers(scenario, 8)
    tiers(scenario, 11.5, "outage", "slow")
    scenario.pages(11.5, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def nine_misses_in_five_minutes(scenario: Scenario) -> None:
    """They page nobody, although every request misses."""
    lane(scenario, NOTHING, broken("queue", 1, FEWEST_MISSES * 0.96 / 5), target=0.75)

    tiers(scenario, 11)
    scenario.alerts(11)


@SUITE.scenario(6, 5, 3)
def a_quiet_outage_that_goes_on_at_less(scenario: Scenario) -> None:
    """Three in ten still miss, of too few requests for two minutes to say more: the five minutes speak on."""
    still = OUTAGE_RATIO / 2 * 1.2
    lane(scenario, NOTHING, broken("queue", 1, 5), broken("queue", still, 5), target=0.75)

    tiers(scenario, 13, "outage", "slow")


@SUITE.scenario(6, 5, 3)
def a_quiet_outage_that_is_nearly_over(scenario: Scenario) -> None:
    """Two in ten miss, and the page ends without waiting for five minutes to pass."""
    still = OUTAGE_RATIO / 2 * 0.8
    lane(scenario, NOTHING, broken("queue", 1, 5), broken("queue", still, 5), target=0.75)

    tiers(scenario, 13, "slow")
    scenario.pages(13)


@SUITE.scenario(6, 3, 3)
def an_outage_half_hidden_in_five_minutes(scenario: Scenario) -> None:
    """Five minutes of which a little less than half missed are no outage, whatever they add up to."""
    lane(scenario, NOTHING, broken("queue", 0.48, 5), broken("queue", 0.48, 5), target=0.75)

    tiers(scenario, 11.5, "slow")


# --- fast ----------------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def ten_times_what_the_target_allows(scenario: Scenario) -> None:
    """At a target of 99 % that is one request in ten: a page within five minutes."""
    lane(scenario, WELL, broken("queue", FAST_BURN * 0.01 * 1.02), target=0.99)

    tiers(scenario, 8, "fast", "slow")
    scenario.pages(8, "LLMQueueBurn")
    scenario.pages(11, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def nine_times_what_the_target_allows(scenario: Scenario) -> None:
    """A ticket, and nobody is woken."""
    lane(scenario, WELL, broken("queue", FAST_BURN * 0.01 * 0.98), target=0.99)

    tiers(scenario, 12, "slow")
    scenario.alerts(12, "LLMQueueBurn ticket")


@SUITE.scenario(6, 6)
def a_fast_burn_of_ten_misses_in_two_minutes(scenario: Scenario) -> None:
    """They are enough; the five minutes before dilute the rest."""
    lane(scenario, Traffic(per_minute=600), broken("queue", 0.2, FEWEST_MISSES * 1.02 / 0.4), target=0.99)

    tiers(scenario, 8, "fast")


@SUITE.scenario(6, 6)
def a_fast_burn_of_nine_misses_in_two_minutes(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, Traffic(per_minute=600), broken("queue", 0.2, FEWEST_MISSES * 0.98 / 0.4), target=0.99)

    tiers(scenario, 8)


@SUITE.scenario(6, 6)
def a_fast_burn_of_ten_misses_in_five_minutes(scenario: Scenario) -> None:
    """A lane with little traffic."""
    lane(scenario, NOTHING, broken("queue", 0.2, FEWEST_MISSES * 1.02), target=0.99)

    tiers(scenario, 11.5, "fast", "slow")


@SUITE.scenario(6, 6)
def a_fast_burn_of_nine_misses_in_five_minutes(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, NOTHING, broken("queue", 0.2, FEWEST_MISSES * 0.96), target=0.99)

    tiers(scenario, 11)


@SUITE.scenario(6, 5, 3)
def a_quiet_fast_burn_that_goes_on_at_less(scenario: Scenario) -> None:
    """It still burns at more than a fifth of what pages: the five minutes speak on."""
    still = broken("queue", FAST_BURN / 5 * 0.01 * 1.2, 20)
    lane(scenario, NOTHING, broken("queue", 0.2, 20), still, target=0.99)

    tiers(scenario, 13, "fast", "slow")


@SUITE.scenario(6, 5, 3)
def a_quiet_fast_burn_that_is_nearly_over(scenario: Scenario) -> None:
    """It burns at less than a fifth of that, and the page ends."""
    still = broken("queue", FAST_BURN / 5 * 0.01 * 0.8, 20)
    lane(scenario, NOTHING, broken("queue", 0.2, 20), still, target=0.99)

    tiers(scenario, 13, "slow")
    scenario.pages(13)


@SUITE.scenario(6, 6)
def nine_times_on_a_lane_with_little_traffic(scenario: Scenario) -> None:
    """Ten misses and more in five minutes, at a little less than ten times the budget: no page."""
    lane(scenario, NOTHING, broken("queue", FAST_BURN * 0.01 * 0.98, 25), target=0.99)

    tiers(scenario, 11.5, "slow")


# --- every target, quiet lanes, idle lanes ---------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def every_request_misses_whatever_the_target(scenario: Scenario) -> None:
    """A page can be reached for 0.9, 0.95 and 0.99 alike."""
    for name, target in (("nine-tenths", 0.9), ("usual", 0.95), ("strict", 0.99)):
        lane(scenario, WELL, broken("queue", 1), lane=name, target=target)
        who = {"lane": name, "model": MODEL, "objective": "ttft"}
        scenario.records("lane:llm_slo_burn:tier", 8, ({**who, "tier": "outage"}, 1), lane=name, tier="outage")
        scenario.yields(
            f'count(ALERTS{{namespace="{scenario.namespace}",alertstate="firing",severity="page",lane="{name}"}})',
            8,
            ("", {}, 1),
        )


@SUITE.scenario(6, 0.25, 6)
def one_bad_request_on_a_quiet_lane(scenario: Scenario) -> None:
    """It pages nobody, and it is nobody's ticket: not while it is fresh, and not later."""
    lane(scenario, Traffic(per_minute=1), Traffic(1, {"queue": 1}, 4), Traffic(per_minute=1), target=0.99)

    for minute in (6.25, 7, 8, 10, 12):
        scenario.alerts(minute)


@SUITE.scenario(6, 6)
def an_idle_lane(scenario: Scenario) -> None:
    """Nothing over nothing is not a number, and above no threshold."""
    lane(scenario, WELL, NOTHING)

    scenario.yields(f'lane:llm_slo_burn:ratio_rate2m{{namespace="{scenario.namespace}"}} >= -1', 12)
    tiers(scenario, 12)
    scenario.alerts(12)


@SUITE.scenario(12)
def a_lane_that_never_had_a_request(scenario: Scenario) -> None:
    """Its counters stand at 0, and it has no alert and no verdict."""
    lane(scenario, NOTHING)

    scenario.alerts(12)
    scenario.records("lane:llm_slo_verdict:phase", 12)


@SUITE.scenario(12)
def a_healthy_lane(scenario: Scenario) -> None:
    """One request in fifty misses a target of 95 %: that is what the budget is for."""
    lane(scenario, Traffic(0.02, {"queue": 1}))

    scenario.alerts(12)


@SUITE.scenario(6, 4, 4)
def an_outage_that_ends(scenario: Scenario) -> None:
    """Its page goes within two minutes of the last miss."""
    lane(scenario, WELL, broken("queue"), WELL)

    scenario.pages(10, "LLMQueueBurn")
    scenario.pages(12.25)


@SUITE.scenario(6, 4, 8)
def an_outage_whose_traffic_stops(scenario: Scenario) -> None:
    """Nobody comes any more: the page outlives the last miss by two minutes and a half at most."""
    lane(scenario, WELL, broken("queue"), NOTHING)

    scenario.pages(11.5, "LLMQueueBurn")
    scenario.pages(12.25, "LLMQueueBurn")
    scenario.pages(12.75)


# --- what happens to counters ----------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def a_pod_restarts(scenario: Scenario) -> None:
    """Its counters begin again at 0, and no miss comes out of that."""
    lane(scenario, Traffic(0.02, {"queue": 1}), Traffic(0.02, {"queue": 1}, anew=True))

    for minute in (6.25, 7, 8, 11):
        scenario.alerts(minute)
        tiers(scenario, minute)


@SUITE.scenario(6, 3, 6)
def a_pod_goes_away_and_comes_back(scenario: Scenario) -> None:
    """Its series end and begin again: neither makes a miss."""
    for metric, rate in (("requests", 120.0), ("misses", 2.0), ("allowed_misses", 6.0)):
        who = {**WHO, "prompt_bucket": "512-4k"}
        scenario.counts(f"llm_slo_{metric}_total", rate, None, Anew(rate), **who)

    for minute in (6.5, 8, 9.25, 10, 12, 14):
        scenario.alerts(minute)


@SUITE.scenario(6, 6)
def one_pod_of_two_restarts_in_an_outage(scenario: Scenario) -> None:
    """The other's misses are not forgotten: misses are added up pod by pod before anything is divided."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, Traffic(0.8, {"queue": 1}, anew=True), pod="engine-1")

    scenario.pages(8, "LLMQueueBurn")
    scenario.pages(12, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def buckets_of_one_lane(scenario: Scenario) -> None:
    """Prompt buckets with targets of their own add up to one burn: misses over what all of them allow."""
    who = {**WHO, "prompt_bucket": "64k+"}
    lane(scenario, WELL, broken("queue", 0.06))
    scenario.counts("llm_slo_requests_total", 120.0, **who)
    scenario.counts("llm_slo_misses_total", 0.0, 12.0, **who)
    scenario.counts("llm_slo_allowed_misses_total", 12.0, **who)

    scenario.records("lane:llm_slo_burn:ratio_rate5m", 11.5, (WHO, round((7.2 + 12) / (6 + 12), 3)))
    scenario.records("lane:llm_slo_miss:ratio_rate5m", 11.5, (WHO, 0.08))
