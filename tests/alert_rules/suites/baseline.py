"""What evidence is held against: the median of the last hour's calm, which trouble does not move (alert_rules/evidence.py)."""

from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.suites.evidence import cause, now, ratio
from tests.alert_rules.suites.votes import verdict
from tests.alert_rules.world import NOTHING, WELL, Traffic, broken, lane, prefill_costs, prompt_lengths


SUITE = Suite("baseline")


def disturbed(scenario: Scenario, minute: float, model: str, *, is_it: bool = True) -> None:
    """Of all models this one burns, or none; and it did not always do so."""
    expected = [({"model": model}, 1.0)] if is_it else []
    for name in ("model:llm_slo:disturbed", "model:llm_slo:acute"):
        scenario.records(name, minute, *expected)


def lane_baseline(scenario: Scenario, minute: float, *tokens: float) -> None:
    """Of the lane's own prompts."""
    expected = [({"model": MODEL, "lane": LANE}, one) for one in tokens]
    labels = [({**who, "of": "received"}, value) for who, value in expected]
    scenario.records("lane:llm_prompt_tokens:baseline", minute, *labels, of="received")


@SUITE.scenario(8, 8)
def no_evidence_at_all(scenario: Scenario) -> None:
    """Only arrivals are known: the votes stand."""
    lane(scenario, WELL, broken("queue"))

    verdict(scenario, 15, "queue")
    cause(scenario, 15, "slots")


@SUITE.scenario(2, 6)
def a_sidecar_that_is_two_minutes_old(scenario: Scenario) -> None:
    """Two minutes are no baseline: nothing is said to have grown."""
    lane(scenario, WELL, broken("queue", 1))
    prefill_costs(scenario, 1, 2)
    prompt_lengths(scenario, 800, 1600)

    ratio(scenario, 7, "prefill_cost")
    lane_baseline(scenario, 7)
    verdict(scenario, 7, "queue")


@SUITE.scenario(4, 6)
def a_sidecar_that_is_four_minutes_old(scenario: Scenario) -> None:
    """Three minutes of calm are one."""
    lane(scenario, WELL, broken("queue", 1))
    prefill_costs(scenario, 1, 2)
    prompt_lengths(scenario, 800, 1600)

    ratio(scenario, 9, "prefill_cost", 2)
    lane_baseline(scenario, 9, 800)
    verdict(scenario, 9, "prefill")


@SUITE.scenario(5, 5, 6)
def a_baseline_is_a_median(scenario: Scenario) -> None:
    """What stands in the middle of the calm, and neither its best nor its worst."""
    prefill_costs(scenario, 1, 2, 4)
    prompt_lengths(scenario, 100, 200, 400)
    lane(scenario, WELL, WELL, WELL)

    scenario.records(
        "model:llm_evidence:baseline", 15, ({"model": MODEL, "evidence": "prefill_cost"}, 2), evidence="prefill_cost"
    )
    lane_baseline(scenario, 15, 200)


@SUITE.scenario(8, 16)
def what_is_seen_while_it_burns(scenario: Scenario) -> None:
    """It is no baseline: after a quarter of an hour of trouble it is still measured against the calm before."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, 2)
    prompt_lengths(scenario, 800, 1600)

    disturbed(scenario, 7, MODEL, is_it=False)
    disturbed(scenario, 20, MODEL)
    scenario.records("model:llm_evidence:calm", 20)
    ratio(scenario, 24, "prefill_cost", 2)
    lane_baseline(scenario, 24, 800)
    verdict(scenario, 24, "prefill")


@SUITE.scenario(8, 6, 1, 3)
def prefill_that_is_dear_for_a_minute(scenario: Scenario) -> None:
    """A queue that drains makes it look so. Whoever was paged for two minutes stays paged."""
    lane(scenario, WELL, broken("queue"), broken("queue"), broken("queue"))
    prefill_costs(scenario, 1, 1, 1.8, 1)

    ratio(scenario, 15, "prefill_cost", 1.4)
    verdict(scenario, 15, "queue")
    verdict(scenario, 16.25, "queue")


@SUITE.scenario(8, 8)
def a_burn_of_twice_the_budget(scenario: Scenario) -> None:
    """It disturbs."""
    lane(scenario, WELL, broken("queue", 0.05 * 2 * 1.02))

    disturbed(scenario, 15, MODEL)


@SUITE.scenario(8, 8)
def a_burn_of_less_than_twice_the_budget(scenario: Scenario) -> None:
    """It does not."""
    lane(scenario, WELL, broken("queue", 0.05 * 2 * 0.98))

    disturbed(scenario, 15, MODEL, is_it=False)
    scenario.records("model:llm_evidence:calm", 15, ({"model": MODEL, "evidence": "load"}, 2), evidence="load")


@SUITE.scenario(8, 8)
def three_misses_in_two_minutes(scenario: Scenario) -> None:
    """They disturb."""
    lane(scenario, WELL, Traffic(1, {"queue": 1}, 1.55))

    disturbed(scenario, 15, MODEL)


@SUITE.scenario(8, 8)
def two_misses_in_two_minutes(scenario: Scenario) -> None:
    """They do not."""
    lane(scenario, WELL, Traffic(1, {"queue": 1}, 1.45))

    disturbed(scenario, 15, MODEL, is_it=False)


@SUITE.scenario(8, 8)
def another_model_burns(scenario: Scenario) -> None:
    """It disturbs its own baseline, and no other."""
    lane(scenario, WELL, WELL)
    lane(scenario, WELL, broken("queue"), model="large")

    disturbed(scenario, 15, "large")
    scenario.records("model:llm_evidence:calm", 15, ({"model": MODEL, "evidence": "load"}, 2), evidence="load")


@SUITE.scenario(8, 8)
def nobody_sends_anything(scenario: Scenario) -> None:
    """No arrivals are no load, and no load of zero either."""
    lane(scenario, WELL, NOTHING)

    now(scenario, 15, "load")
    now(scenario, 15, "decode_cost")
    cause_of_nothing = f'lane:llm_slo_verdict:cause{{namespace="{scenario.namespace}"}}'
    scenario.yields(cause_of_nothing, 15)
