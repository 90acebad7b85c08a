"""The truth table of verdicts: where the requests that missed say that they waited, and what the page then says.

No engine tells anything here and nothing has grown, so votes alone decide (alert_rules/verdict.py).
"""

from alert_rules.burn import FEWEST_MISSES
from alert_rules.verdict import FEWEST_VOTES, LEAD, SPLIT_ENOUGH
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane, voiceless


BOOK = Book("votes")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def verdict(story: Story, minute: float, *phases: str, **who: str) -> None:
    """Exactly these verdicts, of one lane: one, unless nothing missed."""
    told = {**WHO, **who}
    expected = [({**told, "phase": phase}, 1.0) for phase in phases]
    story.records("lane:llm_slo_verdict:phase", minute, *expected, **who)


# --- one phase gets the votes ----------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def votes_for_queue(story: Story) -> None:
    """One verdict, one page, one ticket: the queue's."""
    lane(story, WELL, broken("queue"))

    verdict(story, 6)
    verdict(story, 8, "queue")
    story.alerts(12, "LLMQueueBurn page", "LLMQueueBurn ticket")
    story.records("lane:llm_slo_verdict:decided", 12, (WHO, 1))
    story.records("lane:llm_slo_verdict:settled", 12, ({**WHO, "phase": "queue"}, 1))
    story.records("lane:llm_slo_verdict:cause", 12, ({**WHO, "cause": "slots"}, 1))


@BOOK.story(6, 6)
def votes_for_prefill(story: Story) -> None:
    """The prefill's."""
    lane(story, WELL, broken("prefill"))

    verdict(story, 8, "prefill")
    story.alerts(12, "LLMPrefillBurn page", "LLMPrefillBurn ticket")
    story.records("lane:llm_slo_verdict:cause", 12, ({**WHO, "cause": "none"}, 1))


@BOOK.story(6, 6)
def votes_for_first_token(story: Story) -> None:
    """The front end's."""
    lane(story, WELL, broken("first_token"))

    verdict(story, 8, "first_token")
    story.alerts(12, "LLMFirstTokenBurn page", "LLMFirstTokenBurn ticket")


@BOOK.story(6, 6)
def votes_for_stream(story: Story) -> None:
    """First tokens that something held back."""
    lane(story, WELL, broken("stream"))

    verdict(story, 8, "stream")
    story.alerts(12, "LLMStreamBurn page", "LLMStreamBurn ticket")


@BOOK.story(6, 6)
def votes_for_engine(story: Story) -> None:
    """Requests that it failed."""
    lane(story, WELL, broken("engine"))

    verdict(story, 8, "engine")
    story.alerts(12, "LLMEngineBurn page", "LLMEngineBurn ticket")


@BOOK.story(6, 6)
def votes_for_decode(story: Story) -> None:
    """Tokens that come too slowly."""
    lane(story, WELL, broken("decode"), objective="tpot")

    verdict(story, 8, "decode", objective="tpot")
    story.alerts(12, "LLMDecodeBurn page", "LLMDecodeBurn ticket", objective="tpot")


@BOOK.story(6, 6)
def votes_for_stream_by_slow_clients(story: Story) -> None:
    """Tokens that were there, and that clients read too slowly."""
    lane(story, WELL, broken("stream"), objective="tpot")

    story.alerts(12, "LLMStreamBurn page", "LLMStreamBurn ticket", objective="tpot")


@BOOK.story(6, 6)
def whole_answers_that_decode_slowly(story: Story) -> None:
    """Requests without a stream have one objective, for the whole, and a phase of their own."""
    lane(story, WELL, broken("decode"), objective="e2e")

    story.alerts(12, "LLMDecodeBurn page", "LLMDecodeBurn ticket", objective="e2e")


# --- several at once -------------------------------------------------------------------------------------------------------


@BOOK.story(6, 6)
def two_lanes_with_two_troubles(story: Story) -> None:
    """Each has its own verdict, and its own page."""
    lane(story, WELL, broken("queue"), lane="interactive")
    lane(story, WELL, broken("prefill"), lane="batch")

    verdict(story, 12, "queue", lane="interactive")
    verdict(story, 12, "prefill", lane="batch")
    pages = f'count by (alertname, lane) (ALERTS{{namespace="{story.namespace}",severity="page"}})'
    queue = {"alertname": "LLMQueueBurn", "lane": "interactive"}
    prefill = {"alertname": "LLMPrefillBurn", "lane": "batch"}
    story.yields(pages, 12, ("", queue, 1), ("", prefill, 1))


@BOOK.story(6, 6)
def two_models_with_two_troubles(story: Story) -> None:
    """The same lane of another model is somebody else."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("first_token"), model="large")

    verdict(story, 12, "queue", model=MODEL)
    verdict(story, 12, "first_token", model="large")


@BOOK.story(6, 6)
def both_objectives_of_a_lane(story: Story) -> None:
    """Time to first token and time per token have a verdict each; both bad is no engine fault."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("decode"), objective="tpot", received=False)

    verdict(story, 12, "queue", objective="ttft")
    verdict(story, 12, "decode", objective="tpot")


@BOOK.story(6, 6)
def two_pods_of_a_lane(story: Story) -> None:
    """Their votes are added up: the page is the lane's, and no pod's."""
    lane(story, WELL, broken("queue", per_minute=60))
    lane(story, WELL, broken("prefill"), pod="engine-1")

    verdict(story, 12, "prefill")
    waited = [({**WHO, "phase": "queue"}, 0.333), ({**WHO, "phase": "prefill"}, 0.667)]
    none = [({**WHO, "phase": phase}, 0) for phase in ("first_token", "stream", "engine")]
    story.records("lane:llm_slo_waited_in:ratio", 12, *waited, *none)


@BOOK.story(6, 6)
def votes_nearly_tied(story: Story) -> None:
    """Still one verdict."""
    lane(story, WELL, broken("queue", first_token=0.499))

    verdict(story, 12, "queue")


# --- hysteresis ------------------------------------------------------------------------------------------------------------


@BOOK.story(6, 6, 8)
def a_new_leader_by_six_points(story: Story) -> None:
    """It does not take the verdict over: a page does not flap between two phases that are level."""
    ahead = LEAD * 0.6
    lane(story, WELL, broken("queue"), broken("queue", first_token=0.5 + ahead / 2))

    verdict(story, 12, "queue")
    verdict(story, 20, "queue")


@BOOK.story(6, 6, 8)
def a_new_leader_by_fifteen_points(story: Story) -> None:
    """It takes it over."""
    ahead = LEAD * 1.5
    lane(story, WELL, broken("queue"), broken("queue", first_token=0.5 + ahead / 2))

    verdict(story, 20, "first_token")
    story.pages(20, "LLMFirstTokenBurn")


@BOOK.story(6, 6, 8)
def a_phase_that_led_and_comes_back(story: Story) -> None:
    """The ten points are for who is the verdict now, and not for who was."""
    ahead = LEAD * 1.5
    lane(story, WELL, broken("first_token"), broken("queue", first_token=0.5 - ahead / 2))

    verdict(story, 12, "first_token")
    verdict(story, 20, "queue")


# --- a verdict that has settled --------------------------------------------------------------------------------------------


@BOOK.story(6, 6, 8)
def a_new_leader_while_it_is_paged(story: Story) -> None:
    """A verdict that has been paged for two minutes stays until another has led for two: nobody else is woken for a moment."""
    lane(story, WELL, broken("queue"), broken("first_token"))

    story.pages(15.75, "LLMQueueBurn")
    story.pages(17.75, "LLMFirstTokenBurn")


@BOOK.story(6, 6, 8)
def a_new_leader_while_nothing_is_paged(story: Story) -> None:
    """It is the verdict at once: nobody has been woken yet."""
    lane(story, WELL, broken("queue", 0.4), broken("first_token", 0.4), target=0.75)

    verdict(story, 12, "queue")
    verdict(story, 15.75, "first_token")


@BOOK.story(6, 6, 1.5, 6)
def a_lane_that_has_just_begun_to_page(story: Story) -> None:
    """Its verdict has not settled: what leads now is what is paged."""
    some, more = Traffic(0.4, {"queue": 1}), Traffic(0.9, {"first_token": 0.7, "queue": 0.3}, 600)
    lane(story, WELL, some, more, more, target=0.75)

    story.pages(12.75, "LLMQueueBurn")
    story.pages(13.75, "LLMFirstTokenBurn")


# --- who knows -------------------------------------------------------------------------------------------------------------


@BOOK.story(6, 8)
def few_of_the_votes_know(story: Story) -> None:
    """Where fewer than a fifth carry a split, the page says that nobody knows, and which share it is."""
    lane(story, WELL, broken("unattributed", queue=SPLIT_ENOUGH * 0.9))

    verdict(story, 13, "unattributed")
    story.alerts(13, "LLMUnattributedBurn page", "LLMUnattributedBurn ticket")


@BOOK.story(6, 8)
def enough_of_the_votes_know(story: Story) -> None:
    """A fifth of them speaks for all: those that are given up never get a report."""
    lane(story, WELL, broken("unattributed", queue=SPLIT_ENOUGH * 1.1))

    verdict(story, 13, "queue")
    story.alerts(13, "LLMQueueBurn page", "LLMQueueBurn ticket")
    story.records("lane:llm_slo_waited_in:ratio", 13, ({**WHO, "phase": "queue"}, 1), phase="queue")


@BOOK.story(6, 8)
def four_votes(story: Story) -> None:
    """They are too few to say anything."""
    lane(story, WELL, Traffic(0.8, {"queue": FEWEST_VOTES * 0.96 / 5 / 96}))

    verdict(story, 13, "unattributed")


@BOOK.story(6, 8)
def five_votes(story: Story) -> None:
    """They are enough."""
    lane(story, WELL, Traffic(0.8, {"queue": FEWEST_VOTES * 1.04 / 5 / 96}))

    verdict(story, 13, "queue")


@BOOK.story(6, 6)
def nobody_votes(story: Story) -> None:
    """Nothing is known, neither by ledgers nor by the engine: that is what the page says, never nothing and never a phase."""
    lane(story, WELL, voiceless())

    verdict(story, 7, "unattributed")
    story.records("lane:llm_slo_verdict:share", 7, ({**WHO, "phase": "unattributed"}, 1))
    story.pages(10, "LLMUnattributedBurn")


@BOOK.story(6, 0.75, 6)
def nobody_knows_for_less_than_a_minute(story: Story) -> None:
    """A page that says so waits until that has lasted; by then ledgers have closed."""
    lane(story, WELL, voiceless(1, 600), broken("queue", 1, 600))

    for minute in (6.25, 6.5, 6.75, 7, 7.25):
        story.yields(
            f'ALERTS{{namespace="{story.namespace}",alertstate="firing",alertname="LLMUnattributedBurn"}}', minute
        )
    story.pages(8, "LLMQueueBurn")


@BOOK.story(6, 6)
def the_blame_series_are_missing(story: Story) -> None:
    """An old sidecar, or one whose votes are not scraped: the page still comes, and says that nobody knows."""
    who = {**WHO, "prompt_bucket": "512-4k"}
    story.counts("llm_slo_requests_total", 120.0, **who)
    story.counts("llm_slo_misses_total", 0.0, 96.0, **who)
    story.counts("llm_slo_allowed_misses_total", 6.0, **who)

    verdict(story, 12, "unattributed")
    story.pages(12, "LLMUnattributedBurn")


# --- the window ------------------------------------------------------------------------------------------------------------


@BOOK.story(6, 12, 6)
def what_missed_lately_where_five_minutes_hold_enough(story: Story) -> None:
    """The verdict is about the last five minutes, and not about what was before."""
    many = FEWEST_MISSES * 1.05 / 5
    lane(story, NOTHING, broken("queue", 1, many), broken("first_token", 1, many))

    verdict(story, 18, "queue")
    verdict(story, 24, "first_token")


@BOOK.story(6, 12, 6)
def what_missed_lately_where_five_minutes_hold_too_few(story: Story) -> None:
    """A lane that misses seldom is judged by half an hour."""
    few = FEWEST_MISSES * 0.95 / 5
    lane(story, NOTHING, broken("queue", 1, few), broken("first_token", 1, few))

    verdict(story, 24, "queue")
    shares = [({**WHO, "phase": "queue"}, 0.667), ({**WHO, "phase": "first_token"}, 0.333)]
    none = [({**WHO, "phase": phase}, 0) for phase in ("prefill", "stream", "engine")]
    story.records("lane:llm_slo_waited_in:ratio", 24, *shares, *none)
