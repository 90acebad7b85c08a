"""Requests that are turned away (429, 503), lane by lane: the alert fires and does not fire (alert_rules/state.py)."""

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Book, Story


BOOK = Book("turned-away", rules=(ALERTS,), evaluation_seconds=30)
ENDED = {"model": MODEL, "lane": LANE, "prompt_bucket": "512-4k"}


def rejecting(story: Story, share: float, per_minute: float = 120) -> None:
    story.counts("llm_requests_total", per_minute * (1 - share), **ENDED, outcome="ok")
    story.counts("llm_requests_total", 0, per_minute * share, **ENDED, outcome="rejected")


@BOOK.story(5, 10)
def one_request_in_twenty_is_turned_away(story: Story) -> None:
    """A ticket."""
    rejecting(story, 0.051)

    story.alerts(14, "LLMRequestsRejected ticket")


@BOOK.story(5, 10)
def fewer_than_one_request_in_twenty_are_turned_away(story: Story) -> None:
    """None."""
    rejecting(story, 0.049)

    story.alerts(15)


@BOOK.story(5, 12)
def ten_requests_are_turned_away(story: Story) -> None:
    """In five minutes, of few: they are enough."""
    rejecting(story, 0.5, 4.08)

    story.alerts(16, "LLMRequestsRejected ticket")


@BOOK.story(5, 12)
def nine_requests_are_turned_away(story: Story) -> None:
    """They are too few."""
    rejecting(story, 0.5, 3.9)

    story.alerts(17)


@BOOK.story(5, 12)
def a_lane_that_is_turned_away_and_one_that_is_not(story: Story) -> None:
    """The ticket is the lane's: a busy lane that is served does not hide it."""
    rejecting(story, 0.2)
    busy = {**ENDED, "lane": "batch", "outcome": "ok"}
    story.counts("llm_requests_total", 6000, **busy)

    story.alerts(16, "LLMRequestsRejected ticket")
