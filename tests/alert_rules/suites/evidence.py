"""What broke, where the votes say only where requests waited: evidence of the whole engine against its own quiet hour.

Eight healthy minutes make a baseline, then a lane misses and its requests say that they waited in the queue. What has grown most
decides whether it is the queue's own fault (alert_rules/evidence.py).
"""

from alert_rules.evidence import WORTH_NAMING
from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.suites.votes import verdict
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


SUITE = Suite("evidence")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}
GROWN, FLAT = WORTH_NAMING * 1.04, WORTH_NAMING * 0.96


def cause(scenario: Scenario, minute: float, name: str, **who: str) -> None:
    scenario.records("lane:llm_slo_verdict:cause", minute, ({**WHO, **who, "cause": name}, 1), **who)


def ratio(scenario: Scenario, minute: float, evidence: str, *values: float) -> None:
    """How many times its usual self it is; none where nobody can say."""
    expected = [({"model": MODEL, "evidence": evidence}, value) for value in values]
    scenario.records("model:llm_evidence:ratio", minute, *expected, evidence=evidence)


def now(scenario: Scenario, minute: float, evidence: str, *values: float) -> None:
    expected = [({"model": MODEL, "evidence": evidence}, value) for value in values]
    scenario.records("model:llm_evidence:now", minute, *expected, evidence=evidence)


# --- what moves the verdict from the queue to prefill ----------------------------------------------------------------------


@SUITE.scenario(8, 8)
def prefill_has_become_dearer(scenario: Scenario) -> None:
    """A slower prefill turns up as everybody's queue: the page is prefill's, and says both."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, GROWN)

    ratio(scenario, 7, "prefill_cost", 1)
    ratio(scenario, 15, "prefill_cost", GROWN)
    verdict(scenario, 15, "prefill")
    cause(scenario, 15, "prefill_cost")
    scenario.records("lane:llm_slo_verdict:moved", 15, ({**WHO, "evidence": "prefill_cost"}, 1))
    scenario.alerts(15, "LLMPrefillBurn page", "LLMPrefillBurn ticket")
    scenario.records("lane:llm_slo_waited_in:ratio", 15, ({**WHO, "phase": "queue"}, 1), phase="queue")


@SUITE.scenario(8, 8)
def prefill_is_a_little_dearer(scenario: Scenario) -> None:
    """Less than a quarter more is not worth naming: the queue is its own."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, FLAT)

    ratio(scenario, 15, "prefill_cost", round(FLAT, 3))
    verdict(scenario, 15, "queue")
    cause(scenario, 15, "slots")


@SUITE.scenario(8, 8)
def fewer_prompts_are_cached(scenario: Scenario) -> None:
    """What has to be computed has grown, against the same prompts cached as they used to be: prefill's."""
    lane(scenario, WELL, broken("queue"))
    uncached(scenario, 0.2, 0.2 * GROWN)

    ratio(scenario, 15, "uncached", GROWN)
    verdict(scenario, 15, "prefill")
    cause(scenario, 15, "uncached")


@SUITE.scenario(8, 8)
def the_engine_alone_says_that_fewer_prompts_are_cached(scenario: Scenario) -> None:
    """Where no usage states it, the engine's own counters do."""
    lane(scenario, WELL, broken("queue"))
    uncached_by_engine(scenario, 0.5, 0.75)

    now(scenario, 7, "uncached_by_engine", 0.5)
    ratio(scenario, 15, "uncached", 1.5)
    verdict(scenario, 15, "prefill")


@SUITE.scenario(8, 8)
def usage_that_never_states_what_is_cached(scenario: Scenario) -> None:
    """Its counters stand at 0, which is no answer: the engine's own are asked."""
    lane(scenario, WELL, broken("queue"))
    uncached_by_engine(scenario, 0.5, 0.75)
    for name, rate in (
        ("uncached_prompt_tokens_total", 0.0),
        ("cached_prompt_tokens_total", 0.0),
        ("prompt_tokens_count", 120.0),
    ):
        scenario.counts(f"llm_{name}", rate, model=MODEL, lane=LANE)

    ratio(scenario, 15, "uncached", 1.5)
    verdict(scenario, 15, "prefill")


@SUITE.scenario(8, 8)
def usage_and_the_engine_tell_of_caches(scenario: Scenario) -> None:
    """The usage of the very requests goes first."""
    lane(scenario, WELL, broken("queue"))
    uncached(scenario, 0.2, 0.2)
    uncached_by_engine(scenario, 0.5, 0.75)

    ratio(scenario, 15, "uncached", 1)
    verdict(scenario, 15, "queue")


@SUITE.scenario(8, 8)
def a_lane_that_never_was_cached_sends_more(scenario: Scenario) -> None:
    """The share of what is cached falls, and no cache is lost: every lane is held against itself."""
    lane(scenario, WELL, broken("queue"))
    uncached(scenario, 0.2)
    who = {"model": MODEL, "lane": "batch"}
    scenario.counts("llm_uncached_prompt_tokens_total", PROMPT_TOKENS / 10, PROMPT_TOKENS * 3, **who)
    scenario.counts("llm_cached_prompt_tokens_total", 0, **who)
    scenario.counts("llm_prompt_tokens_count", 6, 180, **who)

    ratio(scenario, 15, "uncached", 1)
    verdict(scenario, 15, "queue")


@SUITE.scenario(8, 8)
def one_lane_of_two_is_cached_less(scenario: Scenario) -> None:
    """What it lost is weighed against all that has to be computed; the other's gain is no comfort."""
    lane(scenario, WELL, broken("queue"))
    uncached(scenario, 0.2, 0.5)
    uncached(scenario, 0.4, 0.3, lane="batch")

    ratio(scenario, 15, "uncached", round((0.5 + 0.3) / (0.2 + 0.3), 3))
    verdict(scenario, 15, "prefill")


@SUITE.scenario(8, 8)
def a_cache_that_held_everything(scenario: Scenario) -> None:
    """Then nothing had to be computed, and nothing is not divided by."""
    lane(scenario, WELL, broken("queue"))
    uncached(scenario, 0, 0.001)

    ratio(scenario, 15, "uncached", round(PROMPT_TOKENS * 0.001 / 60 / 0.01, 3))


@SUITE.scenario(8, 8)
def an_engine_without_a_cache_that_was_asked(scenario: Scenario) -> None:
    """Its counters stand still, and nobody says anything of caches."""
    lane(scenario, WELL, broken("queue"))
    scenario.counts("llm_engine_prefix_cache_hits_total", 0)
    scenario.counts("llm_engine_prefix_cache_queries_total", 0)

    now(scenario, 15, "uncached_by_engine")
    ratio(scenario, 15, "uncached")
    verdict(scenario, 15, "queue")


@SUITE.scenario(8, 8)
def a_pod_that_serves_two_models(scenario: Scenario) -> None:
    """What its engine says of the cache is said of both; requests of unknown models make no third."""
    lane(scenario, WELL, broken("queue"))
    for name in ("large", "other"):
        scenario.counts("llm_requests_received_total", 1, model=name, lane=LANE)
    uncached_by_engine(scenario, 0.5, 0.75)

    both = [({"model": name, "evidence": "uncached_by_engine"}, 0.75) for name in (MODEL, "large")]
    scenario.records("model:llm_evidence:now", 15, *both, evidence="uncached_by_engine")


# --- what leaves it with the queue -----------------------------------------------------------------------------------------


@SUITE.scenario(8, 8)
def more_requests_arrive(scenario: Scenario) -> None:
    """Load."""
    lane(scenario, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * GROWN))

    now(scenario, 7, "load", HEALTHY_PER_MINUTE / 60)
    ratio(scenario, 15, "load", GROWN)
    verdict(scenario, 15, "queue")
    cause(scenario, 15, "load")


@SUITE.scenario(8, 8)
def load_has_grown_more_than_prefill(scenario: Scenario) -> None:
    """What has grown most is the cause: the queue stays the queue's."""
    lane(scenario, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 2))
    prefill_costs(scenario, 1, 1.6)

    verdict(scenario, 15, "queue")
    cause(scenario, 15, "load")
    scenario.pages(15, "LLMQueueBurn")


@SUITE.scenario(8, 8)
def prefill_has_grown_more_than_load(scenario: Scenario) -> None:
    """And the other way round."""
    lane(scenario, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 1.6))
    prefill_costs(scenario, 1, 2)

    verdict(scenario, 15, "prefill")
    cause(scenario, 15, "prefill_cost")


@SUITE.scenario(8, 8)
def nobody_could_measure_a_prompt(scenario: Scenario) -> None:
    """Tokens over no requests are no length."""
    lane(scenario, WELL, broken("queue"))
    who = {"model": MODEL, "lane": LANE}
    scenario.counts("llm_received_measured_requests_total", 0, **who)
    scenario.counts("llm_received_prompt_tokens_total", PROMPT_TOKENS, **who)

    now(scenario, 15, "prompt_mix")


@SUITE.scenario(8, 8)
def decoding_has_become_slower(scenario: Scenario) -> None:
    """The quiet gap has grown more than prefill: many decodes per step make prefill look dear. The queue's, by decode."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, GROWN)
    gaps(scenario, {0.01: 0.15, 0.15: 0.85}, {0.02: 0.15, 0.15: 0.85})

    now(scenario, 7, "decode_cost", 0.008)
    ratio(scenario, 15, "decode_cost", 2.2)
    verdict(scenario, 15, "queue")
    cause(scenario, 15, "decode_cost")


@SUITE.scenario(8, 8)
def prefills_between_the_tokens(scenario: Scenario) -> None:
    """They stretch many gaps and leave the quiet ones as they were: decoding itself is not slower."""
    lane(scenario, WELL, broken("queue"))
    gaps(scenario, {0.01: 1}, {0.01: 0.2, 0.15: 0.8})

    now(scenario, 7, "decode_cost", 0.006)
    now(scenario, 15, "decode_cost", 0.008)
    ratio(scenario, 15, "decode_cost", 1.364)


@SUITE.scenario(8, 8)
def prefill_that_nobody_expects(scenario: Scenario) -> None:
    """Before a cost is fitted there is no ratio, and nothing is moved."""
    lane(scenario, WELL, broken("queue"))
    scenario.counts("llm_prefill_own_seconds_total", 10, 40, model=MODEL)
    scenario.counts("llm_prefill_expected_seconds_total", 0, model=MODEL)

    now(scenario, 15, "prefill_cost")
    verdict(scenario, 15, "queue")


# --- what is not the queue's is not moved ----------------------------------------------------------------------------------


@SUITE.scenario(8, 8)
def the_front_end_holds_them_while_prefill_is_dearer(scenario: Scenario) -> None:
    """Evidence corrects the queue's share only: a slow front end stays one, and no smaller queue is added to prefill's."""
    lane(scenario, WELL, broken("first_token", queue=0.3, prefill=0.15))
    prefill_costs(scenario, 1, 2)

    verdict(scenario, 15, "first_token")
    cause(scenario, 15, "prefill_cost")


@SUITE.scenario(8, 8)
def queue_and_prefill_together_lead(scenario: Scenario) -> None:
    """Neither leads alone; prefill made the queue, so it leads with both."""
    lane(scenario, WELL, broken("first_token", queue=0.3, prefill=0.3))
    prefill_costs(scenario, 1, 2)

    verdict(scenario, 15, "prefill")


@SUITE.scenario(8, 8)
def one_model_is_dearer_and_another_is_not(scenario: Scenario) -> None:
    """Evidence is a model's own."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue"), model="large")
    prefill_costs(scenario, 1, 2)

    verdict(scenario, 15, "prefill", model=MODEL)
    verdict(scenario, 15, "queue", model="large")


@SUITE.scenario(8, 8)
def decode_votes_while_prefill_is_dearer(scenario: Scenario) -> None:
    """Slow tokens are not moved, but the hint stands beside them."""
    lane(scenario, WELL, broken("decode"), objective="tpot")
    prefill_costs(scenario, 1, 2)

    verdict(scenario, 15, "decode", objective="tpot")
    cause(scenario, 15, "prefill_cost", objective="tpot")
