"""How fast a lane burns, and which tier that is: both sides of every threshold, for every target (alert_rules/burn.py).

Six healthy minutes at two requests a second, then what the story tells. Where a story is about one clause of a tier, its target
and its traffic keep the other clauses out.
"""

from alert_rules.burn import FAST_BURN, FEWEST_MISSES, OUTAGE_RATIO
from tests.alert_rules.promtool import LANE, MODEL, Anew, Book, Story
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane


BOOK = Book("tiers")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def tiers(story: Story, minute: float, *names: str) -> None:
    """Which of the tiers that page hold."""
    expected = [({**WHO, "tier": name}, 1.0) for name in names]
    story.records("lane:llm_slo_burn:tier", minute, *expected)


# --- outage --------------------------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def half_of_the_requests_miss(story: Story) -> None:
    """It pages two minutes after the fault, at a target that can never burn at ten."""
    lane(story, WELL, broken("queue", OUTAGE_RATIO * 1.01), target=0.9)

    tiers(story, 6)
    tiers(story, 8, "outage", "slow")
    story.pages(8, "LLMQueueBurn")
    story.pages(12, "LLMQueueBurn")


@BOOK.story(6, 6)
def less_than_half_of_the_requests_miss(story: Story) -> None:
    """That is no outage, and at this target no fast burn either: a ticket."""
    lane(story, WELL, broken("queue", OUTAGE_RATIO * 0.99), target=0.9)

    tiers(story, 12, "slow")
    story.alerts(12, "LLMQueueBurn ticket")


@BOOK.story(6, 6)
def ten_misses_in_two_minutes(story: Story) -> None:
    """They are enough for an outage; the five minutes before hold too many good requests to say so."""
    lane(story, WELL, broken("queue", 1, FEWEST_MISSES * 1.02 / 2), target=0.75)

    tiers(story, 8, "outage")


@BOOK.story(6, 6)
def nine_misses_in_two_minutes(story: Story) -> None:
    """They are too few, although every request misses."""
    lane(story, WELL, broken("queue", 1, FEWEST_MISSES * 0.98 / 2), target=0.75)

    tiers(story, 8)


@BOOK.story(6, 6)
def ten_misses_in_five_minutes(story: Story) -> None:
    """A lane with little traffic has an outage too, as soon as ten have missed."""
    lane(story, NOTHING, broken("queue", 1, FEWEST_MISSES * 1.02 / 5), target=0.75)

    tiers(story, 8)
    tiers(story, 11.5, "outage", "slow")
    story.pages(11.5, "LLMQueueBurn")


@BOOK.story(6, 6)
def nine_misses_in_five_minutes(story: Story) -> None:
    """They page nobody, although every request misses."""
    lane(story, NOTHING, broken("queue", 1, FEWEST_MISSES * 0.96 / 5), target=0.75)

    tiers(story, 11)
    story.alerts(11)


@BOOK.story(6, 5, 3)
def a_quiet_outage_that_goes_on_at_less(story: Story) -> None:
    """Three in ten still miss, of too few requests for two minutes to say more: the five minutes speak on."""
    still = OUTAGE_RATIO / 2 * 1.2
    lane(story, NOTHING, broken("queue", 1, 5), broken("queue", still, 5), target=0.75)

    tiers(story, 13, "outage", "slow")


@BOOK.story(6, 5, 3)
def a_quiet_outage_that_is_nearly_over(story: Story) -> None:
    """Two in ten miss, and the page ends without waiting for five minutes to pass."""
    still = OUTAGE_RATIO / 2 * 0.8
    lane(story, NOTHING, broken("queue", 1, 5), broken("queue", still, 5), target=0.75)

    tiers(story, 13, "slow")
    story.pages(13)


@BOOK.story(6, 3, 3)
def an_outage_half_hidden_in_five_minutes(story: Story) -> None:
    """Five minutes of which a little less than half missed are no outage, whatever they add up to."""
    lane(story, NOTHING, broken("queue", 0.48, 5), broken("queue", 0.48, 5), target=0.75)

    tiers(story, 11.5, "slow")


# --- fast ----------------------------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def ten_times_what_the_target_allows(story: Story) -> None:
    """At a target of 99 % that is one request in ten: a page within five minutes."""
    lane(story, WELL, broken("queue", FAST_BURN * 0.01 * 1.02), target=0.99)

    tiers(story, 8, "fast", "slow")
    story.pages(8, "LLMQueueBurn")
    story.pages(11, "LLMQueueBurn")


@BOOK.story(6, 6)
def nine_times_what_the_target_allows(story: Story) -> None:
    """A ticket, and nobody is woken."""
    lane(story, WELL, broken("queue", FAST_BURN * 0.01 * 0.98), target=0.99)

    tiers(story, 12, "slow")
    story.alerts(12, "LLMQueueBurn ticket")


@BOOK.story(6, 6)
def a_fast_burn_of_ten_misses_in_two_minutes(story: Story) -> None:
    """They are enough; the five minutes before dilute the rest."""
    lane(story, Traffic(per_minute=600), broken("queue", 0.2, FEWEST_MISSES * 1.02 / 0.4), target=0.99)

    tiers(story, 8, "fast")


@BOOK.story(6, 6)
def a_fast_burn_of_nine_misses_in_two_minutes(story: Story) -> None:
    """They are too few."""
    lane(story, Traffic(per_minute=600), broken("queue", 0.2, FEWEST_MISSES * 0.98 / 0.4), target=0.99)

    tiers(story, 8)


@BOOK.story(6, 6)
def a_fast_burn_of_ten_misses_in_five_minutes(story: Story) -> None:
    """A lane with little traffic."""
    lane(story, NOTHING, broken("queue", 0.2, FEWEST_MISSES * 1.02), target=0.99)

    tiers(story, 11.5, "fast", "slow")


@BOOK.story(6, 6)
def a_fast_burn_of_nine_misses_in_five_minutes(story: Story) -> None:
    """They are too few."""
    lane(story, NOTHING, broken("queue", 0.2, FEWEST_MISSES * 0.96), target=0.99)

    tiers(story, 11)


@BOOK.story(6, 5, 3)
def a_quiet_fast_burn_that_goes_on_at_less(story: Story) -> None:
    """It still burns at more than a fifth of what pages: the five minutes speak on."""
    still = broken("queue", FAST_BURN / 5 * 0.01 * 1.2, 20)
    lane(story, NOTHING, broken("queue", 0.2, 20), still, target=0.99)

    tiers(story, 13, "fast", "slow")


@BOOK.story(6, 5, 3)
def a_quiet_fast_burn_that_is_nearly_over(story: Story) -> None:
    """It burns at less than a fifth of that, and the page ends."""
    still = broken("queue", FAST_BURN / 5 * 0.01 * 0.8, 20)
    lane(story, NOTHING, broken("queue", 0.2, 20), still, target=0.99)

    tiers(story, 13, "slow")
    story.pages(13)


@BOOK.story(6, 6)
def nine_times_on_a_lane_with_little_traffic(story: Story) -> None:
    """Ten misses and more in five minutes, at a little less than ten times the budget: no page."""
    lane(story, NOTHING, broken("queue", FAST_BURN * 0.01 * 0.98, 25), target=0.99)

    tiers(story, 11.5, "slow")


# --- every target, quiet lanes, idle lanes ---------------------------------------------------------------------------------


@BOOK.story(6, 6)
def every_request_misses_whatever_the_target(story: Story) -> None:
    """A page can be reached for 0.9, 0.95 and 0.99 alike."""
    for name, target in (("nine-tenths", 0.9), ("usual", 0.95), ("strict", 0.99)):
        lane(story, WELL, broken("queue", 1), lane=name, target=target)
        who = {"lane": name, "model": MODEL, "objective": "ttft"}
        story.records("lane:llm_slo_burn:tier", 8, ({**who, "tier": "outage"}, 1), lane=name, tier="outage")
        story.yields(
            f'count(ALERTS{{namespace="{story.namespace}",alertstate="firing",severity="page",lane="{name}"}})',
            8,
            ("", {}, 1),
        )


@BOOK.story(6, 0.25, 6)
def one_bad_request_on_a_quiet_lane(story: Story) -> None:
    """It pages nobody, and it is nobody's ticket: not while it is fresh, and not later."""
    lane(story, Traffic(per_minute=1), Traffic(1, {"queue": 1}, 4), Traffic(per_minute=1), target=0.99)

    for minute in (6.25, 7, 8, 10, 12):
        story.alerts(minute)


@BOOK.story(6, 6)
def an_idle_lane(story: Story) -> None:
    """Nothing over nothing is not a number, and above no threshold."""
    lane(story, WELL, NOTHING)

    story.yields(f'lane:llm_slo_burn:ratio_rate2m{{namespace="{story.namespace}"}} >= -1', 12)
    tiers(story, 12)
    story.alerts(12)


@BOOK.story(12)
def a_lane_that_never_had_a_request(story: Story) -> None:
    """Its counters stand at 0, and it has no alert and no verdict."""
    lane(story, NOTHING)

    story.alerts(12)
    story.records("lane:llm_slo_verdict:phase", 12)


@BOOK.story(12)
def a_healthy_lane(story: Story) -> None:
    """One request in fifty misses a target of 95 %: that is what the budget is for."""
    lane(story, Traffic(0.02, {"queue": 1}))

    story.alerts(12)


@BOOK.story(6, 4, 4)
def an_outage_that_ends(story: Story) -> None:
    """Its page goes within two minutes of the last miss."""
    lane(story, WELL, broken("queue"), WELL)

    story.pages(10, "LLMQueueBurn")
    story.pages(12.25)


@BOOK.story(6, 4, 8)
def an_outage_whose_traffic_stops(story: Story) -> None:
    """Nobody comes any more: the page outlives the last miss by two minutes and a half at most."""
    lane(story, WELL, broken("queue"), NOTHING)

    story.pages(11.5, "LLMQueueBurn")
    story.pages(12.25, "LLMQueueBurn")
    story.pages(12.75)


# --- what happens to counters ----------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def a_pod_restarts(story: Story) -> None:
    """Its counters begin again at 0, and no miss comes out of that."""
    lane(story, Traffic(0.02, {"queue": 1}), Traffic(0.02, {"queue": 1}, anew=True))

    for minute in (6.25, 7, 8, 11):
        story.alerts(minute)
        tiers(story, minute)


@BOOK.story(6, 3, 6)
def a_pod_goes_away_and_comes_back(story: Story) -> None:
    """Its series end and begin again: neither makes a miss."""
    for metric, rate in (("requests", 120.0), ("misses", 2.0), ("allowed_misses", 6.0)):
        who = {**WHO, "prompt_bucket": "512-4k"}
        story.counts(f"llm_slo_{metric}_total", rate, None, Anew(rate), **who)

    for minute in (6.5, 8, 9.25, 10, 12, 14):
        story.alerts(minute)


@BOOK.story(6, 6)
def one_pod_of_two_restarts_in_an_outage(story: Story) -> None:
    """The other's misses are not forgotten: misses are added up pod by pod before anything is divided."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, Traffic(0.8, {"queue": 1}, anew=True), pod="engine-1")

    story.pages(8, "LLMQueueBurn")
    story.pages(12, "LLMQueueBurn")


@BOOK.story(6, 6)
def buckets_of_one_lane(story: Story) -> None:
    """Prompt buckets with targets of their own add up to one burn: misses over what all of them allow."""
    who = {**WHO, "prompt_bucket": "64k+"}
    lane(story, WELL, broken("queue", 0.06))
    story.counts("llm_slo_requests_total", 120.0, **who)
    story.counts("llm_slo_misses_total", 0.0, 12.0, **who)
    story.counts("llm_slo_allowed_misses_total", 12.0, **who)

    story.records("lane:llm_slo_burn:ratio_rate5m", 11.5, (WHO, round((7.2 + 12) / (6 + 12), 3)))
    story.records("lane:llm_slo_miss:ratio_rate5m", 11.5, (WHO, 0.08))
