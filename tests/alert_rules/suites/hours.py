"""What only hours show: slow burns, and traffic against what it was before. Samples a minute apart, looked at every four.

Both files are played, because a slow burn's ticket carries the verdict of the same chain as a page.
"""

from alert_rules.burn import FEWEST_MISSES, LONG_BURN, SLOW_BURN
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import HEALTHY_PER_MINUTE, WELL, Traffic, broken, lane, prefill_costs, prompt_lengths


BOOK = Book("hours", step_seconds=60, evaluation_seconds=240)
WHO = {"model": MODEL, "lane": LANE}
ALLOWED = 0.05
"""At the target of 95 % that lanes here have."""


def slow(story: Story, minute: float, *names: str) -> None:
    expected = [({**WHO, "objective": "ttft", "tier": name}, 1.0) for name in names]
    story.records("lane:llm_slo_burn:tier", minute, *expected)


# --- half an hour ----------------------------------------------------------------------------------------------------------


@BOOK.story(200, 40)
def twice_what_the_target_allows(story: Story) -> None:
    """For half an hour: a ticket with its phase, and no page."""
    lane(story, WELL, broken("queue", ALLOWED * SLOW_BURN * 1.02))

    slow(story, 240, "slow")
    story.alerts(240, "LLMQueueBurn ticket")


@BOOK.story(200, 40)
def a_little_less_than_twice_what_the_target_allows(story: Story) -> None:
    """Half an hour of it is nobody's ticket."""
    lane(story, WELL, broken("queue", ALLOWED * SLOW_BURN * 0.98))

    slow(story, 240)
    story.alerts(240)


@BOOK.story(200, 40)
def ten_misses_in_half_an_hour(story: Story) -> None:
    """They are enough."""
    lane(story, Traffic(per_minute=10), broken("queue", 0.2, FEWEST_MISSES * 1.02 / 30 / 0.2))

    slow(story, 240, "slow")


@BOOK.story(200, 40)
def nine_misses_in_half_an_hour(story: Story) -> None:
    """They are too few."""
    lane(story, Traffic(per_minute=10), broken("queue", 0.2, FEWEST_MISSES * 0.98 / 30 / 0.2))

    slow(story, 240)


@BOOK.story(200, 34, 6)
def a_slow_burn_that_goes_on(story: Story) -> None:
    """It still burns all of what is allowed."""
    lane(story, WELL, broken("queue", 0.16), broken("queue", ALLOWED * LONG_BURN * 1.1))

    slow(story, 240, "slow")


@BOOK.story(200, 34, 6)
def a_slow_burn_that_is_over(story: Story) -> None:
    """Less than what is allowed misses now: the ticket closes."""
    lane(story, WELL, broken("queue", 0.16), broken("queue", ALLOWED * LONG_BURN * 0.9))

    slow(story, 240)
    story.alerts(240)


# --- six hours -------------------------------------------------------------------------------------------------------------


@BOOK.story(20, 480)
def all_that_the_target_allows_for_six_hours(story: Story) -> None:
    """A ticket: the month will not last."""
    lane(story, WELL, broken("prefill", ALLOWED * LONG_BURN * 1.02))

    slow(story, 480, "slow")
    story.alerts(480, "LLMPrefillBurn ticket")


@BOOK.story(20, 480)
def nearly_all_that_the_target_allows_for_six_hours(story: Story) -> None:
    """That is what it is there for."""
    lane(story, WELL, broken("prefill", ALLOWED * LONG_BURN * 0.98))

    slow(story, 480)
    story.alerts(480)


@BOOK.story(20, 430, 50)
def most_of_what_the_target_allows_that_ends_in_a_little_more(story: Story) -> None:
    """Neither six hours of all of it, nor half an hour of twice that."""
    lane(story, WELL, broken("queue", ALLOWED * LONG_BURN * 0.7), broken("queue", ALLOWED * LONG_BURN * 1.3))

    slow(story, 496)


@BOOK.story(20, 480)
def ten_misses_in_six_hours(story: Story) -> None:
    """They are enough, on a lane that hardly anybody uses."""
    lane(story, WELL, broken("queue", 0.06, FEWEST_MISSES * 1.02 / 360 / 0.06))

    slow(story, 480, "slow")


@BOOK.story(20, 480)
def nine_misses_in_six_hours(story: Story) -> None:
    """They are too few."""
    lane(story, WELL, broken("queue", 0.06, FEWEST_MISSES * 0.98 / 360 / 0.06))

    slow(story, 480)


@BOOK.story(20, 430, 50)
def six_hours_that_go_on(story: Story) -> None:
    """The last half hour still burns all of it."""
    lane(story, WELL, broken("queue", ALLOWED * 1.5), broken("queue", ALLOWED * LONG_BURN * 1.1))

    slow(story, 496, "slow")


@BOOK.story(20, 430, 50)
def six_hours_that_are_over(story: Story) -> None:
    """The last half hour does not: the ticket closes."""
    lane(story, WELL, broken("queue", ALLOWED * 1.5), broken("queue", ALLOWED * LONG_BURN * 0.9))

    slow(story, 496)


@BOOK.story(480)
def a_day_as_it_should_be(story: Story) -> None:
    """Half of the budget is used, evenly: nothing for hours."""
    lane(story, Traffic(ALLOWED / 2, {"queue": 1}))

    for minute in (60, 240, 480):
        story.alerts(minute)


@BOOK.story(200, 80)
def an_outage_of_more_than_an_hour(story: Story) -> None:
    """What was usual before it is still known: an hour of calm is remembered for as long as it burns."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, 2)
    prompt_lengths(story, 800, 800)

    own = {"model": MODEL, "lane": LANE, "of": "received"}
    story.records("model:llm_evidence:ratio", 280, ({"model": MODEL, "evidence": "prefill"}, 2), evidence="prefill")
    story.records("lane:llm_prompt_tokens:baseline", 280, (own, 800))
    story.pages(280, "LLMPrefillBurn")


# --- the prefix cache ------------------------------------------------------------------------------------------------------


def cached(story: Story, before: float, after: float) -> None:
    story.counts("llm_engine_prefix_cache_queries_total", 60_000)
    story.counts("llm_engine_prefix_cache_hits_total", 60_000 * before, 60_000 * after)


@BOOK.story(452, 28)
def a_prefix_cache_that_hits_half_as_often(story: Story) -> None:
    """A ticket for the silent cause of a queue."""
    cached(story, 0.6, 0.29)

    story.alerts(452)
    story.alerts(480, "LLMPrefixCacheCollapsed ticket")


@BOOK.story(452, 28)
def a_prefix_cache_that_hits_a_little_less_often(story: Story) -> None:
    """None."""
    cached(story, 0.6, 0.31)

    story.alerts(480)


@BOOK.story(452, 28)
def a_prefix_cache_that_hit_one_token_in_five(story: Story) -> None:
    """It was worth something."""
    cached(story, 0.205, 0.05)

    story.alerts(480, "LLMPrefixCacheCollapsed ticket")


@BOOK.story(452, 28)
def a_prefix_cache_that_never_hit_much(story: Story) -> None:
    """It had nothing to lose."""
    cached(story, 0.195, 0.05)

    story.alerts(480)


@BOOK.story(452, 28)
def a_prefix_cache_that_nobody_asks(story: Story) -> None:
    """An idle engine hits nothing, of nothing."""
    story.counts("llm_engine_prefix_cache_queries_total", 60_000, 0)
    story.counts("llm_engine_prefix_cache_hits_total", 30_000, 0)

    story.alerts(480)


# --- clients that give up --------------------------------------------------------------------------------------------------


def giving_up(story: Story, before: float, after: float, per_minute: float = HEALTHY_PER_MINUTE) -> None:
    """Share of the clients that leave while they wait."""
    story.counts("llm_requests_received_total", per_minute, **WHO)
    story.counts("llm_client_cancels_total", per_minute * before, per_minute * after, **WHO, stage="waiting")
    story.counts("llm_client_cancels_total", per_minute / 2, **WHO, stage="streaming")


@BOOK.story(452, 28)
def one_client_in_twenty_gives_up(story: Story) -> None:
    """And none did before: a ticket."""
    giving_up(story, 0, 0.051)

    story.alerts(480, "LLMClientsGiveUp ticket")


@BOOK.story(452, 28)
def fewer_than_one_client_in_twenty_give_up(story: Story) -> None:
    """None; those who stop reading an answer do not give up."""
    giving_up(story, 0, 0.049)

    story.alerts(480)


@BOOK.story(452, 28)
def three_times_as_many_clients_give_up(story: Story) -> None:
    """More than ever before: a ticket."""
    giving_up(story, 0.1, 0.31)

    story.alerts(480, "LLMClientsGiveUp ticket")


@BOOK.story(452, 28)
def twice_as_many_clients_give_up(story: Story) -> None:
    """Some clients always do."""
    giving_up(story, 0.1, 0.29)

    story.alerts(480)


@BOOK.story(452, 28)
def ten_clients_give_up(story: Story) -> None:
    """In a quarter of an hour, of few: they are enough."""
    giving_up(story, 0, 0.5, FEWEST_MISSES * 1.02 / 15 / 0.5)

    story.alerts(480, "LLMClientsGiveUp ticket")


@BOOK.story(452, 28)
def nine_clients_give_up(story: Story) -> None:
    """They are too few."""
    giving_up(story, 0, 0.5, FEWEST_MISSES * 0.98 / 15 / 0.5)

    story.alerts(480)
