"""A lane's own prompts that grow, and tokens that come together: evidence that speaks for some votes only (alert_rules/verdict.py)."""

from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.suites.evidence import FLAT, GROWN, cause, now, ratio
from tests.alert_rules.suites.votes import verdict
from tests.alert_rules.world import HEALTHY_PER_MINUTE, WELL, broken, engine, gaps, lane, prompt_lengths


SUITE = Suite("lengths")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


# --- longer prompts --------------------------------------------------------------------------------------------------------


@SUITE.scenario(8, 8)
def prompts_of_a_lane_have_become_longer(scenario: Scenario) -> None:
    """In their own lane that is prefill's; whoever waits behind them waits in the queue."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue"), lane="batch")
    prompt_lengths(scenario, 800, 800)
    prompt_lengths(scenario, 800, 800 * GROWN * 1.5, lane="batch")

    now(scenario, 7, "prompt_mix", 800)
    moved = ({"model": MODEL, "lane": "batch", "objective": "ttft", "evidence": "prompt_mix"}, 1)
    scenario.records("lane:llm_slo_verdict:moved", 15, moved)
    verdict(scenario, 15, "queue", lane=LANE)
    verdict(scenario, 15, "prefill", lane="batch")
    cause(scenario, 15, "prompt_mix", lane=LANE)
    cause(scenario, 15, "prompt_mix", lane="batch")


@SUITE.scenario(8, 8)
def prompts_of_a_lane_are_a_little_longer(scenario: Scenario) -> None:
    """Less than a quarter: not worth naming."""
    lane(scenario, WELL, broken("queue"))
    prompt_lengths(scenario, 800, 800 * FLAT)

    verdict(scenario, 15, "queue")
    cause(scenario, 15, "slots")


@SUITE.scenario(8, 8)
def prompts_of_a_lane_are_a_third_longer(scenario: Scenario) -> None:
    """That is."""
    lane(scenario, WELL, broken("queue"))
    prompt_lengths(scenario, 800, 800 * GROWN)

    ratio(scenario, 15, "prompt_mix", GROWN)
    verdict(scenario, 15, "prefill")


@SUITE.scenario(8, 8)
def prompts_are_longer_and_far_more_come(scenario: Scenario) -> None:
    """Load has grown more: the queue's."""
    lane(scenario, WELL, broken("queue", per_minute=HEALTHY_PER_MINUTE * 2))
    prompt_lengths(scenario, 800, 800 * 1.5)

    verdict(scenario, 15, "queue")
    cause(scenario, 15, "load")


@SUITE.scenario(8, 8)
def longer_prompts_wait_for_blocks(scenario: Scenario) -> None:
    """The KV cache is full on half of the pods: it is not their computing that takes long."""
    lane(scenario, WELL, broken("queue"))
    lane(scenario, WELL, broken("queue"), pod="engine-1")
    prompt_lengths(scenario, 800, 800 * 1.5)
    engine(scenario, kv=(0.5, 0.99), waiting=(0, 5))
    engine(scenario, kv=(0.5,), waiting=(5,), pod="engine-1")

    scenario.records("model:llm_engine_kv:full_ratio", 15, ({"model": MODEL}, 0.5))
    verdict(scenario, 15, "queue")


@SUITE.scenario(8, 8)
def longer_prompts_with_room_for_them_on_most_pods(scenario: Scenario) -> None:
    """The KV cache is full on one of three."""
    for pod in ("engine-0", "engine-1", "engine-2"):
        lane(scenario, WELL, broken("queue"), pod=pod)
        engine(scenario, kv=(0.5, 0.99 if pod == "engine-0" else 0.5), waiting=(0, 5), pod=pod)
    prompt_lengths(scenario, 800, 800 * 1.5)

    verdict(scenario, 15, "prefill")


# --- tokens that come together ---------------------------------------------------------------------------------------------


@SUITE.scenario(8, 8)
def quiet_gaps_that_have_all_but_vanished(scenario: Scenario) -> None:
    """Tokens are collected somewhere and come together: who waits for the first waits for the stream, whatever was reported."""
    lane(scenario, WELL, broken("queue", prefill=0.3, first_token=0.2))
    gaps(scenario, {0.02: 1}, {0.005: 0.14, 0.15: 0.86})

    ratio(scenario, 15, "decode_cost", 0.23)
    scenario.records("lane:llm_slo_verdict:bursts", 15, (WHO, 1))
    held = [({**WHO, "phase": "stream"}, 1), ({**WHO, "phase": "engine"}, 0)]
    scenario.records("lane:llm_slo_verdict:waited_in", 15, *held)
    verdict(scenario, 15, "stream")
    scenario.pages(15, "LLMStreamBurn")


@SUITE.scenario(8, 8)
def quiet_gaps_that_are_shorter(scenario: Scenario) -> None:
    """An engine with less to do decodes faster, but not four times."""
    lane(scenario, WELL, broken("queue", prefill=0.3, first_token=0.2))
    gaps(scenario, {0.02: 1}, {0.005: 0.12, 0.15: 0.88})

    ratio(scenario, 15, "decode_cost", 0.269)
    verdict(scenario, 15, "queue")


@SUITE.scenario(8, 8)
def slow_tokens_that_come_together(scenario: Scenario) -> None:
    """What is said of a time per token is not about who held the first."""
    lane(scenario, WELL, broken("decode"), objective="tpot")
    gaps(scenario, {0.02: 1}, {0.005: 0.5, 0.15: 0.5})

    verdict(scenario, 15, "decode", objective="tpot")


@SUITE.scenario(8, 8)
def engine_errors_while_tokens_come_together(scenario: Scenario) -> None:
    """What the engine failed is still its own."""
    lane(scenario, WELL, broken("engine", queue=0.2))
    gaps(scenario, {0.02: 1}, {0.005: 0.5, 0.15: 0.5})

    verdict(scenario, 15, "engine")
