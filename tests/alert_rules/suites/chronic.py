"""A lane that always burns, because its threshold does not fit: it must not keep the others without a baseline for ever.

Samples a minute apart, and rules every fifteen seconds as shipped, because how often a lane was seen burning is counted.
"""

from tests.alert_rules.promtool import LANE, MODEL, RECORDING, Book, Story
from tests.alert_rules.world import broken, lane


BOOK = Book("chronic", rules=(RECORDING,), step_seconds=60)
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def calm(story: Story, minute: float, *per_second: float) -> None:
    """Arrivals that make a baseline; none while it burns as it never did."""
    expected = [({"model": MODEL, "evidence": "load"}, value) for value in per_second]
    story.records("model:llm_evidence:calm", minute, *expected, evidence="load")


@BOOK.story(320)
def a_lane_that_has_burned_for_five_hours_of_six(story: Story) -> None:
    """Since anybody looks: what is seen meanwhile is its usual self."""
    lane(story, broken("queue", 0.05 * 2.1))

    calm(story, 290)
    story.records("lane:llm_slo_burn:chronic", 310, (WHO, 1))
    story.records("model:llm_slo:disturbed", 310, ({"model": MODEL}, 1))
    calm(story, 310, 2)


@BOOK.story(310, 10)
def a_lane_that_burned_less_and_now_burns_more(story: Story) -> None:
    """That is not its usual self."""
    lane(story, broken("queue", 0.05 * 1.9), broken("queue", 0.05 * 3))

    story.records("lane:llm_slo_burn:chronic", 319)
    calm(story, 319)


@BOOK.story(320)
def another_lane_that_always_burned(story: Story) -> None:
    """Only lanes that did not always do so disturb."""
    lane(story, broken("queue", 0.15), lane="batch")
    lane(story, broken("queue", 0.01))

    calm(story, 310, 4)
