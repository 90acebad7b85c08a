"""A lane that always burns, because its threshold does not fit: it must not keep the others without a baseline for ever.

Samples a minute apart, and rules every fifteen seconds as shipped, because how often a lane was seen burning is counted.
"""

from tests.alert_rules.promtool import LANE, MODEL, RECORDING, Scenario, Suite
from tests.alert_rules.world import broken, lane


SUITE = Suite("chronic", rules=(RECORDING,), step_seconds=60)
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def calm(scenario: Scenario, minute: float, *per_second: float) -> None:
    """Arrivals that make a baseline; none while it burns as it never did."""
    expected = [({"model": MODEL, "evidence": "load"}, value) for value in per_second]
    scenario.records("model:llm_evidence:calm", minute, *expected, evidence="load")


@SUITE.scenario(320)
def a_lane_that_has_burned_for_five_hours_of_six(scenario: Scenario) -> None:
    """Since anybody looks: what is seen meanwhile is its usual self."""
    lane(scenario, broken("queue", 0.05 * 2.1))

    calm(scenario, 290)
    scenario.records("lane:llm_slo_burn:chronic", 310, (WHO, 1))
    scenario.records("model:llm_slo:disturbed", 310, ({"model": MODEL}, 1))
    calm(scenario, 310, 2)


@SUITE.scenario(310, 10)
def a_lane_that_burned_less_and_now_burns_more(scenario: Scenario) -> None:
    """That is not its usual self."""
    lane(scenario, broken("queue", 0.05 * 1.9), broken("queue", 0.05 * 3))

    scenario.records("lane:llm_slo_burn:chronic", 319)
    calm(scenario, 319)


@SUITE.scenario(320)
def another_lane_that_always_burned(scenario: Scenario) -> None:
    """Only lanes that did not always do so disturb."""
    lane(scenario, broken("queue", 0.15), lane="batch")
    lane(scenario, broken("queue", 0.01))

    calm(scenario, 310, 4)
