"""A Prometheus that adds neither namespace nor pod, only job and instance: the same rules page the same phases."""

from tests.alert_rules.promtool import Scenario, Suite
from tests.alert_rules.world import WELL, broken, causes, engine, lane


SUITE = Suite("plain", plain=True, apart=True)


def sidecar(scenario: Scenario) -> None:
    scenario.shows("llm_sidecar_build_info", 1, version="1")


@SUITE.scenario(6, 6)
def one_engine_on_one_machine(scenario: Scenario) -> None:
    """Roots name the phase; one machine is no odd pod."""
    sidecar(scenario)
    lane(scenario, WELL, broken("queue"))
    causes(scenario, WELL, broken("queue"))

    scenario.alerts(12, "LLMQueueBurn page")


@SUITE.scenario(6, 6)
def one_engine_that_hangs(scenario: Scenario) -> None:
    """Its own alert stands beside the lane's."""
    sidecar(scenario)
    lane(scenario, WELL, broken("engine"))
    engine(scenario, stalled=(0, 40))

    scenario.pages(12, "LLMEngineBurn", "LLMNothingComesBack")


@SUITE.scenario(5, 5)
def one_sidecar_that_cannot_be_scraped(scenario: Scenario) -> None:
    """It is missed by its address."""
    scenario.shows("up", 1, 0)
    scenario.shows("llm_sidecar_build_info", 1, None, version="1")

    scenario.alerts(9, "LLMSidecarDown page")
