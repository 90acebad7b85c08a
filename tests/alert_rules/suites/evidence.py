"""What broke, where the votes say only where requests waited: evidence of the whole engine against its own quiet hour.

Eight healthy minutes make a baseline, then a lane misses and its requests say that they waited in the queue. What has grown most
decides whether it is the queue's own fault (alert_rules/evidence.py).
"""

from alert_rules.evidence import WORTH_NAMING
from tests.alert_rules.books.votes import verdict
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import (
    HEALTHY_PER_MINUTE,
    PROMPT_TOKENS,
    WELL,
    broken,
    gaps,
    lane,
    prefill_costs,
    uncached,
    uncached_by_engine,
)


BOOK = Book("evidence")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}
GROWN, FLAT = WORTH_NAMING * 1.04, WORTH_NAMING * 0.96


def cause(story: Story, minute: float, name: str, **who: str) -> None:
    story.records("lane:llm_slo_verdict:cause", minute, ({**WHO, **who, "cause": name}, 1), **who)


def ratio(story: Story, minute: float, evidence: str, *values: float) -> None:
    """How many times its usual self it is; none where nobody can say."""
    expected = [({"model": MODEL, "evidence": evidence}, value) for value in values]
    story.records("model:llm_evidence:ratio", minute, *expected, evidence=evidence)


def now(story: Story, minute: float, evidence: str, *values: float) -> None:
    expected = [({"model": MODEL, "evidence": evidence}, value) for value in values]
    story.records("model:llm_evidence:now", minute, *expected, evidence=evidence)


# --- what moves the verdict from the queue to prefill ----------------------------------------------------------------------


@BOOK.story(8, 8)
def prefill_has_become_dearer(story: Story) -> None:
    """A slower prefill turns up as everybody's queue: the page is prefill's, and says both."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, GROWN)

    ratio(story, 7, "prefill", 1)
    ratio(story, 15, "prefill", GROWN)
    verdict(story, 15, "prefill")
    cause(story, 15, "prefill")
    story.records("lane:llm_slo_verdict:moved", 15, ({**WHO, "evidence": "prefill"}, 1))
    story.alerts(15, "LLMPrefillBurn page", "LLMPrefillBurn ticket")
    story.records("lane:llm_slo_waited_in:ratio", 15, ({**WHO, "phase": "queue"}, 1), phase="queue")


@BOOK.story(8, 8)
def prefill_is_a_little_dearer(story: Story) -> None:
    """Less than a quarter more is not worth naming: the queue is its own."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, FLAT)

    ratio(story, 15, "prefill", round(FLAT, 3))
    verdict(story, 15, "queue")
    cause(story, 15, "slots")


@BOOK.story(8, 8)
def fewer_prompts_are_cached(story: Story) -> None:
    """What has to be computed has grown, against the same prompts cached as they used to be: prefill's."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0.2, 0.2 * GROWN)

    ratio(story, 15, "uncached", GROWN)
    verdict(story, 15, "prefill")
    cause(story, 15, "uncached")


@BOOK.story(8, 8)
def the_engine_alone_says_that_fewer_prompts_are_cached(story: Story) -> None:
    """Where no usage states it, the engine's own counters do."""
    lane(story, WELL, broken("queue"))
    uncached_by_engine(story, 0.5, 0.75)

    now(story, 7, "uncached_by_engine", 0.5)
    ratio(story, 15, "uncached", 1.5)
    verdict(story, 15, "prefill")


@BOOK.story(8, 8)
def usage_that_never_states_what_is_cached(story: Story) -> None:
    """Its counters stand at 0, which is no answer: the engine's own are asked."""
    lane(story, WELL, broken("queue"))
    uncached_by_engine(story, 0.5, 0.75)
    for name, rate in (
        ("uncached_prompt_tokens_total", 0.0),
        ("cached_prompt_tokens_total", 0.0),
        ("prompt_tokens_count", 120.0),
    ):
        story.counts(f"llm_{name}", rate, model=MODEL, lane=LANE)

    ratio(story, 15, "uncached", 1.5)
    verdict(story, 15, "prefill")


@BOOK.story(8, 8)
def usage_and_the_engine_tell_of_caches(story: Story) -> None:
    """The usage of the very requests goes first."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0.2, 0.2)
    uncached_by_engine(story, 0.5, 0.75)

    ratio(story, 15, "uncached", 1)
    verdict(story, 15, "queue")


@BOOK.story(8, 8)
def a_lane_that_never_was_cached_sends_more(story: Story) -> None:
    """The share of what is cached falls, and no cache is lost: every lane is held against itself."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0.2)
    who = {"model": MODEL, "lane": "batch"}
    story.counts("llm_uncached_prompt_tokens_total", PROMPT_TOKENS / 10, PROMPT_TOKENS * 3, **who)
    story.counts("llm_cached_prompt_tokens_total", 0, **who)
    story.counts("llm_prompt_tokens_count", 6, 180, **who)

    ratio(story, 15, "uncached", 1)
    verdict(story, 15, "queue")


@BOOK.story(8, 8)
def one_lane_of_two_is_cached_less(story: Story) -> None:
    """What it lost is weighed against all that has to be computed; the other's gain is no comfort."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0.2, 0.5)
    uncached(story, 0.4, 0.3, lane="batch")

    ratio(story, 15, "uncached", round((0.5 + 0.3) / (0.2 + 0.3), 3))
    verdict(story, 15, "prefill")


@BOOK.story(8, 8)
def a_cache_that_held_everything(story: Story) -> None:
    """Then nothing had to be computed, and nothing is not divided by."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0, 0.001)

    ratio(story, 15, "uncached", round(PROMPT_TOKENS * 0.001 / 60 / 0.01, 3))


@BOOK.story(8, 8)
def an_engine_without_a_cache_that_was_asked(story: Story) -> None:
    """Its counters stand still, and nobody says anything of caches."""
    lane(story, WELL, broken("queue"))
    story.counts("llm_engine_prefix_cache_hits_total", 0)
    story.counts("llm_engine_prefix_cache_queries_total", 0)

    now(story, 15, "uncached_by_engine")
    ratio(story, 15, "uncached")
    verdict(story, 15, "queue")


@BOOK.story(8, 8)
def a_pod_that_serves_two_models(story: Story) -> None:
    """What its engine says of the cache is said of both; requests of unknown models make no third."""
    lane(story, WELL, broken("queue"))
    for name in ("large", "other"):
        story.counts("llm_requests_received_total", 1, model=name, lane=LANE)
    uncached_by_engine(story, 0.5, 0.75)

    both = [({"model": name, "evidence": "uncached_by_engine"}, 0.75) for name in (MODEL, "large")]
    story.records("model:llm_evidence:now", 15, *both, evidence="uncached_by_engine")


# --- what leaves it with the queue -----------------------------------------------------------------------------------------


@BOOK.story(8, 8)
def more_requests_arrive(story: Story) -> None:
    """Load."""
    lane(story, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * GROWN))

    now(story, 7, "load", HEALTHY_PER_MINUTE / 60)
    ratio(story, 15, "load", GROWN)
    verdict(story, 15, "queue")
    cause(story, 15, "load")


@BOOK.story(8, 8)
def load_has_grown_more_than_prefill(story: Story) -> None:
    """What has grown most is the cause: the queue stays the queue's."""
    lane(story, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 2))
    prefill_costs(story, 1, 1.6)

    verdict(story, 15, "queue")
    cause(story, 15, "load")
    story.pages(15, "LLMQueueBurn")


@BOOK.story(8, 8)
def prefill_has_grown_more_than_load(story: Story) -> None:
    """And the other way round."""
    lane(story, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 1.6))
    prefill_costs(story, 1, 2)

    verdict(story, 15, "prefill")
    cause(story, 15, "prefill")


@BOOK.story(8, 8)
def nobody_could_measure_a_prompt(story: Story) -> None:
    """Tokens over no requests are no length."""
    lane(story, WELL, broken("queue"))
    who = {"model": MODEL, "lane": LANE}
    story.counts("llm_received_measured_requests_total", 0, **who)
    story.counts("llm_received_prompt_tokens_total", PROMPT_TOKENS, **who)

    now(story, 15, "prompts")


@BOOK.story(8, 8)
def decoding_has_become_slower(story: Story) -> None:
    """The quiet gap has grown more than prefill: many decodes per step make prefill look dear. The queue's, by decode."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, GROWN)
    gaps(story, {0.01: 0.15, 0.15: 0.85}, {0.02: 0.15, 0.15: 0.85})

    now(story, 7, "decode", 0.008)
    ratio(story, 15, "decode", 2.2)
    verdict(story, 15, "queue")
    cause(story, 15, "decode")


@BOOK.story(8, 8)
def prefills_between_the_tokens(story: Story) -> None:
    """They stretch many gaps and leave the quiet ones as they were: decoding itself is not slower."""
    lane(story, WELL, broken("queue"))
    gaps(story, {0.01: 1}, {0.01: 0.2, 0.15: 0.8})

    now(story, 7, "decode", 0.006)
    now(story, 15, "decode", 0.008)
    ratio(story, 15, "decode", 1.364)


@BOOK.story(8, 8)
def prefill_that_nobody_expects(story: Story) -> None:
    """Before a cost is fitted there is no ratio, and nothing is moved."""
    lane(story, WELL, broken("queue"))
    story.counts("llm_prefill_own_seconds_total", 10, 40, model=MODEL)
    story.counts("llm_prefill_expected_seconds_total", 0, model=MODEL)

    now(story, 15, "prefill")
    verdict(story, 15, "queue")


# --- what is not the queue's is not moved ----------------------------------------------------------------------------------


@BOOK.story(8, 8)
def the_front_end_holds_them_while_prefill_is_dearer(story: Story) -> None:
    """Evidence corrects the queue's share only: a slow front end stays one, and no smaller queue is added to prefill's."""
    lane(story, WELL, broken("first_token", queue=0.3, prefill=0.15))
    prefill_costs(story, 1, 2)

    verdict(story, 15, "first_token")
    cause(story, 15, "prefill")


@BOOK.story(8, 8)
def queue_and_prefill_together_lead(story: Story) -> None:
    """Neither leads alone; prefill made the queue, so it leads with both."""
    lane(story, WELL, broken("first_token", queue=0.3, prefill=0.3))
    prefill_costs(story, 1, 2)

    verdict(story, 15, "prefill")


@BOOK.story(8, 8)
def one_model_is_dearer_and_another_is_not(story: Story) -> None:
    """Evidence is a model's own."""
    lane(story, WELL, broken("queue"))
    lane(story, WELL, broken("queue"), model="large")
    prefill_costs(story, 1, 2)

    verdict(story, 15, "prefill", model=MODEL)
    verdict(story, 15, "queue", model="large")


@BOOK.story(8, 8)
def decode_votes_while_prefill_is_dearer(story: Story) -> None:
    """Slow tokens are not moved, but the hint stands beside them."""
    lane(story, WELL, broken("decode"), objective="tpot")
    prefill_costs(story, 1, 2)

    verdict(story, 15, "decode", objective="tpot")
    cause(story, 15, "prefill", objective="tpot")
