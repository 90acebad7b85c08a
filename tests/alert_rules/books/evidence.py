"""What broke, where the votes say only where requests waited: evidence of the whole engine against its own quiet hour.

Eight healthy minutes make a baseline, then a lane misses and its requests say that they waited in the queue. What has grown most
decides whether it is the queue's own fault (alert_rules/evidence.py).
"""

from alert_rules.evidence import WORTH_NAMING
from tests.alert_rules.books.votes import verdict
from tests.alert_rules.promtool import LANE, MODEL, Book, Story
from tests.alert_rules.world import (
    HEALTHY_PER_MINUTE,
    NOTHING,
    PROMPT_TOKENS,
    WELL,
    Traffic,
    broken,
    gaps,
    lane,
    prefill_costs,
    prompt_lengths,
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
    """What has to be computed has grown: prefill, named as its uncached share."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0.2, 0.2 * GROWN)

    now(story, 7, "uncached", 0.2)
    ratio(story, 15, "uncached", GROWN)
    verdict(story, 15, "prefill")
    cause(story, 15, "uncached")


@BOOK.story(8, 8)
def the_engine_alone_says_that_fewer_prompts_are_cached(story: Story) -> None:
    """Where no usage states it, the engine's own counters do."""
    lane(story, WELL, broken("queue"))
    uncached_by_engine(story, 0.5, 0.75)

    now(story, 7, "uncached", 0.5)
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
def the_counters_of_a_cache_stand_still(story: Story) -> None:
    """Nothing asked is not nothing cached."""
    lane(story, WELL, broken("queue"))
    uncached(story, 0)
    story.counts("llm_engine_prefix_cache_hits_total", 0)
    story.counts("llm_engine_prefix_cache_queries_total", 0)

    now(story, 15, "uncached", 0)


@BOOK.story(8, 8)
def an_engine_without_a_cache_that_was_asked(story: Story) -> None:
    """Its counters stand still, and nobody says anything of caches."""
    lane(story, WELL, broken("queue"))
    story.counts("llm_uncached_prompt_tokens_total", 0, model=MODEL, lane=LANE)
    story.counts("llm_cached_prompt_tokens_total", 0, model=MODEL, lane=LANE)
    story.counts("llm_engine_prefix_cache_hits_total", 0)
    story.counts("llm_engine_prefix_cache_queries_total", 0)

    now(story, 15, "uncached")
    verdict(story, 15, "queue")


@BOOK.story(8, 8)
def a_pod_that_serves_two_models(story: Story) -> None:
    """What its engine says of the cache is said of both; requests of unknown models make no third."""
    lane(story, WELL, broken("queue"))
    for name in ("large", "other"):
        story.counts("llm_requests_received_total", 1, model=name, lane=LANE)
    uncached_by_engine(story, 0.5, 0.75)

    both = [({"model": name, "evidence": "uncached"}, 0.75) for name in (MODEL, "large")]
    story.records("model:llm_evidence:now", 15, *both, evidence="uncached")


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
def prompts_have_become_longer(story: Story) -> None:
    """Longer prompts are other prompts and no dearer prefill: the queue's, with its cause."""
    lane(story, WELL, broken("queue"))
    prompt_lengths(story, 800, 800 * GROWN)

    now(story, 7, "prompts", 800)
    ratio(story, 15, "prompts", GROWN)
    verdict(story, 15, "queue")
    cause(story, 15, "prompts")


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


# --- the baseline ----------------------------------------------------------------------------------------------------------


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

    ratio(story, 7, "prefill")
    verdict(story, 7, "queue")


@BOOK.story(4, 6)
def a_sidecar_that_is_four_minutes_old(story: Story) -> None:
    """Three minutes of calm are one."""
    lane(story, WELL, broken("queue", 1))
    prefill_costs(story, 1, 2)

    ratio(story, 9, "prefill", 2)
    verdict(story, 9, "prefill")


@BOOK.story(5, 5, 6)
def a_baseline_is_a_median(story: Story) -> None:
    """What stands in the middle of the calm, and neither its best nor its worst."""
    prefill_costs(story, 1, 2, 4)
    lane(story, WELL, WELL, WELL)

    story.records("model:llm_evidence:baseline", 15, ({"model": MODEL, "evidence": "prefill"}, 2), evidence="prefill")


@BOOK.story(8, 16)
def what_is_seen_while_it_burns(story: Story) -> None:
    """It is no baseline: after a quarter of an hour of trouble it is still measured against the calm before."""
    lane(story, WELL, broken("queue"))
    prefill_costs(story, 1, 2)

    disturbed = ({"model": MODEL}, 1)
    story.records("model:llm_slo:disturbed", 7)
    story.records("model:llm_slo:disturbed", 20, disturbed)
    story.records("model:llm_evidence:calm", 20)
    ratio(story, 24, "prefill", 2)
    verdict(story, 24, "prefill")


@BOOK.story(8, 8)
def a_burn_of_twice_the_budget(story: Story) -> None:
    """It disturbs."""
    lane(story, WELL, broken("queue", 0.05 * 2 * 1.02))

    story.records("model:llm_slo:disturbed", 15, ({"model": MODEL}, 1))


@BOOK.story(8, 8)
def a_burn_of_less_than_twice_the_budget(story: Story) -> None:
    """It does not."""
    lane(story, WELL, broken("queue", 0.05 * 2 * 0.98))

    story.records("model:llm_slo:disturbed", 15)
    story.records("model:llm_evidence:calm", 15, ({"model": MODEL, "evidence": "load"}, 2), evidence="load")


@BOOK.story(8, 8)
def three_misses_in_two_minutes(story: Story) -> None:
    """They disturb."""
    lane(story, WELL, Traffic(1, {"queue": 1}, 1.55))

    story.records("model:llm_slo:disturbed", 15, ({"model": MODEL}, 1))


@BOOK.story(8, 8)
def two_misses_in_two_minutes(story: Story) -> None:
    """They do not."""
    lane(story, WELL, Traffic(1, {"queue": 1}, 1.45))

    story.records("model:llm_slo:disturbed", 15)


@BOOK.story(8, 8)
def another_model_burns(story: Story) -> None:
    """It disturbs its own baseline, and no other."""
    lane(story, WELL, WELL)
    lane(story, WELL, broken("queue"), model="large")

    story.records("model:llm_slo:disturbed", 15, ({"model": "large"}, 1))
    story.records("model:llm_evidence:calm", 15, ({"model": MODEL, "evidence": "load"}, 2), evidence="load")


@BOOK.story(8, 8)
def nobody_sends_anything(story: Story) -> None:
    """No arrivals are no load, and no load of zero either."""
    lane(story, WELL, NOTHING)

    now(story, 15, "load")
    now(story, 15, "decode")
    cause_of_nothing = f'lane:llm_slo_verdict:cause{{namespace="{story.namespace}"}}'
    story.yields(cause_of_nothing, 15)
