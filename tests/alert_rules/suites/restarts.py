"""One pod of many whose engine restarts: a planned one wakes no person, and one that does harm for longer does."""

from tests.alert_rules.promtool import Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, causes, lane


SUITE = Suite("restarts")
Spans = tuple[Traffic, ...]
COLD = broken("engine", 0.9)


def pod(scenario: Scenario, spans: Spans, *restarts: float, cause: str = "restart", target: float = 0.95) -> None:
    """`engine-0` with this traffic, whose engine restarts so many times a minute in each span, and a fine pod beside it."""
    lane(scenario, *spans, pod="engine-0", target=target)
    causes(scenario, *spans, pod="engine-0", engine=cause)
    scenario.counts("llm_engine_restarts_total", *restarts, pod="engine-0")
    lane(scenario, *[WELL] * len(spans), pod="engine-1", target=target)


@SUITE.scenario(6, 0.25, 1, 5)
def a_planned_restart(scenario: Scenario) -> None:
    """It misses nearly all for a minute: no page while that stands in any window, and no page after it."""
    pod(scenario, (WELL, COLD, COLD, WELL), 0, 4, 0, 0)

    for minute in (7, 7.5, 8, 8.5, 8.75, 9, 9.5, 10, 11):
        scenario.pages(minute)


@SUITE.scenario(6, 0.25, 5)
def a_cold_engine(scenario: Scenario) -> None:
    """Still missing after 150 s: its page."""
    pod(scenario, (WELL, COLD, COLD), 0, 4, 0)

    scenario.pages(8.25)
    scenario.pages(9, "LLMPodBurn", phase="engine")


for name, rest, target, told in (
    ("a quarter of its requests", broken("engine", 0.26), 0.8, True),
    ("less than a quarter", broken("engine", 0.24), 0.8, False),
    ("six times its budget", broken("engine", 0.062), 0.99, True),
    ("less than six times its budget", broken("engine", 0.058), 0.99, False),
    ("six requests of a minute", broken("engine", 0.6, per_minute=10), 0.8, True),
    ("four requests of a minute", broken("engine", 0.4, per_minute=10), 0.8, False),
):

    def warms(scenario: Scenario, rest: Traffic = rest, target: float = target, told: bool = told) -> None:
        pod(scenario, (WELL, COLD, COLD, rest), 0, 4, 0, 0, target=target)
        scenario.pages(9.25, *(["LLMPodBurn"] if told else []), phase="engine")

    warms.__name__ = f"an engine that warms up and still misses {name}"
    warms.__doc__ = "The last minute decides whether it is over after 150 s."
    SUITE.scenario(6, 0.25, 1.5, 4)(warms)


@SUITE.scenario(6, 0.25, 3)
def a_crash(scenario: Scenario) -> None:
    """More than half of its misses are failed requests, and not those of the new process: its page at once."""
    pod(scenario, (WELL, COLD, COLD), 0, 4, 0, cause="down")

    scenario.pages(7.5, "LLMPodBurn", phase="engine")


for share, told in ((0.45, True), (0.55, False)):

    def mixed(scenario: Scenario, share: float = share, told: bool = told) -> None:
        spans = (WELL, COLD, COLD)
        lane(scenario, *spans, pod="engine-0")
        for cause, of in (("restart", share), ("down", 1.0 - share)):
            rates = [span.misses(of) if span is COLD else 0.0 for span in spans]
            who = {"model": "small", "phase": "engine", "cause": cause}
            scenario.counts("llm_slo_root_cause_misses_total", *rates, pod="engine-0", **who)
        scenario.counts("llm_engine_restarts_total", 0, 4, 0, pod="engine-0")
        lane(scenario, WELL, WELL, WELL, pod="engine-1")
        scenario.pages(8, *(["LLMPodBurn"] if told else []), phase="engine")

    mixed.__name__ = f"a new process with {share:.0%} of the misses".replace("%", " percent")
    mixed.__doc__ = "It explains them from half of them on."
    SUITE.scenario(6, 0.25, 3)(mixed)


@SUITE.scenario(6, 0.25, 7, 0.25, 2)
def a_second_restart_soon(scenario: Scenario) -> None:
    """Two within 15 minutes are not planned: its page at once."""
    pod(scenario, (WELL, WELL, WELL, COLD, COLD), 0, 4, 0, 4, 0)

    scenario.pages(15, "LLMPodBurn", phase="engine")


@SUITE.scenario(6, 0.25, 17, 0.25, 2)
def a_second_restart_later(scenario: Scenario) -> None:
    """It is judged as the first one was."""
    pod(scenario, (WELL, WELL, WELL, COLD, COLD), 0, 4, 0, 4, 0)

    scenario.pages(25)


@SUITE.scenario(6, 1.25, 4)
def a_planned_restart_that_no_engine_tells(scenario: Scenario) -> None:
    """Without the engine's own numbers no root leads: misses of a minute are no page without a name either."""
    unseen = Traffic(0.9, {"unattributed": 1.0})
    pod(scenario, (WELL, unseen, WELL), 0)

    for minute in (7.5, 8.25, 8.75, 9.25, 10, 11):
        scenario.pages(minute)
