"""A Prometheus that adds neither namespace nor pod, only job and instance: the same rules page the same phases."""

from tests.alert_rules.promtool import LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import WELL, broken, engine, in_flight, lane, prefill_costs, voiceless


SUITE = Suite("plain", plain=True, apart=True)
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


@SUITE.scenario(6, 6)
def one_engine_on_one_machine(scenario: Scenario) -> None:
    """Votes for the queue page the queue."""
    lane(scenario, WELL, broken("queue"))
    engine(scenario, kv=(0.5,), waiting=(3,), running=(8,))

    scenario.alerts(12, "LLMQueueBurn page", "LLMQueueBurn ticket")


@SUITE.scenario(8, 8)
def one_engine_whose_prefill_is_dearer(scenario: Scenario) -> None:
    """Evidence is joined all the same."""
    lane(scenario, WELL, broken("queue"))
    prefill_costs(scenario, 1, 2)

    scenario.alerts(15, "LLMPrefillBurn page", "LLMPrefillBurn ticket")


@SUITE.scenario(6, 6)
def one_engine_that_hangs(scenario: Scenario) -> None:
    """And so are faults: two targets are one pod here."""
    lane(scenario, WELL, voiceless())
    lane(scenario, WELL, voiceless(), pod="engine-1")
    engine(scenario, stalled=(0, 40))
    engine(scenario, pod="engine-1")

    scenario.records("lane:llm_slo_verdict:phase", 12, ({**WHO, "phase": "engine"}, 1))
    scenario.pages(12, "LLMEngineBurn", "LLMNothingComesBack")


@SUITE.scenario(6, 6)
def one_engine_whose_requests_wait(scenario: Scenario) -> None:
    """Its state decides while no ledger has closed."""
    lane(scenario, WELL, voiceless())
    in_flight(scenario, waiting=(1, 20), streaming=(8,))
    engine(scenario, waiting=(0, 15), running=(8, 8))

    scenario.pages(12, "LLMQueueBurn")


@SUITE.scenario(6, 6)
def slow_tokens_on_one_engine(scenario: Scenario) -> None:
    """Decode is not a phase that state is asked for."""
    lane(scenario, WELL, broken("decode"), objective="tpot")

    scenario.alerts(12, "LLMDecodeBurn page", "LLMDecodeBurn ticket", objective="tpot")


@SUITE.scenario(5, 5)
def one_sidecar_that_cannot_be_scraped(scenario: Scenario) -> None:
    """It is missed by its address."""
    scenario.shows("up", 1, 0)
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(9, "LLMSidecarDown page")
