"""What only a week shows: prompts that grow, the silent cause of most queues. Samples half an hour apart."""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Book, Story


BOOK = Book("weeks", rules=(ALERTS,), step_seconds=1800, evaluation_seconds=1800)
DAY = 24 * 60
WHO = {"model": MODEL, "lane": LANE}


def prompts(story: Story, before: float, after: float, *, then: float = 10, now: float = 10) -> None:
    """Mean tokens of a prompt before and after, and how many come a minute."""
    story.counts("llm_prompt_tokens_sum", before * then, after * now, **WHO)
    story.counts("llm_prompt_tokens_count", then, now, **WHO)


@BOOK.story(7 * DAY, DAY)
def prompts_that_have_grown_by_a_third(story: Story) -> None:
    """Against the same hours a week ago: a ticket."""
    prompts(story, 800, 800 * 1.31)

    story.alerts(7 * DAY)
    story.alerts(8 * DAY, "LLMPromptsGrowing ticket")


@BOOK.story(7 * DAY, DAY)
def prompts_that_have_grown_a_little(story: Story) -> None:
    """Less than 30 %: none."""
    prompts(story, 800, 800 * 1.29)

    story.alerts(8 * DAY)


@BOOK.story(7 * DAY, DAY)
def more_of_the_same_prompts(story: Story) -> None:
    """They are not longer."""
    prompts(story, 800, 800, then=10, now=100)

    story.alerts(8 * DAY)


@BOOK.story(3 * DAY, 5 * DAY)
def a_lane_that_is_younger_than_a_week(story: Story) -> None:
    """It is compared with nothing."""
    story.counts("llm_prompt_tokens_sum", None, 1000, **WHO)
    story.counts("llm_prompt_tokens_count", None, 1, **WHO)

    story.alerts(8 * DAY)


@BOOK.story(7 * DAY, DAY)
def a_hundred_prompts_in_six_hours(story: Story) -> None:
    """They have a mean, now and then."""
    prompts(story, 800, 2000, then=102 / 360, now=102 / 360)

    story.alerts(8 * DAY, "LLMPromptsGrowing ticket")


@BOOK.story(7 * DAY, DAY)
def ninety_eight_prompts_in_six_hours(story: Story) -> None:
    """Too few to judge by."""
    prompts(story, 800, 2000, then=10, now=98 / 360)

    story.alerts(8 * DAY)


@BOOK.story(7 * DAY, DAY)
def ninety_eight_prompts_in_the_same_hours_a_week_ago(story: Story) -> None:
    """Too few to compare with."""
    prompts(story, 800, 2000, then=98 / 360, now=10)

    story.alerts(8 * DAY)
