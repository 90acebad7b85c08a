"""Alerts about the engine, pod by pod: each fires and does not fire, on both sides of what it compares with (alert_rules/state.py).

Only the alert file is played: these need no recorded series.
"""

from collections.abc import Sequence

from tests.alert_rules.promtool import ALERTS, LANE, MODEL, Book, Story
from tests.alert_rules.world import HEALTHY_PER_MINUTE


BOOK = Book("engine", rules=(ALERTS,))
WHO = {"model": MODEL, "lane": LANE}


# --- nothing comes back ----------------------------------------------------------------------------------------------------


@BOOK.story(4, 4)
def twenty_stalled_seconds_in_two_minutes(story: Story) -> None:
    """A silence that no pending work explains, for long enough: a page."""
    story.counts("llm_engine_stalled_seconds_total", 0, 10.2)

    story.alerts(4)
    story.alerts(7, "LLMNothingComesBack page")


@BOOK.story(4, 4)
def nineteen_stalled_seconds_in_two_minutes(story: Story) -> None:
    """A short one is no page of its own."""
    story.counts("llm_engine_stalled_seconds_total", 0, 9.8)

    story.alerts(7)


def waiting(
    story: Story,
    *,
    oldest: float = 90,
    overdue: float = 3,
    gaps: float = 0,
    ok: float = 0,
    idle_lanes: Sequence[str] = (),
) -> None:
    """Requests wait: the oldest for so many seconds; so many gaps between tokens and good ends per minute."""
    story.shows("llm_oldest_request_seconds", 0, oldest, **WHO, state="waiting")
    story.shows("llm_requests_overdue", 0, overdue, **WHO)
    story.counts("llm_inter_token_seconds_count", 600, gaps, **WHO)
    story.counts("llm_requests_total", 60, ok, **WHO, prompt_bucket="512-4k", outcome="ok")
    story.counts("llm_requests_total", 60, **WHO, prompt_bucket="512-4k", outcome="client_cancelled")
    for name in idle_lanes:
        story.shows("llm_oldest_request_seconds", 0, model=MODEL, lane=name, state="waiting")
        story.shows("llm_requests_overdue", 0, model=MODEL, lane=name)


@BOOK.story(4, 5)
def requests_wait_and_nothing_comes_back(story: Story) -> None:
    """No token and no good end for two minutes, whoever gives up meanwhile."""
    waiting(story)

    story.alerts(8.5, "LLMNothingComesBack page")


@BOOK.story(
    4,
    5,
)
def requests_of_one_lane_wait_and_nothing_comes_back(story: Story) -> None:
    """Lanes that nobody uses just then stand at 0 and hide nothing."""
    waiting(story, idle_lanes=("batch",))

    story.alerts(8.5, "LLMNothingComesBack page")


@BOOK.story(4, 5)
def requests_have_waited_for_less_than_a_minute(story: Story) -> None:
    """That is a queue."""
    waiting(story, oldest=58)

    story.alerts(8.5)


@BOOK.story(4, 5)
def requests_have_waited_for_a_minute(story: Story) -> None:
    """That is not."""
    waiting(story, oldest=62)

    story.alerts(8.5, "LLMNothingComesBack page")


@BOOK.story(4, 5)
def requests_wait_that_may(story: Story) -> None:
    """A lane whose objective allows it is not overdue."""
    waiting(story, overdue=0)

    story.alerts(8.5)


@BOOK.story(4, 5)
def requests_wait_and_tokens_come(story: Story) -> None:
    """The engine works, for others."""
    waiting(story, gaps=6)

    story.alerts(8.5)


@BOOK.story(4, 5)
def requests_wait_and_others_end_well(story: Story) -> None:
    """Answers of one token have no gaps."""
    waiting(story, ok=1)

    story.alerts(8.5)


@BOOK.story(4, 5)
def one_of_two_pods_gives_nothing_back(story: Story) -> None:
    """Its tokens are its own: the other's do not hide it."""
    waiting(story)
    story.counts("llm_inter_token_seconds_count", 600, pod="engine-1", **WHO)
    story.counts("llm_requests_total", 60, pod="engine-1", **WHO, prompt_bucket="512-4k", outcome="ok")

    story.alerts(8.5, "LLMNothingComesBack page")


# --- preemption, KV cache --------------------------------------------------------------------------------------------------


def preempting(story: Story, ratio: float, per_minute: float = HEALTHY_PER_MINUTE) -> None:
    story.counts("llm_engine_preemptions_total", 0, per_minute * ratio)
    story.counts("llm_requests_received_total", per_minute, **WHO)


@BOOK.story(4, 8)
def one_request_in_twenty_is_preempted(story: Story) -> None:
    """A ticket once that has lasted a minute."""
    preempting(story, 0.051)

    story.alerts(4)
    story.alerts(11, "LLMEnginePreempting ticket")


@BOOK.story(4, 8)
def fewer_than_one_request_in_twenty_are_preempted(story: Story) -> None:
    """None."""
    preempting(story, 0.049)

    story.alerts(12)


@BOOK.story(4, 8)
def three_preemptions_of_few_requests(story: Story) -> None:
    """They count."""
    preempting(story, 0.31, 2)

    story.alerts(11, "LLMEnginePreempting ticket")


@BOOK.story(4, 8)
def two_preemptions_of_few_requests(story: Story) -> None:
    """They are too few, whatever their share."""
    preempting(story, 0.29, 2)

    story.alerts(12)


@BOOK.story(4, 6)
def a_kv_cache_that_is_full_with_a_queue(story: Story) -> None:
    """A ticket after two minutes of it, and one more."""
    story.shows("llm_engine_kv_cache_usage_ratio", 0.5, 0.96)
    story.shows("llm_engine_requests_waiting", 0, 1)

    story.alerts(6.5)
    story.alerts(7.5, "LLMEngineKvCacheFull ticket")


@BOOK.story(4, 6)
def a_kv_cache_that_is_nearly_full_with_a_queue(story: Story) -> None:
    """None."""
    story.shows("llm_engine_kv_cache_usage_ratio", 0.5, 0.94)
    story.shows("llm_engine_requests_waiting", 0, 1)

    story.alerts(10)


@BOOK.story(4, 6)
def a_kv_cache_that_is_full_without_a_queue(story: Story) -> None:
    """That is a well used engine."""
    story.shows("llm_engine_kv_cache_usage_ratio", 0.5, 1)
    story.shows("llm_engine_requests_waiting", 0)

    story.alerts(10)


# --- bursts ----------------------------------------------------------------------------------------------------------------


def reads(story: Story, many: float, per_minute: float = 600) -> None:
    """Reads of an engine's output, and the share of them that brings more than five events."""
    for le, share in (("1.0", 0.5), ("5.0", 1 - many), ("+Inf", 1.0)):
        story.counts("llm_stream_events_per_read_bucket", 0, per_minute * share, lane=LANE, le=le)
    story.counts("llm_stream_events_per_read_count", 0, per_minute, lane=LANE)


@BOOK.story(4, 20)
def events_come_in_bursts(story: Story) -> None:
    """More than one read in ten brings six events and more."""
    reads(story, 0.11)

    story.alerts(8)
    story.alerts(20, "LLMEventsInBursts ticket")


@BOOK.story(4, 20)
def few_events_come_in_bursts(story: Story) -> None:
    """Speculative decoding makes some."""
    reads(story, 0.09)

    story.alerts(24)


@BOOK.story(4, 20)
def bursts_among_enough_reads(story: Story) -> None:
    """A read in ten seconds is enough to judge by."""
    reads(story, 0.5, 60 * 0.1 * 1.05)

    story.alerts(24, "LLMEventsInBursts ticket")


@BOOK.story(4, 20)
def bursts_among_too_few_reads(story: Story) -> None:
    """Less is not."""
    reads(story, 0.5, 60 * 0.1 * 0.95)

    story.alerts(24)


# --- one of several --------------------------------------------------------------------------------------------------------


def replicas(story: Story, *missing: float, per_minute: float = 60, quiet: int = 0) -> None:
    """Pods of one model with the share of their requests that misses; the last `quiet` of them have no traffic."""
    for index, share in enumerate(missing):
        rate = 0.0 if index >= len(missing) - quiet else per_minute
        who = {"pod": f"engine-{index}", **WHO, "prompt_bucket": "512-4k", "objective": "ttft"}
        story.counts("llm_slo_requests_total", rate, **who)
        story.counts("llm_slo_misses_total", 0, rate * share, **who)


@BOOK.story(4, 30)
def one_replica_of_three_misses_more(story: Story) -> None:
    """More than three times as often as the middle one: a ticket that names it."""
    replicas(story, 0.31, 0.1, 0.02)

    story.alerts(34, "LLMOutlierReplica ticket", pod="engine-0")


@BOOK.story(4, 30)
def one_replica_of_three_misses_a_little_more(story: Story) -> None:
    """Less than three times: that may be chance."""
    replicas(story, 0.29, 0.1, 0.02)

    story.alerts(34)


@BOOK.story(4, 30)
def one_replica_of_two_misses_more(story: Story) -> None:
    """Of two, nobody can say which is the odd one."""
    replicas(story, 0.5, 0)

    story.alerts(34)


@BOOK.story(4, 30)
def one_replica_misses_one_in_twenty(story: Story) -> None:
    """Its siblings miss nothing."""
    replicas(story, 0, 0.051, 0)

    story.alerts(34, "LLMOutlierReplica ticket", pod="engine-1")


@BOOK.story(4, 30)
def one_replica_misses_less_than_one_in_twenty(story: Story) -> None:
    """It is not worth a look."""
    replicas(story, 0, 0.049, 0)

    story.alerts(34)


@BOOK.story(4, 30)
def one_replica_misses_ten_in_a_quarter_of_an_hour(story: Story) -> None:
    """They are enough."""
    replicas(story, 0, 0, 0.5, per_minute=1.36)

    story.alerts(34, "LLMOutlierReplica ticket", pod="engine-2")


@BOOK.story(4, 30)
def one_replica_misses_nine_in_a_quarter_of_an_hour(story: Story) -> None:
    """They are too few."""
    replicas(story, 0, 0, 0.5, per_minute=1.3)

    story.alerts(34)


@BOOK.story(4, 30)
def all_replicas_miss(story: Story) -> None:
    """That is no machine's fault."""
    replicas(story, 0.5, 0.5, 0.55)

    story.alerts(34)


@BOOK.story(4, 30)
def one_replica_of_another_model_misses(story: Story) -> None:
    """Replicas are compared with those of their own model only."""
    for index, name in enumerate((MODEL, MODEL, "large")):
        who = {"pod": f"engine-{index}", "model": name, "lane": LANE, "prompt_bucket": "512-4k", "objective": "ttft"}
        story.counts("llm_slo_requests_total", 60, **who)
        story.counts("llm_slo_misses_total", 0, 30.0 * (index == 2), **who)

    story.alerts(34)
