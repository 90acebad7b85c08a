"""While too few ledgers have closed, the engine's own state says where those who wait now are, and the page says so.

Every lane here misses, and no request has voted yet (alert_rules/verdict.py, the part on state). What the engine does not tell, or
tells no longer, names no phase.
"""

from tests.alert_rules.promtool import LANE, MODEL, Anew, Scenario, Suite
from tests.alert_rules.suites.faults import burn_pages
from tests.alert_rules.suites.votes import verdict
from tests.alert_rules.world import WELL, broken, engine, in_flight, lane, prefill_costs, voiceless


SUITE = Suite("provisional")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


def provisional(scenario: Scenario, minute: float, *phases: str) -> None:
    """Where those who wait now are, by the engine's state, and that the page says so."""
    scenario.records("lane:llm_slo_verdict:provisional", minute, *(({**WHO, "phase": phase}, 1) for phase in phases))


@SUITE.scenario(6, 6)
def nobody_has_voted_and_most_wait_in_the_engines_queue(scenario: Scenario) -> None:
    """Half of those who wait here wait in the engine's queue: provisionally, the queue."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 10.2), running=(8, 8))

    provisional(scenario, 12, "queue")
    scenario.records("lane:llm_slo_verdict:by_state", 12, ({**WHO, "phase": "queue"}, 1))
    verdict(scenario, 12, "queue")
    burn_pages(scenario, 12, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def nobody_has_voted_and_few_wait_in_the_engines_queue(scenario: Scenario) -> None:
    """Fewer than half of them wait there, and none is in prefill: nobody knows."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 9.8), running=(8, 8))

    provisional(scenario, 12)
    verdict(scenario, 12, "unattributed")


@SUITE.scenario(6, 6)
def nobody_has_voted_and_most_are_in_prefill(scenario: Scenario) -> None:
    """The engine runs more than stream here: those are in prefill."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 2), running=(8, 18.2))

    provisional(scenario, 12, "prefill")
    verdict(scenario, 12, "prefill")


@SUITE.scenario(6, 6)
def nobody_has_voted_and_some_are_in_prefill(scenario: Scenario) -> None:
    """Not half of those who wait."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 2), running=(8, 17.8))

    verdict(scenario, 12, "unattributed")


@SUITE.scenario(6, 6)
def nobody_has_voted_and_the_state_is_level(scenario: Scenario) -> None:
    """As many in the queue as in prefill, by counts that do not quite agree: still one verdict."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 10.5), running=(8, 19))

    verdict(scenario, 12, "prefill")


@SUITE.scenario(6, 6)
def nobody_has_voted_and_nobody_waits(scenario: Scenario) -> None:
    """Nothing over nothing is no state."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(0,), streaming=(8,))
    engine(scenario, waiting=(0,), running=(8,))

    verdict(scenario, 12, "unattributed")


@SUITE.scenario(6, 6)
def nobody_has_voted_and_prefill_is_dearer(scenario: Scenario) -> None:
    """The same evidence moves what the state says."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 15), running=(8, 8))
    prefill_costs(scenario, 1, 2)

    provisional(scenario, 12, "queue")
    verdict(scenario, 12, "prefill")


@SUITE.scenario(6, 6)
def nobody_has_voted_in_prefill_and_prefill_is_dearer(scenario: Scenario) -> None:
    """What is prefill's stays prefill's."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 2), running=(8, 25))
    prefill_costs(scenario, 1, 2)

    verdict(scenario, 12, "prefill")


@SUITE.scenario(6, 4, 6)
def ledgers_close_late(scenario: Scenario) -> None:
    """While they are too few the state decides; then the votes do, and nothing is provisional any more."""
    lane(scenario, WELL, voiceless(), broken("first_token"))
    in_flight(scenario, waiting=(1, 20, 20), streaming=(8,))
    engine(scenario, waiting=(0, 15, 15), running=(8, 8, 8))

    provisional(scenario, 9, "queue")
    verdict(scenario, 9, "queue")
    provisional(scenario, 15)
    verdict(scenario, 10.75, "first_token")
    verdict(scenario, 15, "first_token")


@SUITE.scenario(6, 4, 0.5, 6)
def ledgers_close_late_and_speak_of_something_else(scenario: Scenario) -> None:
    """The first of them agree with the state, the next do not: a verdict that votes have borne for a minute has not settled."""
    lane(scenario, WELL, voiceless(), broken("queue"), broken("first_token"))
    in_flight(scenario, waiting=(1, 20, 20, 20), streaming=(8,))
    engine(scenario, waiting=(0, 15, 15, 15), running=(8,))

    verdict(scenario, 10.5, "queue")
    verdict(scenario, 11.75, "first_token")


@SUITE.scenario(6, 6)
def slow_tokens_that_nobody_has_voted_for(scenario: Scenario) -> None:
    """Where requests wait for their first token says nothing of slow tokens: no phase is guessed for them."""
    lane(scenario, WELL, voiceless(), objective="tpot")
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 15), running=(8, 8))

    verdict(scenario, 12, "unattributed", objective="tpot")


@SUITE.scenario(6, 6)
def a_queue_of_two_pods(scenario: Scenario) -> None:
    """The engines' queues are added up, and so are those who wait here; one pod alone would say otherwise."""
    lane(scenario, WELL, voiceless())
    lane(scenario, WELL, voiceless(), pod="engine-1")
    for state, mean in (("waiting", 10.0), ("streaming", 8.0)):
        for pod in ("engine-0", "engine-1"):
            scenario.shows("llm_requests_in_flight", mean, pod=pod, model=MODEL, lane=LANE, state=state)
    engine(scenario, waiting=(0, 1), running=(8,))
    engine(scenario, waiting=(0, 10), running=(8,), pod="engine-1")

    verdict(scenario, 12, "queue")


@SUITE.scenario(6, 6)
def the_other_lane_of_the_engine_waits(scenario: Scenario) -> None:
    """The engine's state is its model's: both lanes that miss are judged by it."""
    lane(scenario, WELL, voiceless())
    lane(scenario, WELL, voiceless(), lane="batch")
    in_flight(scenario, waiting=(1, 5), streaming=(8,))
    in_flight(scenario, waiting=(1, 15), streaming=(0,), lane="batch")
    engine(scenario, waiting=(0, 15), running=(8, 8))

    verdict(scenario, 12, "queue", lane=LANE)
    verdict(scenario, 12, "queue", lane="batch")


# --- missing series --------------------------------------------------------------------------------------------------------


@SUITE.scenario(6, 6)
def nothing_is_known_of_the_engine(scenario: Scenario) -> None:
    """No state, no counters: votes alone decide, and the page comes."""
    lane(scenario, WELL, broken("queue"))

    burn_pages(scenario, 12, "LLMQueueBurn")


@SUITE.scenario(6, 6, 6)
def the_engines_metrics_are_lost_in_an_outage(scenario: Scenario) -> None:
    """The page stays, and its phase with it."""
    lane(scenario, WELL, broken("queue"), broken("queue"))
    engine(scenario, kv=(0.5, 0.5, None), waiting=(0, 5, None), running=(8, 8, None), preemptions=(0, 0, None))

    burn_pages(scenario, 11, "LLMQueueBurn")
    burn_pages(scenario, 17, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def a_sidecar_restarts_while_its_engine_preempts_nothing(scenario: Scenario) -> None:
    """Its counters of the engine begin anew: that is neither a restart of the engine nor a preemption."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, restarts=(0.2, Anew(0)), preemptions=(1, Anew(0)), stalled=(0, Anew(0)))

    verdict(scenario, 12, "queue")
