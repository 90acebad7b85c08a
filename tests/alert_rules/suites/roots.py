"""The phase of pages and tickets: the root that leads in the window that burns, and when none does (alert_rules/roots.py)."""

from sidecar.slo.causes import ROOT_PHASES
from tests.alert_rules.promtool import JOB, LANE, MODEL, Scenario, Suite
from tests.alert_rules.world import WELL, Traffic, broken, lane, undecided


SUITE = Suite("roots")
WHO = {"model": MODEL, "lane": LANE, "objective": "ttft"}


@SUITE.scenario(6, 6)
def every_root_has_its_page(scenario: Scenario) -> None:
    """One name per phase, on a lane each."""
    for phase in ROOT_PHASES:
        lane(scenario, WELL, broken(phase), lane=phase)

    names = {phase: f"LLM{phase.title().replace('_', '')}Burn" for phase in ROOT_PHASES}
    who = {
        "alertstate": "firing",
        "severity": "page",
        "namespace": scenario.name,
        "job": JOB,
        "model": MODEL,
        "objective": "ttft",
    }
    scenario.yields(
        f'ALERTS{{namespace="{scenario.name}",severity="page"}}',
        12,
        *(("ALERTS", {**who, "alertname": name, "phase": phase, "lane": phase}, 1) for phase, name in names.items()),
    )


@SUITE.scenario(6, 2)
def six_of_ten_decided_misses(scenario: Scenario) -> None:
    """They name the phase."""
    lane(scenario, WELL, broken("queue", prefill=0.39))

    scenario.records(
        "lane:llm_slo_root:share",
        8,
        ({**WHO, "phase": "queue", "window": "2m"}, 0.61),
        ({**WHO, "phase": "prefill", "window": "2m"}, 0.39),
        *(({**WHO, "phase": phase, "window": "2m"}, 0.0) for phase in ROOT_PHASES if phase not in {"queue", "prefill"}),
    )
    scenario.pages(8, "LLMQueueBurn")


@SUITE.scenario(6, 4)
def fewer_than_six_of_ten_decided_misses(scenario: Scenario) -> None:
    """They name none: unattributed, when that has lasted for a minute."""
    lane(scenario, WELL, broken("queue", prefill=0.41))

    scenario.pages(7.25)
    scenario.pages(8.5, "LLMUnattributedBurn")


@SUITE.scenario(6, 4)
def misses_that_are_not_decided(scenario: Scenario) -> None:
    """Undecided ones count for no phase, not even for `unattributed`; after a minute it is said that none is known."""
    lane(scenario, WELL, undecided())

    scenario.pages(7.25)
    scenario.pages(8.5, "LLMUnattributedBurn")


@SUITE.scenario(6, 1.5)
def three_decided_misses(scenario: Scenario) -> None:
    """They are enough to name a phase."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 3.2 / 1.5 / 96}))

    scenario.pages(7.5, "LLMQueueBurn")


@SUITE.scenario(6, 1.5)
def two_decided_misses(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, WELL, Traffic(0.8, {"queue": 2.8 / 1.5 / 96}))

    scenario.pages(7.5)


# --- the window ------------------------------------------------------------------------------------------------------------


def window(scenario: Scenario, minute: float, name: str) -> None:
    """The share is taken over this window."""
    chosen = f'lane:llm_slo_root:share{{namespace="{scenario.name}",phase="queue"}}'
    scenario.yields(f"group by (window) ({chosen})", minute, *([("", {"window": name}, 1)] if name else []))


@SUITE.scenario(40, 2)
def two_minutes_that_burn_by_requests(scenario: Scenario) -> None:
    """A quarter of the requests."""
    lane(scenario, WELL, broken("queue", 0.255), target=0.8)

    window(scenario, 42, "2m")


@SUITE.scenario(40, 2)
def two_minutes_that_burn_by_budget(scenario: Scenario) -> None:
    """Six times what is allowed."""
    lane(scenario, WELL, broken("queue", 0.061), target=0.99)

    window(scenario, 42, "2m")


@SUITE.scenario(40, 5)
def two_minutes_that_do_not_burn(scenario: Scenario) -> None:
    """Neither a quarter of the requests nor six times what is allowed: five minutes are asked."""
    lane(scenario, WELL, broken("queue", 0.245), target=0.95)

    window(scenario, 45, "5m")


@SUITE.scenario(40, 5)
def two_minutes_that_burn_less_than_six_times(scenario: Scenario) -> None:
    """The same at a strict target."""
    lane(scenario, WELL, broken("queue", 0.059), target=0.99)

    window(scenario, 45, "5m")


@SUITE.scenario(40, 5)
def five_minutes_that_burn(scenario: Scenario) -> None:
    """All that is allowed."""
    lane(scenario, WELL, broken("queue", 0.051))

    window(scenario, 45, "5m")


@SUITE.scenario(40, 5)
def nothing_that_burns(scenario: Scenario) -> None:
    """No window has a verdict."""
    lane(scenario, WELL, broken("queue", 0.049))

    window(scenario, 45, "")


@SUITE.scenario(10, 20, 7)
def half_an_hour_that_burns(scenario: Scenario) -> None:
    """It is asked where five minutes do not burn any more."""
    lane(scenario, WELL, broken("queue", 0.085), broken("queue", 0.045))

    window(scenario, 37, "30m")


@SUITE.scenario(10, 20, 7)
def half_an_hour_that_burns_less(scenario: Scenario) -> None:
    """Not all that is allowed."""
    lane(scenario, WELL, broken("queue", 0.06), broken("queue", 0.03))

    window(scenario, 37, "")


@SUITE.scenario(10, 36)
def three_decided_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are enough."""
    lane(scenario, WELL, Traffic(0.051, {"queue": 3.1 / 30 / 6.12}))

    window(scenario, 46, "30m")


@SUITE.scenario(10, 36)
def two_decided_misses_in_half_an_hour(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, WELL, Traffic(0.051, {"queue": 2.9 / 30 / 6.12}))

    window(scenario, 46, "")


@SUITE.scenario(10, 6)
def three_decided_misses_in_five_minutes(scenario: Scenario) -> None:
    """They are enough."""
    lane(scenario, WELL, Traffic(0.2, {"queue": 3.1 / 5 / 24}))

    window(scenario, 16, "5m")


@SUITE.scenario(10, 5)
def two_decided_misses_in_five_minutes(scenario: Scenario) -> None:
    """They are too few."""
    lane(scenario, WELL, Traffic(0.2, {"queue": 2.9 / 5 / 24}))

    window(scenario, 15, "")


# --- when a page begins and ends -------------------------------------------------------------------------------------------


@SUITE.scenario(40, 5, 8)
def a_page_that_is_over(scenario: Scenario) -> None:
    """It lasts three minutes after its condition, and leaves no ticket and no other phase behind."""
    lane(scenario, WELL, broken("queue"), WELL)

    scenario.alerts(45, "LLMQueueBurn page")
    scenario.alerts(48, "LLMQueueBurn page")
    for minute in (50, 51, 52, 53):
        scenario.alerts(minute)


@SUITE.scenario(6, 60)
def a_slow_burn(scenario: Scenario) -> None:
    """A ticket, two minutes after it is one."""
    lane(scenario, WELL, broken("queue", 0.15))

    scenario.alerts(66, "LLMQueueBurn ticket")


@SUITE.scenario(6, 10, 20, 20)
def a_slow_burn_after_a_page(scenario: Scenario) -> None:
    """The page has said it: there is no ticket within half an hour."""
    lane(scenario, WELL, broken("queue", 0.8), broken("queue", 0.2), broken("queue", 0.2))

    scenario.tickets(36)
    scenario.tickets(56, "LLMQueueBurn")


@SUITE.scenario(6, 60)
def a_slow_burn_without_a_root(scenario: Scenario) -> None:
    """A ticket that says so."""
    lane(scenario, WELL, broken("queue", 0.15, prefill=0.45))

    scenario.alerts(66, "LLMUnattributedBurn ticket")


@SUITE.scenario(90)
def a_healthy_lane(scenario: Scenario) -> None:
    """It uses half of its budget, with roots of all kinds: no alert at all."""
    lane(scenario, Traffic(0.025, {"queue": 0.7, "unattributed": 0.3}))

    for minute in (3, 6, 12, 30, 60, 90):
        scenario.alerts(minute)
