"""An engine that is down, loads its model, or has restarted, as its sidecar saw it (alert_rules/state.py)."""

from tests.alert_rules.promtool import ALERTS, Anew, Scenario, Suite


SUITE = Suite("engine-down", rules=(ALERTS,))


@SUITE.scenario(4, 3)
def an_engine_that_does_not_answer(scenario: Scenario) -> None:
    """For a minute: a page."""
    scenario.shows("llm_engine_up", 1, 0)

    scenario.alerts(4.75)
    scenario.alerts(5.5, "LLMEngineDown page")


def pod_since(scenario: Scenario, minute: float) -> None:
    """The sidecar's process began then; promtool's clock begins at 0."""
    scenario.shows("process_start_time_seconds", minute * 60)
    scenario.shows("llm_sidecar_build_info", 1, version="1")


@SUITE.scenario(35)
def an_engine_that_loads_its_model(scenario: Scenario) -> None:
    """It has not been up since its pod began: it has half an hour for that."""
    pod_since(scenario, 0)
    scenario.shows("llm_engine_up", 0)

    scenario.alerts(5)
    scenario.alerts(29)
    scenario.alerts(31, "LLMEngineDown page")


@SUITE.scenario(4, 4)
def an_engine_that_goes_down_in_a_young_pod(scenario: Scenario) -> None:
    """It was up: it is not loading any more."""
    pod_since(scenario, 0)
    scenario.shows("llm_engine_up", 1, 0)

    scenario.alerts(7, "LLMEngineDown page")


@SUITE.scenario(36)
def an_engine_that_has_been_down_in_an_old_pod(scenario: Scenario) -> None:
    """For longer than anybody looks back: that is no loading."""
    pod_since(scenario, -60)
    scenario.shows("llm_engine_up", 0)

    scenario.alerts(5, "LLMEngineDown page")
    scenario.alerts(35, "LLMEngineDown page")


@SUITE.scenario(25)
def an_engine_that_loads_its_model_beside_something_older(scenario: Scenario) -> None:
    """Whoever else of the pod is scraped says nothing of how long the sidecar has known it."""
    pod_since(scenario, 0)
    other = f'instance="engine-0:9090",job="other",namespace="{scenario.namespace}",pod="engine-0"'
    scenario.series[f"process_start_time_seconds{{{other}}}"] = "-7200x100"
    scenario.shows("llm_engine_up", 0)

    scenario.alerts(20)


@SUITE.scenario(4, 0.75, 3)
def an_engine_that_misses_three_checks(scenario: Scenario) -> None:
    """And answers the fourth: nobody is woken."""
    scenario.shows("llm_engine_up", 1, 0, 1)

    for minute in (4.5, 4.75, 5, 6):
        scenario.alerts(minute)


@SUITE.scenario(4, 3)
def a_sidecar_that_is_not_scraped(scenario: Scenario) -> None:
    """It says nothing of its engine."""
    scenario.shows("llm_engine_up", 1, None)

    scenario.alerts(7)


@SUITE.scenario(4, 0.25, 12)
def an_engine_that_has_restarted(scenario: Scenario) -> None:
    """A ticket, for ten minutes."""
    scenario.counts("llm_engine_restarts_total", 0, 4, 0)

    scenario.alerts(4)
    scenario.alerts(5, "LLMEngineRestarted ticket")
    scenario.alerts(13, "LLMEngineRestarted ticket")
    scenario.alerts(15)


@SUITE.scenario(4, 4)
def a_sidecar_that_has_restarted(scenario: Scenario) -> None:
    """Its count of the engine's restarts begins at 0, and that is none."""
    scenario.counts("llm_engine_restarts_total", 0, Anew(0))
    scenario.counts("llm_engine_stalled_seconds_total", 0, Anew(0))

    scenario.alerts(6)
