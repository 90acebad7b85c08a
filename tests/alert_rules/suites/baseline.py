"""What evidence is held against: the median of the last hour's calm, which trouble does not move (alert_rules/evidence.py)."""

from tests.alert_rules.books.evidence import cause, now, ratio
from tests.alert_rules.books.votes import verdict
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane, prefill_costs, prompt_lengths


BOOK = Book("baseline")


def disturbed(story: Story, minute: float, model: str, *, is_it: bool = True) -> None:
    """Of all models this one burns, or none; and it did not always do so."""
    expected = [({"model": model}, 1.0)] if is_it else []
    for name in ("model:llm_slo:disturbed", "model:llm_slo:acute"):
        story.records(name, minute, *expected)


def lane_baseline(story: Story, minute: float, *tokens: float) -> None:
    """Of the lane's own prompts."""
    expected = [({"model": MODEL, "lane": LANE}, one) for one in tokens]
    labels = [({**who, "of": "received"}, value) for who, value in expected]
    story.records("lane:llm_prompt_tokens:baseline", minute, *labels, of="received")


@BOOK.story(8, 8)
def no_evidence_at_all(story: Story) -> None:
    """Only arrivals are known: the votes stand."""
    lane(story, WELL, broken("queue"))

    verdict(story, 15, "queue")
    cause(story, 15, "slots")


@BOOK.story(2, 6)
def a_sidecar_that_is_two_minutes_old(story: Story) -> None:
    """Two minutes are no baseline: nothing is said to have grown."""
    lane(story, WELL, broken("queue", 1))
    prefill_costs(story, 1, 2)
    prompt_lengths(story, 800, 1600)

    ratio(story, 7, "prefill")
    lane_baseline(story, 7)
    verdict(story, 7, "queue")


@BOOK.story(4, 6)
def a_sidecar_that_is_four_minutes_old(story: Story) -> None:
    """Three minutes of calm are one."""
    lane(story, WELL, broken("queue", 1))
    prefill_costs(story, 1, 2)
    prompt_lengths(story, 800, 1600)

    ratio(story, 9, "prefill", 2)
    lane_baseline(story, 9, 800)
    verdict(story, 9, "prefill")


@BOOK.story(5, 5, 6)
def a_baseline_is_a_median(story: Story) -> None:
    """What stands in the middle of the calm, and neither its best nor its worst."""
    prefill_costs(story, 1, 2, 4)
    prompt_lengths(story, 100, 200, 400)
    lane(story, WELL, WELL, WELL)

    story.records("model:llm_evidence:baseline", 15, ({"model": MODEL, "evidence": "prefill"}, 2), evidence="prefill")
    lane_baseline(story, 15, 200)


@BOOK.story(8, 16)
def what_is_seen_while_it_burns(story: Story) -> None:
    """It is no baseline: after a quarter of an hour of trouble it is still measured against the calm before."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, 2)
    prompt_lengths(story, 800, 1600)

    disturbed(story, 7, MODEL, is_it=False)
    disturbed(story, 20, MODEL)
    story.records("model:llm_evidence:calm", 20)
    ratio(story, 24, "prefill", 2)
    lane_baseline(story, 24, 800)
    verdict(story, 24, "prefill")


@BOOK.story(8, 6, 1, 3)
def prefill_that_is_dear_for_a_minute(story: Story) -> None:
    """A queue that drains makes it look so. Whoever was paged for two minutes stays paged."""
    lane(story, WELL, broken("queue"), broken("queue"), broken("queue"))
    prefill_costs(story, 1, 1, 1.8, 1)

    ratio(story, 15, "prefill", 1.4)
    verdict(story, 15, "queue")
    verdict(story, 16.25, "queue")


@BOOK.story(8, 8)
def a_burn_of_twice_the_budget(story: Story) -> None:
    """It disturbs."""
    lane(story, WELL, broken("queue", 0.05 * 2 * 1.02))

    disturbed(story, 15, MODEL)


@BOOK.story(8, 8)
def a_burn_of_less_than_twice_the_budget(story: Story) -> None:
    """It does not."""
    lane(story, WELL, broken("queue", 0.05 * 2 * 0.98))

    disturbed(story, 15, MODEL, is_it=False)
    story.records("model:llm_evidence:calm", 15, ({"model": MODEL, "evidence": "load"}, 2), evidence="load")


@BOOK.story(8, 8)
def three_misses_in_two_minutes(story: Story) -> None:
    """They disturb."""
    lane(story, WELL, Traffic(1, {"queue": 1}, 1.55))

    disturbed(story, 15, MODEL)


@BOOK.story(8, 8)
def two_misses_in_two_minutes(story: Story) -> None:
    """They do not."""
    lane(story, WELL, Traffic(1, {"queue": 1}, 1.45))

    disturbed(story, 15, MODEL, is_it=False)


@BOOK.story(8, 8)
def another_model_burns(story: Story) -> None:
    """It disturbs its own baseline, and no other."""
    lane(story, WELL, WELL)
    lane(story, WELL, broken("queue"), model="large")

    disturbed(story, 15, "large")
    story.records("model:llm_evidence:calm", 15, ({"model": MODEL, "evidence": "load"}, 2), evidence="load")


@BOOK.story(8, 8)
def nobody_sends_anything(story: Story) -> None:
    """No arrivals are no load, and no load of zero either."""
    lane(story, WELL, NOTHING)

    now(story, 15, "load")
    now(story, 15, "decode")
    cause_of_nothing = f'lane:llm_slo_verdict:cause{{namespace="{story.namespace}"}}'
    story.yields(cause_of_nothing, 15)
